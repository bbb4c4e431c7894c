//! Runs of a session that were not given: what is judged may then be a choice.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::names::Side;
use crate::compare::evidence::session_name;
use crate::verdict::case::Case;

/// Most missing runs that are named.
const NAMED: usize = 8;

/// One sentence for each compared session whose numbers have a hole. A session that became a baseline left its controls
/// behind, so only what was measured as a baseline is complete there.
pub(super) fn gaps(case: &Case<'_>) -> Vec<String> {
    let mut sessions: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (side, run) in case.evidence.all() {
        if side != Side::Baseline || run.manifest.side == Side::Baseline {
            sessions.entry(&run.manifest.session).or_default().insert(run.manifest.sequence);
        }
    }
    sessions.into_iter().filter_map(|(session, there)| sentence(session, &there)).collect()
}

fn sentence(session: &str, there: &BTreeSet<u32>) -> Option<String> {
    let last = *there.last()?;
    let holes = u64::from(last) + 1 - u64::try_from(there.len()).unwrap_or(u64::MAX);
    if holes == 0 {
        return None;
    }
    let missing = (0..=last).filter(|number| !there.contains(number)).take(NAMED);
    let numbers: Vec<String> = missing.map(|number| (u64::from(number) + 1).to_string()).collect();
    let more = if holes > u64::try_from(numbers.len()).unwrap_or(u64::MAX) { ", ..." } else { "" };
    Some(format!(
        "of session {} not every run is here: number {}{more} of 1 to {} is missing, so what is judged may be a choice",
        session_name(session),
        numbers.join(", "),
        u64::from(last) + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_named_and_a_whole_session_says_nothing() {
        let told = |numbers: &[u32]| sentence("s", &numbers.iter().copied().collect());
        assert_eq!(told(&[0, 1, 2]), None);
        assert_eq!(told(&[]), None);
        let text = told(&[0, 1, 3, 4]).unwrap();
        assert!(text.starts_with("of session s not every run is here: number 3 of 1 to 5 is missing"), "{text}");
        let text = told(&[u32::MAX]).unwrap();
        assert!(text.contains("number 1, 2, 3, 4, 5, 6, 7, 8, ... of 1 to 4294967296"), "{text}");
    }
}

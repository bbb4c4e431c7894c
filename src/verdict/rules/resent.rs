//! A second send hides a close that many clients of the deployment would see as an error: it may be rare.

use std::collections::BTreeMap;

use crate::artifact::validity::share;
use crate::base::names::Side;
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::Screening;

/// A candidate may have so much more than the baseline and its controls, in shares of the requests: healthy servers were
/// seen to close after up to 12 % of their answers.
const MOST_ABOVE: f64 = 0.2;
/// Below this share of the requests it is a habit of closing connections and no fault.
const LEAST: f64 = 0.5;

/// The candidate does not close most connections over the next request where the baseline does not.
pub(super) fn resent(screening: &Screening<'_>) -> Vec<Finding> {
    let count = |belongs: fn(Side) -> bool| {
        let seen = screening.seen.iter().filter(|seen| belongs(seen.side)).filter_map(|seen| seen.validity.as_ref());
        seen.fold((0_usize, 0_usize), |(resent, all), it| {
            (resent.saturating_add(it.resent), all.saturating_add(it.attempted))
        })
    };
    let (baseline, candidate) = (count(|side| side != Side::Candidate), count(|side| side == Side::Candidate));
    if !is_too_many(share(candidate.0, candidate.1), share(baseline.0, baseline.1)) {
        return vec![];
    }
    let message = format!(
        "{} of {} requests to the candidate had to be sent a second time, because it closed the connection that it had \
         kept open, and {} of {} to the baseline: clients that send a request only once see an error; repair the \
         keep-alive of the engine or its gateway",
        candidate.0, candidate.1, baseline.0, baseline.1
    );
    vec![Finding { verdict: Verdict::Fail, code: "requests-resent", cell: None, message }]
}

fn is_too_many(candidate: f64, baseline: f64) -> bool {
    candidate > LEAST && candidate - baseline > MOST_ABOVE
}

/// Second sends of both sides, cell by cell.
pub(in crate::verdict) fn notes(screening: &Screening<'_>) -> Option<String> {
    let mut cells: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for seen in &screening.seen {
        let (resent, all) = cells.entry(&seen.cell.name).or_default();
        let validity = seen.validity.as_ref();
        *resent = resent.saturating_add(validity.map_or(0, |it| it.resent));
        *all = all.saturating_add(validity.map_or(0, |it| it.attempted));
    }
    let many = cells.iter().filter(|(_, (resent, _))| *resent > 0);
    let list: Vec<String> = many.map(|(cell, (resent, all))| format!("{resent} of {all} at {cell}")).collect();
    (!list.is_empty()).then(|| {
        format!("requests were sent a second time, because the server was closing the connection: {}", list.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_candidate_that_closes_most_connections_and_far_more_than_the_baseline_fails() {
        for (candidate, baseline, fails) in [
            (1.0, 0.0, true),
            (0.51, 0.0, true),
            (0.5, 0.0, false),
            (0.9, 0.69, true),
            (0.9, 0.71, false),
            (0.12, 0.0, false),
        ] {
            assert_eq!(is_too_many(candidate, baseline), fails, "{candidate} {baseline}");
        }
    }
}

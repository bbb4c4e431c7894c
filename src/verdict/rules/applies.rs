//! A policy's `when`: it applies only where these conditions of the candidate have these values.

use crate::artifact::run::Run;
use crate::base::names::Condition;
use crate::verdict::case::Case;
use crate::verdict::judgement::Finding;
use crate::verdict::rules::{Screening, error};

/// Why the policy does not apply, in one sentence; `None` when it applies or nobody can know.
pub(in crate::verdict) fn does_not_apply(case: &Case<'_>) -> Option<String> {
    let other = |(condition, wanted): &(Condition, String)| {
        let is = value(case, *condition)?;
        (is != wanted).then(|| {
            let is: String = is.chars().take(64).flat_map(char::escape_default).collect();
            format!(
                "{} does not apply: it is for `{condition}` = `{wanted}`, and the candidate's is `{is}`",
                case.policy.name
            )
        })
    };
    case.policy.when.iter().find_map(other)
}

/// A condition of `when` that is not known: leaving the policy out could let a change through unjudged.
pub(super) fn unknown(screening: &Screening<'_>) -> Vec<Finding> {
    let case = &screening.case;
    if case.evidence.candidate.is_empty() {
        return vec![];
    }
    let unknown = case.policy.when.iter().filter(|(condition, _)| value(case, *condition).is_none());
    let message = |condition: &Condition| {
        format!(
            "the policy asks for `{condition}` of the candidate, which is not known: declare it under `conditions` in \
             servegate.yaml"
        )
    };
    unknown.map(|(condition, _)| error("when-unknown", None, message(condition))).collect()
}

/// The candidate's value, from the first run that knows it; that all runs agree is a rule of its own.
fn value<'a>(case: &Case<'a>, condition: Condition) -> Option<&'a String> {
    let known = |run: &'a Run| run.manifest.conditions.get(&condition);
    case.evidence.candidate.iter().find_map(known).map(|known| &known.value)
}

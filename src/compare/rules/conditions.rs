//! The sides differ only in what the policy declares.

use crate::base::names::Condition;
use crate::compare::conditions::{differences, known};
use crate::compare::evidence::Evidence;
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

/// All runs of a side share every known condition, the declared ones too. Controls belong to the baseline's side.
pub(super) fn alike_within_a_side(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let sides = [("baseline", known(evidence.reference())), ("candidate", known(evidence.candidate.iter()))];
    let mut found = vec![];
    for (side, conditions) in &sides {
        for (condition, values) in conditions.iter().filter(|(condition, _)| !condition.is_nuisance()) {
            if let [first, other, ..] = values.as_slice() {
                let message = format!(
                    "the runs of the {side} differ among themselves in `{condition}` (`{}` and `{}`): one release in \
                     one setting is needed; measure again",
                    shown(first),
                    shown(other)
                );
                found.push(whole("conditions-vary", message));
            }
        }
    }
    found
}

pub(super) fn equal_but_for_the_treatment(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    let message = |condition: Condition, baseline: &str, candidate: &str| {
        format!(
            "`{condition}` is `{}` in the baseline and `{}` in the candidate: the effect could be its own; declare it in \
             the policy's `treatment` if the change is meant to change it, or measure with the same value",
            shown(baseline),
            shown(candidate)
        )
    };
    let differences = differences(evidence, &policy.treatment);
    let blocking = differences.iter().filter(|difference| !difference.allowed);
    let values = blocking.filter_map(|d| Some((d.condition, d.baseline.as_deref()?, d.candidate.as_deref()?)));
    values.map(|(condition, b, c)| whole("condition-differs", message(condition, b, c))).collect()
}

/// A value from a server or file, bounded and escaped.
fn shown(value: &str) -> String {
    value.chars().take(64).flat_map(char::escape_default).collect()
}

//! The sides differ only in what the policy declares.

use crate::compare::conditions::{Difference, differences, known, shown};
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
    let differences = differences(evidence, &policy.treatment);
    let blocking = differences.iter().filter(|difference| !difference.allowed);
    blocking.filter_map(Difference::fix).map(|message| whole("condition-differs", message)).collect()
}

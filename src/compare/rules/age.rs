//! There is a baseline, and it is not too old.

use crate::compare::evidence::Evidence;
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

pub(super) fn missing_or_expired(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    let Some(baseline) = evidence.baseline.filter(|baseline| !baseline.runs.is_empty()) else {
        return if evidence.controls.is_empty() {
            let message = "there is no baseline to compare with: store one from an approved release with `servegate \
                           baseline refresh --initial`";
            vec![whole("baseline-missing", message.to_owned())]
        } else {
            vec![]
        };
    };
    let (age, limit) = (baseline.age_days, policy.baseline_max_age_days);
    if age <= limit {
        return vec![];
    }
    let message = format!(
        "the baseline was approved {age} days ago and the policy trusts one for {limit}: engine, driver and node have \
         had time to move; refresh it with `servegate baseline refresh`"
    );
    vec![whole("baseline-expired", message)]
}

//! Conditions of the two sides: which differ, and whether they may.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::artifact::run::Run;
use crate::base::names::Condition;
use crate::compare::evidence::Evidence;

/// A condition in which the sides differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which.
    pub condition: Condition,
    /// Value of the baseline; none when unknown.
    pub baseline: Option<String>,
    /// Value of the candidate; none when unknown.
    pub candidate: Option<String>,
    /// Whether the policy's `treatment` declares it, it is one that is only recorded, or one side is unknown.
    pub allowed: bool,
}

/// The conditions in which the candidate differs from the baseline and its controls, in the order of the names.
///
/// A condition that is known on one side only is a difference that blocks nothing: unknown is not equal.
pub fn differences(evidence: &Evidence<'_>, treatment: &[Condition]) -> Vec<Difference> {
    let (baseline, candidate) = (known(evidence.reference()), known(evidence.candidate.iter()));
    let differ = |condition: &Condition| {
        let value = |side: &BTreeMap<Condition, Vec<&str>>| {
            side.get(condition).and_then(|values| values.first()).map(|value| (*value).to_owned())
        };
        difference(*condition, [value(&baseline), value(&candidate)], treatment)
    };
    Condition::ALL.iter().filter_map(differ).collect()
}

/// The difference between the values of the baseline and of the candidate; none where they are equal.
pub fn difference(
    condition: Condition,
    [baseline, candidate]: [Option<String>; 2],
    treatment: &[Condition],
) -> Option<Difference> {
    let unknown = baseline.is_none() || candidate.is_none();
    let allowed = unknown || condition.is_nuisance() || treatment.contains(&condition);
    (baseline != candidate).then_some(Difference { condition, baseline, candidate, allowed })
}

impl Difference {
    /// Why it keeps the sides from being compared, and what to do; none where a side is unknown.
    pub fn fix(&self) -> Option<String> {
        let (baseline, candidate) = (self.baseline.as_deref()?, self.candidate.as_deref()?);
        Some(format!(
            "`{}` is `{}` in the baseline and `{}` in the candidate: the effect could be its own; declare it in the policy's \
             `treatment` if the change is meant to change it, or measure with the same value",
            self.condition,
            shown(baseline),
            shown(candidate)
        ))
    }
}

/// A value from a server or file, bounded and escaped.
pub(super) fn shown(value: &str) -> String {
    value.chars().take(64).flat_map(char::escape_default).collect()
}

/// The different known values of each condition, in the order in which the runs bring them.
pub(super) fn known<'a>(runs: impl Iterator<Item = &'a Run>) -> BTreeMap<Condition, Vec<&'a str>> {
    let mut values: BTreeMap<Condition, Vec<&str>> = BTreeMap::new();
    for (condition, known) in runs.flat_map(|run| &run.manifest.conditions) {
        let seen = values.entry(*condition).or_default();
        if !seen.contains(&known.value.as_str()) {
            seen.push(&known.value);
        }
    }
    values
}

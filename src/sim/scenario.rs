//! Changes of a deployment that happened to someone, as data: what changed, what it did to each cell,
//! and whether a gate must catch it.

use crate::base::names::Metric;
use crate::sim::Deployment;
use crate::sim::fault::Share;
use crate::sim::profile::{Change, SetError};

/// What a gate owes the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// A regression in at least one cell.
    Catch,
    /// Benign: blocking it would be a false alarm.
    Pass,
}

/// The effect on one cell, on the preset `h100-8b` without noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Name of the cell in the shipped workloads.
    pub cell: &'static str,
    /// What moves.
    pub metric: Metric,
    /// Relative change of the metric's median: 0.145 is +14.5 %.
    pub effect: f64,
}

/// One change of a deployment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Stable number.
    pub id: &'static str,
    /// Stable name.
    pub name: &'static str,
    /// The real event it repeats.
    pub mirrors: &'static str,
    /// Coefficients by name, and what happens to them.
    pub changes: &'static [(&'static str, Change)],
    /// Answers that go wrong.
    pub faults: &'static [Share],
    /// The signature per cell.
    pub expected: &'static [Expected],
    /// Whether it must be caught.
    pub must: Must,
}

impl Scenario {
    /// The scenario with this id or name.
    pub fn find(text: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.id == text || scenario.name == text)
    }

    /// Makes the change to a deployment.
    ///
    /// # Errors
    /// When a coefficient leaves its range, which depends on what it was before.
    pub fn apply(&self, deployment: &mut Deployment) -> Result<(), SetError> {
        for (name, change) in self.changes {
            deployment.profile.change(name, *change)?;
        }
        deployment.faults.extend_from_slice(self.faults);
        Ok(())
    }
}

const fn itl(cell: &'static str, effect: f64) -> Expected {
    Expected { cell, metric: Metric::Itl, effect }
}

/// Every scenario, in the order of their ids.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "S01",
        name: "fp8-unfused",
        mirrors: "FP8 key-value cache whose quantise kernels run apart from the attention kernel (SGLang PR 31652: \
                  22.4 to 57.2 us per layer and step)",
        changes: &[
            ("kv_ratio", Change::Set(0.60)),
            ("kv_overhead_ms", Change::Set(0.95)),
            ("kv_capacity_tokens", Change::Scale(2.0)),
        ],
        faults: &[],
        expected: &[itl("c1", 0.145), itl("c8", 0.089), itl("c64", -0.035), itl("c160", -0.145)],
        must: Must::Catch,
    },
    Scenario {
        id: "S02",
        name: "fp8-fused",
        mirrors: "FP8 key-value cache with fused kernels (vLLM blog, Llama-3.1-8B on H100: intercept 6.44 to 6.58 ms, \
                  slope 4.37e-5 to 2.37e-5 ms per cached token)",
        changes: &[
            ("kv_ratio", Change::Set(0.54)),
            ("kv_overhead_ms", Change::Set(0.14)),
            ("kv_capacity_tokens", Change::Scale(2.0)),
        ],
        faults: &[],
        expected: &[itl("c1", 0.020), itl("c8", -0.029), itl("c64", -0.134), itl("c160", -0.225)],
        must: Must::Pass,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::noise::Noise;
    use crate::sim::profile::Profile;

    #[test]
    fn every_scenario_applies_and_is_found_by_both_its_names() {
        for scenario in SCENARIOS {
            let mut deployment = Deployment::new(Profile::h100_8b(), Noise::OFF);
            scenario.apply(&mut deployment).unwrap();
            assert_ne!(deployment.profile, Profile::h100_8b(), "{}", scenario.id);
            for text in [scenario.id, scenario.name] {
                assert_eq!(Scenario::find(text).map(|found| found.id), Some(scenario.id));
            }
        }
        assert!(Scenario::find("S99").is_none());
    }
}

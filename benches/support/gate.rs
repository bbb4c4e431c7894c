//! A policy over made-up runs.

use crate::synthetic::CELLS;
use servegate::base::diagnostic::Place;
use servegate::base::names::{Metric, Role, Statistic};
use servegate::spec::policy::{Check, Decision, Margin, Policy};

/// A policy with these checks, relative margins, in each cell of the made-up runs.
pub(crate) fn policy(checks: &[(Metric, Statistic, f64)]) -> Policy {
    let check = |cell: &str, (metric, statistic, ratio): (Metric, Statistic, f64)| Check {
        metric,
        statistic,
        cell: cell.to_owned(),
        margin: Margin::Relative { ratio, floor: None },
        warn_at: None,
        objective: None,
        role: Role::Required,
        limits: vec![],
        place: Place::default(),
    };
    Policy {
        name: "bench".to_owned(),
        description: String::new(),
        workload: "chat.yaml".to_owned(),
        runs: 5,
        controls: 3,
        treatment: vec![],
        when: vec![],
        decision: Decision::default(),
        baseline_max_age_days: 30,
        checks: CELLS.iter().flat_map(|cell| checks.iter().map(|found| check(cell, *found))).collect(),
        place: Place::default(),
    }
}

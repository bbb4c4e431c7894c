//! Policies over made-up runs.

use super::CELLS;
use crate::base::diagnostic::Place;
use crate::base::names::{Metric, Role, Statistic};
use crate::spec::policy::{Check, Decision, Margin, Policy};
use crate::spec::slice::Slice;

/// A required check.
pub(crate) fn check(metric: Metric, statistic: Statistic, cell: &str, margin: Margin) -> Check {
    Check {
        metric,
        statistic,
        cell: cell.to_owned(),
        slice: Slice::default(),
        against: None,
        reference: None,
        margin,
        warn_at: None,
        objective: None,
        role: Role::Required,
        limits: vec![],
        place: Place::default(),
    }
}

/// A margin without a floor.
pub(crate) fn relative(ratio: f64) -> Margin {
    Margin::Relative { ratio, floor: None }
}

/// A policy with these checks and the default decision.
pub(crate) fn with(checks: Vec<Check>) -> Policy {
    Policy {
        name: "chat".to_owned(),
        description: String::new(),
        workload: "chat.yaml".to_owned(),
        runs: 5,
        controls: 3,
        treatment: vec![],
        when: vec![],
        decision: Decision::default(),
        baseline_max_age_days: 30,
        checks,
        place: Place::default(),
    }
}

/// A policy with these relative margins in each cell.
pub(crate) fn in_all_cells(margins: &[(Metric, Statistic, f64)]) -> Policy {
    let in_cell = |cell: &&'static str| {
        let cell = *cell;
        margins.iter().map(move |(metric, statistic, ratio)| check(*metric, *statistic, cell, relative(*ratio)))
    };
    with(CELLS.iter().flat_map(in_cell).collect())
}

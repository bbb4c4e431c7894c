//! Every side was in a steady state: a warm-up, a heating device or a growing queue is not what is to be compared.

use crate::artifact::validity::CellValidity;
use crate::base::names::{Metric, Role, Side};
use crate::base::units::Nanos;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::policy::{Check, Margin};
use crate::spec::workload::Phase;
use crate::stats::steady::{drift, steadiness};
use crate::verdict::judgement::Finding;
use crate::verdict::rules::{Screening, Seen, error};

/// TTFT and TPOT do not drift within the runs of a side by more than half the margin of a required check of them.
/// Only where a steady state is meant: not in a burst or the recovery from one, nor while the load itself changes.
pub(super) fn steady(screening: &Screening<'_>) -> Vec<Finding> {
    let checks = &screening.case.policy.checks;
    let mut found = vec![];
    let steady = |(cell, _): &(&PlannedCell, _)| cell.phase == Phase::Steady && !cell.load.is_trending();
    for (cell, seen) in screening.cells().filter(steady) {
        found.extend(unsteady(checks, (cell, seen), Metric::Ttft, |validity| validity.ttft_drift));
        found.extend(unsteady(checks, (cell, seen), Metric::Tpot, |validity| validity.tpot_drift));
    }
    found
}

fn unsteady(
    checks: &[Check],
    (cell, seen): (&PlannedCell, &[Seen<'_>]),
    metric: Metric,
    drift: fn(&CellValidity) -> Option<f64>,
) -> Option<Finding> {
    let margin = smallest_margin(checks, cell, metric)?;
    // The plan itself may grow or shrink over its requests, alike in every run: so far a drift proves nothing.
    let margin = margin + 2.0 * drift_of_the_plan(cell);
    let side = |name: &str, belongs: fn(Side) -> bool| {
        let counting = seen.iter().filter(|seen| belongs(seen.side) && seen.fault.is_none());
        let drifts: Vec<f64> = counting.filter_map(|seen| drift(seen.validity.as_ref()?)).collect();
        let found = steadiness(&drifts, margin).filter(|found| !found.steady)?;
        let message = format!(
            "{metric} of the {name} at {} changes by {:+.1} % from the first to the last third of a run: it was not in a \
             steady state; warm up longer, or lower the load below saturation",
            cell.name,
            100.0 * found.drift.exp_m1()
        );
        Some(error("not-steady", Some(&cell.name), message))
    };
    side("candidate", |side| side == Side::Candidate).or_else(|| side("baseline", |side| side != Side::Candidate))
}

/// The smallest relative margin of the required checks of this metric in this cell.
fn smallest_margin(checks: &[Check], cell: &PlannedCell, metric: Metric) -> Option<f64> {
    let relevant = checks.iter().filter(|check| {
        check.role == Role::Required && check.metric == metric && check.cells().any(|name| name == cell.name)
    });
    let margins = relevant.filter_map(|check| match check.margin {
        Margin::Relative { ratio, .. } => Some(ratio),
        Margin::Points(_) | Margin::Within(_) => None,
    });
    margins.min_by(f64::total_cmp)
}

/// The largest drift that the lengths in the plan explain: times grow at most in proportion to them.
fn drift_of_the_plan(cell: &PlannedCell) -> f64 {
    let explained = |length: fn(&PlannedRequest) -> u32| {
        let lengths: Vec<f64> = cell.requests.iter().map(|request| f64::from(length(request))).collect();
        drift(&lengths, Nanos::MAX.as_ms()).map_or(0.0, f64::abs)
    };
    explained(|request| request.prompt.words).max(explained(|request| request.prompt.words + request.output_tokens))
}

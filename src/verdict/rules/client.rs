//! The load generator kept its own schedule: requests were sent when they were due.

use crate::artifact::run::Run;
use crate::base::names::Metric;
use crate::compare::values::series;
use crate::plan::request::PlannedCell;
use crate::stats::quantile::quantile;
use crate::verdict::rules::Fault;

/// The 99th percentile of the send lag may reach this many ms,
const MOST_MS: f64 = 5.0;
/// and this share of the cell's median TTFT,
const MOST_OF_TTFT: f64 = 0.01;
/// or this many ms where that is more.
const LEAST_MS: f64 = 1.0;

/// A lag of the client's own would be counted as the deployment's latency.
pub(super) fn saturated(run: &Run, cell: &PlannedCell) -> Option<Fault> {
    let records = run.records.iter().filter(|record| record.cell == cell.name);
    let mut lags: Vec<f64> = records.map(|record| record.sent.since(record.due).as_ms()).collect();
    let lag = quantile(&mut lags, 0.99)?;
    let ttft = quantile(&mut series(run, &cell.name, Metric::Ttft), 0.5).unwrap_or(f64::INFINITY);
    let allowed = MOST_MS.min((MOST_OF_TTFT * ttft).max(LEAST_MS));
    (lag >= allowed).then(|| Fault {
        code: "client-saturated",
        seen: format!("sent requests {lag:.1} ms late (p99) where {allowed:.1} ms are allowed"),
        fix: "give the load generator more CPU or less load",
    })
}

//! Time to recover: how long after a burst the first token comes as it did before.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};
use crate::base::names::Metric;
use crate::stats::quantile::quantile;
use crate::stats::recovery::{WINDOW, back_at};

/// How much longer than in the steady phase the first token may take and be called back: half as long again. The running
/// median of a steady phase stays below it unless its times scatter by more than a factor of two.
const BACK: f64 = 1.5;
/// The fewest requests of a recovery: a window to be away in and one to be back in.
pub const LEAST_REQUESTS: usize = 2 * WINDOW;
/// The fewest of the steady phase: as many as a median needs.
pub const LEAST_STEADY: usize = 20;

/// From the due instant of the recovery's first request to that of the first from which on [`WINDOW`] running medians of
/// TTFT in a row are at most [`BACK`] times the median of the steady phase of the same run, in ms; 0 where that is the
/// first, infinite where there is none.
pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let mut steady = cell.reference().ok_or(NoValue::NoReference)?.times(Metric::Ttft);
    let times = cell.times(Metric::Ttft);
    if times.len() < LEAST_REQUESTS || steady.len() < LEAST_STEADY {
        return Err(NoValue::TooShort);
    }
    let usual = quantile(&mut steady, 0.5).filter(|usual| usual.is_finite()).ok_or(NoValue::NoReference)?;
    let due = |at: usize| cell.records().get(at).map(|record| record.due);
    let back = back_at(&times, BACK * usual).and_then(|at| Some(due(at)?.since(due(0)?).as_ms()));
    Ok((back.unwrap_or(f64::INFINITY), times.len()))
}

//! Goodput: successful requests per second of the measured window that met every limit of the check.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{Definition, NoValue, Question, definition, real};

/// A request whose answer does not define a limited metric (one token has no TPOT) meets that limit.
pub(super) fn of(cell: &CellData<'_>, question: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let mut limits = Vec::with_capacity(question.limits.len());
    for (metric, limit) in question.limits {
        match definition(*metric) {
            Definition::Request(time) => limits.push((time, limit.as_ms())),
            Definition::Gaps(_) | Definition::Refusals(_) | Definition::Run(_) => {
                return Err(NoValue::NotALimit(*metric));
            }
        }
    }
    let good = cell
        .successes()
        .filter(|record| limits.iter().all(|(time, limit)| time(record).is_none_or(|ms| ms <= *limit)))
        .count();
    Ok((real(good) / cell.window_secs()?, cell.records().len()))
}

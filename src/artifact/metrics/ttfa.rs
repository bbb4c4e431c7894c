//! Time to first answer: from the due instant to the first content after reasoning.

use crate::artifact::metrics::elapsed_ms;
use crate::artifact::record::Record;

/// An answer that never got beyond its reasoning is infinitely late.
pub(super) fn of(record: &Record) -> Option<f64> {
    record.first_content()?;
    Some(record.first_answer.map_or(f64::INFINITY, |first| elapsed_ms(record.due, first)))
}

//! End to end: from the due instant to the last content.

use crate::artifact::metrics::elapsed_ms;
use crate::artifact::record::Record;

pub(super) fn of(record: &Record) -> Option<f64> {
    record.last_content().map(|last| elapsed_ms(record.due, last))
}

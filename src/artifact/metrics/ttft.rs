//! Time to first token: from the due instant to the first content, reasoning included.

use crate::artifact::metrics::elapsed_ms;
use crate::artifact::record::Record;

pub(super) fn of(record: &Record) -> Option<f64> {
    record.first_content().map(|first| elapsed_ms(record.due, first))
}

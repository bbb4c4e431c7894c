//! Time to reject: how long a request that the target refused waited for its refusal.

use crate::artifact::metrics::elapsed_ms;
use crate::artifact::record::{Outcome, Record};

/// From the due instant to the end of the refusal, 429 or 503, in ms; none of a request that was not refused.
pub(super) fn of(record: &Record) -> Option<f64> {
    (record.outcome == Outcome::Shed).then(|| elapsed_ms(record.due, record.end))
}

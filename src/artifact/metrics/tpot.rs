//! Time per output token: (last content - first content) / (output tokens - 1), one per request.

use crate::artifact::metrics::at_least_shortest;
use crate::artifact::record::Record;

/// Not defined for an answer of one token.
pub(super) fn of(record: &Record) -> Option<f64> {
    let after_first = record.output_tokens?.checked_sub(1).filter(|tokens| *tokens > 0)?;
    let span = record.last_content()?.since(record.first_content()?);
    Some(at_least_shortest(span.as_ms() / f64::from(after_first)))
}

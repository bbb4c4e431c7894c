//! Time per output token: (last content - first content) / (output tokens - tokens of the first chunk), one per request.

use crate::artifact::metrics::at_least_shortest;
use crate::artifact::record::Record;

/// The tokens of the first chunk were there at the first instant; where every chunk is a token this is the usual
/// `tokens - 1`. Where its size is unknown it counts as an average chunk, unless it holds far
/// more text than one (see `wire`).
///
/// Not defined for an answer that came in one chunk or at one instant: nothing shows how long its tokens took.
pub(super) fn of(record: &Record) -> Option<f64> {
    let tokens = f64::from(record.output_tokens?);
    let chunks = f64::from(u32::try_from(record.chunks.len()).ok()?);
    let first = record.chunks.first()?;
    let after_first = tokens - first.tokens.map_or(tokens / chunks, f64::from).max(1.0);
    let span = record.last_content()?.since(first.at).as_ms();
    (span > 0.0 && after_first > 0.0).then(|| at_least_shortest(span / after_first))
}

//! Cadence: the median gap between the content chunks of a request. How the server groups tokens shows here and not
//! in the time per output token; a single stall does not show.

use crate::artifact::metrics::{elapsed_ms, gaps};
use crate::artifact::record::Record;
use crate::stats::quantile::quantile;

/// Not defined for a single chunk.
pub(super) fn of(record: &Record) -> Option<f64> {
    let mut gaps: Vec<f64> = gaps::pairs(record).map(|(before, chunk)| elapsed_ms(before.at, chunk.at)).collect();
    quantile(&mut gaps, 0.5)
}

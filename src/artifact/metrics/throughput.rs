//! Throughput: output tokens of successful requests per second of the cell's measured window.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};

pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    // From 0.0: the sum of nothing is -0.0.
    let tokens = cell.successes().filter_map(|record| record.output_tokens).fold(0.0, |sum, one| sum + f64::from(one));
    Ok((tokens / cell.window_secs()?, cell.records().len()))
}

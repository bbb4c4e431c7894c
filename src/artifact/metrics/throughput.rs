//! Throughput: output tokens of successful requests per second of the cell's measured window.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};

pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let tokens: f64 = cell.successes().filter_map(|record| record.output_tokens).map(f64::from).sum();
    Ok((tokens / cell.window_secs()?, cell.records().len()))
}

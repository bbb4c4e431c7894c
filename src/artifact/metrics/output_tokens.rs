//! Output tokens per successful request: the geometric mean, because its logarithm (the mean of the logarithms)
//! is what the test of output length compares.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question, real};

pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let logs: Vec<f64> = cell.successes().filter_map(|record| Some(f64::from(record.output_tokens?).ln())).collect();
    if logs.is_empty() {
        return Err(NoValue::NoSuccess);
    }
    Ok(((logs.iter().sum::<f64>() / real(logs.len())).exp(), logs.len()))
}

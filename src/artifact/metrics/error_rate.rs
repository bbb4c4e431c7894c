//! Error rate: the share of attempted requests that failed.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question, real};

pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    match cell.records().len() {
        0 => Err(NoValue::NoRequests),
        attempted => Ok((real(cell.failed()) / real(attempted), attempted)),
    }
}

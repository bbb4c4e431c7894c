//! The share of the prompt tokens that the server read from its prefix cache, as its answers say.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};
use crate::artifact::record::{Record, cached_share};

/// The smallest share that is told from none, because decisions are made on logarithms.
const LEAST: f64 = 1e-4;

pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let successes: Vec<&Record> = cell.successes().collect();
    let told = successes.iter().filter(|record| record.cached_tokens.is_some() && record.prompt_tokens.is_some());
    match cached_share(&successes) {
        Some(share) => Ok((share.max(LEAST), told.count())),
        None if successes.is_empty() => Err(NoValue::NoSuccess),
        None => Err(NoValue::NoCacheCounts),
    }
}

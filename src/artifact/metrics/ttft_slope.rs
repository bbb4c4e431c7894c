//! How much longer the first token takes for each 1,000 tokens of context.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question, ttft};
use crate::artifact::record::Record;
use crate::stats::slope::median_slope;

/// The fewest requests between which a slope means something: as many as a median needs.
pub const LEAST_REQUESTS: usize = 20;
/// How far apart the lengths of the prompts must lie: from their 10th to their 90th percentile, in tokens. With less most
/// pairs would differ by little, and their slopes would be noise.
pub const LEAST_SPREAD: u32 = 1_000;

/// The 90th percentile of some lengths minus their 10th (nearest rank); 0 of none.
pub fn spread(mut lengths: Vec<u32>) -> u32 {
    lengths.sort_unstable();
    let rank = |tenths: usize| lengths.len().saturating_sub(1).saturating_mul(tenths).div_euclid(10);
    let at = |tenths: usize| lengths.get(rank(tenths)).copied().unwrap_or_default();
    at(9).saturating_sub(at(1))
}

/// The median over all pairs of requests with different prompt tokens of (difference of TTFT / difference of prompt tokens),
/// in ms per 1,000 tokens. A pair with a failed request is infinitely steep, so failing never looks better.
///
/// Prompt tokens are the server's count, those that it read from a cache among them: what a cache saves is to be seen. A
/// success whose count is not known is left out.
pub(super) fn of(cell: &CellData<'_>, _: &Question<'_>) -> Result<(f64, usize), NoValue> {
    let point = |record: &Record| Some((record.prompt_tokens?, ttft::of(record)?));
    let points: Vec<(u32, f64)> = cell.successes().filter_map(point).collect();
    let n = points.len().saturating_add(cell.failed());
    let lengths = points.iter().map(|(tokens, _)| *tokens).collect();
    if n < LEAST_REQUESTS || spread(lengths) < LEAST_SPREAD {
        // Where a tenth failed, it may be the failures that leave too little.
        let failing = n >= LEAST_REQUESTS && cell.failed().saturating_mul(10) >= n;
        return if failing { Ok((f64::INFINITY, n)) } else { Err(NoValue::NoSlope) };
    }
    let slope = median_slope(&points, cell.failed()).ok_or(NoValue::NoSlope)?;
    Ok((1_000.0 * slope, n))
}

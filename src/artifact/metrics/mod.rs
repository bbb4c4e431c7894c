//! The catalogue of metrics: records of one run and cell to one number. One file per metric or family, one
//! line in `definition`; everything else follows from the kind of the metric.
//!
//! Three rules hold for all of them. Latency counts from the due instant, not from the sending. A failed
//! request is part of the count and infinitely slow, so failing fast never looks faster. A time of zero is
//! one microsecond, the resolution of the records, because decisions are made on logarithms.

mod cache_hit_rate;
mod cadence;
pub mod catalogue;
pub mod cell;
mod e2e;
mod error_rate;
mod gaps;
mod goodput;
mod output_tokens;
mod throughput;
mod tpot;
mod ttfa;
mod ttft;
pub mod ttft_slope;

use crate::artifact::metrics::cell::CellData;
use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::base::names::{Metric, Statistic};
use crate::base::units::Nanos;

/// Shortest time that is believed, in milliseconds: the resolution of the records.
const SHORTEST_MS: f64 = 0.001;

/// What is asked of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What is measured.
    pub metric: Metric,
    /// How the values become one number.
    pub statistic: Statistic,
    /// For `goodput`: what a request must meet, each a metric of single requests.
    pub limits: &'a [(Metric, Nanos)],
    /// The cell's time-out: what a failed request counts as in `tail05`.
    pub timeout: Nanos,
}

/// One number of one run and cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number, in [`Metric::unit`]. `+inf` when it lies among failed requests.
    pub value: f64,
    /// How many values it is made from: requests, gaps, or the requests behind the run's own number.
    pub n: usize,
    /// How many requests of the cell failed.
    pub failed: usize,
    /// Whether `n` reaches the statistic's floor; below it the number is for people only.
    pub gateable: bool,
}

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    /// The run has no such cell, or it measured nothing in it.
    #[error("no request of this cell was measured")]
    NoRequests,
    /// Only successes have this metric, and there is none.
    #[error("no request of this cell succeeded")]
    NoSuccess,
    /// No answer has what the metric needs: two tokens, two chunks, or token counts for its chunks.
    #[error("no answer of this cell has enough tokens or chunks to define it")]
    Undefined,
    /// There is no slope over the lengths of the prompts.
    #[error("the server does not count the tokens of prompts that differ enough in length to have a slope")]
    NoSlope,
    /// No answer tells how much of its prompt came from a cache.
    #[error(
        "the server does not tell how many prompt tokens it read from its prefix cache; let its answers say so (vLLM: \
         `--enable-prompt-tokens-details`)"
    )]
    NoCacheCounts,
    /// The cell's measured window has no length.
    #[error("the measured window of this cell has no length")]
    NoWindow,
    /// The metric does not have this statistic.
    #[error("this metric does not have this statistic")]
    NoSuchStatistic,
    /// A limit of goodput on something that a single request does not have.
    #[error("{0} is not a time of a single request and cannot be a limit of goodput")]
    NotALimit(Metric),
}

/// One number of one run and cell. For several of the same cell, keep a [`CellData`] and ask that.
///
/// # Errors
///
/// Why there is no number.
pub fn summarise(run: &Run, cell: &str, question: &Question<'_>) -> Result<Summary, NoValue> {
    CellData::of(run, cell).summary(question)
}

/// How a metric is computed.
enum Definition {
    /// One time per request in ms, from a success; none where the answer does not define it.
    Request(fn(&Record) -> Option<f64>),
    /// A time per chunk gap of a success, in ms.
    Gaps(fn(&Record, &mut Vec<f64>)),
    /// One number for the run.
    Run(OfRun),
}

/// The number of a run, and how many requests are behind it.
type OfRun = fn(&CellData<'_>, &Question<'_>) -> Result<(f64, usize), NoValue>;

/// The table of metrics.
fn definition(metric: Metric) -> Definition {
    match metric {
        Metric::Ttft => Definition::Request(ttft::of),
        Metric::Ttfa => Definition::Request(ttfa::of),
        Metric::Tpot => Definition::Request(tpot::of),
        Metric::Itl => Definition::Gaps(gaps::inter_token),
        Metric::ChunkGap => Definition::Gaps(gaps::between_chunks),
        Metric::Cadence => Definition::Request(cadence::of),
        Metric::Stall => Definition::Request(gaps::longest),
        Metric::E2e => Definition::Request(e2e::of),
        Metric::Throughput => Definition::Run(throughput::of),
        Metric::Goodput => Definition::Run(goodput::of),
        Metric::CacheHitRate => Definition::Run(cache_hit_rate::of),
        Metric::ErrorRate => Definition::Run(error_rate::of),
        Metric::OutputTokens => Definition::Run(output_tokens::of),
        Metric::TtftSlope => Definition::Run(ttft_slope::of),
    }
}

/// Whether a success has a value of this metric; none of a metric that only a run has.
pub fn is_defined(metric: Metric, record: &Record) -> Option<bool> {
    match definition(metric) {
        Definition::Request(time) => Some(time(record).is_some()),
        Definition::Gaps(gaps) => {
            let mut values = Vec::new();
            gaps(record, &mut values);
            Some(!values.is_empty())
        }
        Definition::Run(_) => None,
    }
}

/// From one instant to a later one, in ms, at least the resolution.
fn elapsed_ms(from: Nanos, to: Nanos) -> f64 {
    at_least_shortest(to.since(from).as_ms())
}

/// A computed time, in ms, at least the resolution.
fn at_least_shortest(ms: f64) -> f64 {
    ms.max(SHORTEST_MS)
}

/// A number of things as a real number.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^53")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;

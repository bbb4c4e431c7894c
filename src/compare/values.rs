//! One number per run and check.

use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};
use crate::base::names::{Direction, Metric, Scale};
use crate::base::units::Nanos;
use crate::spec::policy::{Check, Margin};
use crate::stats::error_rate::Count;

/// A run's number in one check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// `y`: the logarithm of the summary, larger is worse, `+inf` among failed requests.
    pub(super) y: f64,
    /// The `y` of the phase that it is read against, which is taken off; 0 where there is none.
    pub(super) reference: f64,
    /// How many values the summary is made from.
    pub(super) values: usize,
}

/// The number of one run and cell, whose time-out is given; with `against` the logarithm of the ratio to the other phase's, both
/// of this run.
///
/// # Errors
/// Why the run has none. A run without any successful request has no gaps, and counts as infinitely slow there. A phase that
/// lies among failed requests is nothing to be read against: beside it everything would look fast.
pub(super) fn read(cell: &mut CellData<'_>, check: &Check, timeout: Nanos) -> Result<Reading, NoValue> {
    let reading = read_one(cell, check, timeout)?;
    if check.against.is_none() {
        return Ok(reading);
    }
    let other = cell.reference_mut().and_then(|other| read_one(other, check, timeout).ok());
    let other = other.filter(|other| other.y.is_finite()).ok_or(NoValue::NoReference)?;
    Ok(Reading { y: reading.y - other.y, reference: other.y, values: reading.values.min(other.values) })
}

fn read_one(cell: &mut CellData<'_>, check: &Check, timeout: Nanos) -> Result<Reading, NoValue> {
    let question = Question { metric: check.metric, statistic: check.statistic, limits: &check.limits, timeout };
    match cell.summary(&question) {
        Ok(summary) => {
            let start = start(check);
            // Only a value that may be zero has a start, and below zero it counts as zero.
            let value = if start > 0.0 { summary.value.max(0.0) + start } else { summary.value };
            Ok(Reading { y: sign(check.metric) * value.ln(), reference: 0.0, values: summary.n })
        }
        Err(NoValue::NoSuccess) if check.metric.scale() == Scale::PerGap => {
            Ok(Reading { y: f64::INFINITY, reference: 0.0, values: usize::MAX })
        }
        Err(none) => Err(none),
    }
}

/// What is added to a value before its logarithm is taken, in the metric's unit: for what may be zero the
/// smallest difference that counts. Far above it the logarithm compares ratios, far below it differences (the started
/// logarithm: Tukey 1977, Exploratory Data Analysis, chapter 3).
pub(super) fn start(check: &Check) -> f64 {
    match (check.metric, check.margin) {
        (metric, Margin::Relative { floor: Some(floor), .. }) if metric.needs_floor() => floor.as_ms(),
        _ => 0.0,
    }
}

/// 1 where larger values are worse, -1 where smaller ones are. Output length, which has two bad directions, keeps its
/// own.
pub(super) fn sign(metric: Metric) -> f64 {
    match metric.direction() {
        Direction::LowerIsBetter | Direction::TwoSided => 1.0,
        Direction::HigherIsBetter => -1.0,
    }
}

/// The `y` that stands for a run among failed requests: the time-out as a latency, as what 1,000 tokens cost or as a recovery, or
/// as a rate one token or request in a time-out.
pub(super) fn censored(check: &Check, timeout: Nanos) -> f64 {
    match check.metric.scale() {
        _ if check.metric.needs_floor() => (timeout.as_ms() + start(check)).ln(),
        Scale::PerRequest | Scale::PerGap | Scale::PerRefusal => timeout.as_ms().ln(),
        Scale::PerRun | Scale::Proportion => timeout.as_secs().ln(),
    }
}

/// The failed and attempted requests of one run and cell.
pub(super) fn count(cell: &CellData<'_>) -> Count {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    Count { failed: number(cell.failed()), attempted: number(cell.records().len()) }
}

//! By how much the candidate differs from the baseline in one check: runs to numbers, numbers to an estimate.

use serde::Serialize;

use crate::artifact::failures::Failures;
use crate::artifact::metrics::NoValue;
use crate::artifact::metrics::cell::CellData;
use crate::base::names::{Direction, Metric};
use crate::base::units::Nanos;
use crate::compare::evidence::Selection;
use crate::compare::values;
use crate::spec::policy::{Check, Decision, Margin as Limit};
use crate::stats::error_rate::{Count, Counts, ErrorRates, error_rates};
use crate::stats::history::{SessionPrior, noise};
use crate::stats::margin::Margin;
use crate::stats::moderated::{self, Comparison, Samples, compare};
use crate::stats::paired::compare_pairs;

/// An estimated effect with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The baseline's value in the metric's unit; the ratio of two phases where the check is about that.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
    /// Candidate against baseline: 0.145 is 14.5 % more of the metric; the difference in the metric's unit where it is
    /// compared by difference ([`Metric::is_difference`]).
    pub change: f64,
    /// Lower end of the 90 % two-sided interval of `change`.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What was found out about one check.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// Summaries of runs, compared as a ratio: times, rates, output length.
    Ratio(Box<Ratio>),
    /// Failed requests, compared as a difference of shares.
    Share(Share),
}

impl Ratio {
    /// The estimate, where there is one.
    pub fn estimate(&self) -> Option<&moderated::Effect> {
        match &self.comparison {
            Comparison::Estimated(estimate) => Some(estimate),
            Comparison::CandidateUnobservable { .. } | Comparison::NotEstimable(_) => None,
        }
    }
}

/// A comparison of two shares of failed requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The difference and its test.
    pub rates: ErrorRates,
    /// Candidate runs.
    pub runs: usize,
    /// Requests that the candidate was sent.
    pub attempted: u64,
    /// What the candidate's failed requests were.
    pub failures: Failures,
}

/// A comparison of run summaries.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The margin on the scale of `y`.
    pub margin: Margin,
    /// The estimate.
    pub comparison: Comparison,
    /// The fewest values that any compared run's summary is made from.
    pub fewest: usize,
}

/// Why a check could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmeasured {
    /// A run has no value of this metric.
    Missing(NoValue),
    /// Counts of failures from so few runs that their scatter is unknown.
    NoScatter,
}

/// Compares the selected runs in one check. `timeout` is the cell's, the value that stands for a failed request.
///
/// # Errors
/// A compared run has no value of the metric, or the scatter of failure counts cannot be estimated.
pub fn measure(
    runs: &mut Selection<'_>,
    check: &Check,
    decision: &Decision,
    timeout: Nanos,
) -> Result<Measured, Unmeasured> {
    match check.margin {
        Limit::Points(points) => share(runs, points, decision.alpha_pass),
        Limit::Relative { ratio, floor } => {
            let floor = floor.map(Nanos::as_ms);
            ratios(
                runs,
                check,
                decision,
                (
                    timeout,
                    Margin { direction: check.metric.direction(), relative: ratio, floor, start: values::start(check) },
                ),
            )
        }
        Limit::Within(relative) => {
            let margin = Margin { direction: Direction::TwoSided, relative, floor: None, start: 0.0 };
            ratios(runs, check, decision, (timeout, margin))
        }
    }
}

/// What is assumed of the variance between sessions of a metric where no release shows it: `usual`, except for the length
/// of answers. Another allocation of hardware is faster or slower; it does not make answers longer. There it is the
/// variance floor of a run (0.2 % squared), with the same weight.
pub fn session_prior(metric: Metric, usual: SessionPrior) -> SessionPrior {
    if metric == Metric::OutputTokens { SessionPrior::least(usual.df) } else { usual }
}

fn ratios(
    runs: &mut Selection<'_>,
    check: &Check,
    decision: &Decision,
    (timeout, margin): (Nanos, Margin),
) -> Result<Measured, Unmeasured> {
    let (mut fewest, mut reference, mut worst) = (usize::MAX, f64::NEG_INFINITY, f64::NEG_INFINITY);
    let mut all = |cells: &mut Vec<CellData<'_>>| -> Result<Vec<f64>, Unmeasured> {
        let mut ys = Vec::with_capacity(cells.len());
        for cell in cells {
            let reading = values::read(cell, check, timeout).map_err(Unmeasured::Missing)?;
            fewest = fewest.min(reading.values);
            reference = reference.max(reading.reference);
            worst = if reading.y.is_finite() { worst.max(reading.y) } else { worst };
            ys.push(reading.y);
        }
        Ok(ys)
    };
    let stored = runs.stored.iter_mut().map(&mut all).collect::<Result<Vec<_>, Unmeasured>>()?;
    let (controls, candidate) = (all(&mut runs.controls)?, all(&mut runs.candidate)?);

    // An earlier run without this metric says nothing about its noise.
    let past = |session: &mut Vec<CellData<'_>>| {
        session.iter_mut().filter_map(|cell| Some(values::read(cell, check, timeout).ok()?.y)).collect::<Vec<f64>>()
    };
    let history: Vec<Vec<Vec<f64>>> =
        runs.history.iter_mut().map(|release| release.iter_mut().map(past).collect()).collect();
    let usual = SessionPrior::assumed(decision.session_sd, decision.session_sd_df);
    let noise = noise(&history, &stored, session_prior(check.metric, usual));
    let samples = Samples { stored: &stored, controls: &controls, candidate: &candidate };
    let compare = if runs.paired { compare_pairs } else { compare };
    // A run among failed requests is read against the slowest reference, and is no better than any that has a number.
    let censored = (values::censored(check, timeout) - reference).max(worst);
    let comparison = compare(&samples, &noise, censored);
    Ok(Measured::Ratio(Box::new(Ratio { margin, comparison, fewest })))
}

fn share(runs: &Selection<'_>, points: f64, alpha: f64) -> Result<Measured, Unmeasured> {
    let baseline: Vec<Count> = runs.stored.iter().flatten().chain(&runs.controls).map(values::count).collect();
    let candidate: Vec<Count> = runs.candidate.iter().map(values::count).collect();
    let history: Vec<Count> = runs.history.iter().flatten().flatten().map(values::count).collect();
    let counts = Counts { baseline: &baseline, candidate: &candidate, history: &history };
    if [&baseline, &candidate].iter().any(|side| side.iter().all(|count| count.attempted == 0)) {
        return Err(Unmeasured::Missing(NoValue::NoRequests));
    }
    let rates = error_rates(&counts, points, alpha).ok_or(Unmeasured::NoScatter)?;
    let attempted = candidate.iter().map(|count| count.attempted).sum();
    let failures = Failures::of(runs.candidate.iter().flat_map(CellData::records).copied());
    Ok(Measured::Share(Share { rates, runs: candidate.len(), attempted, failures }))
}

/// What a relative change of the value with its start is worth in the terms of [`Effect::change`]: itself, or the value where
/// the metric is compared by difference.
pub fn change_scale(metric: Metric, estimate: &moderated::Effect) -> f64 {
    if metric.is_difference() { estimate.base.exp() } else { 1.0 }
}

/// The estimate in the metric's own unit and direction, with the interval at one-sided level `alpha`.
fn natural(metric: Metric, estimate: &moderated::Effect, (margin, alpha): (&Margin, f64)) -> Effect {
    let sign = values::sign(metric);
    let (low, high) = estimate.limits(alpha);
    let scale = change_scale(metric, estimate);
    let change = |y: f64| scale * (sign * y).exp_m1();
    let (low, high) = if sign < 0.0 { (high, low) } else { (low, high) };
    Effect {
        baseline: (sign * estimate.base).exp() - margin.start,
        candidate: (sign * (estimate.base + estimate.difference)).exp() - margin.start,
        change: change(estimate.difference),
        low: change(low),
        high: change(high),
    }
}

impl Measured {
    /// The effect with its 90 % interval (at `alpha = 0.05`), where there is an estimate.
    pub fn effect(&self, metric: Metric, alpha: f64) -> Option<Effect> {
        match self {
            Self::Ratio(ratio) => ratio.estimate().map(|estimate| natural(metric, estimate, (&ratio.margin, alpha))),
            Self::Share(Share { rates, .. }) => Some(Effect {
                baseline: rates.baseline,
                candidate: rates.candidate,
                change: rates.candidate - rates.baseline,
                low: rates.lower,
                high: rates.upper,
            }),
        }
    }
}

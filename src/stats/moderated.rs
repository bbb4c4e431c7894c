//! The comparison of a candidate with its baseline: a moderated Welch t-test on logarithms of run summaries, with
//! the session effect as a variance of its own.

use crate::base::names::Direction;
use crate::stats::design::{Design, Precision};
use crate::stats::history::Noise;
use crate::stats::margin::Margin;
use crate::stats::p_value::PValue;
use crate::stats::sample::{df, mean};
use crate::stats::student;

/// Fewer candidate runs than this never fail a check.
pub const RUNS_TO_FAIL: usize = 3;

/// A single candidate run passes a check only with this much history (`d0`).
pub const HISTORY_TO_PASS_ALONE: f64 = 6.0;

/// The probability with which a stored level may lie outside its interval around the controls before it is called
/// stale, at each end.
const DRIFT_TAIL: f64 = 0.005;

/// What is compared: each number is the `y` of a run, larger is worse, `+inf` where it lies among failed requests.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// The stored baseline, by session.
    pub stored: &'a [Vec<f64>],
    /// The baseline inside the candidate's session.
    pub controls: &'a [f64],
    /// The candidate.
    pub candidate: &'a [f64],
}

/// Why two sets of runs cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotEstimable {
    /// There is no run of the baseline.
    NoBaseline,
    /// There is no run of the candidate.
    NoCandidate,
    /// Half or more of the stored runs, or of the controls, lie among failed requests.
    BaselineUnobservable,
    /// Neither the runs nor the history say how far runs scatter.
    NoVariance,
    /// A number is not finite, or there is less than one degree of freedom.
    Numeric,
}

/// What a reader must know about an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flag {
    /// The controls contradict the stored baseline: the environment moved, the stored level is stale and set aside.
    EnvironmentDrift,
    /// The session variance is the policy's assumption, not a measurement.
    SessionVarianceAssumed,
    /// No history, and two runs or fewer on a side: both errors may reach 7 % instead of 5 %.
    Weak,
    /// Some runs lie among failed requests and were counted at the time-out: passing is forbidden.
    Censored,
    /// Too few candidate runs to fail (fewer than 3).
    TooFewToFail,
    /// A single candidate run with too little history to pass, or fewer than three pairs.
    TooFewToPass,
}

/// The estimated effect of a candidate on the logarithm of a summary; positive is worse.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The baseline's level, a `y`: stored level and controls weighted by their precision.
    pub base: f64,
    /// `D`, the candidate's mean minus `base`.
    pub difference: f64,
    /// The variance of the difference, its parts and its degrees of freedom.
    pub precision: Precision,
    /// The runs and variances behind it, to plan further runs with.
    pub design: Design,
    /// What a reader must know, in the order of the variants, each at most once.
    pub flags: Vec<Flag>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// There is an estimate.
    Estimated(Effect),
    /// Half or more of this many candidate runs lie among failed requests where the baseline does not: worse than
    /// any margin.
    CandidateUnobservable {
        /// Candidate runs, all of them.
        runs: usize,
    },
    /// There is no answer.
    NotEstimable(NotEstimable),
}

/// The two tests of a comparison against a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// `M`, the margin on the scale of `y`.
    pub log_margin: f64,
    /// Small when the effect is shown beyond the margin; 1 where failing is not allowed.
    pub p_fail: PValue,
    /// Small when the effect is shown inside the margin; 1 where passing is not allowed.
    pub p_pass: PValue,
}

/// Compares. `censored` is the `y` that stands for a run among failed requests: the logarithm of the time-out.
///
/// Runs on one side need not be as many as on the other, nor as many in each session. Empty sessions are left out.
pub fn compare(samples: &Samples<'_>, noise: &Noise, censored: f64) -> Comparison {
    if let Some(reason) = obstacle(samples) {
        return Comparison::NotEstimable(reason);
    }
    if unobservable(samples.candidate) {
        return Comparison::CandidateUnobservable { runs: samples.candidate.len() };
    }
    match estimate(samples, noise, censored) {
        Ok(effect) => Comparison::Estimated(effect),
        Err(reason) => Comparison::NotEstimable(reason),
    }
}

impl Samples<'_> {
    fn all(&self) -> impl Iterator<Item = f64> {
        self.stored.iter().flatten().chain(self.controls).chain(self.candidate).copied()
    }
}

/// What forbids a comparison, whatever the candidate's level.
fn obstacle(samples: &Samples<'_>) -> Option<NotEstimable> {
    let stored = samples.stored.concat();
    if stored.is_empty() && samples.controls.is_empty() {
        Some(NotEstimable::NoBaseline)
    } else if samples.candidate.is_empty() {
        Some(NotEstimable::NoCandidate)
    } else if samples.all().any(|y| y.is_nan() || (y.is_infinite() && y.is_sign_negative())) {
        Some(NotEstimable::Numeric)
    } else if unobservable(&stored) || unobservable(samples.controls) {
        Some(NotEstimable::BaselineUnobservable)
    } else {
        None
    }
}

/// Half or more of the runs lie among failed requests.
fn unobservable(runs: &[f64]) -> bool {
    let failed = runs.iter().filter(|y| y.is_infinite()).count();
    failed > 0 && 2 * failed >= runs.len()
}

/// The estimate from runs that are finite or `+inf`, with at least one on each side.
fn estimate(samples: &Samples<'_>, noise: &Noise, censored: f64) -> Result<Effect, NotEstimable> {
    let seen = |runs: &[f64]| -> Vec<f64> { runs.iter().map(|&y| if y.is_finite() { y } else { censored }).collect() };
    let stored: Vec<Vec<f64>> = samples.stored.iter().filter(|runs| !runs.is_empty()).map(|runs| seen(runs)).collect();
    let (controls, candidate) = (seen(samples.controls), seen(samples.candidate));

    let mut design = Design::observed(&stored, &controls, &candidate, noise).ok_or(NotEstimable::NoVariance)?;
    let stored_level = mean(&stored.iter().map(|runs| mean(runs)).collect::<Vec<f64>>());
    if let Some(variance) = design.environment_variance() {
        let limit = student::upper_quantile(DRIFT_TAIL, design.prior_df + design.baseline_runs_df()) * variance.sqrt();
        design.drifted = (mean(&controls) - stored_level).abs() > limit;
    }
    let precision = design.precision().ok_or(NotEstimable::Numeric)?;
    // A side of no weight may have no mean either.
    let level = |weight: f64, mean: f64| if weight > 0.0 { weight * mean } else { 0.0 };
    let weight = precision.controls_weight;
    let base = level(weight, mean(&controls)) + level(1.0 - weight, stored_level);
    let difference = mean(&candidate) - base;
    if !difference.is_finite() {
        return Err(NotEstimable::Numeric);
    }
    let flags = flags(&design, &precision, samples.all().any(f64::is_infinite));
    Ok(Effect { base, difference, precision, design, flags })
}

pub(super) fn flags(design: &Design, precision: &Precision, censored: bool) -> Vec<Flag> {
    let without_history = design.prior_df <= 0.0;
    let single = design.candidate == 1 && design.prior_df < HISTORY_TO_PASS_ALONE;
    let few_pairs = design.pair_variance.is_some() && design.candidate < RUNS_TO_FAIL;
    [
        (Flag::EnvironmentDrift, design.drifted),
        (Flag::SessionVarianceAssumed, design.session.assumed && precision.session > 0.0),
        (Flag::Weak, without_history && design.baseline_runs_df().min(df(design.candidate)) <= 1.0),
        (Flag::Censored, censored),
        (Flag::TooFewToFail, design.candidate < RUNS_TO_FAIL),
        (Flag::TooFewToPass, single || few_pairs),
    ]
    .into_iter()
    .filter_map(|(flag, raised)| raised.then_some(flag))
    .collect()
}

impl Comparison {
    /// Tests against a margin; `None` where there is no answer.
    pub fn judge(&self, margin: &Margin) -> Option<Judgement> {
        match self {
            Self::Estimated(effect) => Some(effect.judge(margin)),
            Self::CandidateUnobservable { runs } => Some(Judgement {
                // No base to measure an absolute floor by, and none needed: infinity is beyond every margin.
                log_margin: Margin { floor: None, start: 0.0, ..*margin }.log(0.0),
                p_fail: if *runs < RUNS_TO_FAIL { PValue::ONE } else { PValue::ZERO },
                p_pass: PValue::ONE,
            }),
            Self::NotEstimable(_) => None,
        }
    }
}

impl Effect {
    /// The ratio of candidate to baseline, `exp(D)`; for a `y` of `-ln` it is the inverse ratio of the values.
    pub fn ratio(&self) -> f64 {
        self.difference.exp()
    }

    /// The two one-sided limits of `D` at level `alpha` each: `alpha = 0.05` gives the 90 % interval.
    pub fn limits(&self, alpha: f64) -> (f64, f64) {
        let half = student::upper_quantile(alpha, self.precision.df) * self.precision.standard_error();
        (self.difference - half, self.difference + half)
    }

    /// Whether so few runs are enough to fail a check.
    pub fn may_fail(&self) -> bool {
        !self.flags.contains(&Flag::TooFewToFail)
    }

    /// Whether such runs may pass a check.
    pub fn may_pass(&self) -> bool {
        !self.flags.iter().any(|flag| matches!(flag, Flag::Censored | Flag::TooFewToPass))
    }

    /// Two one-sided t-tests of the margin (Schuirmann 1987): `p_fail = P(T > t)` and `p_pass = P(T < t)` with
    /// `t = (D - M) / sqrt(V)`. Two-sided: `p_pass` is the larger of the two that show the effect inside an end, and
    /// `p_fail` twice the smaller of the two that show it beyond one.
    pub fn judge(&self, margin: &Margin) -> Judgement {
        let log_margin = margin.log(self.base);
        let (p_fail, p_pass) = self.tails(margin.direction, log_margin);
        let unless = |allowed: bool, p: f64| if allowed { PValue::nearest(p) } else { PValue::ONE };
        Judgement { log_margin, p_fail: unless(self.may_fail(), p_fail), p_pass: unless(self.may_pass(), p_pass) }
    }

    pub(super) fn tails(&self, direction: Direction, log_margin: f64) -> (f64, f64) {
        let statistic = |end: f64| (self.difference - end) / self.precision.standard_error();
        let (above, below) = (statistic(log_margin), statistic(-log_margin));
        let nu = self.precision.df;
        match direction {
            Direction::LowerIsBetter | Direction::HigherIsBetter => (student::sf(above, nu), student::cdf(above, nu)),
            Direction::TwoSided => (
                2.0 * student::sf(above, nu).min(student::cdf(below, nu)),
                student::cdf(above, nu).max(student::sf(below, nu)),
            ),
        }
    }
}

//! One check's tests, before the correction for their number.

use crate::base::names::{Direction, Metric};
use crate::compare::effect::{Effect, Measured, Ratio, Share, change_scale};
use crate::spec::policy::{Check, Decision, Margin as Limit};
use crate::stats::margin::relative;
use crate::stats::moderated::{self, Comparison, Flag, NotEstimable, RUNS_TO_FAIL};
use crate::stats::p_value::PValue;
use crate::stats::student;

/// A margin that went through a logarithm and back is itself within this.
const ROUNDING: f64 = 1e-9;

/// The tests of one check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// The margin in the terms of [`Harm`].
    pub(super) margin: f64,
    /// The margin's absolute floor in the metric's unit, where it allows more than the percentage.
    pub(super) floor: Option<f64>,
    /// The evidence that the check fails.
    pub(super) p_fail: PValue,
    /// The evidence that it is inside the margin.
    pub(super) p_pass: PValue,
    /// Output length only: the evidence that answers became longer than the margin.
    pub(super) p_longer: Option<PValue>,
    /// The evidence that an absolute objective is missed.
    pub(super) p_objective: Option<PValue>,
    /// The effect, when it could be estimated.
    pub(super) effect: Option<Effect>,
    /// The effect towards harm, when it could be estimated.
    pub(super) harm: Option<Harm>,
    /// What a reader must know.
    pub(super) flags: Vec<Flag>,
}

/// The effect in the metric's bad direction: a share of the baseline's value, or a difference. For output
/// length, which has two bad directions, it is the change itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Harm {
    pub(super) estimate: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Harm {
    pub(super) fn of(metric: Metric, effect: &Effect) -> Self {
        if metric.direction() == Direction::HigherIsBetter {
            Self { estimate: -effect.change, low: -effect.high, high: -effect.low }
        } else {
            Self { estimate: effect.change, low: effect.low, high: effect.high }
        }
    }
}

/// The tests of a measured check against its margin.
///
/// # Errors
/// The comparison gives no answer.
pub(super) fn trial(check: &Check, measured: &Measured, decision: &Decision) -> Result<Trial, NotEstimable> {
    let effect = measured.effect(check.metric, decision.alpha_pass);
    let harm = effect.map(|effect| Harm::of(check.metric, &effect));
    match measured {
        Measured::Ratio(ratio) => {
            let trial = of_ratio(check, ratio)?;
            Ok(Trial { effect, harm, ..trial })
        }
        Measured::Share(share) => Ok(Trial { effect, harm, ..of_shares(check, share) }),
    }
}

fn of_ratio(check: &Check, ratio: &Ratio) -> Result<Trial, NotEstimable> {
    if let Comparison::NotEstimable(reason) = &ratio.comparison {
        return Err(*reason);
    }
    let judged = ratio.comparison.judge(&ratio.margin).ok_or(NotEstimable::Numeric)?;
    let estimate = ratio.estimate();
    // Of the two ways in which the length may leave its margin only the shorter one is a fail.
    let longer = ratio.margin.direction == Direction::TwoSided && estimate.is_some_and(|found| found.difference > 0.0);
    let margin = relative(ratio.margin.direction, judged.log_margin);
    let floor = ratio.margin.floor.filter(|_| margin > ratio.margin.relative * (1.0 + ROUNDING));
    // A difference is its own unit, so a floor in force needs no translation.
    let (margin, floor) = match (check.metric.is_difference(), estimate) {
        (true, Some(found)) => (margin * change_scale(check.metric, found), None),
        (true, None) => (ratio.margin.start, None),
        (false, _) => (margin, floor),
    };
    Ok(Trial {
        margin,
        floor,
        p_fail: if longer { PValue::ONE } else { judged.p_fail },
        p_pass: judged.p_pass,
        p_longer: longer.then_some(judged.p_fail),
        p_objective: estimate
            .zip(check.objective)
            .and_then(|(found, limit)| objective(check.metric, found, limit + ratio.margin.start)),
        effect: None,
        harm: None,
        flags: estimate.map(|estimate| estimate.flags.clone()).unwrap_or_default(),
    })
}

fn of_shares(check: &Check, Share { rates, runs, attempted, .. }: &Share) -> Trial {
    let margin = match check.margin {
        Limit::Points(points) => points,
        Limit::Relative { ratio, .. } | Limit::Within(ratio) => ratio,
    };
    let may_fail = *runs >= RUNS_TO_FAIL;
    // Score test of one share (Wilson 1927) on the requests that are worth independent ones.
    let missed = |limit: f64| {
        let requests = real(*attempted) / rates.design_effect;
        let z = (rates.candidate - limit) / (limit * (1.0 - limit) / requests).sqrt();
        z.is_finite().then(|| PValue::new(student::sf(z, rates.df))).flatten()
    };
    Trial {
        margin,
        floor: None,
        p_fail: if may_fail { rates.p_fail } else { PValue::ONE },
        p_pass: rates.p_pass,
        p_longer: None,
        p_objective: check.objective.filter(|_| may_fail).and_then(missed),
        effect: None,
        harm: None,
        flags: if may_fail { vec![] } else { vec![Flag::TooFewToFail] },
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests is far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

/// The evidence that the candidate's own level misses an absolute objective (in the metric's unit): a one-sample t
/// test on the logarithms, whose variance is that of the candidate's runs and of one session. `None` where failing
/// is not allowed or the objective has no logarithm.
fn objective(metric: Metric, estimate: &moderated::Effect, limit: f64) -> Option<PValue> {
    let sign = if metric.direction() == Direction::HigherIsBetter { -1.0 } else { 1.0 };
    let (session, (own, own_df)) = (&estimate.design.session, estimate.design.candidate_alone());
    let variance = own + session.variance;
    let share = |part: f64, df: f64| part * part / df;
    let df = variance * variance / (share(own, own_df) + share(session.variance, session.df));
    let t = (estimate.base + estimate.difference - sign * limit.ln()) / variance.sqrt();
    let known = estimate.may_fail() && t.is_finite() && df >= 1.0;
    known.then(|| PValue::new(student::sf(t, df.min(1e6)))).flatten()
}

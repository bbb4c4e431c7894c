//! What a check could have seen, and what would decide it.

use crate::base::names::{Direction, Metric};
use crate::compare::effect::{Measured, Share, change_scale};
use crate::compare::evidence::Evidence;
use crate::spec::policy::Decision;
use crate::stats::error_rate::ErrorRates;
use crate::stats::margin::{Margin, relative};
use crate::stats::moderated::{self, Flag, RUNS_TO_FAIL};
use crate::stats::power::{MOST_RUNS, Needed, Risk};
use crate::stats::student;
use crate::verdict::trial::Trial;
use crate::verdict::words::count;

/// The chance to miss that plans allow: 80 % power.
const BETA: f64 = 0.2;

/// The smallest true harm that would have failed with 80 % probability among `family` tests, in the terms of the
/// margin.
pub(super) fn minimum_detectable(
    (metric, measured): (Metric, &Measured),
    trial: &Trial,
    decision: &Decision,
    family: usize,
) -> Option<f64> {
    let risk = Risk { alpha: decision.alpha_fail / real(family), beta: BETA };
    match measured {
        Measured::Ratio(ratio) => {
            let (margin, estimate) = (&ratio.margin, ratio.estimate()?);
            let detectable = estimate.design.minimum_detectable(margin.log(estimate.base), risk)?;
            Some(change_scale(metric, estimate) * relative(margin.direction, detectable))
        }
        Measured::Share(Share { rates, .. }) => {
            let quantile = |tail: f64| student::upper_quantile(tail, rates.df);
            let error = (rates.upper - rates.lower) / (2.0 * quantile(decision.alpha_pass));
            let detectable = trial.margin + (quantile(risk.alpha) + quantile(risk.beta)) * error;
            Some(detectable).filter(|harm| harm.is_finite())
        }
    }
}

/// What would decide an undecided check, if what was seen so far is the truth.
pub(super) fn to_decide(
    measured: &Measured,
    trial: &Trial,
    (decision, family): (&Decision, usize),
    evidence: &Evidence<'_>,
) -> String {
    match measured {
        Measured::Ratio(ratio) => ratio.estimate().map_or_else(
            || format!("{}: a fail needs as many", count(RUNS_TO_FAIL, "candidate run")),
            |estimate| of_estimate(&ratio.margin, estimate, (decision, family), evidence),
        ),
        Measured::Share(share) => of_shares(share, trial.margin),
    }
}

fn of_estimate(
    margin: &Margin,
    estimate: &moderated::Effect,
    (decision, family): (&Decision, usize),
    evidence: &Evidence<'_>,
) -> String {
    if estimate.flags.contains(&Flag::Censored) {
        return "requests fail in some runs, and such runs cannot show the check inside its margin: find out why they \
                fail and measure again"
            .to_owned();
    }
    let harm = harm(margin.direction, estimate);
    needed(estimate, &wanted(estimate, harm, margin.log(estimate.base), (decision, family)), evidence)
}

/// The estimate towards harm; output length has two bad directions.
fn harm(direction: Direction, estimate: &moderated::Effect) -> f64 {
    match direction {
        Direction::TwoSided => estimate.difference.abs(),
        Direction::LowerIsBetter | Direction::HigherIsBetter => estimate.difference,
    }
}

fn wanted(estimate: &moderated::Effect, harm: f64, log_margin: f64, (decision, family): (&Decision, usize)) -> Needed {
    if harm > log_margin {
        let risk = Risk { alpha: decision.alpha_fail / real(family), beta: BETA };
        estimate.design.needed_to_fail(harm, log_margin, risk)
    } else {
        let risk = Risk { alpha: decision.alpha_pass, beta: BETA };
        estimate.design.needed_to_pass(log_margin - harm.max(0.0), risk)
    }
}

fn needed(estimate: &moderated::Effect, needed: &Needed, evidence: &Evidence<'_>) -> String {
    let controllable = evidence.controllable();
    let unit = if estimate.design.pair_variance.is_some() { "pair" } else { "candidate run" };
    let (now, sessions_now) = (estimate.design.candidate, estimate.design.stored.len());
    match *needed {
        Needed::Runs(runs) => format!("about {} in all (now {now})", count(runs, unit)),
        Needed::Baseline { .. } if !evidence.restarted() => format!(
            "no number of candidate runs is enough: without restarts the unknown effect of a session stands in every \
             difference; {}",
            boots(evidence)
        ),
        Needed::Baseline { controls, sessions } => {
            let ways: Vec<String> = [
                controls.filter(|_| controllable).map(|n| count(n.saturating_sub(estimate.design.controls), "control")),
                sessions.map(|n| count(n.saturating_sub(sessions_now), "baseline session")),
            ]
            .into_iter()
            .flatten()
            .collect();
            if ways.is_empty() {
                let nor = if controllable { ", nor of controls" } else { "" };
                format!(
                    "no number of candidate runs is enough{nor}: the effect lies too close to the margin for this noise; find \
                     its source, or widen the margin"
                )
            } else {
                format!("no number of candidate runs is enough: add {}", ways.join(" or "))
            }
        }
        Needed::Nothing => format!("more than {}: the effect lies on the margin", count(MOST_RUNS, unit)),
    }
}

/// How every run gets a boot of its own.
fn boots(evidence: &Evidence<'_>) -> &'static str {
    match (evidence.paired, evidence.controllable()) {
        (true, _) => "give both targets a `restart` command: then every run of a pair is a boot of its own",
        (false, false) => {
            "give the target a `restart` command: then every run is a boot of its own, and controls of the baseline can be \
             measured beside the candidate"
        }
        (false, true) => "measure the baseline again with the `restart` command that the candidate had",
    }
}

fn of_shares(share: &Share, margin: f64) -> String {
    let Share { rates: ErrorRates { baseline, candidate, lower, upper, .. }, runs, .. } = share;
    if *runs < RUNS_TO_FAIL {
        return format!("{}: a fail needs as many", count(RUNS_TO_FAIL, "candidate run"));
    }
    let difference = candidate - baseline;
    let (half, distance) = if difference > margin {
        (difference - lower, difference - margin)
    } else {
        (upper - difference, margin - difference)
    };
    // The limits approach the difference with the square root of the number of requests.
    let times = (half / distance).powi(2);
    if times.is_finite() && times <= real(MOST_RUNS) {
        format!("about {times:.1} times as many requests on both sides")
    } else {
        "more requests than can be measured: the difference lies on the margin".to_owned()
    }
}

/// A small count as a real number.
fn real(number: usize) -> f64 {
    f64::from(u32::try_from(number.max(1)).unwrap_or(u32::MAX))
}

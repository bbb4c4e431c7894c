//! From a check's tests to its verdict, and the reason in one sentence.

use crate::base::names::{Metric, Role};
use crate::compare::effect::{Measured, Share};
use crate::spec::policy::{Check, Decision, Margin};
use crate::stats::moderated::Flag;
use crate::verdict::case::Case;
use crate::verdict::family::Corrected;
use crate::verdict::judgement::{CheckJudgement, Verdict};
use crate::verdict::plans::{minimum_detectable, to_decide};
use crate::verdict::states::{State, Tried};
use crate::verdict::subjects::Subject;
use crate::verdict::trial::{Harm, Trial};
use crate::verdict::words::{self, levels, p};

/// The answer to one check of this case.
pub(super) fn decide(subject: &Subject, state: &State, corrected: Corrected, case: &Case<'_>) -> CheckJudgement {
    let decision = &case.policy.decision;
    let check = &subject.check;
    let blank = CheckJudgement {
        id: check.id(),
        metric: check.metric,
        statistic: check.statistic,
        cell: check.subject(),
        against: check.against,
        role: check.role,
        place: check.place.clone(),
        verdict: Verdict::Error,
        reason: String::new(),
        effect: None,
        margin: stated(check),
        margin_floor: None,
        p_fail: None,
        p_pass: None,
        minimum_detectable: None,
        to_decide: None,
    };
    match state {
        State::Blocked { verdict, reason, to_decide } => {
            CheckJudgement { verdict: *verdict, reason: reason.clone(), to_decide: to_decide.clone(), ..blank }
        }
        State::Tried(tried) => {
            let Tried { measured, trial } = tried.as_ref();
            let verdict = verdict(subject, trial, corrected, decision);
            let undecided = verdict == Verdict::Inconclusive;
            CheckJudgement {
                verdict,
                reason: with_failures(reason(subject, trial, corrected, (verdict, decision)), measured),
                effect: trial.effect,
                margin: trial.margin,
                margin_floor: trial.floor,
                p_fail: (!trial.flags.contains(&Flag::TooFewToFail)).then(|| corrected.p_fail.get()),
                p_pass: Some(trial.p_pass.get()),
                minimum_detectable: minimum_detectable((check.metric, measured), trial, decision, corrected.family),
                to_decide: undecided.then(|| to_decide(measured, trial, (decision, corrected.family), &case.evidence)),
                ..blank
            }
        }
    }
}

/// The margin as the policy states it, for a check without numbers.
fn stated(check: &Check) -> f64 {
    match check.margin {
        Margin::Relative { floor: Some(floor), .. } if check.metric.is_difference() => floor.as_ms(),
        Margin::Relative { ratio, .. } | Margin::Points(ratio) | Margin::Within(ratio) => ratio,
    }
}

/// Fail beats pass; what is shown neither way is inconclusive.
fn verdict(subject: &Subject, trial: &Trial, corrected: Corrected, decision: &Decision) -> Verdict {
    let missed = corrected.p_objective.is_some_and(|p| p.get() <= decision.alpha_fail);
    if corrected.p_fail.get() <= decision.alpha_fail || missed {
        Verdict::Fail
    } else if trial.p_pass.get() <= decision.alpha_pass {
        let warned = |line: f64| trial.harm.is_some_and(|harm| harm.low > 0.0 && harm.estimate >= line);
        if subject.check.warn_at.is_some_and(warned) { Verdict::Warn } else { Verdict::Pass }
    } else {
        Verdict::Inconclusive
    }
}

fn reason(subject: &Subject, trial: &Trial, corrected: Corrected, (verdict, decision): (Verdict, &Decision)) -> String {
    let Check { metric, against, .. } = subject.check;
    let mut text = trial.effect.map_or_else(
        || "this statistic lies among failed requests in half or more of the candidate's runs".to_owned(),
        |effect| {
            let levels = levels((metric, against), &effect);
            format!("{} ({levels})", words::effect(metric, &effect, (trial.margin, trial.floor)))
        },
    );
    let family = words::count(corrected.family, "test");
    let told = match verdict {
        Verdict::Fail if corrected.p_fail.get() <= decision.alpha_fail => {
            format!("shown worse than the margin, {} after Holm over {family}", p(corrected.p_fail.get()))
        }
        Verdict::Fail => "the whole interval misses the objective".to_owned(),
        Verdict::Warn => "inside the margin, but shown worse and past the warn line".to_owned(),
        Verdict::Inconclusive => undecided(subject, trial, corrected, &family),
        Verdict::Pass | Verdict::NotApplicable | Verdict::NotComparable | Verdict::Error => {
            format!("shown inside the margin, {}", p(trial.p_pass.get()))
        }
    };
    text = format!("{text}: {told}");
    if let Some(limit) = subject.check.objective
        && let Some(p_objective) = corrected.p_objective
    {
        let shown = if p_objective.get() <= decision.alpha_fail { "missed" } else { "not shown missed" };
        let p = p(p_objective.get());
        text = format!("{text}; objective {} {shown}, {p}", words::level((metric, against), limit));
    }
    if let Some(why) = &subject.demoted {
        text = format!("{text}; advisory here: {why}");
    }
    if subject.implied {
        text = format!("{text}; a guard that every cell has");
    }
    text
}

/// An error rate says nothing about what failed: the reason does.
fn with_failures(reason: String, measured: &Measured) -> String {
    match measured {
        Measured::Share(Share { failures, .. }) if !failures.is_empty() => format!("{reason}; failed: {failures}"),
        Measured::Share(_) | Measured::Ratio(_) => reason,
    }
}

/// Why a tested check is undecided.
fn undecided(subject: &Subject, trial: &Trial, corrected: Corrected, family: &str) -> String {
    let shorter = subject.check.metric == Metric::OutputTokens;
    let beyond = |harm: Harm| if shorter { harm.high < -trial.margin } else { harm.low > trial.margin };
    let beyond = trial.harm.is_some_and(beyond);
    if trial.flags.contains(&Flag::TooFewToFail) && (beyond || trial.harm.is_none()) {
        "the interval clears the margin, but fewer than 3 candidate runs never fail".to_owned()
    } else if beyond {
        format!(
            "the interval clears the margin, but with {family} it could be chance: Holm's {}",
            p(corrected.p_fail.get())
        )
    } else if trial.flags.contains(&Flag::TooFewToPass) {
        "a single candidate run without history cannot pass".to_owned()
    } else if trial.flags.contains(&Flag::Censored) {
        "some runs lie among failed requests, so it cannot be shown inside".to_owned()
    } else {
        "the interval reaches over the margin".to_owned()
    }
}

/// What the verdict of a check contributes to its policy's: guards only fail or error, advisory checks nothing.
pub(super) fn contribution(role: Role, verdict: Verdict) -> Option<Verdict> {
    match role {
        Role::Required => Some(verdict),
        Role::Guard => matches!(verdict, Verdict::Fail | Verdict::Error).then_some(verdict),
        Role::Advisory => None,
    }
}

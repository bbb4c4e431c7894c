//! The sentence a reviewer needs: what is blocked, where, by how much, against what.

use crate::base::names::{Direction, Role};
use crate::verdict::decide::contribution;
use crate::verdict::judgement::{CheckJudgement, Effect, PolicyJudgement, Verdict};
use crate::verdict::words::{self, count};

/// As many checks are named as a person reads in one breath.
const NAMED: usize = 3;

/// The sentence of a judged policy, whose fails were decided at level `alpha`.
pub(super) fn sentence(judgement: &PolicyJudgement, alpha: f64) -> String {
    let policy = &judgement.policy;
    match judgement.verdict {
        Verdict::Fail => format!("{policy} blocks: {}", failing(judgement, alpha)),
        Verdict::Error => format!("{policy} could not measure: {}", troubles(judgement)),
        Verdict::NotComparable => format!("{policy} cannot compare: {}", troubles(judgement)),
        Verdict::Inconclusive => {
            let open = contributing(judgement).find_map(|check| check.to_decide.as_deref());
            let open = open.map_or_else(String::new, |what| format!("; to decide: {what}"));
            format!("{policy} is undecided: {}{open}", named(judgement, alpha))
        }
        Verdict::Warn => format!("{policy} passes with a warning: {}", warned(judgement, alpha)),
        Verdict::Pass | Verdict::NotApplicable => passed(judgement),
    }
}

/// The checks that bring the policy its verdict.
fn contributing(judgement: &PolicyJudgement) -> impl Iterator<Item = &CheckJudgement> {
    let verdict = judgement.verdict;
    judgement.checks.iter().filter(move |check| contribution(check.role, check.verdict) == Some(verdict))
}

/// The broken invariants, then the checks.
fn failing(judgement: &PolicyJudgement, alpha: f64) -> String {
    let broken = judgement.findings.iter().filter(|finding| finding.verdict == Verdict::Fail);
    let broken = broken.map(|finding| finding.message.clone());
    let checks = contributing(judgement).next().map(|_| named(judgement, alpha));
    broken.chain(checks).collect::<Vec<_>>().join("; ")
}

/// The findings that warn, with their cells, then the checks.
fn warned(judgement: &PolicyJudgement, alpha: f64) -> String {
    let findings = judgement.findings.iter().filter(|finding| finding.verdict == Verdict::Warn);
    let findings = findings.map(|finding| match &finding.cell {
        Some(cell) => format!("at {cell} {}", finding.message),
        None => finding.message.clone(),
    });
    let checks = contributing(judgement).next().map(|_| named(judgement, alpha));
    findings.chain(checks).collect::<Vec<_>>().join("; ")
}

fn named(judgement: &PolicyJudgement, alpha: f64) -> String {
    let named: Vec<String> = contributing(judgement).take(NAMED).map(|check| brief(check, alpha)).collect();
    let rest = contributing(judgement).count().saturating_sub(NAMED);
    let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    format!("{}{rest}", named.join("; "))
}

/// `TPOT p50 at c1 is 14.5 % worse [13.2, 15.8], margin 5 %`: the reason up to its explanation.
fn brief(check: &CheckJudgement, alpha: f64) -> String {
    let subject = words::subject(check.metric, check.statistic, &check.cell);
    match check.effect {
        // A fail that the margin does not explain is one of the objective, and the reason says so.
        Some(effect) if check.verdict != Verdict::Fail || check.p_fail.is_some_and(|p| p <= alpha) => {
            format!("{subject} is {}", words::effect(check.metric, &effect, (check.margin, check.margin_floor)))
        }
        Some(_) | None => format!("{subject}: {}", check.reason),
    }
}

/// The findings that bring the policy its verdict, or the checks where no finding does.
fn troubles(judgement: &PolicyJudgement) -> String {
    let findings: Vec<&str> = judgement
        .findings
        .iter()
        .filter(|finding| finding.verdict == judgement.verdict)
        .map(|finding| finding.message.as_str())
        .collect();
    match findings.as_slice() {
        [] => {
            let first = contributing(judgement).next();
            first.map_or_else(String::new, |check| {
                format!("{}: {}", words::subject(check.metric, check.statistic, &check.cell), check.reason)
            })
        }
        [only] => (*only).to_owned(),
        [first, rest @ ..] => format!("{first} (and {} more)", count(rest.len(), "finding")),
    }
}

/// A check that blocks nothing although its whole interval lies beyond the margin: with many tests it could be chance.
fn is_suspect(check: &CheckJudgement) -> bool {
    let beyond = |effect: &Effect| match check.metric.direction() {
        Direction::LowerIsBetter => effect.low > check.margin,
        Direction::HigherIsBetter => effect.high < -check.margin,
        Direction::TwoSided => false,
    };
    check.verdict == Verdict::Inconclusive && check.effect.as_ref().is_some_and(beyond)
}

/// `error_rate at c4: 5.0 pp worse [2.0, 10.2], margin 1 pp, which could be chance`.
fn suspect(check: &CheckJudgement) -> String {
    format!("{}, which could be chance", brief(check, 1.0))
}

fn passed(judgement: &PolicyJudgement) -> String {
    let required = judgement.checks.iter().filter(|check| check.role == Role::Required).count();
    let guards = judgement.checks.iter().filter(|check| check.role == Role::Guard).count();
    let policy = &judgement.policy;
    let (required, guards) = (count(required, "required check"), count(guards, "guard"));
    let watch: Vec<String> =
        judgement.checks.iter().filter(|check| is_suspect(check)).take(NAMED).map(suspect).collect();
    let watch = if watch.is_empty() { String::new() } else { format!("; look at {}", watch.join(", ")) };
    format!("{policy} passes: {required} shown inside the margin, none of {guards} shown worse{watch}")
}

//! What reasons, notes and advice say where runs are missing, failed, or were not restarted.

use crate::artifact::run::Run;
use crate::base::names::{Metric, Side, Statistic};
use crate::compare::evidence::Evidence;
use crate::compare::synthetic::policy::{check, relative, with};
use crate::compare::synthetic::{Shape, Sides};
use crate::spec::policy::Policy;
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::{CheckJudgement, PolicyJudgement, Verdict};

fn policy() -> Policy {
    with(vec![check(Metric::Tpot, Statistic::P50, "c1", relative(0.05))])
}

fn judged(evidence: Evidence<'_>) -> PolicyJudgement {
    judge(&[Case { policy: &policy(), evidence }]).policies.remove(0)
}

fn of<'a>(judgement: &'a PolicyJudgement, id: &str) -> &'a CheckJudgement {
    judgement.checks.iter().find(|check| check.id == id).unwrap()
}

fn not_restarted(runs: &mut [Run]) {
    for run in runs {
        run.manifest.restarted = false;
    }
}

/// Two per cent slower, so that a session effect of 2 % decides nothing.
fn slower(controls: u32) -> Sides {
    Sides::new(Shape { controls, ..Shape::default() }, |_, t| t.tpot *= 1.02)
}

#[test]
fn without_restarts_the_advice_is_a_restart_and_no_session_or_control() {
    let mut sides = slower(0);
    not_restarted(&mut sides.baseline);
    not_restarted(&mut sides.candidate);
    let found = judged(sides.evidence());
    let check = of(&found, "tpot.p50@c1");
    assert_eq!(check.verdict, Verdict::Inconclusive, "{check:#?}");
    let advice = check.to_decide.clone().unwrap();
    assert!(advice.contains("give the target a `restart` command") && !advice.contains("find its source"), "{advice}");
    assert!(!advice.contains("baseline session"), "sessions without restarts count as one: {advice}");
    let notes = found.notes.join("\n");
    assert!(notes.contains("no control of the baseline can be measured then, whatever was asked for"), "{notes}");
    assert!(notes.contains("without restarts the sessions of the baseline count as one"), "{notes}");
    assert!(!notes.contains("no release was measured in two sessions"), "{notes}");

    let mut sides = slower(0);
    not_restarted(&mut sides.baseline);
    let advice = of(&judged(sides.evidence()), "tpot.p50@c1").to_decide.clone().unwrap();
    assert!(
        advice.ends_with("measure the baseline again with the `restart` command that the candidate had"),
        "{advice}"
    );

    let mut sides = slower(5);
    not_restarted(&mut sides.controls);
    not_restarted(&mut sides.candidate);
    let found = judged(Evidence { baseline: None, paired: true, ..sides.evidence() });
    let advice = of(&found, "tpot.p50@c1").to_decide.clone().unwrap();
    assert!(advice.contains("give both targets a `restart` command"), "{advice}");
    assert!(!found.notes.join("\n").contains("whatever was asked for"), "{:?}", found.notes);
}

#[test]
fn with_restarts_the_advice_is_what_it_was() {
    let advice = of(&judged(slower(0).evidence()), "tpot.p50@c1").to_decide.clone().unwrap();
    assert!(advice.starts_with("no number of candidate runs is enough: add"), "{advice}");
}

#[test]
fn a_single_run_is_asked_for_a_second_on_its_own_side() {
    let sides = Sides::new(Shape { candidate: 1, controls: 0, ..Shape::default() }, |_, _| {});
    let found = judged(sides.evidence());
    let check = of(&found, "tpot.p50@c1");
    assert!(check.reason.starts_with("no session of the candidate has two runs that count"), "{}", check.reason);
    assert!(check.to_decide.as_ref().unwrap().starts_with("a second run of the candidate"), "{check:?}");
}

#[test]
fn an_error_rate_says_what_failed() {
    let sides = Sides::new(Shape::default(), |_, t| t.failed = t.requests);
    let found = judged(sides.evidence());
    let check = of(&found, "error_rate@c1");
    assert_eq!(check.verdict, Verdict::Fail);
    assert!(check.reason.contains("; failed: 200 http_error"), "{}", check.reason);
    let whole = judged(Sides::new(Shape::default(), |_, _| {}).evidence());
    assert!(!of(&whole, "error_rate@c1").reason.contains("failed:"), "{whole:?}");
    let mut told = sides.clone();
    let long = format!("HTTP 500: {}", "x".repeat(1_000));
    for record in told.candidate.iter_mut().flat_map(|run| &mut run.records) {
        record.detail = (!record.outcome.is_ok()).then(|| long.clone());
    }
    let reason = of(&judged(told.evidence()), "error_rate@c1").reason.clone();
    assert!(reason.contains("; the first: HTTP 500: xxx") && reason.len() < 500, "{reason}");
}

#[test]
fn a_run_that_a_session_has_and_the_judgement_lacks_is_noted() {
    let whole = Sides::new(Shape::default(), |_, _| {});
    let noted = |sides: &Sides| judged(sides.evidence()).notes.join("\n").contains("not every run is here");
    assert!(!noted(&whole));
    let mut chosen = whole.clone();
    chosen.candidate.remove(1);
    assert!(noted(&chosen));
    let mut chosen = whole.clone();
    chosen.baseline.remove(0);
    assert!(noted(&chosen));
    // A candidate's session that became a baseline left its controls behind.
    for run in &mut chosen.baseline {
        run.manifest.side = Side::Candidate;
    }
    assert!(!noted(&chosen));
}

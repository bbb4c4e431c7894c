//! What a gate answers, on made-up runs.

use crate::artifact::record::Outcome;
use crate::artifact::run::{ClientEvidence, HostEvidence, Run};
use crate::base::names::{Condition, Metric, Role, Statistic};
use crate::base::units::Nanos;
use crate::compare::synthetic::policy::{check, relative, with};
use crate::compare::synthetic::{Shape, Sides, Traffic, know};
use crate::spec::policy::{Check, Margin, Policy};
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::{CheckJudgement, PolicyJudgement, Verdict};
use crate::wire::transport::StampSource;

fn tpot(cell: &str) -> Check {
    check(Metric::Tpot, Statistic::P50, cell, relative(0.05))
}

/// TTFT within 10 % and TPOT within 5 % in both cells.
fn policy() -> Policy {
    let ttft = |cell| check(Metric::Ttft, Statistic::P50, cell, relative(0.1));
    with(vec![ttft("c1"), tpot("c1"), ttft("c8"), tpot("c8")])
}

fn judged(policy: &Policy, sides: &Sides) -> PolicyJudgement {
    let mut judgement = judge(&[Case { policy, evidence: sides.evidence() }]);
    assert_eq!(judgement.verdict, judgement.policies[0].verdict);
    judgement.policies.remove(0)
}

fn sides(change: impl Fn(&str, &mut Traffic)) -> Sides {
    Sides::new(Shape::default(), change)
}

fn same() -> Sides {
    sides(|_, _| {})
}

fn of<'a>(judgement: &'a PolicyJudgement, id: &str) -> &'a CheckJudgement {
    judgement.checks.iter().find(|check| check.id == id).unwrap()
}

fn codes(judgement: &PolicyJudgement) -> Vec<(Verdict, &'static str, Option<&str>)> {
    judgement.findings.iter().map(|f| (f.verdict, f.code, f.cell.as_deref())).collect()
}

#[test]
fn identical_sides_pass_and_say_what_they_could_have_seen() {
    let found = judged(&policy(), &same());
    assert_eq!(found.verdict, Verdict::Pass, "{found:#?}");
    assert_eq!(found.checks.len(), 4 + 4, "four of the policy, and two guards that each cell has");
    let check = of(&found, "tpot.p50@c8");
    let detectable = check.minimum_detectable.unwrap();
    assert!((0.05..0.08).contains(&detectable), "{detectable}");
    assert!(check.effect.unwrap().low < 0.0 && check.effect.unwrap().high > 0.0);
    assert!((check.margin - 0.05).abs() < 1e-12);
    insta::assert_snapshot!(found.sentence);
    assert_eq!(judged(&policy(), &same()), found, "the same inputs, the same judgement");
}

#[test]
fn a_regression_in_one_cell_is_not_paid_for_by_another() {
    let found = judged(&policy(), &sides(|cell, t| t.tpot *= if cell == "c1" { 1.15 } else { 0.86 }));
    assert_eq!(found.verdict, Verdict::Fail);
    assert_eq!(of(&found, "tpot.p50@c1").verdict, Verdict::Fail);
    assert_eq!(of(&found, "tpot.p50@c8").verdict, Verdict::Pass);
    let effect = of(&found, "tpot.p50@c1").effect.unwrap();
    assert!((effect.change - 0.15).abs() < 0.01 && effect.low > 0.12 && effect.high < 0.18, "{effect:?}");
    assert!((effect.baseline - 20.0).abs() < 0.2, "{effect:?}");
    insta::assert_snapshot!(format!("{}\n{}", found.sentence, of(&found, "tpot.p50@c1").reason));
}

#[test]
fn less_throughput_is_harm_and_its_margin_is_five_per_cent_less() {
    let sides = sides(|_, _| {});
    let mut less = sides.clone();
    for run in &mut less.candidate {
        for cell in &mut run.manifest.cells {
            cell.window_end_us += cell.window_end_us.div_euclid(9);
        }
    }
    let policy = with(vec![check(Metric::Throughput, Statistic::Value, "c1", relative(0.05))]);
    let found = judged(&policy, &less);
    let check = of(&found, "throughput@c1");
    assert_eq!(check.verdict, Verdict::Fail, "{check:#?}");
    assert!((check.effect.unwrap().change + 0.1).abs() < 1e-6, "{check:?}");
    assert!((check.margin - 0.05).abs() < 1e-12);
    assert!(check.reason.starts_with("10.0 % worse ["), "{}", check.reason);
    assert_eq!(judged(&policy, &sides).verdict, Verdict::Pass);
}

#[test]
fn noise_widens_the_interval_and_says_what_would_decide() {
    let noisy = Shape { run_sd: 0.05, candidate: 3, ..Shape::default() };
    let found = judged(&with(vec![tpot("c1")]), &Sides::new(noisy, |_, t| t.tpot *= 1.01));
    assert_eq!(found.verdict, Verdict::Inconclusive);
    let check = of(&found, "tpot.p50@c1");
    assert!(check.to_decide.as_ref().unwrap().contains("candidate runs"), "{check:#?}");
    assert!(check.minimum_detectable.unwrap() > 0.1);
    // A session effect that no candidate run can average away.
    let stored = Shape { controls: 0, ..Shape::default() };
    let found = judged(&with(vec![tpot("c1")]), &Sides::new(stored, |_, t| t.tpot *= 1.02));
    let wish = of(&found, "tpot.p50@c1").to_decide.clone().unwrap();
    assert!(wish.starts_with("no number of candidate runs is enough: add"), "{wish}");
    assert!(found.sentence.contains(&wish), "{}", found.sentence);
}

#[test]
fn a_candidate_that_fails_its_requests_is_never_faster() {
    let found = judged(&policy(), &sides(|_, t| t.failed = t.requests));
    assert_eq!(found.verdict, Verdict::Fail);
    for id in ["ttft.p50@c1", "tpot.p50@c8", "error_rate@c1"] {
        assert_eq!(of(&found, id).verdict, Verdict::Fail, "{id}: {:#?}", of(&found, id));
    }
    assert_eq!(of(&found, "tpot.p50@c1").effect, None);
    assert!(!found.sentence.contains("better"), "{}", found.sentence);
    // A baseline that failed is nothing to compare with, whatever the candidate does.
    let mut baseline = same();
    let broken = sides(|_, t| t.failed = t.requests);
    for (run, other) in baseline.baseline.iter_mut().chain(&mut baseline.controls).zip(broken.candidate.iter().cycle())
    {
        run.records.clone_from(&other.records);
    }
    let found = judged(&policy(), &baseline);
    assert_eq!(found.verdict, Verdict::NotComparable, "{found:#?}");
}

#[test]
fn five_points_more_errors_fail_although_nobody_asked_for_the_error_rate() {
    let shape = Shape { traffic: Traffic { requests: 300, ..Traffic::default() }, ..Shape::default() };
    let found = judged(&with(vec![tpot("c1")]), &Sides::new(shape, |_, t| t.failed = 15));
    assert_eq!(found.verdict, Verdict::Fail, "{found:#?}");
    let check = of(&found, "error_rate@c1");
    assert_eq!((check.verdict, check.role), (Verdict::Fail, Role::Guard));
    assert!((check.effect.unwrap().change - 0.05).abs() < 1e-12);
    assert!(check.reason.starts_with("5.0 pp worse ["), "{}", check.reason);
}

#[test]
fn shorter_answers_fail_and_longer_ones_make_end_to_end_times_incomparable() {
    let policy = with(vec![check(Metric::E2e, Statistic::P50, "c1", relative(0.05)), tpot("c1"), tpot("c8")]);
    let shorter = judged(&policy, &sides(|_, t| t.tokens = 5));
    assert_eq!(shorter.verdict, Verdict::Fail);
    assert_eq!(of(&shorter, "output_tokens@c1").verdict, Verdict::Fail);
    assert!(of(&shorter, "output_tokens@c1").reason.starts_with("16.7 % shorter ["));
    let longer = judged(&policy, &sides(|cell, t| t.tokens = if cell == "c1" { 8 } else { 6 }));
    assert_eq!(longer.verdict, Verdict::NotComparable, "{longer:#?}");
    assert_eq!(of(&longer, "e2e.p50@c1").verdict, Verdict::NotComparable);
    assert_eq!(of(&longer, "tpot.p50@c1").verdict, Verdict::Pass, "per token still judged");
    assert_eq!(of(&longer, "tpot.p50@c8").verdict, Verdict::Pass, "another cell");
}

#[test]
fn a_fail_needs_three_candidate_runs() {
    let two = Shape { candidate: 2, controls: 2, sessions: 1, ..Shape::default() };
    let found = judged(&with(vec![tpot("c1")]), &Sides::new(two, |_, t| t.tpot *= 1.5));
    let check = of(&found, "tpot.p50@c1");
    assert_eq!(check.verdict, Verdict::Inconclusive);
    assert!(check.reason.contains("fewer than 3 candidate runs never fail"), "{}", check.reason);
    assert!(check.to_decide.as_ref().unwrap().contains("3 candidate runs"), "{check:#?}");
    let same = judged(&with(vec![tpot("c1")]), &Sides::new(Shape { controls: 1, ..two }, |_, _| {}));
    assert!(same.notes.iter().any(|note| note.starts_with("weak:")), "{:?}", same.notes);
    // One run without history: nobody knows how far the candidate's runs scatter.
    let one = judged(&with(vec![tpot("c1")]), &Sides::new(Shape { candidate: 1, controls: 0, ..two }, |_, _| {}));
    assert_eq!(one.verdict, Verdict::Inconclusive);
    assert!(of(&one, "tpot.p50@c1").to_decide.is_some());
}

#[test]
fn history_makes_a_single_candidate_run_enough_to_pass() {
    let shape = Shape { candidate: 1, controls: 0, session_sd: 0.002, sessions: 6, ..Shape::default() };
    let sides = Sides::new(shape, |_, _| {});
    let past: Vec<Sides> = (2..6).map(|seed| Sides::new(Shape { seed, ..shape }, |_, _| {})).collect();
    let history: Vec<&[_]> = past.iter().map(|sides| sides.baseline.as_slice()).collect();
    let mut evidence = sides.evidence();
    evidence.history = &history;
    let policy = with(vec![check(Metric::Tpot, Statistic::P50, "c1", relative(0.1))]);
    let judgement = judge(&[Case { policy: &policy, evidence }]);
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
    let mut here = sides;
    here.all().for_each(|run| know(run, Condition::Hardware, "h100"));
    let mut elsewhere = past;
    elsewhere.iter_mut().flat_map(Sides::all).for_each(|run| know(run, Condition::Hardware, "h200"));
    let history: Vec<&[_]> = elsewhere.iter().map(|sides| sides.baseline.as_slice()).collect();
    let mut evidence = here.evidence();
    evidence.history = &history;
    let judgement = judge(&[Case { policy: &policy, evidence }]);
    assert_eq!(judgement.verdict, Verdict::Inconclusive, "other hardware has other noise");
}

#[test]
fn identical_numbers_without_any_scatter_pass() {
    let found = judged(&policy(), &Sides::new(Shape { run_sd: 0.0, ..Shape::default() }, |_, _| {}));
    assert_eq!(found.verdict, Verdict::Pass);
    assert!(of(&found, "tpot.p50@c1").effect.unwrap().change.abs() < 1e-12);
}

#[test]
fn a_guard_blocks_only_when_shown_worse_and_advice_never() {
    let role = |role| with(vec![Check { role, ..tpot("c1") }, tpot("c8")]);
    let noisy = Sides::new(Shape { seed: 3, ..Shape::default() }, |cell, t| {
        t.tpot *= if cell == "c1" { 1.05 } else { 1.0 };
    });
    let open = judged(&role(Role::Guard), &noisy);
    assert_eq!((of(&open, "tpot.p50@c1").verdict, open.verdict), (Verdict::Inconclusive, Verdict::Pass));
    let slower = sides(|cell, t| t.tpot *= if cell == "c1" { 1.15 } else { 1.0 });
    assert_eq!(judged(&role(Role::Guard), &slower).verdict, Verdict::Fail);
    let advice = judged(&role(Role::Advisory), &slower);
    assert_eq!((of(&advice, "tpot.p50@c1").verdict, advice.verdict), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn a_pass_shown_worse_and_past_the_line_is_a_warning() {
    let policy = with(vec![Check { warn_at: Some(0.02), ..tpot("c1") }]);
    let found = judged(&policy, &sides(|_, t| t.tpot *= 1.03));
    assert_eq!(found.verdict, Verdict::Warn, "{found:#?}");
    assert_eq!(judged(&policy, &sides(|_, t| t.tpot *= 1.005)).verdict, Verdict::Pass);
}

#[test]
fn an_objective_missed_by_the_whole_interval_fails_inside_the_margin() {
    let policy = |objective| with(vec![Check { objective: Some(objective), ..tpot("c1") }]);
    let found = judged(&policy(15.0), &same());
    assert_eq!(found.verdict, Verdict::Fail);
    assert!(found.sentence.contains("objective 15.00 ms missed"), "{}", found.sentence);
    assert_eq!(judged(&policy(25.0), &same()).verdict, Verdict::Pass);
}

#[test]
fn an_absolute_floor_widens_a_relative_margin() {
    let policy = with(vec![Check {
        margin: Margin::Relative { ratio: 0.05, floor: Some(Nanos::from_millis(4)) },
        ..tpot("c1")
    }]);
    let found = judged(&policy, &sides(|_, t| t.tpot *= 1.15));
    assert_eq!(found.verdict, Verdict::Pass);
    let check = of(&found, "tpot.p50@c1");
    assert!((check.margin - 0.2).abs() < 0.01);
    assert_eq!(check.margin_floor, Some(4.0));
    assert!(check.reason.contains(", margin 4 ms = 19.9 % ("), "{}", check.reason);
    let far = with(vec![Check {
        margin: Margin::Relative { ratio: 0.25, floor: Some(Nanos::from_millis(4)) },
        ..tpot("c1")
    }]);
    let found = judged(&far, &same());
    let check = of(&found, "tpot.p50@c1");
    assert_eq!(check.margin_floor, None, "the percentage allows more");
    assert!(check.reason.contains(", margin 25 % ("), "{}", check.reason);
}

#[test]
fn a_condition_may_differ_only_as_declared() {
    let mut changed = same();
    for run in changed.all() {
        let value = if run.manifest.release == "v2" { "fp8" } else { "auto" };
        know(run, Condition::KvCacheDtype, value);
    }
    let found = judged(&policy(), &changed);
    assert_eq!(codes(&found), [(Verdict::NotComparable, "condition-differs", None)]);
    assert_eq!(found.verdict, Verdict::NotComparable);
    let declared = Policy { treatment: vec![Condition::KvCacheDtype], ..policy() };
    let found = judged(&declared, &changed);
    assert_eq!(found.verdict, Verdict::Pass);
    assert!(found.differences[0].allowed);
    let mut one_sided = same();
    one_sided.candidate.iter_mut().for_each(|run| know(run, Condition::Driver, "580"));
    let found = judged(&policy(), &one_sided);
    assert_eq!(found.verdict, Verdict::Pass);
    assert!(found.notes.iter().any(|note| note.contains("known on one side only, so not compared: driver")));
}

#[test]
fn a_policy_applies_only_where_its_when_matches() {
    let policy = Policy { when: vec![(Condition::KvCacheDtype, "fp8".to_owned())], ..policy() };
    let mut other = same();
    other.candidate.iter_mut().for_each(|run| know(run, Condition::KvCacheDtype, "auto"));
    let found = judged(&policy, &other);
    assert_eq!((found.verdict, found.verdict.exit_code()), (Verdict::NotApplicable, 0));
    assert!(found.checks.iter().all(|check| check.verdict == Verdict::NotApplicable));
    insta::assert_snapshot!(found.sentence);
    let unknown = judged(&policy, &same());
    assert_eq!(codes(&unknown), [(Verdict::Error, "when-unknown", None)], "unknown is not another value");
}

#[test]
fn without_restarts_only_large_differences_are_shown() {
    let mut once = same();
    once.all().for_each(|run| run.manifest.restarted = false);
    let found = judged(&policy(), &once);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert!(!found.design.restarted && found.notes[0].contains("K = 1"), "{:?}", found.notes);
    assert!(found.notes[1].contains("session sd is assumed to be 2 %"), "{:?}", found.notes);
    // Answers are as long on any hardware.
    let length = check(Metric::OutputTokens, Statistic::Value, "c1", Margin::Within(0.03));
    let found = judged(&with(vec![length]), &once);
    assert_eq!(of(&found, "output_tokens@c1").verdict, Verdict::Pass, "{found:#?}");
    let mut slower = sides(|_, t| t.tpot *= 1.5);
    slower.all().for_each(|run| run.manifest.restarted = false);
    assert_eq!(judged(&policy(), &slower).verdict, Verdict::Fail);
}

#[test]
fn a_moved_environment_is_not_the_candidates_fault() {
    let mut moved = sides(|_, t| t.tpot *= 1.0);
    let slow = sides(|_, t| t.tpot *= 1.2);
    for (run, other) in moved.controls.iter_mut().chain(&mut moved.candidate).zip(slow.candidate.iter().cycle()) {
        run.records.clone_from(&other.records);
    }
    let found = judged(&policy(), &moved);
    assert_eq!(found.verdict, Verdict::Pass, "{found:#?}");
    assert!(found.notes.iter().any(|note| note.starts_with("environment drift:")), "{:?}", found.notes);
}

#[test]
fn what_could_not_be_measured_is_an_error() {
    let error = |sides: &Sides, code: &str| {
        let found = judged(&policy(), sides);
        assert_eq!(found.verdict, Verdict::Error, "{code}: {found:#?}");
        assert!(codes(&found).iter().any(|(_, seen, _)| *seen == code), "{code}: {:?}", found.findings);
    };
    let mut sides_ = same();
    sides_.candidate.clear();
    error(&sides_, "no-candidate-data");
    let mut incomplete = same();
    incomplete.candidate[..2].iter_mut().for_each(|run| run.manifest.complete = false);
    error(&incomplete, "run-incomplete");
    let mut short = same();
    short.candidate.iter_mut().for_each(|run| run.records.truncate(70));
    error(&short, "run-incomplete");
    error(&sides(|_, t| t.lag = 20.0), "client-saturated");
    error(&sides(|_, t| t.drift = 1.2), "not-steady");
    let mut clockless = same();
    for run in &mut clockless.candidate {
        run.records[0].end = Nanos::ZERO;
    }
    error(&clockless, "clock-fault");
}

#[test]
fn a_few_faulty_runs_are_left_out_and_named() {
    let mut one = same();
    one.candidate[0].manifest.complete = false;
    let found = judged(&policy(), &one);
    assert_eq!(found.verdict, Verdict::Pass);
    let note = "candidate run 1 of session now does not count at c1: it was interrupted";
    assert!(found.notes.iter().any(|found| found == note), "{:?}", found.notes);
}

#[test]
fn half_of_the_controls_may_be_left_out_where_a_baseline_is_stored() {
    let lose = |lost: usize, stored: bool| {
        let mut sides = Sides::new(Shape { controls: 2, ..Shape::default() }, |_, _| {});
        sides.controls.iter_mut().take(lost).for_each(|run| run.manifest.complete = false);
        if !stored {
            sides.has_baseline = false;
            sides.baseline.clear();
        }
        judged(&policy(), &sides).findings.iter().filter(|finding| finding.code == "run-incomplete").count()
    };
    assert_eq!(lose(1, true), 0);
    assert_eq!(lose(2, true), 2, "in each cell");
    assert_eq!(lose(1, false), 2, "without a stored baseline the controls are all there is");
}

#[test]
fn an_error_in_one_cell_does_not_mask_a_fail_in_another() {
    let found = judged(&policy(), &sides(|cell, t| if cell == "c1" { t.lag = 20.0 } else { t.tpot *= 1.2 }));
    assert_eq!(of(&found, "tpot.p50@c1").verdict, Verdict::Error);
    assert_eq!(found.verdict, Verdict::Fail);
}

#[test]
fn nothing_evaluated_is_never_a_pass() {
    let nothing = judged(&with(vec![]), &same());
    assert_eq!(codes(&nothing), [(Verdict::Error, "nothing-evaluated", None)]);
    let advice = judged(&with(vec![Check { role: Role::Advisory, ..tpot("c1") }]), &same());
    assert_eq!(advice.verdict, Verdict::Error);
    assert_eq!(judge(&[]).verdict, Verdict::Error);
    let unknown = judged(&with(vec![tpot("c9")]), &same());
    assert_eq!(codes(&unknown), [(Verdict::Error, "cell-unknown", Some("c9"))]);
    assert_eq!(unknown.verdict, Verdict::Error);
}

#[test]
fn a_number_that_does_not_exist_is_never_a_pass() {
    let policy = with(vec![check(Metric::Throughput, Statistic::Value, "c1", relative(0.05))]);
    let mut timeless = same();
    timeless.candidate[4].manifest.cells[0].window_end_us = 0;
    let found = judged(&policy, &timeless);
    assert_eq!(found.verdict, Verdict::Error);
    assert!(found.sentence.contains("the measured window of this cell has no length"), "{}", found.sentence);
    // An answer of one token has no time per output token.
    let found = judged(&with(vec![tpot("c1"), tpot("c8")]), &sides(|_, t| t.tokens = 1));
    assert_eq!(of(&found, "tpot.p50@c1").verdict, Verdict::Error);
    assert_eq!(found.verdict, Verdict::Fail, "and one token for six is shown shorter");
}

#[test]
fn too_few_values_block_a_required_tail_and_demote_a_guard() {
    let tail = |role| Check { role, ..check(Metric::Ttft, Statistic::P99, "c1", relative(0.3)) };
    let required = judged(&with(vec![tail(Role::Required)]), &same());
    assert_eq!(required.verdict, Verdict::Error);
    assert_eq!(of(&required, "ttft.p99@c1").reason, "p99 needs 1000 values in each run and has 40");
    let guard = judged(&with(vec![tail(Role::Guard), tpot("c1")]), &sides(|_, t| t.ttft *= 2.0));
    assert_eq!((guard.verdict, of(&guard, "ttft.p99@c1").role), (Verdict::Pass, Role::Advisory));
}

#[test]
fn the_gate_is_as_bad_as_its_worst_policy() {
    let (policy, good, bad) = (policy(), same(), sides(|_, t| t.tpot *= 1.3));
    let judgement = judge(&[
        Case { policy: &policy, evidence: good.evidence() },
        Case { policy: &policy, evidence: bad.evidence() },
    ]);
    assert_eq!((judgement.verdict, judgement.candidate.as_str()), (Verdict::Fail, "v2"));
    assert_eq!(judgement.policies[0].verdict, Verdict::Pass);
}

#[test]
fn garbage_beyond_the_baselines_fails_without_a_margin_and_the_checks_are_still_judged() {
    let garbage = |of_candidate: u32, of_baseline: u32| {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        let spoil = |run: &mut Run, count: u32| {
            for record in run.records.iter_mut().filter(|record| record.cell == "c1" && record.request < count) {
                record.outcome = Outcome::Malformed;
                record.detail = Some("content event 3 is not JSON".to_owned());
            }
        };
        sides.candidate.iter_mut().for_each(|run| spoil(run, of_candidate));
        sides.baseline.iter_mut().chain(&mut sides.controls).for_each(|run| spoil(run, of_baseline));
        judged(&policy(), &sides)
    };
    let broken = garbage(2, 0);
    assert_eq!((broken.verdict, broken.findings[0].code), (Verdict::Fail, "malformed-streams"));
    assert!(broken.findings[0].message.starts_with("10 of 400 answers of the candidate are not valid streams"));
    assert!(broken.sentence.starts_with("chat blocks: 10 of 400 answers"), "{}", broken.sentence);
    assert!(broken.checks.iter().any(|check| check.verdict == Verdict::Pass), "the numbers are judged");
    assert!(garbage(2, 2).findings.is_empty(), "as often as the baseline");
    assert!(garbage(0, 0).findings.is_empty());
}

/// Codes of the findings and the notes, where every cell of every run tells this of its client.
fn told(change: impl Fn(&mut ClientEvidence)) -> (Vec<&'static str>, Vec<String>) {
    let mut sides = Sides::new(Shape::default(), |_, _| {});
    for cell in sides.all().flat_map(|run| &mut run.manifest.cells) {
        let mut client = ClientEvidence {
            stamps: StampSource::Kernel,
            unaided_reads: 0,
            read_lag_p99_us: Some(3),
            clock_steps: 0,
            resolve_us: Some(40),
            host: Some(HostEvidence { cores: 2, busy: 0.5, steal: 0.0, own: 0.1 }),
        };
        change(&mut client);
        cell.client = Some(client);
    }
    let found = judged(&policy(), &sides);
    (found.findings.iter().map(|finding| finding.code).collect(), found.notes)
}

#[test]
fn a_candidate_that_closes_its_connection_over_most_requests_fails_and_every_second_send_is_said() {
    let closing = |of_candidate: u32, of_baseline: u32| {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        let close = |run: &mut Run, resent| run.manifest.cells.iter_mut().for_each(|cell| cell.resent = resent);
        sides.candidate.iter_mut().for_each(|run| close(run, of_candidate));
        sides.baseline.iter_mut().chain(&mut sides.controls).for_each(|run| close(run, of_baseline));
        let judged = judged(&policy(), &sides);
        let said = judged.notes.iter().any(|note| note.contains("sent a second time") && note.contains(" at c1"));
        (judged.verdict, judged.findings.first().map(|finding| finding.code), said)
    };
    // Of 40 in each run and cell.
    assert_eq!(closing(40, 0), (Verdict::Fail, Some("requests-resent"), true));
    assert_eq!(closing(40, 40), (Verdict::Pass, None, true), "a habit of both");
    assert_eq!(closing(5, 0), (Verdict::Pass, None, true), "healthy servers do it");
    assert_eq!(closing(0, 0), (Verdict::Pass, None, false));
}

#[test]
fn a_run_on_a_host_without_time_to_spare_or_with_a_clock_that_jumps_does_not_count() {
    let host = |steal: f64, unaided: u64| {
        let change = |client: &mut ClientEvidence| {
            (client.unaided_reads, client.clock_steps) = (unaided, u64::from(unaided > 0));
            client.host.iter_mut().for_each(|host| host.steal = steal);
        };
        told(change).0
    };
    // 240 reads a cell.
    assert!(host(0.09, 2).is_empty());
    assert!(host(0.11, 0).contains(&"host-stolen"));
    assert!(host(0.0, 3).contains(&"clock-fault"));
}

#[test]
fn a_busy_host_spoils_the_programs_stamps_and_is_said_where_the_kernel_stamps() {
    let busy = |stamps: StampSource, busy: f64| {
        told(move |client| {
            client.stamps = stamps;
            client.host.iter_mut().for_each(|host| host.busy = busy);
        })
    };
    let said = |notes: &[String]| notes.iter().filter(|note| note.starts_with("host-busy")).count();
    let (codes, notes) = busy(StampSource::Kernel, 0.96);
    assert_eq!((codes.len(), said(&notes)), (0, 6), "three sides, two cells: {notes:?}");
    let (codes, notes) = busy(StampSource::Program, 0.96);
    assert!(codes.contains(&"host-saturated") && said(&notes) == 0, "{codes:?} {notes:?}");
    for stamps in [StampSource::Kernel, StampSource::Program] {
        let (codes, notes) = busy(stamps, 0.95);
        assert_eq!((codes.len(), said(&notes)), (0, 0));
    }
}

#[test]
fn late_reads_are_said_and_very_late_ones_spoil_the_run() {
    let late = |us: u64| told(move |client| client.read_lag_p99_us = Some(us));
    let said = |notes: &[String]| notes.iter().filter(|note| note.starts_with("reads-late")).count();
    // 1 % of a TTFT of 200 ms.
    let (codes, notes) = late(1_900);
    assert_eq!((codes.len(), said(&notes)), (0, 0));
    let (codes, notes) = late(2_200);
    assert_eq!((codes.len(), said(&notes)), (0, 6), "{notes:?}");
    assert!(late(20_001).0.contains(&"client-saturated"));
}

#[test]
fn a_run_with_more_in_flight_than_its_host_is_exact_with_does_not_count() {
    // Answers take 300 ms and one is due every 100: three at once, and four where the fourth is slow.
    let codes = |trusted: Option<u32>| {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        sides.all().for_each(|run| run.manifest.trusted_streams = trusted);
        judged(&policy(), &sides).findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert!(codes(None).is_empty() && codes(Some(4)).is_empty());
    assert!(codes(Some(2)).contains(&"load-untrusted"));
}

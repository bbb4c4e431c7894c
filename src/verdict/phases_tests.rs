//! Differences between phases of one run, on made-up runs: `c1` stands for the steady phase, and `c8` for another.

use crate::artifact::record::{Outcome, Record};
use crate::artifact::run::Run;
use crate::base::names::{Metric, Role, Statistic};
use crate::base::units::Nanos;
use crate::compare::synthetic::policy::{check, relative, with};
use crate::compare::synthetic::{Shape, Sides, Traffic};
use crate::spec::policy::{Check, Margin};
use crate::spec::workload::Phase;
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::{CheckJudgement, PolicyJudgement, Verdict};

fn judged(check: Check, sides: &Sides) -> PolicyJudgement {
    judge(&[Case { policy: &with(vec![check]), evidence: sides.evidence() }]).policies.remove(0)
}

fn of<'a>(judgement: &'a PolicyJudgement, id: &str) -> &'a CheckJudgement {
    judgement.checks.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no {id} in {judgement:?}"))
}

fn sides(change: impl Fn(&str, &mut Traffic)) -> Sides {
    Sides::new(Shape { traffic: Traffic { requests: 80, ..Traffic::default() }, ..Shape::default() }, change)
}

fn against(metric: Metric) -> Check {
    let check = check(metric, Statistic::P50, "c8", relative(0.1));
    Check { against: Some(Phase::Steady), reference: Some("c1".to_owned()), ..check }
}

/// The check of TTFT at `c8` against `c1`, where the candidate's times at the two are so many times the baseline's.
fn ratio(c1: f64, c8: f64) -> CheckJudgement {
    let sides = sides(|cell, traffic| traffic.ttft *= if cell == "c1" { c1 } else { c8 });
    of(&judged(against(Metric::Ttft), &sides), "ttft.p50@c8:against=steady").clone()
}

#[test]
fn a_phase_is_judged_against_another_of_the_same_run() {
    for (c1, c8, verdict) in [
        (1.0, 1.0, Verdict::Pass),
        (1.3, 1.3, Verdict::Pass),
        (1.0, 1.3, Verdict::Fail),
        (1.3, 1.0, Verdict::Pass),
        // Only the steady state became faster: what follows it has fallen behind.
        (0.75, 1.0, Verdict::Fail),
    ] {
        let found = ratio(c1, c8);
        assert_eq!(found.verdict, verdict, "{c1} and {c8}: {}", found.reason);
        let effect = found.effect.unwrap();
        assert!((effect.baseline - 1.0).abs() < 0.02, "{effect:?}");
        assert!((effect.candidate - c8 / c1).abs() < 0.03, "{effect:?}");
        assert!((effect.change - (c8 / c1 - 1.0)).abs() < 0.03, "{effect:?}");
        assert!(found.reason.contains("% of steady)"), "{}", found.reason);
        assert_eq!(found.unit(), "ratio");
    }
}

#[test]
fn what_the_runs_of_one_boot_share_is_no_noise_of_a_ratio() {
    // Runs that differ by 5 % as a whole, and not between their phases.
    let mut sides = sides(|_, _| {});
    for (number, run) in (0_u32..).zip(sides.all()) {
        let factor = 1.0 + 0.05 * f64::from(number % 3);
        for record in &mut run.records {
            let (due, first) = (record.due, record.chunks[0].at);
            let more = Nanos::from_ms((factor - 1.0) * first.since(due).as_ms()).to_stored_resolution();
            shift(record, more);
        }
    }
    let width = |check: Check, id: &str| {
        let effect = of(&judged(check, &sides), id).effect.unwrap();
        effect.high - effect.low
    };
    let plain = width(check(Metric::Ttft, Statistic::P50, "c8", relative(0.1)), "ttft.p50@c8");
    let ratio = width(against(Metric::Ttft), "ttft.p50@c8:against=steady");
    assert!(2.0 * ratio < plain, "{ratio} and {plain}");
}

#[test]
fn an_objective_of_a_ratio_is_a_share_of_the_other_phase() {
    for (objective, verdict) in [(0.9, Verdict::Fail), (1.2, Verdict::Pass)] {
        let found = judged(Check { objective: Some(objective), ..against(Metric::Ttft) }, &sides(|_, _| {}));
        let found = of(&found, "ttft.p50@c8:against=steady");
        assert_eq!(found.verdict, verdict, "{}", found.reason);
        assert!(found.reason.contains(" % of steady ") && found.reason.contains("objective "), "{}", found.reason);
    }
}

#[test]
fn a_phase_that_fails_is_nothing_to_look_fast_beside() {
    // The candidate's steady requests fail: no ratio, and never a pass.
    let broken = sides(|cell, traffic| traffic.failed = if cell == "c1" { 80 } else { 0 });
    let found = judged(against(Metric::Ttft), &broken);
    let ratio = of(&found, "ttft.p50@c8:against=steady");
    assert_eq!(ratio.verdict, Verdict::Error, "{}", ratio.reason);
    assert!(ratio.reason.contains("the phase that it is read against has no value"), "{}", ratio.reason);
    // And its own guards see it, though the policy has no check there.
    assert_eq!(of(&found, "error_rate@c1").verdict, Verdict::Fail);
    assert_eq!(found.verdict, Verdict::Fail);
    // Its recovery fails: infinitely slow beside the steady state.
    let broken = sides(|cell, traffic| traffic.failed = if cell == "c8" { 80 } else { 0 });
    let found = judged(against(Metric::Ttft), &broken);
    assert_eq!(of(&found, "ttft.p50@c8:against=steady").verdict, Verdict::Fail);
}

#[test]
fn a_run_without_a_number_on_one_side_never_passes() {
    let mut one = sides(|_, _| {});
    let records = one.candidate[0].records.iter_mut().filter(|record| record.cell == "c8" && record.request >= 30);
    records.for_each(|record| record.outcome = Outcome::TimedOut);
    let found = judged(against(Metric::Ttft), &one);
    assert_eq!(of(&found, "ttft.p50@c8:against=steady").verdict, Verdict::Inconclusive);
}

#[test]
fn less_throughput_than_in_the_other_phase_is_harm() {
    // The same tokens in a window 30 % longer.
    let longer = |cells: &[&str]| {
        let mut sides = sides(|_, _| {});
        let all = sides.candidate.iter_mut().flat_map(|run| &mut run.manifest.cells);
        all.filter(|cell| cells.contains(&cell.name.as_str())).for_each(|cell| cell.window_end_us *= 13);
        let rest = sides.all().flat_map(|run| &mut run.manifest.cells);
        rest.filter(|cell| cell.window_end_us < 80 * 1_000_000).for_each(|cell| cell.window_end_us *= 10);
        let check = Check { statistic: Statistic::Value, ..against(Metric::Throughput) };
        of(&judged(check, &sides), "throughput@c8:against=steady").clone()
    };
    for (cells, change, verdict) in [
        (&["c8"][..], 1.0 / 1.3 - 1.0, Verdict::Fail),
        (&["c1", "c8"], 0.0, Verdict::Pass),
        (&["c1"], 0.3, Verdict::Pass),
    ] {
        let found = longer(cells);
        assert_eq!(found.verdict, verdict, "{cells:?}: {}", found.reason);
        assert!((found.effect.unwrap().change - change).abs() < 1e-6, "{cells:?}: {:?}", found.effect);
    }
}

fn shift(record: &mut Record, by: Nanos) {
    record.chunks.iter_mut().for_each(|chunk| chunk.at = chunk.at + by);
    for at in [&mut record.head, &mut record.first_byte, &mut record.first_answer] {
        *at = at.map(|at| at + by);
    }
    record.end = record.end + by;
}

/// Sides whose recovery at `c8` has so many slow requests, one every 100 ms; the candidate's first run has `odd` of them.
fn recovering(baseline: u32, candidate: u32, odd: u32) -> Sides {
    let mut sides = sides(|_, _| {});
    let slow = |run: &mut Run, slow: u32| {
        let records = run.records.iter_mut().filter(|record| record.cell == "c8" && record.request < slow);
        records.for_each(|record| shift(record, Nanos::from_millis(600)));
    };
    sides.baseline.iter_mut().chain(&mut sides.controls).for_each(|run| slow(run, baseline));
    sides.candidate.iter_mut().skip(1).for_each(|run| slow(run, candidate));
    slow(&mut sides.candidate[0], odd);
    sides
}

fn recovery(sides: &Sides) -> CheckJudgement {
    let margin = Margin::Relative { ratio: 0.1, floor: Some(Nanos::from_secs(1)) };
    let check = check(Metric::TimeToRecover, Statistic::Value, "c8", margin);
    of(&judged(Check { reference: Some("c1".to_owned()), ..check }, sides), "time_to_recover@c8").clone()
}

#[test]
fn recoveries_are_compared_by_their_difference_also_from_none() {
    for (baseline, candidate, verdict) in [
        (20, 20, Verdict::Pass),
        (0, 0, Verdict::Pass),
        (40, 20, Verdict::Pass),
        (20, 40, Verdict::Fail),
        (0, 30, Verdict::Fail),
    ] {
        let found = recovery(&recovering(baseline, candidate, candidate));
        assert_eq!(found.verdict, verdict, "{baseline} to {candidate}: {}", found.reason);
        let change = 100.0 * (f64::from(candidate) - f64::from(baseline));
        assert!((found.effect.unwrap().change - change).abs() < 1.0, "{found:?}");
        assert!(found.reason.contains(" ms "), "{}", found.reason);
    }
}

#[test]
fn a_recovery_that_never_comes_is_never_green() {
    let never = recovery(&recovering(20, 80, 80));
    assert_eq!(never.verdict, Verdict::Fail, "{}", never.reason);
    let once = recovery(&recovering(20, 20, 80));
    assert_eq!(once.verdict, Verdict::Inconclusive, "{}", once.reason);
    let before = recovery(&recovering(80, 20, 20));
    assert_eq!(before.verdict, Verdict::NotComparable, "{}", before.reason);
}

#[test]
fn where_nothing_is_refused_a_time_to_a_refusal_says_so_and_is_not_green() {
    for (role, verdict) in [(Role::Required, Verdict::Error), (Role::Guard, Verdict::Inconclusive)] {
        let check = Check { role, ..check(Metric::TimeToReject, Statistic::P50, "c8", relative(0.1)) };
        let found = judged(check, &sides(|_, _| {}));
        let refusals = of(&found, "time_to_reject.p50@c8");
        assert_eq!(refusals.verdict, verdict);
        assert!(refusals.reason.contains("no request of this cell was refused (429 or 503)"), "{}", refusals.reason);
    }
}

#[test]
fn who_refuses_later_fails() {
    let mut sides = sides(|_, traffic| traffic.failed = 40);
    let refused = |run: &mut Run, ms: u64| {
        for record in run.records.iter_mut().filter(|record| record.request < 40) {
            record.outcome = Outcome::Shed;
            record.chunks.clear();
            record.end = record.due + Nanos::from_millis(ms);
        }
    };
    sides.baseline.iter_mut().chain(&mut sides.controls).for_each(|run| refused(run, 40));
    sides.candidate.iter_mut().for_each(|run| refused(run, 4_000));
    let found = judged(check(Metric::TimeToReject, Statistic::P50, "c8", relative(0.5)), &sides);
    let refusals = of(&found, "time_to_reject.p50@c8");
    assert_eq!(refusals.verdict, Verdict::Fail, "{}", refusals.reason);
    assert!(refusals.reason.contains("(40.00 to 4000 ms)"), "{}", refusals.reason);
}

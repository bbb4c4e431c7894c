//! Checks of a part of a cell, on made-up runs: at `c8` the even requests are chats, and the odd ones documents with a prompt
//! of 9,000 tokens.

use std::sync::Arc;

use crate::artifact::record::{Chunk, Outcome, Record};
use crate::base::names::{Metric, Role, Side, Statistic};
use crate::base::units::Nanos;
use crate::compare::synthetic::policy::{check, relative, with};
use crate::compare::synthetic::{Shape, Sides, Traffic};
use crate::spec::policy::{Check, Margin};
use crate::spec::slice::{Context, Slice};
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::{CheckJudgement, PolicyJudgement, Verdict};

/// The usual sides with 80 requests a cell, where `change` alters the candidate's chats at `c8`.
fn sides(change: impl Fn(&mut Record)) -> Sides {
    let traffic = Traffic { requests: 80, ..Traffic::default() };
    let mut sides = Sides::new(Shape { traffic, ..Shape::default() }, |_, _| {});
    for request in &mut sides.plan.cells[1].requests {
        let document = request.number % 2 == 1;
        request.class = Some(Arc::from(if document { "document" } else { "chat" }));
        request.prompt.words = if document { 9_000 } else { 100 };
    }
    let chats = |record: &&mut Record| record.cell == "c8" && record.request.is_multiple_of(2);
    sides.candidate.iter_mut().flat_map(|run| &mut run.records).filter(chats).for_each(change);
    sides
}

fn of_class(class: &str, check: Check) -> Check {
    Check { slice: Slice { class: Some(class.to_owned()), ..Slice::default() }, ..check }
}

fn long(check: Check) -> Check {
    Check { slice: Slice { context: Some(Context { from: 8_000, upto: u32::MAX }), ..Slice::default() }, ..check }
}

fn at_c8(metric: Metric) -> Check {
    let statistic = if metric.allows(Statistic::P50) { Statistic::P50 } else { Statistic::Value };
    check(metric, statistic, "c8", relative(0.1))
}

fn judged(checks: Vec<Check>, sides: &Sides) -> PolicyJudgement {
    judge(&[Case { policy: &with(checks), evidence: sides.evidence() }]).policies.remove(0)
}

fn of<'a>(judgement: &'a PolicyJudgement, id: &str) -> &'a CheckJudgement {
    judgement.checks.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no {id}"))
}

fn slower(record: &mut Record) {
    let late = |at: Nanos| at + Nanos::from_millis(100);
    record.chunks.iter_mut().for_each(|chunk| chunk.at = late(chunk.at));
    for at in [&mut record.head, &mut record.first_byte, &mut record.first_answer] {
        *at = at.map(late);
    }
    record.end = late(record.end);
}

fn fails(record: &mut Record) {
    record.outcome = Outcome::Shed;
    record.chunks.clear();
    (record.first_answer, record.first_byte, record.head, record.output_tokens) = (None, None, None, None);
}

#[test]
fn what_one_class_feels_fails_its_check_and_no_other() {
    let ttft = at_c8(Metric::Ttft);
    let checks = vec![of_class("chat", ttft.clone()), of_class("document", ttft.clone()), long(ttft)];
    let found = judged(checks, &sides(slower));
    assert_eq!(of(&found, "ttft.p50@c8:chat").verdict, Verdict::Fail);
    assert_eq!(of(&found, "ttft.p50@c8:document").verdict, Verdict::Pass);
    let by_length = of(&found, "ttft.p50@c8:context=8k-");
    assert_eq!((by_length.verdict, by_length.cell.as_str()), (Verdict::Pass, "c8:context=8k-"));
    assert!(found.sentence.contains("TTFT p50 at c8:chat"), "{}", found.sentence);
}

#[test]
fn every_part_and_its_cell_have_the_two_guards_that_the_policy_does_not_have() {
    let own = of_class("chat", check(Metric::ErrorRate, Statistic::Value, "c8", Margin::Points(0.05)));
    let advice = of_class("document", Check { role: Role::Advisory, ..at_c8(Metric::Tpot) });
    let found = judged(vec![of_class("chat", at_c8(Metric::Ttft)), own, advice], &sides(|_| {}));
    let ids: Vec<&str> = found.checks.iter().map(|check| check.id.as_str()).collect();
    let implied = ["error_rate@c8", "output_tokens@c8", "output_tokens@c8:chat"];
    assert_eq!(ids, [["ttft.p50@c8:chat", "error_rate@c8:chat", "tpot.p50@c8:document"], implied].concat());
}

#[test]
fn a_class_that_fails_to_make_room_for_another_is_found() {
    // Only documents have a check, and only chats fail.
    let found = judged(vec![of_class("document", at_c8(Metric::Ttft))], &sides(fails));
    assert_eq!(of(&found, "error_rate@c8").verdict, Verdict::Fail);
    assert_ne!(of(&found, "error_rate@c8:document").verdict, Verdict::Fail);
    assert_eq!(found.verdict, Verdict::Fail);
}

#[test]
fn failures_of_a_part_are_counted_in_it() {
    let few = |record: &mut Record| {
        if record.request == 2 {
            fails(record);
        }
    };
    let found = judged(vec![of_class("chat", at_c8(Metric::Ttft))], &sides(few));
    assert_eq!(of(&found, "error_rate@c8:chat").verdict, Verdict::Inconclusive);
    let warned = found.findings.iter().find(|finding| finding.cell.as_deref() == Some("c8:chat")).unwrap();
    // One of 40 chats in each of five runs, against six runs and three controls.
    assert!(warned.message.starts_with("5 of 200 requests failed where 0 of 360 did"), "{}", warned.message);
    assert_eq!(warned.code, "more-failures");
}

#[test]
fn longer_answers_of_a_part_keep_what_depends_on_them_from_being_judged() {
    let longer = |record: &mut Record| {
        let last = record.chunks.last().unwrap().at;
        let more = (1..=3).map(|n| Chunk { at: last + Nanos::from_millis(20 * n), tokens: Some(1) });
        record.chunks.extend(more);
        record.end = record.chunks.last().unwrap().at;
        record.output_tokens = Some(9);
        record.text_bytes = 36;
    };
    let e2e = at_c8(Metric::E2e);
    let checks = vec![of_class("chat", e2e.clone()), of_class("document", e2e)];
    let found = judged(checks, &sides(longer));
    assert_eq!(of(&found, "e2e.p50@c8:chat").verdict, Verdict::NotComparable);
    // The whole cell answers longer, too, so no part of it is compared.
    assert_eq!(of(&found, "output_tokens@c8").verdict, Verdict::NotComparable);
    assert_eq!(of(&found, "e2e.p50@c8:document").verdict, Verdict::NotComparable);
}

#[test]
fn throughput_of_the_parts_adds_up_to_that_of_the_cell() {
    let throughput = at_c8(Metric::Throughput);
    let checks = vec![throughput.clone(), of_class("chat", throughput.clone()), of_class("document", throughput)];
    let found = judged(checks, &sides(|_| {}));
    let of = |id: &str| of(&found, id).effect.unwrap().baseline;
    let parts = of("throughput@c8:chat") + of("throughput@c8:document");
    assert!((parts / of("throughput@c8") - 1.0).abs() < 1e-9, "{parts}");
}

#[test]
fn answers_of_a_rare_part_that_stop_defining_a_metric_are_found() {
    let mut sides = sides(|_| {});
    // Of two documents in 80 requests one comes in a single chunk: 1 % of the cell.
    for request in &mut sides.plan.cells[1].requests {
        request.class = Some(Arc::from(if request.number < 2 { "document" } else { "chat" }));
    }
    let records = sides.candidate.iter_mut().flat_map(|run| &mut run.records);
    records.filter(|it| it.cell == "c8" && it.request == 0).for_each(|it| it.chunks.truncate(1));
    let codes = |class: &str| {
        let found = judged(vec![of_class(class, Check { role: Role::Guard, ..at_c8(Metric::Stall) })], &sides);
        found.findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert!(codes("document").contains(&"values-missing"));
    assert!(!codes("chat").contains(&"values-missing"));
}

#[test]
fn a_part_that_the_plan_does_not_have_is_never_a_pass() {
    let found = judged(vec![of_class("book", at_c8(Metric::Ttft))], &sides(|_| {}));
    assert_eq!(of(&found, "ttft.p50@c8:book").verdict, Verdict::Error);
    assert_eq!(found.verdict, Verdict::Error);
}

/// Prompts of 100 to 4,000 tokens; TTFT grows by so many ms for 1,000 of them.
fn sloped(slope: impl Fn(Side) -> f64) -> Sides {
    let mut sides = Sides::new(Shape::default(), |_, _| {});
    for run in sides.all() {
        let (per_token, nudge) = (slope(run.manifest.side) / 1e3, f64::from(run.manifest.sequence) * 1e-5);
        for record in &mut run.records {
            let tokens = 100 + 100 * record.request;
            record.prompt_tokens = Some(tokens);
            let first = record.due + Nanos::from_ms(50.0 + f64::from(tokens) * (per_token + nudge));
            let first = first.to_stored_resolution();
            record.chunks = (0..6).map(|n| Chunk { at: first + Nanos::from_millis(20 * n), tokens: Some(1) }).collect();
            let at = Some(first);
            (record.head, record.first_byte, record.first_answer) = (at, at, at);
            record.end = record.chunks.last().unwrap().at;
        }
    }
    sides
}

#[test]
fn slopes_are_compared_by_difference_also_near_zero() {
    let floor = Some(Nanos::from_millis(2));
    let slope = || check(Metric::TtftSlope, Statistic::Value, "c8", Margin::Relative { ratio: 0.1, floor });
    let found = |baseline: f64, candidate: f64| {
        let sides = sloped(|side| if side == Side::Candidate { candidate } else { baseline });
        let found = judged(vec![slope()], &sides);
        let check = of(&found, "ttft_slope@c8").clone();
        (check.verdict, check.effect.unwrap(), check.margin, check.reason)
    };
    // 10 % of 40 ms is more than the floor, and of 0 it is nothing.
    for (baseline, candidate, margin, verdict) in [
        (40.0, 40.0, 4.0, Verdict::Pass),
        (40.0, 41.0, 4.0, Verdict::Pass),
        (40.0, 50.0, 4.0, Verdict::Fail),
        (0.0, 1.0, 2.0, Verdict::Pass),
        (0.0, 4.0, 2.0, Verdict::Fail),
        (4.0, 0.0, 2.0, Verdict::Pass),
    ] {
        let (found, effect, stated, reason) = found(baseline, candidate);
        assert_eq!(found, verdict, "{baseline} to {candidate}: {reason}");
        assert!((effect.change - (candidate - baseline)).abs() < 0.1, "{effect:?}");
        assert!((effect.candidate - candidate).abs() < 0.1 && (stated - margin).abs() < 0.1, "{effect:?} {stated}");
        assert!(reason.contains("ms/1k tokens"), "{reason}");
    }
}

#[test]
fn an_objective_of_a_slope_is_the_time_that_a_thousand_tokens_may_take() {
    let floor = Some(Nanos::from_millis(2));
    let slope = check(Metric::TtftSlope, Statistic::Value, "c8", Margin::Relative { ratio: 0.1, floor });
    for (objective, verdict) in [(30.0, Verdict::Fail), (50.0, Verdict::Pass)] {
        let checks = vec![Check { objective: Some(objective), ..slope.clone() }];
        let found = judged(checks, &sloped(|_| 40.0));
        let check = of(&found, "ttft_slope@c8");
        assert_eq!(check.verdict, verdict, "{}", check.reason);
        assert!(check.reason.contains(&format!("objective {objective:.2} ms/1k tokens")), "{}", check.reason);
    }
}

#[test]
fn failing_long_prompts_do_not_flatten_the_slope() {
    let floor = Some(Nanos::from_millis(2));
    let slope = check(Metric::TtftSlope, Statistic::Value, "c8", Margin::Relative { ratio: 0.1, floor });
    let mut sides = sloped(|_| 40.0);
    let records = sides.candidate.iter_mut().flat_map(|run| &mut run.records);
    records.filter(|record| record.cell == "c8" && record.request >= 24).for_each(fails);
    let found = judged(vec![slope], &sides);
    assert_eq!(of(&found, "ttft_slope@c8").verdict, Verdict::Fail);
}

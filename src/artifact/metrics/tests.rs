//! The catalogue, with numbers worked out by hand.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::artifact::codec::manifest::tests::manifest_of;
use crate::artifact::codec::samples::{refused, streamed};
use crate::artifact::record::{Chunk, Outcome};

fn run(records: Vec<Record>) -> Run {
    Run { manifest: manifest_of(&records), records }
}

fn ask(run: &Run, metric: Metric, statistic: Statistic) -> Result<Summary, NoValue> {
    summarise(run, "c8", &Question { metric, statistic, limits: &[], timeout: Nanos::from_secs(10) })
}

fn value(run: &Run, metric: Metric, statistic: Statistic) -> f64 {
    ask(run, metric, statistic).unwrap().value
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} for {expected}");
}

#[test]
fn every_metric_of_three_requests_is_as_computed_by_hand() {
    // Due at 0, 100, 200 ms; first token after 50, 60, 70 ms; then 4 gaps of 10, 20, 30 ms.
    let run = run((0..3)
        .map(|n| streamed(n, u64::from(n) * 100, 50 + u64::from(n) * 10, 10 * (u64::from(n) + 1), 5))
        .collect());
    for (metric, expected) in [
        (Metric::Ttft, 60.0),
        (Metric::Ttfa, 60.0),
        (Metric::Tpot, 20.0),
        (Metric::Itl, 20.0),
        (Metric::ChunkGap, 20.0),
        (Metric::Cadence, 20.0),
        (Metric::Stall, 20.0),
        (Metric::E2e, 140.0),
    ] {
        near(value(&run, metric, Statistic::P50), expected);
    }
    near(value(&run, Metric::Ttft, Statistic::P75), 65.0);
    near(value(&run, Metric::E2e, Statistic::Tail05), 190.0);
    // The last token comes at 200 + 70 + 4 * 30 = 390 ms: 15 tokens in 0.39 s.
    near(value(&run, Metric::Throughput, Statistic::Value), 15.0 / 0.39);
    near(value(&run, Metric::ErrorRate, Statistic::Value), 0.0);
    near(value(&run, Metric::OutputTokens, Statistic::Value), 5.0);
    let gaps = ask(&run, Metric::ChunkGap, Statistic::P50).unwrap();
    assert_eq!((gaps.n, gaps.failed, gaps.gateable), (12, 0, false));
}

#[test]
fn a_part_of_a_cell_has_its_own_requests_and_the_window_of_the_cell() {
    // As above, with a failure of the third: the window ends with the last record, whoever asks.
    let run = run(vec![streamed(0, 0, 50, 10, 5), streamed(1, 100, 60, 20, 5), refused(2, 400)]);
    let part = |numbers: &[u32], metric, statistic| {
        let question = Question { metric, statistic, limits: &[], timeout: Nanos::from_secs(10) };
        CellData::of(&run, "c8").part(&numbers.iter().copied().collect()).summary(&question)
    };
    let value = |numbers: &[u32], metric, statistic| part(numbers, metric, statistic).unwrap().value;
    near(value(&[1], Metric::Ttft, Statistic::P50), 60.0);
    near(value(&[0, 1], Metric::Ttft, Statistic::P50), 55.0);
    let whole = value(&[0, 1, 2], Metric::Throughput, Statistic::Value);
    let parts =
        value(&[0], Metric::Throughput, Statistic::Value) + value(&[1, 2], Metric::Throughput, Statistic::Value);
    near(parts, whole);
    near(value(&[1, 2], Metric::ErrorRate, Statistic::Value), 0.5);
    assert_eq!(part(&[], Metric::Ttft, Statistic::P50), Err(NoValue::NoRequests));
}

#[test]
fn the_slope_of_ttft_is_what_a_thousand_tokens_cost() {
    // 20 ms and 30 us a token: 30 ms for a thousand.
    let sloped = |n: u32| {
        let tokens = 200 * n;
        let first = Nanos::from_micros(20_000 + 30 * u64::from(tokens));
        let mut record = streamed(n, 0, 0, 10, 3);
        for (chunk, later) in record.chunks.iter_mut().zip([0, 10, 20]) {
            chunk.at = first + Nanos::from_millis(later);
        }
        Record { prompt_tokens: Some(tokens), ..record }
    };
    let slope = |records: Vec<Record>| ask(&run(records), Metric::TtftSlope, Statistic::Value);
    let found = slope((0..30).map(sloped).collect()).unwrap();
    near(found.value, 30.0);
    assert_eq!((found.n, found.failed), (30, 0));
    let mut some = (0..30).map(sloped).collect::<Vec<_>>();
    some.extend((30..33).map(|n| refused(n, 0)));
    near(slope(some).unwrap().value, 30.0);
    assert_eq!(slope((0..19).map(sloped).collect()), Err(NoValue::NoSlope), "too few");
    let alike = |n: u32| Record { prompt_tokens: Some(500 + n), ..sloped(n) };
    assert_eq!(slope((0..30).map(alike).collect()), Err(NoValue::NoSlope), "too much alike");
    let uncounted = |n: u32| Record { prompt_tokens: None, ..sloped(n) };
    assert_eq!(slope((0..30).map(uncounted).collect()), Err(NoValue::NoSlope));
    // Where the long ones fail, the rest is alike, and that is no excuse.
    let mut lost = (0..30).map(alike).collect::<Vec<_>>();
    lost.extend((30..34).map(|n| refused(n, 0)));
    assert!(slope(lost).unwrap().value.is_infinite());
}

/// A steady phase of 30 requests with a TTFT of 100 ms, and a recovery with these, one every 50 ms.
fn recovering(ttfts: impl Iterator<Item = u64>) -> Run {
    let steady = (0..30).map(|n| streamed(n, 50 * u64::from(n), 100, 10, 3));
    let recovery = (0..).zip(ttfts).map(|(n, ttft)| Record {
        cell: "c8/recovery".to_owned(),
        ..streamed(n, 2_000 + 50 * u64::from(n), ttft, 10, 3)
    });
    run(steady.chain(recovery).collect())
}

fn time_to_recover(run: &Run) -> Result<Summary, NoValue> {
    let recovery = CellData::of(run, "c8/recovery").against(CellData::of(run, "c8"));
    let (metric, statistic) = (Metric::TimeToRecover, Statistic::Value);
    { recovery }.summary(&Question { metric, statistic, limits: &[], timeout: Nanos::from_secs(10) })
}

#[test]
fn a_recovery_takes_until_the_first_token_comes_as_in_the_steady_phase() {
    let slow_then = |slow: usize, usual: u64, n: usize| (0..n).map(move |at| if at < slow { 900 } else { usual });
    let after = |slow, usual, n| time_to_recover(&recovering(slow_then(slow, usual, n))).map(|it| it.value);
    assert_eq!(after(40, 120, 100), Ok(2_000.0));
    assert_eq!(after(40, 150, 100), Ok(2_000.0), "half as long again is back");
    assert_eq!(after(40, 151, 100), Ok(f64::INFINITY));
    assert_eq!(after(0, 100, 42), Ok(0.0));
    assert_eq!(after(0, 100, 41), Err(NoValue::TooShort));
    assert_eq!(after(90, 100, 100), Ok(f64::INFINITY), "not back for long enough to say so");
    // A failed request is a slow one: that at 49 keeps it away for one request more, and those to come are no relapse.
    let mut failing = recovering(slow_then(40, 100, 100));
    for record in failing.records.iter_mut().filter(|record| record.request % 10 == 9 && record.cell != "c8") {
        record.outcome = Outcome::TimedOut;
    }
    assert_eq!(time_to_recover(&failing).map(|it| (it.value, it.n, it.failed)), Ok((2_050.0, 100, 10)));
    // Without a usual level there is nothing to be back at.
    failing.records.iter_mut().filter(|record| record.cell == "c8").for_each(|it| it.outcome = Outcome::TimedOut);
    assert_eq!(time_to_recover(&failing), Err(NoValue::NoReference));
    let alone =
        Question { metric: Metric::TimeToRecover, statistic: Statistic::Value, limits: &[], timeout: Nanos::ZERO };
    assert_eq!(summarise(&failing, "c8/recovery", &alone), Err(NoValue::NoReference));
}

#[test]
fn a_time_to_a_refusal_is_that_of_the_refused_alone() {
    let refused_after = |n: u32, ms: u64| Record { end: Nanos::from_millis(ms), ..refused(n, 0) };
    let mut records: Vec<Record> = (0..30).map(|n| streamed(n, 0, 500, 10, 5)).collect();
    records.extend((30..51).map(|n| refused_after(n, u64::from(n))));
    records.extend((51..60).map(|n| Record { outcome: Outcome::TimedOut, ..refused_after(n, 9_000) }));
    let run = run(records);
    let found = ask(&run, Metric::TimeToReject, Statistic::P50).unwrap();
    assert_eq!((found.value, found.n, found.failed, found.gateable), (40.0, 21, 30, true));
    let tail = ask(&run, Metric::TimeToReject, Statistic::P90).unwrap();
    assert_eq!((tail.value, tail.gateable), (48.0, false));
    let none = self::run(vec![streamed(0, 0, 50, 10, 5)]);
    assert_eq!(ask(&none, Metric::TimeToReject, Statistic::P50), Err(NoValue::NoRefusal));
}

#[test]
fn latency_counts_from_the_due_instant() {
    let mut late = streamed(0, 100, 50, 10, 3);
    late.sent = Nanos::from_millis(140);
    near(value(&run(vec![late]), Metric::Ttft, Statistic::P50), 50.0);
}

#[test]
fn a_failed_request_is_infinitely_slow_and_a_time_out_in_the_tail() {
    let mut records: Vec<_> = (0..19).map(|n| streamed(n, 0, 50, 10, 3)).collect();
    records.push(refused(19, 0));
    let run = run(records);
    let p95 = ask(&run, Metric::Ttft, Statistic::P95).unwrap();
    assert_eq!((p95.value, p95.n, p95.failed), (f64::INFINITY, 20, 1));
    near(value(&run, Metric::Ttft, Statistic::P90), 50.0);
    near(value(&run, Metric::Ttft, Statistic::Tail05), 10_000.0);
    assert!(value(&run, Metric::Stall, Statistic::P99).is_infinite());
    // Gaps are those of the successes.
    assert_eq!(ask(&run, Metric::Itl, Statistic::P50).unwrap().n, 38);
    near(value(&run, Metric::ErrorRate, Statistic::Value), 0.05);
    assert_eq!(ask(&run, Metric::ErrorRate, Statistic::Value).unwrap().n, 20);
}

#[test]
fn a_success_without_content_or_tokens_is_a_failure() {
    let mut uncounted = streamed(1, 0, 50, 10, 3);
    uncounted.output_tokens = None;
    let mut silent = streamed(2, 0, 50, 10, 3);
    silent.chunks.clear();
    let run = run(vec![streamed(0, 0, 50, 10, 3), uncounted, silent]);
    assert_eq!(run.records.iter().filter(|record| record.is_invalid()).count(), 2);
    near(value(&run, Metric::ErrorRate, Statistic::Value), 2.0 / 3.0);
    assert!(value(&run, Metric::E2e, Statistic::P50).is_infinite());
}

#[test]
fn an_answer_of_one_token_has_no_tpot() {
    let one = run(vec![streamed(0, 0, 50, 10, 1), refused(1, 0)]);
    assert_eq!(ask(&one, Metric::Tpot, Statistic::P50), Err(NoValue::Undefined));
    assert_eq!(ask(&one, Metric::Stall, Statistic::P50), Err(NoValue::Undefined));
    assert_eq!(ask(&one, Metric::Itl, Statistic::P50), Err(NoValue::Undefined));
    let mixed = run(vec![streamed(0, 0, 50, 10, 1), streamed(1, 0, 50, 10, 3), streamed(2, 0, 50, 30, 3)]);
    let tpot = ask(&mixed, Metric::Tpot, Statistic::P50).unwrap();
    assert_eq!((tpot.value, tpot.n), (20.0, 2));
}

#[test]
fn tokens_that_came_together_say_nothing_of_their_pace() {
    let lumped = |chunks: &[(u64, Option<u32>)], tokens: u32| {
        let mut record = streamed(0, 0, 50, 10, 1);
        record.chunks = chunks
            .iter()
            .map(|(ms, tokens)| Chunk { at: record.due + Nanos::from_millis(*ms), tokens: *tokens })
            .collect();
        (record.end, record.output_tokens) = (record.chunks.last().unwrap().at, Some(tokens));
        ask(&run(vec![record]), Metric::Tpot, Statistic::P50).map(|tpot| tpot.value)
    };
    assert_eq!(lumped(&[(50, Some(12))], 12), Err(NoValue::Undefined), "one chunk");
    assert_eq!(lumped(&[(50, Some(6)), (50, Some(6))], 12), Err(NoValue::Undefined), "one instant");
    // 24 tokens, one every 10 ms, sent one by one or six at a time: the same pace.
    near(lumped(&(0..24).map(|n| (10 * n, Some(1))).collect::<Vec<_>>(), 24).unwrap(), 10.0);
    near(lumped(&[(50, Some(6)), (110, Some(6)), (170, Some(6)), (230, Some(6))], 24).unwrap(), 10.0);
    near(lumped(&[(50, None), (110, None), (170, None), (230, None)], 24).unwrap(), 10.0);
}

#[test]
fn without_a_success_times_are_infinite_and_the_rest_says_why_it_is_missing() {
    let run = run(vec![refused(0, 0), refused(1, 5)]);
    assert!(value(&run, Metric::Tpot, Statistic::P50).is_infinite());
    assert_eq!(ask(&run, Metric::Itl, Statistic::P50), Err(NoValue::NoSuccess));
    assert_eq!(ask(&run, Metric::OutputTokens, Statistic::Value), Err(NoValue::NoSuccess));
    near(value(&run, Metric::ErrorRate, Statistic::Value), 1.0);
    assert!(value(&run, Metric::Throughput, Statistic::Value).abs() < 1e-12);
    let empty = summarise(
        &run,
        "c9",
        &Question { metric: Metric::Ttft, statistic: Statistic::P50, limits: &[], timeout: Nanos::ZERO },
    );
    assert_eq!(empty, Err(NoValue::NoRequests));
    assert_eq!(ask(&run, Metric::Ttft, Statistic::Value), Err(NoValue::NoSuchStatistic));
    assert_eq!(ask(&run, Metric::Throughput, Statistic::P50), Err(NoValue::NoSuchStatistic));
}

#[test]
fn inter_token_latency_divides_a_gap_by_the_tokens_of_its_chunk() {
    let mut record = streamed(0, 0, 50, 0, 1);
    let at = |ms, tokens| Chunk { at: Nanos::from_millis(ms), tokens };
    record.chunks = vec![at(50, Some(1)), at(90, Some(4)), at(190, None), at(200, Some(1)), at(200, Some(2))];
    record.output_tokens = Some(9);
    let run = run(vec![Record { end: Nanos::from_millis(200), ..record }]);
    let itl = ask(&run, Metric::Itl, Statistic::P50).unwrap();
    // 40 / 4, 10 / 1, and nothing elapsed, which counts as a microsecond.
    assert_eq!((itl.value, itl.n), (10.0, 3));
    near(value(&run, Metric::ChunkGap, Statistic::P99), 100.0 - 0.03 * 60.0);
    near(value(&run, Metric::Stall, Statistic::P50), 100.0);
    near(value(&run, Metric::Tpot, Statistic::P50), 150.0 / 8.0);
}

#[test]
fn cadence_is_the_rhythm_of_chunks_and_not_of_tokens_or_stalls() {
    let mut grouped = streamed(0, 0, 50, 10, 6);
    grouped.chunks[5].at = Nanos(grouped.chunks[5].at.0 + 900_000_000);
    grouped.end = grouped.chunks[5].at;
    grouped.output_tokens = Some(60);
    near(value(&run(vec![grouped.clone()]), Metric::Cadence, Statistic::P50), 10.0);
    near(value(&run(vec![grouped]), Metric::Stall, Statistic::P50), 910.0);
    let one = run(vec![streamed(0, 0, 50, 10, 1)]);
    assert_eq!(ask(&one, Metric::Cadence, Statistic::P50), Err(NoValue::Undefined));
}

#[test]
fn an_answer_that_never_left_its_reasoning_is_infinitely_late() {
    let thinking = Record { first_answer: None, ..streamed(0, 0, 50, 10, 5) };
    let run = run(vec![thinking]);
    assert!(value(&run, Metric::Ttfa, Statistic::P50).is_infinite());
    near(value(&run, Metric::Ttft, Statistic::P50), 50.0);
}

#[test]
fn goodput_counts_successes_that_met_every_limit() {
    let mut records: Vec<_> = (0..10).map(|n| streamed(n, 0, 50 + u64::from(n) * 10, 100, 10)).collect();
    records.push(refused(10, 0));
    let mut run = run(records);
    run.manifest.cells[0].window_end_us = 2_000_000;
    let ask = |limits: &[(Metric, Nanos)]| {
        let question = Question { metric: Metric::Goodput, statistic: Statistic::Value, limits, timeout: Nanos::ZERO };
        summarise(&run, "c8", &question).map(|summary| summary.value)
    };
    near(ask(&[]).unwrap(), 5.0);
    near(ask(&[(Metric::Ttft, Nanos::from_millis(80))]).unwrap(), 2.0);
    near(ask(&[(Metric::Ttft, Nanos::from_millis(80)), (Metric::Tpot, Nanos::from_millis(99))]).unwrap(), 0.0);
    assert_eq!(ask(&[(Metric::Itl, Nanos::ZERO)]), Err(NoValue::NotALimit(Metric::Itl)));
    run.manifest.cells[0].window_end_us = run.manifest.cells[0].window_start_us;
    let question = Question { metric: Metric::Goodput, statistic: Statistic::Value, limits: &[], timeout: Nanos::ZERO };
    assert_eq!(summarise(&run, "c8", &question), Err(NoValue::NoWindow));
}

#[test]
fn output_length_is_the_geometric_mean() {
    let run = run(vec![streamed(0, 0, 50, 10, 10), streamed(1, 0, 50, 10, 1_000), refused(2, 0)]);
    let summary = ask(&run, Metric::OutputTokens, Statistic::Value).unwrap();
    near(summary.value, 100.0);
    assert_eq!((summary.n, summary.failed), (2, 1));
}

proptest! {
    #[test]
    fn failing_never_makes_a_cell_look_better(
        shapes in vec((0_u64..500, 1_u64..40, 2_u32..20), 2..30), victim in 0_usize..30,
    ) {
        let records: Vec<_> = (0_u32..).zip(&shapes).map(|(n, (ttft, gap, tokens))| streamed(n, u64::from(n), *ttft, *gap, *tokens)).collect();
        let healthy = run(records);
        let mut broken = healthy.clone();
        let victim = victim % broken.records.len();
        broken.records[victim].outcome = Outcome::HttpError;
        for metric in [Metric::Ttft, Metric::Ttfa, Metric::Tpot, Metric::Stall, Metric::E2e] {
            for statistic in [Statistic::P50, Statistic::P90, Statistic::P99, Statistic::Tail05] {
                // Up to the last digit: tail05 passes through logarithms.
                prop_assert!(value(&broken, metric, statistic) >= value(&healthy, metric, statistic) * (1.0 - 1e-12));
            }
        }
        for metric in [Metric::Throughput, Metric::Goodput] {
            prop_assert!(value(&broken, metric, Statistic::Value) <= value(&healthy, metric, Statistic::Value));
        }
    }

    #[test]
    fn a_cell_asked_again_gives_the_same_answers(shapes in vec((1_u64..500, 0_u64..40, 2_u32..20), 1..20)) {
        let run = run((0_u32..).zip(&shapes).map(|(n, (ttft, gap, tokens))| streamed(n, u64::from(n), *ttft, *gap, *tokens)).collect());
        let mut cell = CellData::of(&run, "c8");
        for _ in 0..2 {
            for metric in Metric::ALL {
                for statistic in Statistic::ALL.iter().filter(|statistic| metric.allows(**statistic)) {
                    let question = Question { metric: *metric, statistic: *statistic, limits: &[], timeout: Nanos::from_secs(9) };
                    prop_assert_eq!(cell.summary(&question), summarise(&run, "c8", &question));
                }
            }
        }
    }
}

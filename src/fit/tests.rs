//! Fits of traces whose distributions are known, of those that are published, and of hostile ones.

use proptest::prelude::*;

use crate::base::recorded_tests::shared;
use crate::base::units::Nanos;
use crate::fit::{Fit, Options, Unfit, fit};
use crate::plan::build;
use crate::plan::request::PlannedCell;
use crate::spec::read_workload;
use crate::trace::request::{Request, Requests, Traffic};
use crate::trace::steps::Recording;
use crate::trace::testing::{reading, sample};
use crate::trace::{Format, read, tokens};

fn options() -> Options {
    Options { name: "fitted".to_owned(), seed: 1, window: Nanos::from_secs(600), cells: 3, requests: 1_000 }
}

fn trace(rows: Vec<Request>) -> Requests {
    Requests { source: Format::Servegate, arrivals: true, block_tokens: None, classes: Vec::new(), rows }
}

fn row(at: Nanos, prompt_tokens: u32, output_tokens: u32) -> Request {
    Request { at, prompt_tokens, output_tokens: Some(output_tokens), ..Request::default() }
}

/// The measured requests of a plan as a trace in which shared prefixes are blocks of ten tokens.
fn of_plan(cell: &PlannedCell) -> Requests {
    let mut next = 0;
    let mut prefixes = std::collections::BTreeMap::new();
    let origin = cell.requests[0].due.unwrap();
    let rows = cell.requests.iter().map(|request| {
        let shared = request.prompt.shared().div_euclid(10);
        let mut fresh = |count: u32| {
            let first = next;
            next += u64::from(count);
            (first..next).collect::<Vec<u64>>()
        };
        let mut blocks = match request.prompt.prefix.first() {
            Some(part) => prefixes.entry(part.seed).or_insert_with(|| fresh(shared)).clone(),
            None => Vec::new(),
        };
        blocks.extend(fresh(request.prompt.words.div_ceil(10) - shared));
        Request { blocks, ..row(request.due.unwrap().since(origin), request.prompt.words, request.output_tokens) }
    });
    let blocked = Requests { block_tokens: Some(10), ..trace(rows.collect()) };
    Recording::of(blocked).into_requests()
}

const KNOWN: &str = "\
servegate: 1
kind: workload
name: known
seed: 5
cells:
  - name: c
    rate: 4/s
    arrivals: {gamma: {burstiness: 0.4}}
    warmup: 0
    requests: 4000
    shared_prefix: {groups: 40, tokens: 300}
    lengths:
      - {prompt: [310, 600], output: [200, 500], weight: 5}
      - {prompt: [700, 900], output: [100, 150], weight: 3}
      - {prompt: [4000, 9000], output: [5, 40], weight: 2}
";

#[test]
fn known_parameters_come_back_and_a_fit_of_a_fit_is_the_same_again() {
    let known = build(&read_workload("known", KNOWN).unwrap().value).cells.remove(0);
    let options = Options { cells: 1, window: Nanos::from_secs(900), requests: 4_000, ..options() };
    let mut trace = of_plan(&known);
    for round in 0..2 {
        let found = fit(&trace, &options).unwrap();
        let cell = &found.cells[0];
        let arrivals = cell.arrivals.unwrap();
        // Standard errors for 3,600 gaps: the rate 2.6 %, the shape about 5 %.
        assert!((arrivals.rate / 4.0 - 1.0).abs() < 0.10, "{round}: {arrivals:?}");
        assert!((arrivals.burstiness.unwrap() / 0.4 - 1.0).abs() < 0.20, "{round}: {arrivals:?}");
        let prefix = cell.kinds[0].prefix.unwrap();
        assert!((295..=300).contains(&prefix.tokens), "{prefix:?}");
        assert!((20..=80).contains(&prefix.groups), "{prefix:?}");
        let like = &cell.likeness;
        for (what, distance) in [("gaps", like.gaps), ("prompts", like.prompt_tokens), ("outputs", like.output_tokens)]
        {
            let distance = distance.unwrap();
            assert!(distance.ks < 1.3 * distance.by_chance, "{round}, {what}: {distance:?}");
        }
        let both = |of: fn(&super::Measured) -> Option<f64>| [of(&like.trace).unwrap(), of(&like.plan).unwrap()];
        let near = |[trace, plan]: [f64; 2], most: f64| assert!((trace - plan).abs() < most, "{round}: {trace} {plan}");
        near(both(|side| side.rank_correlation), 0.05);
        near(both(|side| side.known_share), 0.02);
        near(both(|side| Some(side.prompt_tokens / 2_000.0)), 0.05);
        near(both(|side| Some(side.output_tokens? / 220.0)), 0.05);
        near(both(|side| Some(side.dispersion_10s? / 2.5)), 0.35);
        assert!(like.trace.rank_correlation.unwrap() < -0.7);
        let plan = build(&read_workload("fitted", &found.text).unwrap().value);
        trace = of_plan(&plan.cells[0]);
    }
}

#[test]
fn a_small_trace_by_hand_gives_exactly_this_file() {
    let rows = (0..24_u32).map(|n| {
        let (prompt, output) = if n % 2 == 0 { (10, 5) } else { (100, 50) };
        row(Nanos::from_secs(n.into()), prompt, output)
    });
    let found = fit(&trace(rows.collect()), &options()).unwrap();
    insta::assert_snapshot!(found.text, @r"
    # Fitted by `servegate workload fit` to a trace of the format servegate: 24 requests. It holds distributions, and no request
    # of the trace.
    servegate: 1
    kind: workload
    name: fitted
    seed: 1
    cells:
      # the begin to 24 s of the trace: 24 requests.
      - name: all
        rate: 1/s
        arrivals: {gamma: {burstiness: 100}}
        warmup: 20
        requests: 20
        lengths:
          - {prompt: 10, output: 5, weight: 12}
          - {prompt: 100, output: 50, weight: 12}
    ");
    let like = &found.cells[0].likeness;
    assert!([like.prompt_tokens, like.output_tokens].iter().all(|distance| distance.unwrap().ks < 1e-12));
    assert_eq!((like.trace.rank_correlation, like.plan.rank_correlation), (Some(1.0), Some(1.0)));
    assert_eq!((like.trace.gap_cv, like.trace.known_share, found.sessions), (Some(0.0), None, None));
}

#[test]
fn windows_become_cells_from_the_busiest_to_the_quietest() {
    // Minutes with 60, 20, 120 and 30 requests, one with too few, and one that the trace does not fill.
    let mut rows = Vec::new();
    for (minute, count) in (0_u64..).zip([60_u64, 20, 120, 30, 5, 30]) {
        rows.extend(
            (0..count).map(|n| row(Nanos::from_millis(minute * 60_000 + (n * 60_000).div_euclid(count)), 100, 10)),
        );
    }
    let options = Options { window: Nanos::from_secs(60), ..options() };
    let found = fit(&trace(rows), &options).unwrap();
    let cells = found.cells.iter().map(|cell| (cell.window.name.as_str(), cell.window.from, cell.window.rows.len()));
    let expected = [
        ("busiest", Nanos::from_secs(120), 120),
        ("median", Nanos::from_secs(180), 30),
        ("quietest", Nanos::from_secs(60), 20),
    ];
    assert_eq!(cells.collect::<Vec<_>>(), expected);
    assert_eq!(found.cells[0].arrivals.map(|arrivals| arrivals.rate), Some(2.0));
    assert_eq!(found.cells[0].window.among, 4);
}

#[test]
fn classes_of_a_trace_are_classes_of_the_cell_and_rare_ones_are_together() {
    let class = |n: u64| match n % 50 {
        // Eight of 500 are rarer than one in fifty.
        0 if n < 400 => Some(2),
        1 => None,
        n if n < 10 => Some(1),
        _ => Some(0),
    };
    let rows = (0..500).map(|n| Request {
        class: class(n),
        ..row(Nanos::from_millis(n * 500), if class(n) == Some(1) { 3_000 } else { 100 }, 10)
    });
    let classes = ["chat", "sum.up", "rare"].map(str::to_owned).to_vec();
    let found = fit(&Requests { classes, ..trace(rows.collect()) }, &options()).unwrap();
    let kinds: Vec<(Option<&str>, usize)> =
        found.cells[0].kinds.iter().map(|kind| (kind.name.as_deref(), kind.requests)).collect();
    assert_eq!(kinds, [(Some("chat"), 400), (Some("other"), 18), (Some("sum-up"), 82)]);
    let workload = read_workload("fitted", &found.text).unwrap().value;
    assert_eq!(workload.cells[0].classes[2].prompt_tokens.least(), 3_000);
}

#[test]
fn sessions_are_described_by_turns_pauses_and_what_a_turn_adds() {
    let rows = (0..30_u32).map(|n| Request {
        session: Some(n.div_euclid(3)),
        parent: (n % 3 > 0).then(|| n - 1),
        // Each turn adds 20 tokens to the prompt and the answer before.
        ..row(Nanos::from_secs(u64::from(n) * 7), 100 + 30 * (n % 3), 10)
    });
    let sessions = fit(&trace(rows.collect()), &options()).unwrap().sessions.unwrap();
    assert_eq!(sessions.turns, [3.0; 10]);
    assert_eq!((sessions.think_s, sessions.new_tokens), (vec![7.0; 20], vec![20.0; 20]));
}

#[test]
fn a_trace_without_instants_or_lengths_of_answers_still_has_its_prompts() {
    let rows = (0..40).map(|n| Request { output_tokens: None, ..row(Nanos::ZERO, 50 + n, 1) });
    let found = fit(&Requests { arrivals: false, ..trace(rows.collect()) }, &options()).unwrap();
    for said in ["concurrency: 1", "does not say when they arrived", "answer of 40 requests", "256 is a guess"] {
        assert!(found.text.contains(said), "no `{said}` in\n{}", found.text);
    }
    let like = &found.cells[0].likeness;
    assert_eq!((like.gaps, like.output_tokens, found.cells[0].window.name.as_str()), (None, None, "lengths"));
    assert!(like.prompt_tokens.unwrap().ks < 0.15);
}

#[test]
fn what_has_no_distribution_is_refused_with_a_reason() {
    let few = |count: u64, step: u64| trace((0..count).map(|n| row(Nanos::from_micros(n * step), 9, 9)).collect());
    assert_eq!(fit(&few(19, 1_000), &options()).unwrap_err(), Unfit::TooFew { has: 19 });
    assert_eq!(fit(&few(30, 0), &options()).unwrap_err(), Unfit::AtOnce);
    assert!(matches!(fit(&few(30, 1), &options()), Err(Unfit::Rate { .. })));
    assert!(matches!(fit(&few(30, 1_000_000_000_000), &options()), Err(Unfit::Rate { .. })));
}

/// The requests of a published trace, spread where it has ticks.
fn published(path: &str, spread: bool) -> Option<Requests> {
    let bytes = shared(&format!("data/traces/{path}"))?;
    let reading = read(path, &bytes, None, &tokens::estimate).unwrap();
    let Traffic::Requests(requests) = reading.traffic else { panic!("{path} holds windows") };
    let mut recording = Recording::of(requests);
    if spread {
        recording.spread(1);
    }
    Some(recording.into_requests())
}

#[track_caller]
fn assert_like(found: &Fit, most: f64) {
    for cell in &found.cells {
        let like = &cell.likeness;
        for (what, distance) in [("prompts", like.prompt_tokens), ("outputs", like.output_tokens)] {
            assert!(distance.unwrap().ks < most, "{} {what}: {distance:?}", cell.window.name);
        }
        let [trace, plan] = [&like.trace, &like.plan].map(|side| side.rank_correlation.unwrap());
        assert!((trace - plan).abs() < 0.1, "{}: {trace} {plan}", cell.window.name);
        if let Some(share) = like.trace.known_share {
            assert!((share - like.plan.known_share.unwrap()).abs() < 0.08, "{}: {like:?}", cell.window.name);
        }
    }
}

#[test]
fn plans_of_published_traces_are_like_them() {
    if let Some(azure) = published("azure2023/AzureLLMInferenceTrace_conv.csv", false) {
        assert_like(&fit(&azure, &options()).unwrap(), 0.07);
    }
    if let Some(mooncake) = published("mooncake/conversation_trace.jsonl", true) {
        let found = fit(&mooncake, &options()).unwrap();
        assert!(found.text.lines().count() < 300, "{}", found.text);
        assert_like(&found, 0.07);
    }
}

/// So many copies of a trace one after the other that there are enough of its requests.
fn enough(requests: &Requests) -> Requests {
    let copy = |copy: u64| {
        requests.rows.iter().map(move |row| Request {
            at: row.at + Nanos::from_secs(copy * 1_000),
            parent: None,
            ..row.clone()
        })
    };
    Requests { rows: (0..20).flat_map(copy).collect(), ..requests.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_text_of_a_trace_survives_a_fit(format in prop::sample::select(&Format::ALL[..]), word in "zq[a-z]{6,20}") {
        let reading = reading(&sample(format, &word));
        if let Traffic::Requests(requests) = reading.traffic {
            let found = fit(&enough(&requests), &options());
            prop_assert!(!format!("{found:?}").contains(&word), "{found:?}");
            prop_assert!(found.is_ok(), "{found:?}");
        }
    }

    #[test]
    fn every_trace_is_fitted_or_refused_and_what_is_written_is_right(
        rows in prop::collection::vec((0_u64..4_000_000_000, 1_u32..1_000_001, prop::option::of(1_u32..1_000_001), 0_u16..4, prop::collection::vec(0_u64..40, 0..4)), 1..90),
        arrivals: bool, block_tokens in prop::option::of(1_u32..5_000), cells in 1_usize..6, window in 1_u64..2_000,
    ) {
        let mut rows: Vec<Request> = rows
            .into_iter()
            .map(|(at, prompt_tokens, output_tokens, class, blocks)| Request {
                at: if arrivals { Nanos::from_micros(at) } else { Nanos::ZERO },
                prompt_tokens,
                output_tokens,
                class: (class < 3).then_some(class),
                blocks,
                ..Request::default()
            })
            .collect();
        rows.sort_by_key(|row| row.at);
        let classes = ["a", "b.c", "-"].map(str::to_owned).to_vec();
        let trace = Recording::of(Requests { arrivals, block_tokens, classes, ..trace(rows) }).into_requests();
        let options = Options { cells, window: Nanos::from_secs(window), ..options() };
        match fit(&trace, &options) {
            Ok(found) => {
                let read = read_workload("fitted", &found.text).unwrap();
                prop_assert!(read.warnings.is_empty());
                prop_assert_eq!(read.value.cells.len(), found.cells.len());
                prop_assert_eq!(fit(&trace, &options).unwrap().text, found.text);
            }
            Err(error) => prop_assert!(!matches!(error, Unfit::Written(_)), "{error}"),
        }
    }
}

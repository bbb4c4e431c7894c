//! What the server counts: read at the borders of a cell, stored in the run, and used to judge the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use servegate::artifact::record::Record;
use servegate::artifact::run::CellEvidence;
use servegate::artifact::server::{Levels, ServerEvidence};
use servegate::base::names::{Api, Side};
use servegate::loadgen::codec::Codec;
use servegate::loadgen::pass::pass;
use servegate::plan::request::PlannedCell;
use servegate::sim::noise::Noise;
use servegate::sim::transport::SimTransport;
use servegate::wire::dialect::{self, Template};
use servegate::{plan, spec};

use crate::stored::Session;
use crate::support::{Engine, MODEL, Scene, answer, deployment, scripted};

const CELLS: &str = "servegate: 1
kind: workload
name: borders
cells:
  - {name: c8, concurrency: 8, requests: 60, warmup: 24, prompt_tokens: 64, output_tokens: {uniform: {min: 5, max: 80}}}
  - {name: c1, concurrency: 1, requests: 5, warmup: 0, prompt_tokens: 64, output_tokens: 20}
  - {name: c64, concurrency: 64, requests: 70, warmup: 0, prompt_tokens: 64, output_tokens: 40}
  - {name: r30, rate: 30/s, requests: 60, warmup: 20, prompt_tokens: 64, output_tokens: 50}
";

/// The evidence and the records of one pass in virtual time, visiting the cells again and again.
fn simulated(rounds: usize) -> Vec<(CellEvidence, Vec<Record>)> {
    let plan = plan::build(&spec::read_workload("w.yaml", CELLS).unwrap().value);
    let mut extra = serde_json::Map::new();
    extra.insert("ignore_eos".to_owned(), true.into());
    let dialect = dialect::of(Api::Chat);
    let codec = Codec {
        dialect,
        template: Template::new(&dialect, MODEL, &extra),
        run: "r".to_owned(),
        api_key: None,
        tokenizer: None,
    };
    let mut engine = deployment(6.0);
    engine.noise = Noise::seeded(3, 4);
    let mut transport = SimTransport::new(&engine, Arc::new(AtomicBool::new(false)));
    let mut found = vec![];
    for cell in plan.cells.iter().cycle().take(rounds * plan.cells.len()) {
        let cells: [&PlannedCell; 1] = [cell];
        let mut records = vec![];
        let mut sink = |record: Record| {
            records.push(record);
            Ok::<_, String>(())
        };
        let passed = pass(&cells, &codec, &mut transport, &mut sink, &mut |_| {}).unwrap();
        found.push((passed.cells[0].clone(), records));
    }
    found
}

#[test]
fn the_servers_count_lies_between_what_was_measured_and_what_was_asked_for() {
    for (evidence, records) in simulated(2) {
        let server = evidence.server.unwrap();
        let ours: u32 = records.iter().filter_map(|record| record.output_tokens).sum();
        let (ours, counted) = (f64::from(ours), server.generated_tokens.unwrap());
        let name = &evidence.name;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let others = server.others_tokens as f64;
        assert!(ours <= counted && counted <= ours + others, "{name}: {ours} <= {counted} <= {ours} + {others}");
        // Warm-up and fillers of a closed loop overlap with the window, and nothing of one request at a time does.
        assert_eq!(others > 0.0, name != "c1", "{name}");
        let prompts: u32 = records.iter().filter_map(|record| record.prompt_tokens).sum();
        assert!(server.prompt_tokens.unwrap() >= f64::from(prompts) && server.is_sound(), "{name}");
        let running = server.running.unwrap();
        if name == "c64" {
            assert!(running.start < 1.0, "nothing was sent before the first request was due: {running:?}");
        }
        if name == "c8" {
            assert!(running.start > 5.0 && running.end > 5.0, "the load is on at both borders: {running:?}");
        }
        assert_eq!((server.restarted, server.preemptions, server.cache_queries), (false, Some(0.0), None));
    }
}

#[test]
fn a_live_servers_page_is_read_at_the_borders() {
    let scene = Scene::new();
    let engine = Engine::quick(1.0);
    scene.measure(&engine.url(), "--out runs --runs 1 --session s").exits(0);
    let run = scene.stored("runs/s-00-baseline");
    let server = run.manifest.cells[0].server.unwrap();
    let counted = server.generated_tokens.unwrap();
    // 20 requests of 8 tokens, two in flight, and whatever the first reading came too late for.
    assert!(counted > 0.0 && counted <= 160.0 + f64::from(u32::try_from(server.others_tokens).unwrap()), "{server:?}");
    assert!(server.asked_tokens == 160 && server.running.is_some() && server.kv_use.is_some(), "{server:?}");
}

/// Measures with a page of its own, of which `page` makes the n-th answer.
fn with_page(page: fn(usize) -> String) -> (Option<ServerEvidence>, String) {
    let scene = Scene::new();
    let engine = Engine::quick(0.3);
    let asked = AtomicUsize::new(0);
    let url = scripted(move |_, stream| match page(asked.fetch_add(1, Ordering::Relaxed)).as_str() {
        "" => answer(stream, "500 Internal Server Error", "text/plain", ""),
        page => answer(stream, "200 OK", "text/plain", page),
    });
    scene.write(
        "servegate.yaml",
        &format!(
            "servegate: 1\nkind: config\ntargets:\n  t:\n    url: {}\n    model: {MODEL}\n    extra_body: {{ignore_eos: true}}\n    \
             metrics: {url}/counters\n",
            engine.url()
        ),
    );
    let ended = scene.line("measure --workload w.yaml --target t --runs 2 --session s --out runs").exits(0);
    (scene.stored("runs/s-01-baseline").manifest.cells[0].server, ended.stderr)
}

#[test]
fn differences_are_taken_and_a_counter_that_goes_backwards_is_a_restart() {
    let (server, _) =
        with_page(|n| format!("llamacpp:tokens_predicted_total {}\nllamacpp:requests_processing {n}\n", 1_000 * n));
    let server = server.unwrap();
    assert_eq!((server.generated_tokens, server.restarted), (Some(1_000.0), false));
    // Each run asks when it boots and at both borders.
    assert_eq!(server.running, Some(Levels { start: 4.0, end: 5.0 }));
    let (server, _) = with_page(|n| format!("llamacpp:tokens_predicted_total {}\n", 1_000 - n));
    assert_eq!(server.map(|server| (server.generated_tokens, server.restarted)), Some((None, true)));
}

#[test]
fn a_page_that_fails_leaves_the_counters_unknown_and_is_said_once() {
    let once_a_run = |n| if n % 2 == 0 { "llamacpp:tokens_predicted_total 7\n".to_owned() } else { String::new() };
    let (server, said) = with_page(once_a_run);
    assert_eq!(server, None);
    assert_eq!(said.matches("could not be read at c2").count(), 1, "{said}");
    assert!(said.contains("it answered 500"), "{said}");
    let (server, said) = with_page(|_| String::new());
    assert_eq!(server, None);
    assert!(said.contains("/counters: it answered 500 Internal Server Error; check `metrics`"), "{said}");
}

/// Judges a candidate whose manifests say this of the server.
fn judged(server: &str) -> String {
    let scene = Scene::new();
    Session { name: "a", release: "v1", side: Side::Baseline, step_ms: 10.0 }.simulate(&scene);
    Session { name: "b", release: "v2", side: Side::Candidate, step_ms: 10.0 }.simulate(&scene);
    for number in 0..3 {
        let file = format!("runs/v2/b-0{number}-candidate/manifest.json");
        let mut manifest: serde_json::Value = serde_json::from_str(&scene.read(&file)).unwrap();
        manifest["cells"][0]["server"] = serde_json::from_str(server).unwrap();
        scene.write(&file, &serde_json::to_string(&manifest).unwrap());
    }
    let ended = scene.line("compare --policy p.yaml --baseline runs/v1 --candidate runs/v2");
    // The terminal's lines are broken anywhere.
    let words = format!("{:?} {} {}", ended.code, ended.stdout, ended.stderr);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

const BORDERS: &str = r#""first_read_us":900,"last_read_us":900,"asked_tokens":160,"others_tokens":24"#;

#[test]
fn a_run_judges_itself_by_what_the_server_counted() {
    let shown = judged(&format!("{{\"restarted\":true,{BORDERS}}}"));
    assert!(shown.starts_with("Some(4)") && shown.contains("met a restart of the server inside the cell"), "{shown}");
    let shown = judged(&format!("{{\"generated_tokens\":900.0,{BORDERS}}}"));
    let reason = "the server generated 900 tokens, of which the requests of servegate explain at most";
    assert!(shown.starts_with("Some(4)") && shown.contains(reason), "{shown}");
    let shown = judged(&format!("{{\"generated_tokens\":170.0,\"preemptions\":3,{BORDERS}}}"));
    assert!(!shown.starts_with("Some(4)") && shown.contains("preempted requests 3 times"), "{shown}");
    let shown = judged(&format!("{{\"generated_tokens\":-1,{BORDERS}}}"));
    assert!(shown.contains("what the server counted in cell `c2` is no number of anything"), "{shown}");
}

//! What the server counts: read at the borders of a cell, stored in the run, and used to judge the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use servegate::artifact::load::{Slots, sent_in_schedule};
use servegate::artifact::record::Record;
use servegate::artifact::run::{CellEvidence, Manifest, Run};
use servegate::artifact::server::{Levels, ServerEvidence, TokenBalance};
use servegate::base::names::Side;
use servegate::base::units::Nanos;
use servegate::loadgen::pass::pass;
use servegate::plan::request::PlannedCell;
use servegate::sim::Deployment;
use servegate::sim::noise::Noise;
use servegate::sim::transport::SimTransport;
use servegate::{plan, spec};

use crate::stored::{Session, chat_codec, manifest};
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

/// One pass over cells in virtual time: the evidence of each cell and phase, and all records.
fn passed(transport: &mut SimTransport, cells: &[&PlannedCell]) -> (Vec<CellEvidence>, Vec<Record>) {
    let mut records = vec![];
    let mut sink = |record: Record| {
        records.push(record);
        Ok::<_, String>(())
    };
    let passed = pass(cells, &chat_codec(), transport, &mut sink, &mut |_| {}).unwrap();
    assert_eq!(passed.stop, None);
    (passed.cells, records)
}

fn transport(deployment: &Deployment) -> SimTransport {
    SimTransport::new(deployment, Arc::new(AtomicBool::new(false)))
}

fn planned(workload: &str) -> Vec<PlannedCell> {
    plan::build(&spec::read_workload("w.yaml", workload).unwrap().value).cells
}

/// The evidence and the records of each cell, visited again and again.
fn simulated(rounds: usize) -> Vec<(CellEvidence, Vec<Record>)> {
    let cells = planned(CELLS);
    let mut engine = deployment(6.0);
    engine.noise = Noise::seeded(3, 4);
    let mut transport = transport(&engine);
    let visit = |cell: &PlannedCell| {
        let (mut evidence, records) = passed(&mut transport, &[cell]);
        (evidence.remove(0), records)
    };
    cells.iter().cycle().take(rounds * cells.len()).map(visit).collect()
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
fn the_simulated_engine_serves_what_is_offered() {
    for cell in planned(CELLS) {
        let mut transport = transport(&deployment(6.0));
        let (cells, records) = passed(&mut transport, &[&cell]);
        let run = Run { manifest: Manifest { cells, ..manifest("borders") }, records };
        let share = Slots::of(&run, &cell).map(|slots| slots.share());
        assert!(share.is_none_or(|share| share > 0.99), "{}: {share:?}", cell.name);
        assert_eq!(share.is_some(), !cell.load.is_open(), "{}", cell.name);
        assert_eq!(sent_in_schedule(&run, &cell), cell.load.is_open().then_some((60, 60)), "{}", cell.name);
    }
}

/// A steady phase, a burst that overlaps with what comes before and after it, and the recovery: open loops without a
/// warm-up, so that the server sees nothing but measured requests.
const PHASES: &str = "servegate: 1
kind: workload
name: phases
cells:
  - name: day
    rate: 20/s
    arrivals: constant
    warmup: 0
    requests: 40
    phases:
      burst: {rate: 100/s, requests: 80}
      recovery: {requests: 40}
    prompt_tokens: 64
    output_tokens: 30
";

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn tokens(count: usize) -> f64 {
    count as f64
}

#[test]
fn each_phase_has_what_was_counted_between_its_borders() {
    let cells = planned(PHASES);
    let (evidence, records) = passed(&mut transport(&deployment(6.0)), &cells.iter().collect::<Vec<_>>());
    let servers: Vec<ServerEvidence> = evidence.iter().map(|phase| phase.server.unwrap()).collect();
    let names: Vec<&str> = evidence.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["day", "day/burst", "day/recovery"]);
    // A phase ends when the first request of the next one is due, and the last when everything has ended.
    let end = records.iter().map(|record| record.end).max().unwrap();
    let mut borders: Vec<Nanos> = evidence.iter().map(|phase| Nanos::from_micros(phase.window_start_us)).collect();
    borders.push(end + Nanos(1));
    let arrivals: Vec<Nanos> = records.iter().flat_map(|record| &record.chunks).map(|chunk| chunk.at).collect();
    for (number, server) in servers.iter().enumerate() {
        let (start, end) = (borders[number], borders[number + 1]);
        let came = arrivals.iter().filter(|at| (start..end).contains(at)).count();
        assert_eq!(server.generated_tokens, Some(tokens(came)), "{}", names[number]);
        let across = |border: Nanos, own: bool| {
            let flies = |record: &&Record| record.due <= border && record.end > border;
            let is_own = |record: &&Record| (record.cell == names[number]) == own;
            u64::try_from(30 * records.iter().filter(flies).filter(is_own).count()).unwrap()
        };
        assert_eq!((server.others_tokens, server.left_tokens), (across(start, false), across(end, true)));
    }
    // What a phase leaves, the next one finds: the requests that were in flight at the border.
    assert!(servers[0].left_tokens > 0 && servers[0].left_tokens == servers[1].others_tokens, "{servers:?}");
    assert!(servers[1].left_tokens > 4 * servers[0].left_tokens && servers[2].left_tokens == 0, "{servers:?}");
    let sum = |of: fn(&ServerEvidence) -> Option<f64>| servers.iter().map(|server| of(server).unwrap()).sum::<f64>();
    let whole = (sum(|server| server.generated_tokens), sum(|server| server.prompt_tokens));
    let prompts: u32 = records.iter().filter_map(|record| record.prompt_tokens).sum();
    assert_eq!((records.len(), whole), (160, (4_800.0, f64::from(prompts))), "the phases add up to the cell");
    for (one, next) in servers.iter().zip(&servers[1..]) {
        assert_eq!(one.running.unwrap().end.to_bits(), next.running.unwrap().start.to_bits(), "one reading a border");
    }
}

#[test]
fn the_preemptions_of_a_burst_are_the_bursts() {
    let mut engine = deployment(6.0);
    engine.profile.set("kv_capacity_tokens=800").unwrap();
    let cells = planned(&PHASES.replace("prompt_tokens: 64", "prompt_tokens: 16"));
    let mut transport = transport(&engine);
    let (evidence, _) = passed(&mut transport, &cells.iter().collect::<Vec<_>>());
    let preempted: Vec<f64> = evidence.iter().map(|phase| phase.server.unwrap().preemptions.unwrap()).collect();
    assert!(preempted[0] < 1.0 && preempted[1] > 0.0, "{preempted:?}");
    let all = tokens(usize::try_from(transport.gauges().preemptions).unwrap());
    assert!((preempted.iter().sum::<f64>() - all).abs() < 1.0, "{preempted:?} of {all}");
}

#[test]
fn closed_loops_hand_their_load_over_and_a_warm_up_between_phases_is_in_none() {
    let workload = "servegate: 1
kind: workload
name: closed
cells:
  - name: c8
    concurrency: 8
    warmup: 24
    requests: 60
    phases:
      cold: {requests: 8}
      idle: {pause: 2s, requests: 3}
      burst: {rate: 200/s, requests: 100}
      recovery: {requests: 40}
    prompt_tokens: 64
    output_tokens: {uniform: {min: 5, max: 80}}
";
    let cells = planned(workload);
    let mut transport = transport(&deployment(6.0));
    let (evidence, records) = passed(&mut transport, &cells.iter().collect::<Vec<_>>());
    let names: Vec<&str> = evidence.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["c8/cold", "c8", "c8/idle", "c8/burst", "c8/recovery"]);
    for phase in &evidence {
        let (name, server) = (&phase.name, phase.server.unwrap());
        let of_phase: Vec<&Record> = records.iter().filter(|record| record.cell == *name).collect();
        let window = phase.window_end_us - phase.window_start_us;
        let balance = TokenBalance::of(&server, &of_phase, window).unwrap();
        let counted = server.generated_tokens.unwrap();
        let [left, others] = [server.left_tokens, server.others_tokens].map(|it| tokens(usize::try_from(it).unwrap()));
        assert!(balance.ours - left <= counted && counted <= balance.ours + others, "{name}: {server:?}, {balance:?}");
        assert!(!balance.is_foreign() && !balance.is_partial(), "{name}");
    }
    let server = |name: &str| evidence.iter().find(|phase| phase.name == name).unwrap().server.unwrap();
    // The cold phase ends when its last request has, in which instant the warm-up begins.
    assert_eq!(server("c8/cold").left_tokens, 0);
    assert_eq!(server("c8").running.unwrap().start.to_bits(), 7.0_f64.to_bits());
    // Silence is the idle phase's, to the token.
    let idle: u32 = records.iter().filter(|it| it.cell == "c8/idle").filter_map(|it| it.output_tokens).sum();
    assert_eq!((server("c8/idle").generated_tokens, server("c8/idle").others_tokens), (Some(f64::from(idle)), 0));
    assert!(server("c8/burst").left_tokens > 0 && server("c8/recovery").others_tokens > 0);
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

#[test]
fn a_live_servers_page_is_read_at_the_borders_of_phases() {
    let scene = Scene::new();
    scene.write("w.yaml", PHASES);
    let engine = Engine::quick(6.0);
    scene.measure(&engine.url(), "--out runs --runs 1 --session s").exits(0);
    let run = scene.stored("runs/s-00-baseline");
    let servers: Vec<ServerEvidence> = run.manifest.cells.iter().map(|phase| phase.server.unwrap()).collect();
    assert_eq!(servers.len(), 3);
    // What the first reading came too late for is missing, and nothing is counted twice.
    let counted: Vec<f64> = servers.iter().map(|server| server.generated_tokens.unwrap()).collect();
    assert!(counted.iter().all(|tokens| *tokens > 0.0) && counted.iter().sum::<f64>() <= 4_800.0, "{servers:?}");
    for (server, asked) in servers.iter().zip([1_200, 2_400, 1_200]) {
        assert!(server.asked_tokens == asked && server.running.is_some(), "{server:?}");
    }
    for (one, next) in servers.iter().zip(&servers[1..]) {
        assert_eq!(one.last_read_us, next.first_read_us, "one reading a border");
    }
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
    judged_in(&Scene::new(), 0, server)
}

/// The same of one cell or phase of a workload.
fn judged_in(scene: &Scene, cell: usize, server: &str) -> String {
    Session { name: "a", release: "v1", side: Side::Baseline, step_ms: 10.0 }.simulate(scene);
    Session { name: "b", release: "v2", side: Side::Candidate, step_ms: 10.0 }.simulate(scene);
    for number in 0..3 {
        let file = format!("runs/v2/b-0{number}-candidate/manifest.json");
        let mut manifest: serde_json::Value = serde_json::from_str(&scene.read(&file)).unwrap();
        manifest["cells"][cell]["server"] = serde_json::from_str(server).unwrap();
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

#[test]
fn a_phase_judges_itself_and_no_other() {
    let policy = "servegate: 1
kind: policy
name: phases
workload: w.yaml
runs: 3
controls: 2
checks:
  - {metric: tpot, statistic: p50, at_most: 50%}
  - {metric: tpot, statistic: p50, at_most: 50%, phase: burst}
";
    let told = |server: &str| {
        let scene = Scene::new();
        scene.write("w.yaml", PHASES);
        scene.write("p.yaml", policy);
        judged_in(&scene, 1, server)
    };
    let borders = r#""first_read_us":900,"last_read_us":900,"asked_tokens":2400,"others_tokens":120,"left_tokens":540"#;
    let shown = told(&format!("{{\"generated_tokens\":2000.0,{borders}}}"));
    assert!(!shown.starts_with("Some(4)") && !shown.contains("not the page of all"), "left to the next: {shown}");
    let shown = told(&format!("{{\"generated_tokens\":3000.0,{borders}}}"));
    let reason = "the server generated 3000 tokens, of which the requests of servegate explain at most 2640";
    assert!(shown.starts_with("Some(4)") && shown.contains(reason), "{shown}");
    assert!(shown.contains("at day/burst") && !shown.contains("at day "), "{shown}");
}

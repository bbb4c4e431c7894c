//! Phases from the workload to the verdict: measured on one time line, judged one by one.

use serde_json::Value;
use servegate::artifact::run::Run;
use servegate::base::names::Side;

use crate::stored::Session;
use crate::support::Scene;

const WORKLOAD: &str = "\
servegate: 1
kind: workload
name: day
cells:
  - name: c4
    rate: 5/s
    warmup: 4
    requests: 30
    max_connections: 6
    phases:
      cold: {requests: 20}
      idle: {pause: 5s, requests: 20}
      burst: {rate: 60/s, arrivals: {gamma: {burstiness: 0.5}}, requests: 60}
      recovery: {requests: 30}
    prompt_tokens: 16
    output_tokens: {uniform: {min: 6, max: 10}}
";

const POLICY: &str = "\
servegate: 1
kind: policy
name: day
workload: w.yaml
checks:
  - {metric: tpot, statistic: p50, at_most: 20%}
  - {metric: tpot, statistic: p50, at_most: 20%, phase: burst}
  - {metric: tpot, statistic: p50, at_most: 20%, phase: recovery, cells: [c4]}
  - {metric: ttft, statistic: p50, at_most: 20%, phase: idle}
";

fn measured_with(step_ms: f64) -> Scene {
    let scene = Scene::new();
    scene.write("w.yaml", WORKLOAD);
    scene.write("p.yaml", POLICY);
    Session { name: "v1", release: "v1", side: Side::Baseline, step_ms: 50.0 }.simulate(&scene);
    Session { name: "v2", release: "v2", side: Side::Candidate, step_ms }.simulate(&scene);
    scene
}

const LINE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";

#[test]
fn every_phase_is_measured_apart_and_the_time_line_has_one_order() {
    let scene = measured_with(50.0);
    let run: Run = scene.stored("runs/v1/v1-00-baseline");
    let names = ["c4/cold", "c4", "c4/idle", "c4/burst", "c4/recovery"];
    let cells: Vec<&str> = run.manifest.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(cells, names);
    let of = |name: &str| run.records.iter().filter(|record| record.cell == name).count();
    assert_eq!(names.map(of), [20, 30, 20, 60, 30]);
    assert!(run.manifest.cells.is_sorted_by_key(|cell| cell.window_start_us));
    // Sixty a second against six connections that each take about 0.4 s: the burst queues, and idle requests do not.
    let waited = |name: &str| {
        let cell = run.manifest.cells.iter().find(|cell| cell.name == name).unwrap();
        cell.connections.map(|connections| connections.waited)
    };
    assert!(waited("c4/burst").is_some_and(|waited| waited > 30), "{:?}", run.manifest.cells);
    assert_eq!(waited("c4/idle"), None);
}

#[test]
fn checks_name_a_phase_and_are_judged_by_its_requests() {
    let scene = measured_with(50.0);
    scene.line(LINE).exits(0).shows(&["max_connections"]);
    let scene = measured_with(100.0);
    scene.line(LINE).exits(1).shows(&["tpot.p50@c4", "tpot.p50@c4/burst", "tpot.p50@c4/recovery"]);
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let text = verdict.to_string();
    assert!(text.contains("\"ttft.p50@c4/idle\""), "{text}");
    scene.line("verify servegate-out/bundle").exits(0);
}

//! Phases from the workload to the verdict: measured on one time line, judged one by one.

use serde_json::Value;
use servegate::artifact::run::Run;
use servegate::base::names::Side;

use crate::stored::Session;
use crate::support::{Scene, deployment};

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

/// Steady at a tenth of a second a token; a burst of twice what the engine can carry; then the steady load again, and for long.
const SURGE: &str = "\
servegate: 1
kind: workload
name: surge
cells:
  - name: r10
    rate: 10/s
    requests: 120
    phases:
      burst: {rate: 80/s, requests: 160}
      recovery: {requests: 220}
      soak: {requests: 400}
    prompt_tokens: 16
    output_tokens: 8
";

fn surge(checks: &str) -> String {
    format!("servegate: 1\nkind: policy\nname: surge\nworkload: w.yaml\nchecks:\n{checks}")
}

const SURGE_CHECKS: &str = "  \
  - {metric: ttft, statistic: p50, at_most: 20%, floor: 50ms}
  - {metric: ttft, statistic: p75, at_most: 20%, phase: recovery, against: steady, role: required}
  - {metric: ttft, statistic: p50, at_most: 20%, phase: soak, against: steady, objective: 150%}
  - {metric: time_to_recover, at_most: 25%, floor: 2s, phase: recovery, role: required}
  - {metric: goodput, at_most: 10%, limits: {ttft: 1s}, phase: burst}
  - {metric: error_rate, at_most: 5pp, role: guard}
";

/// Baseline `v1` and candidate `v2` on engines of 50 ms a step with these settings.
fn surged(policy: &str, baseline: &[&str], candidate: &[&str]) -> Scene {
    let scene = Scene::new();
    scene.write("w.yaml", SURGE);
    scene.write("p.yaml", policy);
    for (name, side, settings) in [("v1", Side::Baseline, baseline), ("v2", Side::Candidate, candidate)] {
        let mut engine = deployment(50.0);
        for setting in settings {
            engine.profile.set(setting).unwrap();
        }
        Session { name, release: name, side, step_ms: 50.0 }.simulate_on(&scene, &engine);
    }
    scene
}

/// The checks of the verdict by their ids.
fn judged(scene: &Scene) -> Vec<Value> {
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    verdict["policies"][0]["checks"].as_array().unwrap().clone()
}

fn of<'a>(checks: &'a [Value], id: &str) -> &'a Value {
    checks.iter().find(|check| check["id"] == id).expect(id)
}

const RECOVERED: &str = "time_to_recover@r10/recovery";
const AGAINST: &str = "ttft.p75@r10/recovery:against=steady";

#[test]
fn a_candidate_that_gets_over_a_burst_later_fails_though_it_is_as_fast_as_before() {
    let scene = surged(&surge(SURGE_CHECKS), &["max_num_seqs=16"], &["max_num_seqs=8"]);
    let ended = scene.line(LINE).exits(1);
    let checks = judged(&scene);
    let verdict = |id: &str| of(&checks, id)["verdict"].as_str().unwrap();
    let failed: Vec<&str> =
        checks.iter().filter(|check| check["verdict"] == "fail").filter_map(|check| check["id"].as_str()).collect();
    assert_eq!(failed, [AGAINST, RECOVERED, "goodput@r10/burst"], "{}", ended.stdout);
    assert_eq!(verdict("ttft.p50@r10"), "pass", "{checks:?}");
    assert_eq!(verdict("ttft.p50@r10/soak:against=steady"), "pass", "{checks:?}");
    // Two seconds of 80 a second: 40 a second leave 80 behind, at 30 a second more than comes; 20 leave 120, at 10.
    let change = of(&checks, RECOVERED)["effect"]["change"].as_f64().unwrap();
    assert!((6_000.0..12_000.0).contains(&change), "{change}");
    let ratio = of(&checks, AGAINST);
    assert_eq!((ratio["unit"].as_str(), ratio["against"].as_str()), (Some("ratio"), Some("steady")));
    assert_eq!(of(&checks, RECOVERED)["against"], Value::Null);
    assert!(ratio["reason"].as_str().unwrap().contains(" % of steady)"), "{ratio}");
    ended.shows(&["surge blocks: ", AGAINST, RECOVERED]);
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn one_that_recovers_alike_passes() {
    let scene = surged(&surge(SURGE_CHECKS), &["max_num_seqs=16"], &["max_num_seqs=16"]);
    let ended = scene.line(LINE).exits(0);
    let checks = judged(&scene);
    assert!(checks.iter().all(|check| check["verdict"] == "pass"), "{checks:?}\n{}", ended.stdout);
    assert!(of(&checks, RECOVERED)["effect"]["baseline"].as_f64().unwrap() > 500.0);
    let run: Run = scene.stored("runs/v2/v2-00-candidate");
    assert_eq!(run.records.iter().filter(|record| record.cell == "r10/soak").count(), 400);
}

#[test]
fn who_refuses_late_fails_and_where_nobody_is_refused_nothing_is_green() {
    let rejects = "  - {metric: time_to_reject, statistic: p50, at_most: 50%, floor: 50ms, phase: burst}\n  \
                   - {metric: ttft, statistic: p50, at_most: 30%, floor: 500ms}\n";
    let full = ["max_num_seqs=8", "max_waiting=10"];
    let slow = surged(&surge(rejects), &full, &["max_num_seqs=8", "max_waiting=10", "api_ms=400"]);
    slow.line(LINE).exits(1).shows(&["time to reject p50 at r10/burst"]);
    let late = judged(&slow);
    let effect = &of(&late, "time_to_reject.p50@r10/burst")["effect"];
    assert!((390.0..420.0).contains(&effect["candidate"].as_f64().unwrap()), "{effect}");

    let endless = surged(&surge(rejects), &["max_num_seqs=8"], &["max_num_seqs=8"]);
    endless.line(LINE).exits(0).shows(&["no request of this cell was refused"]);
    assert_eq!(of(&judged(&endless), "time_to_reject.p50@r10/burst")["verdict"], "inconclusive");
    endless.write("p.yaml", &surge(&rejects.replace("phase: burst", "phase: burst, role: required")));
    endless.line(LINE).exits(4).shows(&["no request of this cell was refused"]);
}

#[test]
fn what_makes_no_sense_between_phases_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    scene.write("w.yaml", &SURGE.replace("recovery: {requests: 220}", "recovery: {requests: 40}"));
    let check = |keys: &str| {
        let errors = "  - {metric: error_rate, at_most: 5pp}";
        scene.write("p.yaml", &surge(&format!("{errors}\n  - {{{keys}}}\n")));
        scene.line("check p.yaml w.yaml")
    };
    let ttft = "metric: ttft, statistic: p50, at_most: 9%";
    check(&format!("{ttft}, phase: recovery, against: steady")).exits(0);
    check(&format!("{ttft}, against: burst")).exits(0);
    check(&format!("{ttft}, phase: soak, against: soak")).exits(5).says(&["impossible-check", "is always 1"]);
    check(&format!("{ttft}, against: steady")).exits(5).says(&["`steady` phase against itself"]);
    check(&format!("{ttft}, phase: soak, against: idle")).exits(5).says(&["unknown-phase", "a phase `idle`"]);
    check(&format!("{ttft}, phase: soak, against: idle, cells: [r10]"))
        .exits(5)
        .says(&["cell `r10` of the workload does not have a phase `idle`"]);
    check(&format!("{ttft}, phase: soak, against: steady, floor: 5ms")).exits(5).says(&["wrong-margin", "is a ratio"]);
    check(&format!("{ttft}, phase: soak, against: steady, objective: 800ms"))
        .exits(5)
        .says(&["wrong-unit", "for example `120%`"]);
    check("metric: ttft, statistic: p90, at_most: 9%, phase: soak, against: recovery, role: guard")
        .exits(5)
        .says(&["too-few-requests", "and `r10/recovery` plans 40"]);
    check("metric: error_rate, at_most: 1pp, phase: soak, against: steady")
        .exits(5)
        .says(&["there is no ratio to another phase"]);
    let recover = "metric: time_to_recover, at_most: 9%";
    check(&format!("{recover}, phase: recovery")).exits(5).says(&["missing-key", "add `floor: 2s`"]);
    check(&format!("{recover}, floor: 2s")).exits(5).says(&["impossible-check", "write `phase: recovery`"]);
    check(&format!("{recover}, floor: 2s, phase: recovery")).exits(5).says(&[
        "too-few-requests",
        "`time_to_recover@r10/recovery` needs 42 requests",
        "has 40 of them",
    ]);
    let limits = "metric: goodput, at_most: 9%, phase: burst, limits: {time_to_reject: 1s}";
    check(limits).exits(5).says(&["unknown-value"]);
}

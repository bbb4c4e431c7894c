//! `servegate ab` at two live servers: the order, what is compared, and how it ends.

use std::fs;
use std::process::Stdio;

use crate::support::{Engine, MODEL, Scene, signal, wait_for, workload};

/// Two targets `a` and `b`; `more` is added to both, `of_b` to the second.
fn scene(urls: [&str; 2], more: &str, of_b: &str) -> Scene {
    let scene = Scene::new();
    let target = |name: &str, url: &str, more: &str| {
        format!("  {name}:\n    url: {url}\n    model: {MODEL}\n    extra_body: {{ignore_eos: true}}\n{more}")
    };
    let (a, b) = (target("a", urls[0], more), target("b", urls[1], &format!("{more}{of_b}")));
    scene.write("servegate.yaml", &format!("servegate: 1\nkind: config\ntargets:\n{a}{b}"));
    scene.write("restart.sh", "echo $SERVEGATE_SIDE $SERVEGATE_RELEASE >> order\n");
    scene
}

const RESTART: &str = "    restart: {command: [sh, restart.sh], timeout: 1m}\n";
const AB: &str = "ab --policy p.yaml --baseline-target a --target b --session s";

#[test]
fn two_equal_deployments_are_measured_in_turns_and_not_failed() {
    let (a, b) = (Engine::quick(0.3), Engine::quick(0.3));
    let scene = scene([&a.url(), &b.url()], RESTART, "");
    let ended = scene.line(&format!("{AB} --baseline-release v1 --release v2"));
    assert_ne!(ended.code, Some(1), "{}", ended.stdout);
    assert_eq!(scene.read("order"), "control v1\ncandidate v2\ncandidate v2\ncontrol v1\ncontrol v1\ncandidate v2\n");
    let runs = "servegate-out/runs/tiny/s";
    for (number, side) in ["control", "candidate", "candidate", "control", "control", "candidate"].iter().enumerate() {
        let run = scene.stored(&format!("{runs}/s-0{number}-{side}"));
        assert_eq!((run.manifest.side.id(), run.manifest.complete), (*side, true));
    }
    let summary = scene.read("servegate-out/summary.md");
    assert!(summary.contains("v1, measured as controls in the same session"), "{summary}");
    scene.line("verify servegate-out/bundle").exits(0);
    // A bundle that says it was not judged by pairs has another verdict.
    let index = fs::read_to_string(scene.path("servegate-out/bundle/gate.json")).unwrap();
    assert!(index.contains("\"paired\": true"), "{index}");
}

#[test]
fn a_condition_that_is_no_treatment_makes_the_deployments_not_comparable() {
    let (a, b) = (Engine::quick(0.3), Engine::quick(0.3));
    let of = |value: &str| format!("    conditions: {{quantization: {value}}}\n");
    let scene = scene([&a.url(), &b.url()], "", "");
    let config = scene.read("servegate.yaml").replacen("  b:\n", &format!("{}  b:\n", of("none")), 1) + &of("fp8");
    scene.write("servegate.yaml", &config);
    scene.line(&format!("{AB} --pairs 3")).exits(3).says(&["`quantization` is `none`", "nothing was measured"]);
    assert!(!scene.path("servegate-out/runs").exists(), "it was known before the first request");
    let summary = scene.read("servegate-out/summary.md");
    assert!(
        summary.contains("quantization") && summary.contains("do what the finding says: \\`condition-differs"),
        "{summary}"
    );
    scene.line("verify servegate-out/bundle").exits(0);
    // A policy that declares it compares them.
    scene.write("p.yaml", &scene.read("p.yaml").replace("runs: 3\n", "runs: 3\ntreatment: [quantization]\n"));
    // On a starved machine short answers can arrive in one read, and are then not judged: another cause, not this one.
    scene.line(&format!("{AB} --pairs 1"));
    assert!(scene.path("servegate-out/runs").exists(), "it was measured");
    let verdict = scene.read("servegate-out/verdict.json");
    assert!(verdict.contains("tpot.p50@c2") && !verdict.contains("condition-differs"), "{verdict}");
}

#[test]
fn one_deployment_under_two_names_is_refused_however_its_address_is_written() {
    for (a, b) in [
        ("http://127.0.0.1:9601", "http://localhost:9601"),
        ("http://127.0.0.1:9601", "http://127.0.0.1:09601"),
        ("http://127.0.0.1:9601", "http://127.0.0.1:9601/"),
    ] {
        scene([a, b], "", "").line(AB).exits(64).says(&["have one URL and model"]);
    }
}

#[test]
fn a_deployment_that_is_down_is_found_before_anything_is_measured() {
    let engine = Engine::quick(0.3);
    let scene = scene([&engine.url(), "http://127.0.0.1:1"], "", "");
    scene.line(AB).exits(4).says(&["that is the target `b`", "nothing was measured"]);
    assert!(scene.path("servegate-out/verdict.json").exists() && !scene.path("servegate-out/runs").exists());
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn two_names_of_one_deployment_are_refused() {
    let engine = Engine::quick(0.3);
    let scene = scene([&engine.url(), &engine.url()], "", "");
    scene.line(AB).exits(64).says(&["the targets `a` and `b` have one URL and model", "name one target twice"]);
    scene.line(&format!("{AB} --baseline-release ../v1")).exits(64).says(&["--baseline-release"]);
    scene.line(&AB.replace("--target b", "--target c")).exits(64).says(&["no target `c`", "a, b"]);
}

#[test]
fn a_signal_keeps_the_runs_and_judges_nothing() {
    let (a, b) = (Engine::quick(2.0), Engine::quick(2.0));
    let scene = scene([&a.url(), &b.url()], "", "");
    scene.write("w.yaml", &workload("tiny", 6_000, 8));
    let mut command = scene.command();
    command.args(AB.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let runs = "servegate-out/runs/tiny/s";
    let records = scene.path(&format!("{runs}/s-00-control.partial/records.jsonl.zst"));
    wait_for(|| fs::metadata(&records).is_ok_and(|file| file.len() > 0));
    signal(child, "INT").exits(130).says(&["error: interrupted", "is kept in"]);
    assert!(!scene.stored(&format!("{runs}/s-00-control")).manifest.complete);
    assert!(!scene.path("servegate-out/verdict.json").exists());
}

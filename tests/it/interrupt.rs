//! Runs that end early: what is kept, and that nobody takes it for a whole run.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::support::{Engine, Scene, signal, workload};

/// Enough requests for a minute: no test waits for the end of it.
fn endless() -> (Engine, Scene) {
    let scene = Scene::new();
    scene.write("w.yaml", &workload("tiny", 6_000, 8));
    (Engine::quick(2.0), scene)
}

#[test]
fn a_signal_keeps_what_was_measured_as_an_incomplete_run() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let (engine, scene) = endless();
        let child = scene.start_measuring(&engine.url(), "runs");
        thread::sleep(Duration::from_millis(300));
        let ended = signal(child, name).exits(code);
        ended.says(&[
            "error: interrupted",
            " requests were measured and are kept in runs/s-00-baseline",
            ", incomplete",
        ]);
        let run = scene.stored("runs/s-00-baseline");
        assert!(!run.manifest.complete && !run.records.is_empty() && run.records.len() < 6_000);
        assert!(!scene.path("runs/s-00-baseline.partial").exists());

        scene
            .line("baseline refresh --initial --release unnamed --approved-by ada --runs runs")
            .exits(4)
            .says(&["was interrupted; measure it again to its end"]);
        let line = "compare --policy p.yaml --baseline runs --candidate runs/s-00-baseline";
        let judged = scene.line(line);
        assert!(matches!(judged.code, Some(3 | 4)), "{:?}: {}", judged.code, judged.stdout);
    }
}

#[test]
fn a_killed_measurement_leaves_what_is_refused_as_not_whole() {
    let (engine, scene) = endless();
    let mut child = scene.start_measuring(&engine.url(), "runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<_> = fs::read_dir(scene.path("runs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["s-00-baseline.partial"]);
    let sentence = "runs/s-00-baseline.partial was left by a measurement that was killed, and is no whole run; remove it and measure again";
    for runs in ["runs", "runs/s-00-baseline.partial"] {
        scene.line(&format!("compare --policy p.yaml --baseline {runs} --candidate {runs}")).exits(4).says(&[sentence]);
        scene
            .line(&format!("baseline refresh --initial --release r --approved-by a --runs {runs}"))
            .exits(4)
            .says(&[sentence]);
    }
    scene.measure(&engine.url(), "--out runs --session s").exits(4).says(&[sentence]);
}

#[test]
fn an_interrupted_gate_gives_no_verdict() {
    let (engine, scene) = endless();
    scene.write("small.yaml", &workload("tiny", 20, 8));
    fs::rename(scene.path("w.yaml"), scene.path("large.yaml")).unwrap();
    fs::rename(scene.path("small.yaml"), scene.path("w.yaml")).unwrap();
    scene.measure(&engine.url(), "--out runs --release v1 --quiet").exits(0);
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs").exits(0);
    fs::rename(scene.path("large.yaml"), scene.path("w.yaml")).unwrap();
    let mut command = scene.command();
    let line = format!(
        "run --policy p.yaml --session s --url {} --model {} --ignore-eos",
        engine.url(),
        crate::support::MODEL
    );
    command.args(line.split(' ')).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let records = scene.path("servegate-out/runs/tiny/s-00-candidate.partial/records.jsonl.zst");
    crate::support::wait_for(|| fs::metadata(&records).is_ok_and(|file| file.len() > 0));
    signal(child, "INT").exits(130).says(&["kept in servegate-out/runs/tiny/s-00-candidate"]);
    assert!(!scene.path("servegate-out/verdict.json").exists() && !scene.path("servegate-out/junit.xml").exists());
}

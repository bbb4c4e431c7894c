//! Runs that end early: what is kept, and that nobody takes it for a whole run.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::stored::first_baseline;
use crate::support::{Ended, Engine, Scene, signal, workload};

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
        let ended =
            ended.says(&["error: interrupted", "what was measured is kept in runs/s-00-baseline (", ", incomplete"]);
        assert!(
            ended.stderr.contains("with --resume runs in place of --out: only the missing runs"),
            "{}",
            ended.stderr
        );
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
fn a_killed_measurement_is_refused_as_not_whole_until_it_is_recovered_as_incomplete() {
    let (engine, scene) = endless();
    let mut child = scene.start_measuring(&engine.url(), "runs");
    let partial = "runs/s-00-baseline.partial";
    let recover = format!("recover {partial}/");
    scene.line(&recover).exits(4).says(&["is being measured at this moment; wait until the measurement has ended"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<_> = fs::read_dir(scene.path("runs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["s-00-baseline.partial"]);
    let sentence = "runs/s-00-baseline.partial was left by a measurement that was killed, and is no whole run; `servegate recover runs/s-00-baseline.partial` makes an incomplete run of it, or remove it and measure again";
    for runs in ["runs", partial] {
        scene.line(&format!("compare --policy p.yaml --baseline {runs} --candidate {runs}")).exits(4).says(&[sentence]);
        scene
            .line(&format!("baseline refresh --initial --release r --approved-by a --runs {runs}"))
            .exits(4)
            .says(&[sentence]);
    }
    scene.measure(&engine.url(), "--out runs --session s").exits(4).says(&[sentence]);

    let ended = scene.line(&recover).exits(0);
    let ended = ended.says(&["kept as an incomplete run; it is not judged and cannot become a baseline"]);
    assert_eq!(ended.stdout, "runs/s-00-baseline\n");
    assert!(!scene.path(partial).exists() && !scene.stored("runs/s-00-baseline").manifest.complete);
    scene.line(&recover).exits(4).says(&["runs/s-00-baseline exists already"]);
    let judged = scene.line("compare --policy p.yaml --baseline runs --candidate runs/s-00-baseline");
    assert!(matches!(judged.code, Some(3 | 4)), "{:?}: {}", judged.code, judged.stdout);
    scene
        .line("baseline refresh --initial --release unnamed --approved-by ada --runs runs")
        .exits(4)
        .says(&["run runs/s-00-baseline was interrupted; measure it again to its end"]);
}

#[test]
fn a_run_that_was_sent_late_is_said_to_count_for_nothing_and_becomes_no_baseline() {
    let scene = Scene::new();
    let open_loop = workload("tiny", 120, 8).replace("concurrency: 2", "rate: 40/s");
    scene.write("w.yaml", &open_loop);
    let engine = Engine::quick(0.3);
    let mut command = scene.command();
    let line = format!(
        "measure --workload w.yaml --url {} --model {} --ignore-eos --runs 1 --session s --out runs",
        engine.url(),
        crate::support::MODEL
    );
    command.args(line.split(' ')).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    let send =
        |name: &str| assert!(std::process::Command::new("kill").args([name, id.as_str()]).status().unwrap().success());
    // Requests are due whether the load generator runs or not: one that stands still for a while sends late.
    crate::support::wait_for(|| scene.path("runs/s-00-baseline.partial").exists());
    thread::sleep(Duration::from_millis(700));
    send("-STOP");
    thread::sleep(Duration::from_millis(600));
    send("-CONT");
    let ended = Ended::of(&child.wait_with_output().unwrap()).exits(0);
    let ended = ended.says(&[
        "warning: run 1 does not count at c2: it sent requests ",
        " ms are allowed; give the load generator more CPU or less load",
    ]);
    assert!(ended.stdout.contains("lag p99"), "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    scene.line("baseline refresh --initial --release unnamed --approved-by ada --runs runs").exits(4).says(&[
        "run runs/s-00-baseline does not count at c2: it sent requests ",
        " ms are allowed; give the load generator more CPU or less load, or name only runs that count",
    ]);
}

#[test]
fn an_interrupted_gate_gives_no_verdict() {
    let (engine, scene) = endless();
    scene.write("small.yaml", &workload("tiny", 20, 8));
    fs::rename(scene.path("w.yaml"), scene.path("large.yaml")).unwrap();
    fs::rename(scene.path("small.yaml"), scene.path("w.yaml")).unwrap();
    scene.measure(&engine.url(), "--out runs --release v1 --quiet").exits(0);
    first_baseline(&scene, "runs");
    fs::rename(scene.path("large.yaml"), scene.path("w.yaml")).unwrap();
    let mut command = scene.command();
    let line = format!(
        "run --policy p.yaml --session s --url {} --model {} --ignore-eos",
        engine.url(),
        crate::support::MODEL
    );
    command.args(line.split(' ')).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let records = scene.path("servegate-out/runs/tiny/s/s-00-candidate.partial/records.jsonl.zst");
    crate::support::wait_for(|| fs::metadata(&records).is_ok_and(|file| file.len() > 0));
    signal(child, "INT").exits(130).says(&["kept in servegate-out/runs/tiny/s/s-00-candidate"]);
    assert!(!scene.path("servegate-out/verdict.json").exists() && !scene.path("servegate-out/junit.xml").exists());
}

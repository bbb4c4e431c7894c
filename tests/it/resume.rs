//! Sessions that are continued after a kill or a signal, and what is kept of the answers.

use std::fs;
use std::process::{Child, Stdio};

use servegate::base::digest::{Digest, ShortDigest};

use crate::stored::first_baseline;
use crate::support::{Engine, MODEL, Scene, signal, wait_for, workload};

/// Two runs of about a second.
fn scene() -> (Engine, Scene) {
    let scene = Scene::new();
    scene.write("w.yaml", &workload("tiny", 60, 8));
    (Engine::quick(2.0), scene)
}

/// Starts a measurement of three runs and waits until the second has records.
fn started(scene: &Scene, url: &str) -> Child {
    let line =
        format!("measure --workload w.yaml --url {url} --model {MODEL} --ignore-eos --runs 3 --session s --out runs");
    let mut command = scene.command();
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for(|| fs::metadata(scene.path("runs/s-01-baseline.partial/records.jsonl.zst")).is_ok());
    child
}

#[test]
fn a_killed_session_is_continued_with_its_whole_runs_untouched() {
    let (engine, scene) = scene();
    let mut child = started(&scene, &engine.url());
    scene.measure(&engine.url(), "--runs 3 --resume runs").exits(4).says(&["is being measured at this moment"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let first = fs::read(scene.path("runs/s-00-baseline/manifest.json")).unwrap();

    // Nothing is touched when the session cannot be continued so.
    for (options, says) in [
        ("--resume runs --runs 3 --release other", "it is of release `unnamed` and not of `other`"),
        ("--resume runs --runs 3 --side candidate", "it is a baseline and not a candidate"),
        ("--resume runs --runs 3 --out there", "cannot be used with"),
    ] {
        scene.measure(&engine.url(), options).exits(64).says(&[says]);
    }
    scene.measure(&engine.url(), "--resume runs --session t").exits(4).says(&["holds no run of a session"]);
    let text = scene.read("w.yaml");
    scene.write("w.yaml", &workload("tiny", 61, 8));
    scene.measure(&engine.url(), "--runs 3 --resume runs").exits(64).says(&["it followed another plan than `tiny`"]);
    scene.write("w.yaml", &text);
    assert!(scene.path("runs/s-01-baseline.partial").exists());

    scene.measure(&engine.url(), "--runs 3 --resume runs").exits(0).says(&[
        "runs/s-01-baseline.partial is measured again; what there was of it is now runs/.interrupted/1-s-01-baseline.partial",
        "session s: 1 whole run kept. It is one session only if the deployment still runs on the same hardware",
        "tiny: run 2 of 3",
        "tiny: run 3 of 3",
        "3 runs in runs",
    ]);
    assert_eq!(fs::read(scene.path("runs/s-00-baseline/manifest.json")).unwrap(), first);
    for (sequence, folder) in (0..).zip(["runs/s-00-baseline", "runs/s-01-baseline", "runs/s-02-baseline"]) {
        let run = scene.stored(folder);
        assert!(run.manifest.complete && run.manifest.session == "s" && run.manifest.sequence == sequence);
        assert_eq!(run.records.len(), 60);
    }
    // A session that is whole has nothing left to measure.
    let again = scene.measure(&engine.url(), "--runs 3 --resume runs").exits(0);
    assert!(!again.stderr.contains("run 1 of 3"), "{}", again.stderr);
}

#[test]
fn an_interrupted_run_is_measured_again_under_its_own_number() {
    let (engine, scene) = scene();
    let child = started(&scene, &engine.url());
    signal(child, "INT").exits(130);
    assert!(!scene.stored("runs/s-01-baseline").manifest.complete);
    scene.measure(&engine.url(), "--runs 3 --resume runs --session s").exits(0);
    assert!(scene.stored("runs/s-01-baseline").manifest.complete);
    assert!(!scene.stored("runs/.interrupted/1-s-01-baseline").manifest.complete);
}

#[test]
fn a_gate_is_continued_by_the_name_of_its_session() {
    let (engine, scene) = scene();
    scene.measure(&engine.url(), "--out base --release v1 --quiet").exits(0);
    first_baseline(&scene, "base");
    let line = format!("run --policy p.yaml --session s --runs 3 --url {} --model {MODEL} --ignore-eos", engine.url());
    let mut command = scene.command();
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let runs = |name: &str| scene.path(&format!("servegate-out/runs/tiny/s/{name}"));
    wait_for(|| runs("s-01-candidate.partial").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    scene
        .gate(&engine.url(), "--resume nosuch")
        .exits(64)
        .says(&["error: no session `nosuch` can be continued: there is no servegate-out/runs/tiny/nosuch"]);
    let ended = scene.gate(&engine.url(), "--resume s --runs 3");
    // On a busy machine it was sent late and counts for nothing.
    assert!(matches!(ended.code, Some(0..=4)), "{}\n{}", ended.stdout, ended.stderr);
    ended.says(&["session s: 1 whole run kept", "tiny: run 3 of 3 (candidate)"]);
    assert!(scene.path("servegate-out/verdict.json").exists() && runs("s-02-candidate").exists());
}

#[test]
fn answers_are_known_by_their_digests_and_kept_only_on_demand() {
    let (engine, scene) = scene();
    scene.measure(&engine.url(), "--runs 1 --session plain --out runs").exits(0);
    scene.measure(&engine.url(), "--runs 1 --session kept --out runs --keep-text").exits(0);
    assert!(!scene.path("runs/plain-00-baseline/texts.jsonl.zst").exists());
    assert!(scene.stored("runs/plain-00-baseline").manifest.texts.is_none());

    let run = scene.stored("runs/kept-00-baseline");
    let stored = fs::read(scene.path("runs/kept-00-baseline/texts.jsonl.zst")).unwrap();
    let texts = run.manifest.texts.unwrap();
    assert_eq!((texts.digest, texts.answers, texts.cut), (Digest::of(&stored), 60, 0));
    let lines = String::from_utf8(zstd::decode_all(&*stored).unwrap()).unwrap();
    let mut lines = lines.lines();
    assert_eq!(lines.next(), Some("{\"servegate_texts\":1}"));
    for (line, record) in lines.zip(&run.records) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        assert_eq!((line["cell"].as_str(), line["request"].as_u64()), (Some("c2"), Some(record.request.into())));
        assert_eq!(
            (text.len() as u64, Some(ShortDigest::from(Digest::of(text.as_bytes())))),
            (record.text_bytes, record.text_digest)
        );
        assert_eq!(record.finish.as_deref(), Some("length"));
    }
}

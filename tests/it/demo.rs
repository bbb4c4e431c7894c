//! `servegate demo`: the main job, as somebody who tries it meets it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use quick_junit::{Report, TestCaseStatus};
use serde_json::Value;

use crate::support::{Ended, Scene, signal};

const REPORTS: [&str; 3] = ["junit.xml", "summary.md", "verdict.json"];

fn demo(line: &str) -> (Scene, Ended) {
    let scene = Scene::new();
    let ended = scene.line(line);
    (scene, ended)
}

/// The verdict of each policy, in order.
fn verdicts(scene: &Scene) -> Vec<(String, String)> {
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let policies = verdict["policies"].as_array().unwrap();
    policies.iter().map(|policy| (text(&policy["policy"]), text(&policy["verdict"]))).collect()
}

#[test]
fn the_fp8_story_fails_chat_passes_batch_and_says_the_same_twice() {
    let ((one, first), (two, second)) = std::thread::scope(|scope| {
        let other = scope.spawn(|| demo("demo --quiet"));
        (demo("demo --quiet"), other.join().unwrap())
    });
    let first =
        first.exits(1).shows(&["fail           tpot.p50@c1 ", "tpot.p50: sign flip: worse at c1, c8; better at "]);
    assert_eq!(first.stderr, "", "quiet is quiet");
    let expected = [("chat", "fail"), ("offline-batch", "pass")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(verdicts(&one), expected);

    let report = Report::deserialize_from_str(&one.read("servegate-out/junit.xml")).unwrap();
    let cases = || report.test_suites.iter().flat_map(|suite| &suite.test_cases);
    let failed = cases().filter(|case| matches!(case.status, TestCaseStatus::NonSuccess { .. })).count();
    assert_eq!((report.tests, report.failures, report.errors), (cases().count(), failed, 0));
    assert!(failed > 0 && cases().any(|case| case.name.as_str().contains("tpot.p50@c1")));

    for file in REPORTS {
        assert!(
            one.read(&format!("servegate-out/{file}")) == two.read(&format!("servegate-out/{file}")),
            "{file} differs"
        );
    }
    assert_eq!(first.stdout, second.exits(1).stdout);

    one.line("verify servegate-out/bundle")
        .exits(0)
        .shows(&["the bundle is genuine: its runs give its verdict\nFAIL: "]);
    let verdict = one.path("servegate-out/bundle/verdict.json");
    fs::write(&verdict, fs::read_to_string(&verdict).unwrap().replace("fail", "pass")).unwrap();
    one.line("verify servegate-out/bundle").exits(4).says(&["verdict.json: its digest is ", "the bundle was changed"]);
}

#[test]
fn an_interrupted_demo_names_no_folder_that_is_gone() {
    let scene = Scene::new();
    fs::create_dir(scene.path("temporary")).unwrap();
    let mut command = scene.command();
    command.arg("demo").env("TMPDIR", scene.path("temporary")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut told).unwrap();
    assert!(told.starts_with("SIMULATED engine"), "{told}");
    let ended = signal(child, "INT").exits(130);
    assert_eq!(ended.stdout, "");
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("error: interrupted\nhint: nothing of a demo's baseline is kept"), "{told}");
    assert!(!told.contains("temporary"), "{told}");
    assert_eq!(fs::read_dir(scene.path("temporary")).unwrap().count(), 0);
}

#[test]
fn an_advisory_demo_fails_and_ends_with_success() {
    let (scene, ended) = demo("demo --quiet --exit-policy advisory");
    ended.exits(0);
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    assert_eq!((&verdict["exit_policy"], &verdict["verdict"]), (&"advisory".into(), &"fail".into()));
}

#[test]
fn the_fused_story_passes_both() {
    let (scene, ended) = demo("demo fp8-fused");
    let ended = ended.exits(0).says(&["SIMULATED engine", "chat: run 5 of 8"]);
    let found = verdicts(&scene);
    assert!(found.iter().all(|(_, verdict)| verdict == "pass"), "{found:?}\n{}", ended.stdout);
}

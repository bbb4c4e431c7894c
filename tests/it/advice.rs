//! What a user is told where something is off: failed requests, a store that changed, a session that begins again.

use std::fs;
use std::os::unix::fs::symlink;

use servegate::base::names::Side;
use servegate::sim::fault::{Fault, Share};

use crate::stored::{Session, first_baseline};
use crate::support::{Engine, MODEL, Scene};

const CUT: [Share; 1] = [Share { fault: Fault::CutStream, share: 0.45 }];

#[test]
fn failed_requests_are_named_by_outcome_in_every_report() {
    let scene = Scene::new();
    Session { name: "v1", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "v2", release: "v2", side: Side::Candidate, step_ms: 5.0 }.simulate_with(&scene, &CUT);
    let ended = scene.line("compare --policy p.yaml --baseline runs/v1 --candidate runs/v2").exits(1);
    let told = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(" connection; the first: ");
    assert!(told(&ended.stdout), "{}", ended.stdout);
    for file in ["summary.md", "verdict.json", "junit.xml"] {
        let text = scene.read(&format!("servegate-out/{file}"));
        assert!(told(&text), "{file}: {text}");
    }
}

#[test]
fn a_baseline_with_failures_is_warned_of_and_shown() {
    let scene = Scene::new();
    Session { name: "v1", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate_with(&scene, &CUT);
    scene.line("baseline refresh -q --initial --release v1 --approved-by ada --runs runs/v1").exits(0).says(&[
        "warning: requests of the new baseline failed at c2: ",
        " % of 60 requests (",
        " connection; the first: ",
    ]);
    scene.line("baseline show tiny").exits(0).shows(&["failed       c2: ", " connection; "]);
}

#[test]
fn a_measurement_with_failures_says_what_failed() {
    let engine = Engine::faulty(Fault::CutStream);
    let scene = Scene::new();
    let ended = scene.measure(&engine.url(), "--out runs --runs 1 --quiet").exits(0);
    ended.says(&["warning: run 1 at c2: requests failed: ", " connection; the first: "]);
}

#[test]
fn what_lies_in_a_store_and_is_no_part_of_it_is_said() {
    let scene = Scene::new();
    for release in ["v1", "v2"] {
        Session { name: release, release, side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    }
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    scene.line("baseline verify").exits(0);
    fs::create_dir(scene.path("baselines/tiny/v1/runs/0123456789ab")).unwrap();
    scene.line("baseline verify").exits(4).shows(&["v1/runs/0123456789ab: no manifest of the release names it"]);
    fs::remove_dir(scene.path("baselines/tiny/v1/runs/0123456789ab")).unwrap();

    let manifest = scene.path("baselines/tiny/v1/baseline.json");
    fs::rename(&manifest, scene.path("elsewhere.json")).unwrap();
    symlink(scene.path("elsewhere.json"), &manifest).unwrap();
    let again = "baseline refresh -q --release v1 --approved-by ada --runs runs/v1 --rebase again";
    let told = scene.line(again).stderr;
    assert!(told.contains("warning: baselines/tiny/v1/baseline.json: it is a symbolic link"), "{told}");
    fs::remove_dir_all(scene.path("baselines")).unwrap();
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);

    let history = scene.read("baselines/tiny/history.jsonl");
    let refresh = "baseline refresh -q --release v2 --approved-by ada --runs runs/v2 --policy p.yaml";
    scene.line(refresh).exits(0);
    scene.write("baselines/tiny/history.jsonl", &history);
    let ended = scene.line(refresh);
    assert!(
        ended.stderr.contains("warning: baselines/tiny/v2/baseline.json: the history does not know"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_command_that_is_repeated_says_that_a_session_begins_beside_another() {
    let engine = Engine::quick(0.3);
    let scene = Scene::new();
    let note = "note: runs holds runs of 1 session already";
    assert!(!scene.measure(&engine.url(), "--out runs --runs 1 --session one").exits(0).stderr.contains(note));
    scene
        .measure(&engine.url(), "--out runs --runs 1 --session two")
        .exits(0)
        .says(&[note, "--resume runs --session one continues one"]);
}

#[test]
fn conditions_that_a_stored_baseline_declares_are_compared_before_measuring() {
    let engine = Engine::quick(0.3);
    let scene = Scene::new();
    let config = |dtype: &str| {
        format!(
            "servegate: 1\nkind: config\ntargets:\n  t:\n    url: {}\n    model: {MODEL}\n    extra_body: {{ignore_eos: true}}\n    \
             conditions: {{kv_cache_dtype: {dtype}}}\n",
            engine.url()
        )
    };
    scene.write("servegate.yaml", &config("bf16"));
    scene.line("measure --workload w.yaml --target t --release v1 --out runs --runs 2").exits(0);
    first_baseline(&scene, "runs");
    scene.write("servegate.yaml", &config("fp8"));
    scene
        .line("run --policy p.yaml --target t --release v2")
        .exits(3)
        .says(&["`kv_cache_dtype` is `bf16` in the baseline and `fp8` in the candidate", "nothing was measured"]);
    assert!(!scene.path("servegate-out/runs").exists());
    assert!(scene.read("servegate-out/verdict.json").contains("\"condition-differs\""));
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn a_scenario_of_the_demo_is_found_by_the_name_that_the_demo_prints() {
    for story in ["fp8", "fp8-unfused"] {
        let ended = Scene::new().line(&format!("demo {story} --quiet")).exits(1);
        ended.shows(&["--initial", "run --policy gate-policies/chat.yaml gate-policies/offline-batch.yaml"]);
    }
}

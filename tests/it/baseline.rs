//! The life of a baseline on the command line.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use servegate::base::names::Side;

use crate::stored::Session;
use crate::support::{Scene, workload};

#[test]
fn a_baseline_lives_from_its_first_session_to_a_rollback() {
    let scene = Scene::new();
    for (release, name) in [("v1", "mon"), ("v1", "tue"), ("v2", "wed")] {
        Session { name, release, side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
        fs::rename(scene.path(&format!("runs/{release}")), scene.path(&format!("runs/{name}"))).unwrap();
    }
    scene.line("baseline list").exits(0).shows(&["no baseline"]);
    scene
        .line("baseline refresh --release v1 --approved-by ada --runs runs/mon --policy p.yaml")
        .exits(4)
        .says(&["there is no active baseline; use `--initial` for the first one"]);
    let initial = "baseline refresh --initial --release v1 --approved-by ada --runs runs/mon";
    scene.line(initial).exits(0).says(&["tiny: release v1 is the active baseline: 1 session, 3 runs, "]);
    let shown = scene.line("baseline show tiny").exits(0).stdout;
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("c2 ")).map(str::to_owned).collect::<Vec<_>>();
    // Another session does not make answers longer.
    let assumed = |row: &str| if row.contains(" output_tokens ") { " 0.20% (assumed)" } else { " 2.00% (assumed)" };
    assert!(!rows(&shown).is_empty() && rows(&shown).iter().all(|row| row.ends_with(assumed(row))), "{shown}");
    scene.line(initial).exits(4).says(&["release `v1` is the active baseline already; leave out `--initial`"]);
    let unjudged = "baseline refresh --add-session --release v1 --approved-by ada --runs runs/tue";
    scene.line(unjudged).exits(64).says(&["--policy"]);
    let add = "baseline refresh --add-session --release v1 --approved-by ada --runs runs/tue --policy p.yaml";
    scene.line(add).exits(0).says(&["2 sessions, 6 runs"]);
    let shown = scene.line("baseline show tiny").exits(0).stdout;
    assert!(!rows(&shown).is_empty() && rows(&shown).iter().all(|row| !row.contains("assumed")), "{shown}");
    a_history_without_its_last_line_is_warned_of(&scene);
    scene.line(add).exits(4).says(&["session `tue` is in the baseline already"]);
    scene
        .line("baseline refresh --add-session --release v2 --approved-by ada --runs runs/wed --policy p.yaml")
        .exits(4)
        .says(&["`--add-session` adds to the active release `v1`, not to `v2`"]);
    scene.line("baseline refresh --release v2 --approved-by ada --runs runs/wed").exits(64).says(&["--policy"]);

    // A stored release is a folder of runs like any other, named by digest and ordered as they were measured.
    scene.line("compare --policy p.yaml --baseline baselines/tiny/v1 --candidate runs/wed").exits(0).shows(&["PASS"]);

    let rebase = [
        "baseline",
        "refresh",
        "--release",
        "v2",
        "--approved-by",
        "ada",
        "--runs",
        "runs/wed",
        "--rebase",
        "driver 570 to 580",
    ];
    scene.run(&rebase).exits(0).says(&["tiny: release v2 is the active baseline: 1 session, 3 runs"]);
    scene.line("baseline rollback tiny v9 --by ada --reason r").exits(4).says(&["has no baseline of release `v9`"]);
    scene
        .line("baseline rollback tiny v1 --by ada --reason withdrawn")
        .exits(0)
        .says(&["release v1 is the active baseline again"]);
    scene.line("baseline rollback tiny v1 --by ada --reason again").exits(4).says(&["is the active baseline already"]);

    let history = scene.line("baseline history tiny").exits(0).stdout;
    let order = ["initial  v1", "add_session  v1", "rebase  v2", ": driver 570 to 580", "rollback  v1", ": withdrawn"];
    let places: Vec<_> =
        order.iter().map(|text| history.find(text).unwrap_or_else(|| panic_with(&history, text))).collect();
    assert!(places.is_sorted(), "{history}");
    let events: Value = serde_json::from_str(&scene.line("baseline history tiny --json").exits(0).stdout).unwrap();
    assert_eq!(events.as_array().unwrap().len(), 4);
    let listed = scene.line("baseline list").exits(0).stdout;
    assert!(listed.contains("tiny/v2") && listed.contains(" 1 session, 3 runs  "), "{listed}");
    let listed: Value = serde_json::from_str(&scene.line("baseline list --json").exits(0).stdout).unwrap();
    let active: Vec<_> = listed.as_array().unwrap().iter().map(|one| (&one["release"], &one["active"])).collect();
    assert!(
        active.contains(&(&"v1".into(), &true.into())) && active.contains(&(&"v2".into(), &false.into())),
        "{listed}"
    );
    scene.line("baseline show tiny").exits(0).shows(&["release      v1", "session      mon: 3 runs", "tpot.p50"]);

    every_changed_byte_is_found(&scene);
}

#[track_caller]
fn panic_with(history: &str, text: &str) -> usize {
    assert!(history.contains(text), "no `{text}` in\n{history}");
    0
}

fn every_changed_byte_is_found(scene: &Scene) {
    scene.line("baseline verify").exits(0).shows(&["every digest is right"]);
    for file in scene.files("baselines") {
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        let middle = bad.len().div_euclid(2);
        bad[middle] ^= 1;
        fs::write(&file, &bad).unwrap();
        let ended = scene.line("baseline verify").exits(4);
        assert!(!ended.stdout.contains("every digest is right"), "{}: {}", file.display(), ended.stdout);
        fs::write(&file, &good).unwrap();
    }
    scene.line("baseline verify tiny").exits(0);
}

#[test]
fn who_approved_it_stands_twice_and_both_must_agree() {
    let scene = Scene::new();
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    let history = scene.read("baselines/tiny/history.jsonl");
    assert!(history.contains("\"by\":\"ada\""), "{history}");
    fs::write(scene.path("baselines/tiny/history.jsonl"), history.replace("\"by\":\"ada\"", "\"by\":\"eve\"")).unwrap();
    scene.line("baseline verify").exits(4).shows(&["the history says that eve approved it", "its manifest says ada"]);
}

#[test]
fn a_release_that_fails_does_not_become_the_baseline() {
    let scene = Scene::new();
    for (release, step_ms) in [("v1", 5.0), ("v2", 80.0), ("v3", 5.0)] {
        Session { name: release, release, side: Side::Baseline, step_ms }.simulate(&scene);
    }
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    scene.line("baseline refresh --release v2 --approved-by ada --runs runs/v2 --policy p.yaml").exits(4).says(&[
        "the measurement's verdict against the active baseline is fail (",
        "accept the regression with `--rebase REASON`",
        "TPOT p50 at c2",
    ]);
    scene
        .line("baseline refresh --release v4 --approved-by ada --runs runs/v2 --rebase accepted")
        .exits(4)
        .says(&["measured release `v2`, not `v4`; name only runs of the release you approve"]);
    scene.line("baseline show tiny").exits(0).shows(&["release      v1"]);
    scene
        .line("baseline refresh --release v3 --approved-by ada --runs runs/v3 --policy p.yaml")
        .exits(0)
        .says(&["tiny: release v3 is the active baseline"]);
}

#[test]
fn a_session_that_is_worse_is_not_added_and_one_that_is_undecided_is() {
    let scene = Scene::new();
    // The margin is 50 ms a token: 85 ms more are worse, and 50 ms more lie on it.
    for (name, step_ms) in [("mon", 5.0), ("tue", 90.0)] {
        Session { name, release: "v1", side: Side::Baseline, step_ms }.simulate(&scene);
        fs::rename(scene.path("runs/v1"), scene.path(&format!("runs/{name}"))).unwrap();
    }
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/mon").exits(0);
    let add = "baseline refresh --add-session --release v1 --approved-by ada --policy p.yaml --runs";
    scene.line(&format!("{add} runs/tue")).exits(4).says(&[
        "verdict against the active baseline is fail (",
        "the same release is shown worse than in its other sessions: find out why, and measure the session again",
    ]);
    scene.line("baseline show tiny").exits(0).shows(&["session      mon: 3 runs"]);
    Session { name: "wed", release: "v1", side: Side::Baseline, step_ms: 55.0 }.simulate(&scene);
    scene.line(&format!("{add} runs/v1")).exits(0).says(&[
        "INCONCLUSIVE",
        "an inconclusive session is expected here and accepted",
        "2 sessions, 6 runs",
        "failed requests at c2: 0.0 % of 60 requests",
    ]);
}

#[test]
fn the_anchor_is_moved_by_a_decision_with_a_reason() {
    let scene = Scene::new();
    for release in ["v1", "v2"] {
        Session { name: release, release, side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    }
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    scene.line("baseline refresh --release v2 --approved-by ada --runs runs/v2 --policy p.yaml").exits(0);
    scene.line("baseline anchor tiny v2 --by ada").exits(64).says(&["--reason"]);
    scene.line("baseline anchor tiny v9 --by ada --reason r").exits(4).says(&["has no baseline of release `v9`"]);
    let anchor = "baseline anchor tiny v2 --by ada --reason yearly";
    scene.line(anchor).exits(0).says(&["tiny: release v2 is the anchor"]);
    scene.line(anchor).exits(4).says(&["release `v2` is the anchor already"]);
    scene.line("baseline list").exits(0).shows(&["active, anchor"]);
    scene.line("baseline history tiny").exits(0).shows(&["anchor  v2", ": yearly"]);
}

#[test]
fn runs_of_several_workloads_are_not_mixed() {
    let scene = Scene::new();
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "c", release: "v2", side: Side::Candidate, step_ms: 5.0 }.simulate(&scene);
    scene.write("w.yaml", &workload("other", 20, 8));
    Session { name: "tue", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    scene.write("w.yaml", &workload("tiny", 20, 8));
    let mixed = "the runs are of several workloads (other: 3 runs, tiny: 3 runs)";
    scene
        .line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1")
        .exits(64)
        .says(&[mixed, "name the runs of one workload, and give the command once for each"]);
    assert!(!scene.path("baselines").exists());
    scene.line("compare --policy p.yaml --baseline runs/v1 --candidate runs/v2").exits(4).says(&[
        mixed,
        "and no policy given judges `other`, such as runs/v1/tue-00-baseline",
        "or a policy for each workload",
    ]);
}

#[test]
fn odd_names_links_and_dates_in_the_store_are_faults() {
    let scene = Scene::new();
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    fs::create_dir(scene.path("baselines/tiny/v1 (copy)")).unwrap();
    symlink(scene.path("runs"), scene.path("baselines/link")).unwrap();
    scene.line("baseline verify").exits(4).shows(&[
        "baselines/tiny/v1 (copy): release `v1 (copy)` cannot be a folder name",
        "baselines/link: it is a symbolic link",
    ]);
}

#[test]
fn nothing_to_verify_is_not_all_right() {
    let scene = Scene::new();
    for line in ["baseline verify", "baseline verify nope", "baseline history nope"] {
        scene.line(line).exits(4).says(&["there is no baseline", "servegate baseline list"]);
    }
}

/// The added session then counts for nothing, and the gate says so before it measures.
fn a_history_without_its_last_line_is_warned_of(scene: &Scene) {
    let gate = |scene: &Scene| scene.gate("http://127.0.0.1:1", "").exits(4).stderr;
    let warning = "warning: baselines/tiny/v1/baseline.json: the history does not know its digest ";
    let whole = scene.read("baselines/tiny/history.jsonl");
    assert!(!gate(scene).contains("warning: baselines"));
    for kept in [1, 0] {
        let cut: String = whole.split_inclusive('\n').take(kept).collect();
        scene.write("baselines/tiny/history.jsonl", &cut);
        let told = scene.gate("http://127.0.0.1:1", "").stderr;
        assert!(told.contains(warning) && told.contains("the last lines of history.jsonl were removed"), "{told}");
    }
    scene.write("baselines/tiny/history.jsonl", &whole);
}

//! The folders of `servegate.yaml` hold for every command, and the commands that servegate prints run as printed.

use std::fs;

use servegate::base::names::Side;

use crate::stored::Session;
use crate::support::Scene;

const CONFIG: &str = "servegate: 1\nkind: config\nbaselines: kept/baselines\nout: kept/reports\n";

/// A session of each side, the candidate's tokens `step_ms` against 5 ms of the baseline's.
fn measured(step_ms: f64) -> Scene {
    let scene = Scene::new();
    Session { name: "v1", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "v2", release: "v2", side: Side::Candidate, step_ms }.simulate(&scene);
    scene
}

const COMPARE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";
const INITIAL: &str = "baseline refresh --initial --release v1 --approved-by ada --runs runs/v1";

#[test]
fn every_command_takes_its_folders_from_the_config_and_an_option_wins() {
    let scene = measured(5.0);
    scene.write("servegate.yaml", CONFIG);
    scene.line(INITIAL).exits(0);
    assert!(scene.path("kept/baselines/tiny/v1/baseline.json").exists() && !scene.path("baselines").exists());
    for line in ["baseline list", "baseline show tiny", "baseline history tiny", "baseline verify tiny"] {
        scene.line(line).exits(0);
    }
    scene.line("baseline list").shows(&["tiny/v1"]);
    scene.line(COMPARE).exits(0);
    assert!(scene.path("kept/reports/summary.md").exists() && !scene.path("servegate-out").exists());
    scene.line("baseline list --store elsewhere").exits(0).shows(&["no baseline"]);
    scene.line(&format!("{COMPARE} --out other")).exits(0);
    assert!(scene.path("other/summary.md").exists());

    fs::rename(scene.path("servegate.yaml"), scene.path("named.yaml")).unwrap();
    scene.line("baseline list").exits(0).shows(&["no baseline"]);
    scene.line("baseline list --config named.yaml").exits(0).shows(&["tiny/v1"]);
    fs::remove_dir_all(scene.path("kept/reports")).unwrap();
    scene.line(&format!("{COMPARE} --config named.yaml")).exits(0);
    assert!(scene.path("kept/reports/summary.md").exists());
}

#[test]
fn a_config_that_cannot_be_read_leaves_no_old_report() {
    let scene = measured(5.0);
    scene.line(COMPARE).exits(0);
    scene.write("servegate.yaml", "kind: config\n");
    scene.line(COMPARE).exits(5);
    assert!(!scene.path("servegate-out/summary.md").exists());
    scene.line("baseline list").exits(5);
}

#[test]
fn a_fail_names_the_command_that_accepts_it_and_it_runs_as_printed() {
    let scene = measured(50.0);
    scene.write("servegate.yaml", CONFIG);
    scene.line(INITIAL).exits(0);
    scene.write("p.yaml", &scene.read("p.yaml").replace("50ms", "1ms"));
    scene.line(COMPARE).exits(1);
    let start = "- if the regression is accepted, approve the release: servegate ";
    let summary = scene.read("kept/reports/summary.md");
    let command = summary.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("{summary}"));
    assert_eq!(command, "baseline refresh --release v2 --approved-by WHO --runs runs/v2 --rebase REASON");
    scene.line("verify kept/reports/bundle").exits(0);
    scene.line(command).exits(0);
    scene.line("baseline list").exits(0).shows(&["tiny/v2"]);
}

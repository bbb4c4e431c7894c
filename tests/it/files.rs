//! `check` and `schema`: what people write, and every problem of it at once.

use std::path::Path;

use serde_json::Value;

use crate::support::{Ended, Scene};

/// Three files with a problem each, and one that is right.
fn broken() -> Scene {
    let scene = Scene::new();
    scene.write(
        "gate-policies/a.yaml",
        "servegate: 1\nkind: policy\nname: a\nworkload: w.yaml\nchecks:\n  - metric: tpto\n    at_most: 5\n",
    );
    scene.write(
        "gate-policies/b.yaml",
        "servegate: 1\nkind: policy\nname: b\nworkload: nowhere.yaml\nunknown: 1\nchecks: []\n",
    );
    scene.write("gate-policies/w.yaml", "servegate: 1\nkind: workload\nname: w\ncells:\n  - name: c1\n    concurrency: 0\n    requests: 20\n    prompt_tokens: 1\n    output_tokens: 8\n");
    scene.write("servegate.yaml", "servegate: 1\nkind: config\ntargets:\n  t: {url: \"ftp://h\", model: m}\n");
    scene
}

#[test]
fn check_reports_every_problem_of_every_file_with_its_place() {
    let scene = broken();
    scene.line("check").exits(5).says(&[
        "gate-policies/a.yaml:6:",
        "gate-policies/a.yaml:7:",
        "gate-policies/b.yaml:4:",
        "gate-policies/b.yaml:5:",
        "gate-policies/w.yaml:6:",
        "servegate.yaml:4:",
        " problems in the files",
    ]);
    let ended = scene.line("check --json").exits(5);
    assert_eq!(ended.stderr, "");
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(found["files"], 4);
    assert!(
        findings.len() >= 6 && findings.iter().all(|one| one["place"]["file"].is_string() && one["help"].is_string())
    );
}

#[test]
fn a_file_that_cannot_be_read_hides_no_problem_of_another() {
    let scene = broken();
    scene.line("check nowhere.yaml servegate.yaml").exits(5).says(&["nowhere.yaml", "servegate.yaml:4:"]);
    std::fs::write(scene.path("latin.yaml"), b"name: caf\xe9\n").unwrap();
    scene.line("check latin.yaml servegate.yaml").exits(5).says(&["latin.yaml", "UTF-8", "servegate.yaml:4:"]);
    let empty = Scene::new();
    std::fs::remove_file(empty.path("p.yaml")).unwrap();
    empty.line("check").exits(64).says(&["there is no file to check"]);
}

#[test]
fn the_shipped_files_pass_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = crate::cli::servegate(root, &["check", "gate-policies"]);
    Ended::of(&output).exits(0).shows(&["4 files, no problem"]);
}

#[test]
fn schemas_are_valid_json_and_can_be_written_to_a_folder() {
    let scene = Scene::new();
    for kind in ["policy", "workload", "config"] {
        let schema: Value = serde_json::from_str(&scene.line(&format!("schema {kind}")).exits(0).stdout).unwrap();
        assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org") && schema["properties"].is_object());
    }
    scene.line("schema --out schemas").exits(0);
    for file in scene.files("schemas") {
        serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap();
    }
    assert_eq!(scene.files("schemas").len(), 3);
}

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

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_refused_and_never_waited_for() {
    let scene = Scene::new();
    let made = std::process::Command::new("mkfifo").arg(scene.path("pipe.yaml")).status().unwrap();
    assert!(made.success());
    let pipe = "cannot read pipe.yaml: it is a pipe, and only regular files are read";
    scene.line("check pipe.yaml").exits(5).says(&[pipe]);
    scene
        .line("check /dev/zero")
        .exits(5)
        .says(&["cannot read /dev/zero: it is a device, and only regular files are read"]);
    let target = "--url http://127.0.0.1:1 --model m";
    scene.line(&format!("run --policy pipe.yaml {target}")).exits(5).says(&[pipe]);
    scene.line(&format!("measure --workload pipe.yaml --out runs {target}")).exits(5).says(&[pipe]);
    scene.line("run --policy p.yaml --config pipe.yaml --target t").exits(5).says(&[pipe]);
    scene.write("linked.yaml", "servegate: 1\nkind: policy\nname: l\nworkload: pipe.yaml\nchecks: []\n");
    scene.line("check linked.yaml").exits(5).says(&["the workload `pipe.yaml` cannot be read: ", "it is a pipe"]);
    std::fs::create_dir(scene.path("run")).unwrap();
    std::fs::rename(scene.path("pipe.yaml"), scene.path("run/manifest.json")).unwrap();
    scene
        .line("compare --policy p.yaml --baseline run --candidate run")
        .exits(4)
        .says(&["cannot read run/manifest.json: it is a pipe"]);
}

#[test]
fn a_file_that_cannot_be_read_ends_every_command_alike() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("folder.yaml")).unwrap();
    scene.write("empty.yaml", "");
    std::fs::write(scene.path("binary.yaml"), b"servegate: 1\n\xff\xfe\0").unwrap();
    for file in ["missing.yaml", "folder.yaml", "empty.yaml", "binary.yaml"] {
        for line in [
            "run --policy FILE --url http://127.0.0.1:1 --model m",
            "run --policy p.yaml --config FILE --target t",
            "measure --workload FILE --out runs --url http://127.0.0.1:1 --model m",
            "compare --policy FILE --baseline a --candidate b",
        ] {
            scene.line(&line.replace("FILE", file)).exits(5).says(&[file]);
        }
        if file != "folder.yaml" {
            scene.line(&format!("check {file}")).exits(5).says(&[file]);
        }
    }
}

#[test]
fn a_required_error_rate_that_can_never_be_shown_is_found_with_the_requests_it_needs() {
    let scene = Scene::new();
    let check = |margin: &str| {
        format!(
            "servegate: 1\nkind: policy\nname: tiny\nworkload: w.yaml\nruns: 3\nchecks:\n  - metric: tpot\n    \
             statistic: p50\n    at_most: 5%\n  - metric: error_rate\n    at_most: {margin}\n"
        )
    };
    scene.write("p.yaml", &check("1pp"));
    let ended = scene.line("check p.yaml --json").exits(5);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let finding = &found["findings"][0];
    assert_eq!((&finding["code"], &finding["place"]["line"]), (&"margin-out-of-reach".into(), &10.into()), "{finding}");
    let help = finding["help"].as_str().unwrap();
    let needed: u32 = help.split("`requests` to ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    scene.write("w.yaml", &crate::support::workload("tiny", needed, 8));
    scene.line("check p.yaml").exits(0);
    scene.write("w.yaml", &crate::support::workload("tiny", needed - 1, 8));
    scene.line("check p.yaml").exits(5).says(&["`error_rate@c2` is required and can never pass: 3 runs of"]);
    // A gate may be given more runs, so it only says so.
    scene.line("run --policy p.yaml --url http://127.0.0.1:1 --model m").exits(3).says(&["can never pass"]);
    scene.write("p.yaml", &check("15pp"));
    scene.line("check p.yaml").exits(0);
}

#[test]
fn the_shipped_files_pass_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = crate::cli::servegate(root, &["check", "gate-policies"]);
    Ended::of(&output).exits(0).shows(&["8 files, no problem"]);
}

#[test]
fn schemas_are_valid_json_and_can_be_written_to_a_folder() {
    let scene = Scene::new();
    for kind in ["policy", "workload", "config"] {
        let schema: Value = serde_json::from_str(&scene.line(&format!("schema {kind}")).exits(0).stdout).unwrap();
        assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org") && schema["properties"].is_object());
    }
    let kinds = ["`policy` (gate-policies/*.yaml)", "`workload` (", "`config` (servegate.yaml)", "--out DIR"];
    scene.line("schema").exits(64).says(&kinds);
    scene.line("schema --out schemas").exits(0);
    for file in scene.files("schemas") {
        serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()).unwrap();
    }
    assert_eq!(scene.files("schemas").len(), 3);
}

/// The codes that `check` finds, in the order of its report.
fn codes(ended: &Ended) -> Vec<String> {
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    found["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_problem_of_a_workload_is_counted_once_whoever_uses_the_file() {
    let scene = Scene::new();
    scene.write("w.yaml", &scene.read("w.yaml").replace("concurrency: 2", "concurrency: 0"));
    for line in
        ["check p.yaml w.yaml --json", "check w.yaml p.yaml --json", "check . --json", "check p.yaml p.yaml . --json"]
    {
        assert_eq!(codes(&scene.line(line).exits(5)), ["out-of-range"], "{line}");
    }
    let found: Value = serde_json::from_str(&scene.line("check p.yaml p.yaml . --json").stdout).unwrap();
    assert_eq!(found["files"], 2);
}

#[test]
fn no_problem_hides_another_of_the_same_policy() {
    let scene = Scene::new();
    let policy = |checks: &str| {
        scene.write(
            "p.yaml",
            &format!("servegate: 1\nkind: policy\nname: tiny\nworkload: w.yaml\nruns: 3\nchecks:\n{checks}"),
        );
        let mut codes = codes(&scene.line("check p.yaml --json").exits(5));
        codes.sort_unstable();
        codes
    };
    let reach = "  - {metric: error_rate, at_most: 0.2pp, role: required}\n";
    assert_eq!(policy(reach), ["margin-out-of-reach"]);
    let unknown = "  - {metric: tpot, statistic: p50, cells: [c99], at_most: 5%}\n";
    assert_eq!(policy(&format!("{reach}{unknown}")), ["margin-out-of-reach", "unknown-cell"]);
    let few = "  - {metric: ttft, statistic: p99, at_most: 5%, role: guard}\n";
    assert_eq!(policy(&format!("{reach}{few}")), ["margin-out-of-reach", "too-few-requests"]);
    let twice = "  - {metric: tpot, statistic: p50, cells: [c2, c99], at_most: 5%, role: requird}\n";
    assert_eq!(policy(&format!("{reach}{twice}")), ["margin-out-of-reach", "unknown-cell", "unknown-value"]);
}

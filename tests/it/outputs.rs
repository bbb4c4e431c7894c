//! The folder of the reports: one gate at a time, apart from the baselines, and filled whatever happens.

use std::fs;
use std::process::Stdio;

use quick_junit::Report;
use serde_json::Value;

use crate::stored::first_baseline;
use crate::support::{Engine, MODEL, Scene, policy, wait_for, workload};

fn with_baseline(scene: &Scene, engine: &Engine) {
    scene.measure(&engine.url(), "--out runs --release v1 --quiet").exits(0);
    first_baseline(scene, "runs");
}

fn verdict(scene: &Scene) -> Value {
    serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap()
}

/// The sentence of the policy's own case.
fn junit_sentence(scene: &Scene) -> String {
    let report = Report::deserialize_from_str(&scene.read("servegate-out/junit.xml")).unwrap();
    let case = &report.test_suites[0].test_cases[0];
    assert_eq!(case.name.as_str(), "gate.verdict");
    case.system_out.as_ref().unwrap().as_str().to_owned()
}

#[test]
fn a_second_gate_into_one_folder_is_refused_before_it_measures_and_a_killed_one_frees_it() {
    let scene = Scene::new();
    let engine = Engine::quick(2.0);
    with_baseline(&scene, &engine);
    let line =
        format!("run --policy p.yaml --url {} --model {MODEL} --ignore-eos --session s --runs 100", engine.url());
    let mut command = scene.command();
    command.args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = command.spawn().unwrap();
    let records = scene.path("servegate-out/runs/tiny/s/s-00-candidate.partial/records.jsonl.zst");
    wait_for(|| records.exists() || scene.path("servegate-out/runs/tiny/s/s-00-candidate").exists());
    for line in [
        "run --policy p.yaml --url http://127.0.0.1:1 --model m",
        "compare --policy p.yaml --baseline runs --candidate runs",
        "demo",
    ] {
        scene.line(line).exits(4).says(&["another servegate is writing into servegate-out", "--out"]);
    }
    // Another folder is free.
    scene.line("compare --policy p.yaml --baseline runs --candidate runs --out other").says(&[]);
    assert!(scene.path("other/verdict.json").exists());
    first.kill().unwrap();
    first.wait().unwrap();
    scene.line("compare --policy p.yaml --baseline runs --candidate runs").says(&[]);
    assert!(scene.path("servegate-out/verdict.json").exists());
}

#[test]
fn reports_and_baselines_are_kept_apart() {
    let scene = Scene::new();
    let gate = |more: &str| scene.gate("http://127.0.0.1:1", more);
    for (more, words) in [
        ("--out baselines", "--out and --store are one folder: baselines"),
        ("--out x --store x/../x", "--out and --store are one folder: x"),
        ("--out baselines/tiny", "--out baselines/tiny is inside --store baselines"),
        ("--store servegate-out/baselines", "--store servegate-out/baselines is inside --out servegate-out"),
    ] {
        gate(more).exits(64).says(&[words, "hint: "]);
    }
    assert!(!scene.path("baselines").exists() && !scene.path("servegate-out").exists());
}

#[test]
fn a_folder_that_is_a_file_is_one_clear_sentence() {
    let scene = Scene::new();
    scene.write("file", "");
    let url = "http://127.0.0.1:1";
    let no_folder = "file is there and is no folder; choose another folder, or remove it";
    scene.gate(url, "--out file").exits(4).says(&[no_folder]);
    scene.measure(url, "--out file").exits(4).says(&[no_folder]);
    scene
        .gate(url, "--out file/out")
        .exits(4)
        .says(&["cannot create the folder file/out: ", "a part of the path is a file"]);
    scene.gate(url, "--store file").exits(4).says(&["--store file is no folder"]);
    assert_eq!(scene.read("file"), "");
    // Missing parents are made.
    scene.gate(url, "--out a/b/c").exits(3);
    assert!(scene.path("a/b/c/verdict.json").exists());
}

#[test]
fn what_kept_the_gate_from_measuring_is_the_first_thing_that_every_report_says() {
    let scene = Scene::new();
    with_baseline(&scene, &Engine::quick(0.3));
    let ended = scene.gate("http://127.0.0.1:1", "--release v2").exits(4);
    let headline = "ERROR: v2 could not be judged: the target is unreachable: ";
    let first = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first(&ended.stdout).starts_with(headline), "{}", ended.stdout);
    let summary = scene.read("servegate-out/summary.md");
    assert!(summary.lines().nth(2).unwrap().starts_with(headline), "{summary}");
    assert!(junit_sentence(&scene).starts_with("tiny could not be judged: the target is unreachable: "));
    let verdict = verdict(&scene);
    assert!(verdict["sentence"].as_str().unwrap().starts_with(headline), "{verdict}");
    assert_eq!(verdict["candidate"], "v2");
    let findings = verdict["policies"][0]["findings"].as_array().unwrap();
    assert_eq!(findings[0]["code"], "measurement-stopped");
    assert!(findings.iter().all(|finding| finding["code"] != "no-candidate-data"));
    let reason = &verdict["policies"][0]["checks"][0]["reason"];
    assert_eq!(reason, "not judged: measurement-stopped, see above");
    // Said once and referred to, but a reader of JUnit may see nothing but the one case.
    let report = Report::deserialize_from_str(&scene.read("servegate-out/junit.xml")).unwrap();
    let case = report.test_suites[0].test_cases.iter().find(|case| case.name.as_str() == "tpot.p50@c2").unwrap();
    let body = case.system_out.as_ref().unwrap().as_str();
    assert!(body.starts_with("not judged: measurement-stopped, see above\n"), "{body}");
    assert!(body.contains("\nmeasurement-stopped: the target is unreachable: "), "{body}");
    let blocks = ended.stdout.split_once("\nWhat blocks\n").unwrap().1;
    assert_eq!(blocks.matches("the target is unreachable").count(), 1, "{blocks}");
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn a_missing_baseline_is_in_every_report() {
    let scene = Scene::new();
    scene.write("other.yaml", &workload("other", 20, 8));
    scene.write("q.yaml", &policy("other", "other.yaml"));
    with_baseline(&scene, &Engine::quick(0.3));
    // One workload has a baseline and the other has none: nothing is measured for either.
    let line = format!("run --policy p.yaml q.yaml --url http://127.0.0.1:1 --model {MODEL} --release v2");
    for (more, code) in [("", 3), (" --exit-policy advisory", 3)] {
        let ended = scene.line(&format!("{line}{more}")).exits(code);
        let missing = "there is no baseline of the workload `other`, so nothing was measured";
        let ended = ended.says(&[missing, "hint: ", "baseline refresh --initial"]);
        let shown = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.starts_with(&format!("NOT COMPARABLE: v2 cannot be compared: {missing}.")), "{shown}");
        assert!(scene.read("servegate-out/summary.md").contains("NOT COMPARABLE"));
        assert!(junit_sentence(&scene).contains(missing));
        let verdict = verdict(&scene);
        assert_eq!((&verdict["verdict"], &verdict["exit_code"]), (&"not_comparable".into(), &3.into()));
        for policy in verdict["policies"].as_array().unwrap() {
            assert_eq!(policy["verdict"], "not_comparable");
            assert_eq!(policy["findings"][0]["code"], "baseline-missing");
        }
        scene.line("verify servegate-out/bundle").exits(0);
    }
}

#[test]
fn one_policy_is_judged_once_and_names_tell_policies_apart() {
    let scene = Scene::new();
    fs::create_dir(scene.path("sub")).unwrap();
    scene.write("copy.yaml", &policy("tiny", "w.yaml"));
    scene.write("wide.yaml", &workload("wide", 20, 8));
    scene.write("other.yaml", &policy("tiny", "wide.yaml"));
    let gate = |policies: &str| scene.line(&format!("run --policy {policies} --url http://127.0.0.1:1 --model m"));
    gate("p.yaml sub/../p.yaml").exits(64).says(&["the policy sub/../p.yaml is given twice", "hint: "]);
    for other in ["copy.yaml", "other.yaml"] {
        gate(&format!("p.yaml {other}"))
            .exits(64)
            .says(&[&format!("two policies are called `tiny`: p.yaml and {other}"), "hint: give each policy a name"]);
    }
    // They may live side by side: each gate takes one.
    scene.line("check p.yaml copy.yaml other.yaml").exits(0);
}

#[test]
fn no_old_report_stays_when_the_new_one_cannot_be_made() {
    let scene = Scene::new();
    let old = |name: &str| {
        fs::create_dir_all(scene.path("servegate-out")).unwrap();
        fs::write(scene.path("servegate-out/junit.xml"), "<testsuites/>").unwrap();
        fs::write(scene.path("servegate-out/verdict.json"), name).unwrap();
    };
    let gone = || ["junit.xml", "verdict.json"].iter().all(|file| !scene.path("servegate-out").join(file).exists());
    fs::write(scene.path("bad.yaml"), "servegate: 1\nkind: config\ntargets: 7\n").unwrap();
    for (line, code) in [
        ("run --policy p.yaml --config bad.yaml --target a", 5),
        ("run --policy p.yaml --config nowhere.yaml --target a", 5),
        ("run --policy p.yaml --url http://127.0.0.1:1 --model m --session ../x", 64),
        ("ab --policy p.yaml --config bad.yaml --baseline-target a --target b", 5),
        ("ab --policy p.yaml --baseline-target a --target b --session ../x", 64),
    ] {
        old("green");
        scene.line(line).exits(code);
        assert!(gone(), "{line}");
    }
    // What stands in the place of the bundle is looked at before anything is measured.
    old("green");
    fs::create_dir_all(scene.path("servegate-out/bundle")).unwrap();
    fs::write(scene.path("servegate-out/bundle/mine"), "").unwrap();
    scene.gate("http://127.0.0.1:1", "").exits(4).says(&["bundle is there and is no bundle"]);
    assert!(gone() && scene.path("servegate-out/bundle/mine").exists());
    scene.line("run --policy p.yaml --url http://127.0.0.1:1 --model=").exits(64);
}

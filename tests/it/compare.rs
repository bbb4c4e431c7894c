//! `servegate compare` on stored runs: deterministic, and strict about what it is given.

use std::fs;
use std::io::Cursor;

use serde_json::Value;
use servegate::base::digest::Digest;
use servegate::base::names::Side;

use crate::stored::Session;
use crate::support::{Engine, MODEL, Scene, policy, workload};

const LINE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";

/// A session of each side, `step_ms` of the candidate's tokens against 5 ms of the baseline's.
fn measured_with(step_ms: f64) -> Scene {
    let scene = Scene::new();
    Session { name: "v1", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "v2", release: "v2", side: Side::Candidate, step_ms }.simulate(&scene);
    scene
}

fn measured() -> Scene {
    measured_with(5.0)
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let scene = measured();
    let first = scene.line(LINE).exits(0);
    let read = || ["junit.xml", "summary.md", "verdict.json"].map(|file| scene.read(&format!("servegate-out/{file}")));
    let files = read();
    let second = scene.line(LINE);
    assert_eq!((first.code, first.stdout), (second.code, second.stdout));
    assert!(files == read());
    let json: Value = serde_json::from_str(&scene.line(&format!("{LINE} --json")).stdout).unwrap();
    assert_eq!(json, serde_json::from_str::<Value>(&files[2]).unwrap());
}

#[test]
fn a_run_of_another_plan_is_not_comparable_and_advisory_says_that_it_exits_0() {
    let scene = measured();
    scene.write("w.yaml", &workload("tiny", 21, 8));
    scene.line(LINE).exits(3).shows(&["NOT COMPARABLE", "plan"]);
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    assert_eq!(verdict["verdict"], "not_comparable");
    assert!(scene.read("servegate-out/verdict.json").contains("plan-differs"));
    scene.line("verify servegate-out/bundle").exits(0);

    scene.line(&format!("{LINE} --exit-policy advisory")).exits(0).shows(&["NOT COMPARABLE", "advisory"]);
    for file in ["junit.xml", "summary.md", "verdict.json"] {
        assert!(scene.read(&format!("servegate-out/{file}")).to_lowercase().contains("advisory"), "{file}");
    }
}

#[test]
fn a_policy_of_another_workload_finds_no_runs() {
    let scene = measured();
    scene.write("other.yaml", &workload("other", 20, 8));
    scene.write("p.yaml", &policy("tiny", "other.yaml"));
    let ended = scene.line(LINE);
    assert!(matches!(ended.code, Some(3 | 4)), "{:?}\n{}", ended.code, ended.stdout);
}

/// Changes the text of the first records file and makes every digest right again.
fn forge(scene: &Scene, change: impl Fn(String) -> String) {
    let folder = scene.path("runs/v2/v2-00-candidate");
    let (records, manifest) = (folder.join("records.jsonl.zst"), folder.join("manifest.json"));
    let old = fs::read(&records).unwrap();
    let text = String::from_utf8(zstd::decode_all(Cursor::new(&old)).unwrap()).unwrap();
    let new = zstd::encode_all(Cursor::new(change(text)), 3).unwrap();
    let told = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, told.replace(&Digest::of(&old).to_string(), &Digest::of(&new).to_string())).unwrap();
    fs::write(&records, new).unwrap();
}

#[test]
fn a_stored_number_that_is_none_is_refused_with_its_line() {
    for bad in ["NaN", "1e999", "-1", "null", "\"7\"", "1.5"] {
        let scene = measured();
        forge(&scene, |text| {
            let at = text.find("\"end_us\":").unwrap() + "\"end_us\":".len();
            let digits = text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
            format!("{}{bad}{}", &text[..at], &text[at + digits..])
        });
        scene.line(LINE).exits(4).says(&["records.jsonl.zst: line 2 of the records is refused: ", "was changed since"]);
        assert!(!scene.path("servegate-out/verdict.json").exists());
    }
}

#[test]
fn a_newer_format_and_a_changed_byte_are_refused() {
    let scene = measured();
    let manifest = scene.path("runs/v2/v2-00-candidate/manifest.json");
    let good = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, good.replace("\"format\": 1", "\"format\": 2").replace("\"side\"", "\"new_key\"")).unwrap();
    scene
        .line(LINE)
        .exits(4)
        .says(&["manifest.json: format 2 is newer than 1, the newest that this version reads; use a newer servegate"]);
    fs::write(&manifest, &good).unwrap();
    forge(&scene, |text| text.replace("{\"servegate_records\":1}", "{\"servegate_records\":2}"));
    scene.line(LINE).exits(4).says(&["format 2 is newer than 1", "use a newer servegate"]);
    let records = scene.path("runs/v2/v2-01-candidate/records.jsonl.zst");
    let mut bytes = fs::read(&records).unwrap();
    bytes[20] ^= 1;
    fs::write(&records, bytes).unwrap();
    fs::write(&manifest, good).unwrap();
    scene
        .line("compare --policy p.yaml --baseline runs/v1 --candidate runs/v2/v2-01-candidate")
        .exits(4)
        .says(&["was changed after it was measured"]);
}

#[test]
fn what_is_no_run_is_named() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path("runs/v1")).unwrap();
    scene.line(LINE).exits(4).says(&["runs/v1 is no run and holds none", "a run is a folder with manifest.json"]);
    scene
        .line("compare --policy p.yaml --baseline nowhere --candidate runs/v1")
        .exits(4)
        .says(&["cannot read the folder nowhere: "]);
    scene
        .line("compare --policy nowhere.yaml --baseline runs/v1 --candidate runs/v1")
        .exits(5)
        .says(&["cannot read nowhere.yaml: "]);
}

#[test]
fn a_regression_fails_and_the_advisory_exit_policy_says_that_it_does_not_block() {
    let scene = measured_with(80.0);
    scene.line(LINE).exits(1).shows(&["FAIL: v2 is shown worse", "tpot.p50@c2", "exit code 1, exit policy strict"]);
    let ended = scene.line(&format!("{LINE} --exit-policy advisory")).exits(0);
    ended.shows(&["FAIL", "Advisory mode:"]);
    for file in ["junit.xml", "summary.md", "verdict.json"] {
        assert!(scene.read(&format!("servegate-out/{file}")).to_lowercase().contains("advisory"), "{file}");
    }
}

#[test]
fn one_run_given_twice_is_not_comparable() {
    let scene = measured();
    let line = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2 runs/v2/v2-00-candidate";
    scene.line(line).exits(3).shows(&["run-duplicate"]);
}

#[test]
fn requests_with_other_fields_are_not_compared() {
    let engine = Engine::quick(0.3);
    let scene = Scene::new();
    scene.measure(&engine.url(), "--out base --session b --quiet").exits(0);
    let plain =
        format!("measure --workload w.yaml --url {} --model {MODEL} --out other --session o --quiet", engine.url());
    scene.line(&plain).exits(0);
    let judged = scene.line("compare --policy p.yaml --baseline base --candidate other");
    // On a busy machine a run counts for nothing besides, and that is exit code 4.
    assert!(matches!(judged.code, Some(3 | 4)), "{}\n{}", judged.stdout, judged.stderr);
    let report = scene.read("servegate-out/verdict.json");
    assert!(report.contains(r#"`request_fields` is `{\\\"ignore_eos\\\":true}` in the baseline and `{}`"#), "{report}");
}

//! Parts of a cell from the workload to the verdict: what only one class feels is found where only it is looked at.

use std::fs;
use std::path::Path;

use serde_json::Value;
use servegate::artifact::record::Record;
use servegate::base::names::Side;
use servegate::sim::Deployment;
use servegate::sim::noise::Noise;
use servegate::sim::profile::Profile;

use crate::stored::Session;
use crate::support::{Engine, Scene};

/// A file of the repository.
fn shipped(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("gate-policies").join(path)).unwrap()
}

/// The simulated engine with these coefficients.
fn engine(settings: &[&str]) -> Deployment {
    let mut profile = Profile::h100_8b();
    for setting in settings {
        profile.set(setting).unwrap();
    }
    Deployment::new(profile, Noise::OFF)
}

/// Baseline `v1` on the usual engine, candidate `v2` on one with these coefficients.
fn measured(workload: &str, policy: &str, candidate: &[&str]) -> Scene {
    let scene = Scene::new();
    scene.write("w.yaml", workload);
    scene.write("p.yaml", policy);
    let session = |name, side| Session { name, release: name, side, step_ms: 0.0 };
    session("v1", Side::Baseline).simulate_on(&scene, &engine(&[]));
    session("v2", Side::Candidate).simulate_on(&scene, &engine(candidate));
    scene
}

fn mixed(candidate: &[&str]) -> Scene {
    let policy = shipped("mixed.yaml").replace("workloads/mixed.yaml", "w.yaml");
    measured(&shipped("workloads/mixed.yaml"), &policy, candidate)
}

const COMPARE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";

/// The checks of the verdict: id, verdict and change.
fn checks(scene: &Scene) -> Vec<(String, String, f64)> {
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let checks = verdict["policies"][0]["checks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |check: &Value| {
        (text(&check["id"]), text(&check["verdict"]), check["effect"]["change"].as_f64().unwrap_or(f64::NAN))
    };
    checks.iter().map(row).collect()
}

#[test]
fn a_stall_that_one_long_prompt_causes_is_found_in_the_class_and_hidden_in_the_median_of_the_cell() {
    // Chunked prefill off: a document is read in one step, and every chat waits for it.
    let scene = mixed(&["max_num_batched_tokens=131072"]);
    let ended = scene.line(COMPARE).exits(1);
    let found = checks(&scene);
    let of = |id: &str| found.iter().find(|check| check.0 == id).unwrap_or_else(|| panic!("no {id}: {found:?}"));
    let stall = of("stall.p90@mixed:chat");
    assert_eq!(stall.1, "fail", "{found:?}\n{}", ended.stdout);
    assert!(stall.2 > 3.0, "{stall:?}");
    let failed: Vec<&str> = found.iter().filter(|check| check.1 == "fail").map(|check| check.0.as_str()).collect();
    assert_eq!(failed, ["stall.p90@mixed:chat"]);
    for hidden in ["tpot.p50@mixed", "error_rate@mixed", "output_tokens@mixed", "ttft.p50@mixed:chat"] {
        assert_eq!(of(hidden).1, "pass", "{found:?}");
    }
    assert!(of("tpot.p50@mixed").2.abs() < 0.05, "{found:?}");
    ended.shows(&["longest stall p90 at mixed:chat"]);
    // Each part has guards of its own.
    for part in ["mixed:chat", "mixed:context=8k-"] {
        for metric in ["error_rate", "output_tokens"] {
            assert!(of(&format!("{metric}@{part}")).2.abs() < 1e-9, "{found:?}");
        }
    }
    let junit = scene.read("servegate-out/junit.xml");
    assert!(junit.contains("name=\"stall.p90@mixed:chat\""), "{junit}");
}

#[test]
fn the_same_engine_again_passes() {
    let scene = mixed(&[]);
    scene.line(COMPARE).exits(0);
    // From 20 documents a run it cannot be shown that one in a hundred more fails: an undecided guard blocks nothing.
    let open = ["error_rate@mixed:context=8k-"];
    assert!(
        checks(&scene).iter().all(|check| check.1 == "pass" || open.contains(&check.0.as_str())),
        "{:?}",
        checks(&scene)
    );
}

/// A cell whose prompts differ, for the slope, with a check of it, and of one of both classes.
const LENGTHS: &str = "\
servegate: 1
kind: workload
name: lengths
cells:
  - name: r2
    rate: 2/s
    requests: 100
    warmup: 4
    classes:
      - {name: short, weight: 4, prompt_tokens: {uniform: {min: 100, max: 2000}}, output_tokens: 4}
      - {name: long, weight: 1, prompt_tokens: {uniform: {min: 2000, max: 9000}}, output_tokens: 4}
";

const SLOPE: &str = "\
servegate: 1
kind: policy
name: lengths
workload: w.yaml
checks:
  - {metric: ttft_slope, at_most: 20%, floor: 2ms, role: required}
  - {metric: ttft_slope, at_most: 20%, floor: 2ms, class: long}
  - {metric: error_rate, at_most: 5pp, role: guard}
";

#[test]
fn what_a_longer_context_costs_is_a_slope_in_ms_for_a_thousand_tokens() {
    // Per token 21.3 us of linear layers and some attention; the candidate's tokeniser adds 16 us a token.
    let scene = measured(LENGTHS, SLOPE, &["tokenise_us=17.25"]);
    let ended = scene.line(COMPARE).exits(1);
    let found = checks(&scene);
    let slope = found.iter().find(|check| check.0 == "ttft_slope@r2").unwrap();
    assert_eq!(slope.1, "fail", "{found:?}");
    assert!((slope.2 - 16.0).abs() < 1.0, "16 us a token are 16 ms for a thousand: {slope:?}");
    ended.shows(&["ms/1k tokens worse", "slope of TTFT at r2", "slope of TTFT at r2:long"]);

    let same = measured(LENGTHS, SLOPE, &[]);
    same.line(COMPARE).exits(0);
    assert!(checks(&same)[0].2.abs() < 1.0, "{:?}", checks(&same));
}

#[test]
fn what_a_part_cannot_show_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    scene.write("w.yaml", LENGTHS);
    let check = |keys: &str| {
        let policy = SLOPE.split("  - {metric: ttft").next().unwrap();
        scene.write("p.yaml", &format!("{policy}  - {{metric: error_rate, at_most: 9pp}}\n  - {{{keys}}}\n"));
        scene.line("check p.yaml w.yaml")
    };
    let ttft = "metric: ttft, at_most: 9%, role: guard";
    check(&format!("{ttft}, statistic: p50, class: long")).exits(0);
    check(&format!("{ttft}, statistic: p75, class: long")).exits(5).says(&[
        "too-few-requests",
        "`ttft.p75@r2:long` needs 40 requests",
        "the class plans 20",
    ]);
    check(&format!("{ttft}, statistic: p50, class: lonk")).exits(5).says(&["unknown-class", "did you mean `long`?"]);
    check(&format!("{ttft}, statistic: p50, class: chat"))
        .exits(5)
        .says(&["`chat` is no class of `r2`", "the classes there are `long`, `short`"]);
    check(&format!("{ttft}, statistic: p50, context: 8k-"))
        .exits(5)
        .says(&["too-few-requests", "`ttft.p50@r2:context=8k-` needs 20 requests in a run to decide anything"]);
    check(&format!("{ttft}, statistic: p50, context: 9500-")).exits(5).says(&["impossible-check", "no prompt of `r2`"]);
    check(&format!("{ttft}, statistic: p50, context: 2000-9k")).exits(5).says(&["write `2k-9k`"]);
    let slope = "metric: ttft_slope, at_most: 9%";
    check(slope).exits(5).says(&["missing-key", "add `floor: 2ms`"]);
    check(&format!("{slope}, floor: 2ms, warn_at: 2%")).exits(5).says(&["has no `warn_at`"]);
    check(&format!("{slope}, floor: 2ms, context: -900"))
        .exits(5)
        .says(&["needs prompts that differ in length by 1000 tokens", "give the cell a wider distribution"]);
}

#[test]
fn measure_has_a_line_for_each_class_and_every_record_names_its_own() {
    let scene = Scene::new();
    scene.write(
        "w.yaml",
        &LENGTHS
            .replace("rate: 2/s", "concurrency: 2")
            .replace("9000", "2100")
            .replace("requests: 100", "requests: 20"),
    );
    let engine = Engine::quick(0.2);
    let ended = scene.measure(&engine.url(), "--runs 1 --session s --out runs").exits(0);
    ended.shows(&["  r2            20", "  r2:short      16", "  r2:long        4"]);
    let run = scene.stored("runs/s-00-baseline");
    let classes: Vec<&str> = run.records.iter().filter_map(|record| record.class.as_deref()).collect();
    assert_eq!((classes.len(), classes.iter().filter(|class| **class == "long").count()), (20, 4));
    let long = |record: &&Record| record.class.as_deref() == Some("long");
    assert!(run.records.iter().filter(long).all(|record| record.prompt_tokens > Some(2_000)));
}

//! Twins and firsts from the workload to the verdict: a prefix cache that works is seen to, and one that does not fails.

use std::fs;
use std::path::Path;

use serde_json::Value;
use servegate::artifact::run::Run;
use servegate::base::names::Side;
use servegate::plan::hit_rate::HitRate;
use servegate::plan::request::PlannedCell;
use servegate::sim::Deployment;
use servegate::sim::noise::Noise;
use servegate::sim::profile::Profile;
use servegate::spec::slice::Slice;
use servegate::{plan, spec};

use crate::stored::Session;
use crate::support::{Engine, MODEL, Scene, deployment};

/// A file of the repository.
fn shipped(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("gate-policies").join(path)).unwrap()
}

/// Three runs of each release on engines whose prefix caches keep so many tokens.
fn measured(baseline: u32, candidate: u32) -> Scene {
    let scene = Scene::new();
    scene.write("w.yaml", &shipped("workloads/prefix.yaml"));
    scene.write("p.yaml", &shipped("prefix.yaml").replace("workloads/prefix.yaml", "w.yaml"));
    for (release, side, tokens) in [("v1", Side::Baseline, baseline), ("v2", Side::Candidate, candidate)] {
        let profile = Profile { prefix_cache_tokens: tokens, ..Profile::h100_8b() };
        let session = Session { name: release, release, side, step_ms: 0.0 };
        session.simulate_on(&scene, &Deployment::new(profile, Noise::OFF));
    }
    scene
}

const COMPARE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";

/// The check of the verdict with this id: its verdict and reason; and the notes.
fn judged(scene: &Scene, id: &str) -> (String, String, String) {
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let policy = &verdict["policies"][0];
    let check = policy["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&check["verdict"]), text(&check["reason"]), policy["notes"].to_string())
}

fn cell(scene: &Scene) -> PlannedCell {
    plan::build(&spec::read_workload("w.yaml", &scene.read("w.yaml")).unwrap().value).cells.remove(0)
}

fn class(name: &str) -> Slice {
    Slice { class: Some(name.to_owned()), context: None }
}

/// Cached and all prompt tokens of a class in a run.
fn cached(run: &Run, cell: &PlannedCell, name: &str) -> (u64, u64) {
    let numbers = cell.numbers(&class(name)).unwrap();
    let of_class = run.records.iter().filter(|record| numbers.contains(&record.request));
    of_class.fold((0, 0), |(cached, all), record| {
        (cached + u64::from(record.cached_tokens.unwrap()), all + u64::from(record.prompt_tokens.unwrap()))
    })
}

#[test]
fn a_cache_that_works_has_the_twins_and_nothing_else() {
    let scene = measured(400_000, 400_000);
    scene.line(COMPARE).exits(0);
    let (verdict, reason, notes) = judged(&scene, "cache_hit_rate@prefix:twin");
    assert_eq!(verdict, "pass", "{reason}");
    assert!(reason.contains("objective") && reason.contains("not shown missed"), "{reason}");
    for side in ["baseline", "candidate"] {
        let note = format!("of the prompt tokens in {side} run 1 of session");
        assert!(notes.contains(&note) && notes.contains("the plan repeats 33 %, in blocks of 16"), "{notes}");
    }
    assert!(!notes.contains("cache-hits-missing"), "{notes}");
    let (cell, run) = (cell(&scene), scene.stored("runs/v2/v2-00-candidate"));
    let (twins, firsts) = (cached(&run, &cell, "twin"), cached(&run, &cell, "first"));
    assert_eq!(firsts.0, 0, "the 8 tokens of the template are no block");
    // The template moves the blocks: within one block of each prompt.
    let expected = HitRate::expected(&cell, &class("twin"), 16);
    assert_eq!(expected.prompt_tokens + 800, twins.1);
    assert!(twins.0.abs_diff(expected.cached_tokens) <= 100 * 16, "{twins:?} {expected:?}");
    let server = run.manifest.cells[0].server.unwrap();
    assert_eq!(server.block_tokens, Some(16));
    // Counters and answers tell of the same: but for what was in flight at the borders.
    let (hits, queries) = (server.cache_hits.unwrap(), server.cache_queries.unwrap());
    let share =
        |(cached, all): (u64, u64)| f64::from(u32::try_from(cached).unwrap()) / f64::from(u32::try_from(all).unwrap());
    assert!((hits / queries - share((twins.0, twins.1 + firsts.1))).abs() < 0.02, "{hits} of {queries}");
}

#[test]
fn a_candidate_whose_cache_is_too_small_fails_by_its_twins_and_the_notes_say_what_is_missing() {
    let scene = measured(400_000, 8_000);
    scene.line(COMPARE).exits(1);
    for id in ["cache_hit_rate@prefix:twin", "ttft.p50@prefix:twin"] {
        assert_eq!(judged(&scene, id).0, "fail", "{id}");
    }
    let (_, reason, notes) = judged(&scene, "cache_hit_rate@prefix:twin");
    assert!(reason.contains("missed"), "{reason}");
    assert!(notes.contains("cache-hits-missing: only 0 % of the prompt tokens in candidate run"), "{notes}");
    assert!(!notes.contains(
        "of the prompt tokens in baseline run 1 of session v1 at prefix came from the server's prefix cache, and"
    ));
}

#[test]
fn the_objective_fails_a_cache_that_never_worked_and_a_server_that_does_not_tell_is_an_error() {
    let scene = measured(8_000, 8_000);
    scene.line(COMPARE).exits(1);
    let (verdict, reason, _) = judged(&scene, "cache_hit_rate@prefix:twin");
    assert_eq!(verdict, "fail");
    assert!(reason.contains("the whole interval misses the objective"), "{reason}");
    let silent = measured(0, 0);
    silent.line(COMPARE).exits(4);
    let (verdict, reason, _) = judged(&silent, "cache_hit_rate@prefix:twin");
    assert_eq!(verdict, "error");
    assert!(reason.contains("--enable-prompt-tokens-details"), "{reason}");
}

const SMALL: &str = "\
servegate: 1
kind: workload
name: small
cells:
  - name: c2
    concurrency: 2
    requests: 60
    classes:
      - {name: first, weight: 2, prompt_tokens: 88, output_tokens: 4}
      - {name: twin, weight: 1, repeats: {class: first}}
";

#[test]
fn over_http_a_measurement_says_what_each_class_hit_and_a_reset_makes_the_cache_cold() {
    let mut quick = deployment(0.3);
    quick.profile.set("prefix_cache_tokens=100000").unwrap();
    let engine = Engine::of(&quick);
    let scene = Scene::new();
    let measure = |declared: &str, out: &str| {
        scene.write("w.yaml", &SMALL.replace("cells:", &format!("{declared}cells:")));
        scene.measure(&engine.url(), &format!("--session {out} --out {out}")).exits(0)
    };
    // 8 tokens of the template and 88 words are six blocks; the last one is computed.
    let reset = measure("caches: reset\n", "reset");
    for run in [1, 2] {
        for (class, hits, planned) in [("first", "0.0", "0.0"), ("twin", "83.3", "90.9")] {
            let line = format!(
                "run {run} at c2:{class}: {hits} % of the prompt tokens came from the prefix cache; the plan repeats {planned} %"
            );
            assert!(reset.stderr.contains(&line), "{line}\n{}", reset.stderr);
        }
    }
    let rows: Value = {
        let line =
            format!("measure --workload w.yaml --url {} --model {MODEL} --ignore-eos --out again --json", engine.url());
        serde_json::from_str(&scene.line(&line).exits(0).stdout).unwrap()
    };
    let twin = rows["cells"].as_array().unwrap().iter().find(|row| row["cell"] == "c2:twin").unwrap();
    assert!((twin["cache_hit_rate"].as_f64().unwrap() - 80.0 / 96.0).abs() < 1e-9, "{twin}");
    assert!((twin["expected_cache_hit_rate"].as_f64().unwrap() - 80.0 / 88.0).abs() < 1e-9, "{twin}");
    // Without a reset everything was there before.
    measure("", "warm").says(&["run 2 at c2:first: 83.3 %", "the same prompts were sent before"]);
}

#[test]
fn the_expected_hit_rate_of_a_workload_is_shown_for_each_cell_and_class() {
    let scene = Scene::new();
    scene.write("w.yaml", SMALL);
    let lines = "c2: expected cache hit rate 30.3 %: 1600 of 5280 prompt tokens, 100 of 300 whole blocks of 16";
    let twin = "c2:twin: expected cache hit rate 90.9 %: 1600 of 1760 prompt tokens, 100 of 100 whole blocks of 16";
    let first = "c2:first: expected cache hit rate 0.0 %: 0 of 3520 prompt tokens";
    scene.line("workload show w.yaml").exits(0).says(&[lines, first, twin]);
    let by_token = "c2:twin: expected cache hit rate 98.9 %: 1740 of 1760 prompt tokens";
    scene.line("workload show w.yaml --block-tokens 1").exits(0).says(&[by_token]);
    scene.line("workload show w.yaml --block-tokens 0").exits(64);
}

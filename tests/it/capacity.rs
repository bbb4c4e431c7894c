//! `servegate capacity` over HTTP. No load of this machine is asserted: what it carries is its own. The search itself is tested
//! in virtual time, beside the code.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Engine, MODEL, Scene, workload};

fn capacity(url: &str, more: &str) -> Vec<String> {
    let line = format!("capacity --workload w.yaml --url {url} --model {MODEL} --ignore-eos {more}");
    line.split(' ').map(|word| word.replace('~', " ")).collect()
}

#[test]
fn an_objective_that_always_holds_gives_a_bound_and_a_file() {
    let (engine, scene) = (Engine::quick(2.0), Scene::new());
    let line = capacity(&engine.url(), "--slo e2e~p50~<=~1h --requests 20 --to 3 --json -o found/capacity.json");
    let ended = scene.run(&line);
    // A busy host says that it is the limit, and that is no lie.
    assert!(matches!(ended.code, Some(2 | 4)), "{:?}: {}", ended.code, ended.stderr);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let kept: Value = serde_json::from_str(&scene.read("found/capacity.json")).unwrap();
    assert_eq!(kept, found);
    assert_eq!(
        (&found["format"], &found["workload"], &found["cell"], &found["by"], &found["stopped"]),
        (&json!(1), &json!("tiny"), &json!("c2"), &json!("concurrency"), &Value::Null)
    );
    assert_eq!(found["objectives"], json!(["e2e p50 <= 1h", "error_rate <= 1%"]));
    assert_eq!((&found["capacity"], &found["upper"]), (&Value::Null, &Value::Null));
    if ended.code == Some(2) {
        assert_eq!((&found["outcome"], &found["lower"]), (&json!("at_least"), &json!(3.0)), "{found}");
    }
    let probes = found["probes"].as_array().unwrap();
    assert!(probes.len() >= 2 && probes[0]["load"] == 2.0, "{found}");
    ended.says(&["up to 16 probes of 20 requests and more each, of one boot", "probe 1 at 2 at once: "]);
}

#[test]
fn a_host_that_is_exact_with_less_is_the_limit_and_not_the_target() {
    let (engine, scene) = (Engine::quick(2.0), Scene::new());
    let trust = scene.line("selfcheck --streams 1 --json");
    let mut trust: Value = serde_json::from_str(&trust.stdout).unwrap();
    trust["streams"] = json!(1);
    scene.write("servegate-selfcheck.json", &trust.to_string());
    let ended = scene.run(&capacity(&engine.url(), "--slo e2e~p50~<=~1h --requests 20")).exits(4);
    assert!(!ended.stdout.contains("with 90 %"), "{}", ended.stdout);
    ended.says(&[
        "probe 1 at 2 at once: no answer: cell c2 may have 2 requests in flight",
        "error: this host, and not the target, is the limit at ",
        "hint: measure from a host with more to spare",
    ]);
}

#[test]
fn what_cannot_be_searched_is_refused_and_a_target_that_is_down_is_no_capacity() {
    let scene = Scene::new();
    let refused = |more: &str, code: i32| scene.run(&capacity("http://127.0.0.1:1", more)).exits(code);
    refused("--slo e2e~p50~<=~9", 64).says(&["`9` has no unit; an objective needs one", "write `800ms`"]);
    refused("--slo e2e~p50~<=~1s --cell c3", 64).says(&["`tiny` has no cell `c3`", "--cell is one of c2"]);
    refused("--by rate --slo e2e~p50~<=~1s", 64).says(&["no load of this kind", "--from"]);
    refused("--by rate --from 1/s --slo e2e~p50~<=~1s", 4).says(&["unreachable"]);
    scene.write(
        "t.jsonl",
        "{\"servegate_trace\":1,\"source\":\"azure\"}\n{\"at_us\":0,\"prompt_tokens\":9,\"output_tokens\":9}\n",
    );
    let traced =
        "servegate: 1\nkind: workload\nname: tiny\ncells: [{name: r, trace: t.jsonl, warmup: 0, requests: 1}]\n";
    scene.write("w.yaml", traced);
    refused("--slo e2e~p50~<=~1s", 64).says(&["cell `r` repeats a trace", "servegate workload replay --rate"]);
    scene.write("w.yaml", &workload("tiny", 20, 8).replace("concurrency: 2", "rate: 70% of capacity"));
    refused("--slo e2e~p50~<=~1s", 5).says(&["the rate is a share of the capacity, and the workload states none"]);
    scene.line("check w.yaml").exits(5).says(&["add `capacity: 9/s` to the workload", "`servegate capacity`"]);
}

#[test]
fn an_interrupted_search_says_what_is_known() {
    let (engine, scene) = (Engine::quick(2.0), Scene::new());
    let mut command = scene.command();
    command.args(capacity(&engine.url(), "--slo e2e~p50~<=~1h --requests 6000 -o capacity.json"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("of one boot") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let ended: Ended = crate::support::signal(child, "INT").exits(130);
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("error: interrupted"), "{said}");
    assert!(ended.stdout.contains("capacity of tiny at c2: unknown"), "{}", ended.stdout);
    let kept: Value = serde_json::from_str(&scene.read("capacity.json")).unwrap();
    assert_eq!((&kept["stopped"], &kept["outcome"]), (&json!("interrupted"), &json!("unknown")));
}

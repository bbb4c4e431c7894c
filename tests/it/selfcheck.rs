//! How exact this host is, seen from the command line. No time is asserted: what a busy machine finds is its own.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ended, Scene};

#[test]
fn a_selfcheck_is_kept_and_a_plan_beyond_it_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    let ended = scene.line("selfcheck --streams 8 --json");
    assert!(matches!(ended.code, Some(0 | 4)), "{:?}\n{}", ended.code, ended.stderr);
    let mut found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let kept: Value = serde_json::from_str(&scene.read("servegate-selfcheck.json")).unwrap();
    assert_eq!(kept, found);
    let streams: Vec<&Value> = found["loads"].as_array().unwrap().iter().map(|load| &load["streams"]).collect();
    assert_eq!(streams, [&json!(1), &json!(8)]);
    let source = if cfg!(target_os = "linux") { "kernel" } else { "program" };
    assert_eq!(found["loads"][1]["stamps"], source);
    for figure in ["sent_us", "ttft_us", "stamp_us", "chunk_gap_us", "tpot_us", "server_us", "timer_us"] {
        assert!(found["loads"][1][figure][1].as_f64().is_some(), "{figure}: {}", found["loads"][1]);
    }

    // The workload of the scene keeps two requests in flight.
    found["streams"] = json!(1);
    fs::write(scene.path("servegate-selfcheck.json"), found.to_string()).unwrap();
    let measure = "measure --workload w.yaml --url http://127.0.0.1:1 --model m --out runs";
    scene.line(measure).exits(4).says(&["cell c2 keeps more requests in flight than this host is exact with (1 by"]);
    // What was tried is all that is known, and the remedy is named.
    found["streams"] = json!(8);
    fs::write(scene.path("servegate-selfcheck.json"), found.to_string()).unwrap();
    scene.write("w.yaml", &scene.read("w.yaml").replace("concurrency: 2", "concurrency: 12"));
    scene.line(measure).exits(4).says(&[
        "cell c2 may have 12 requests in flight",
        "tried this host with 8 at most",
        "selfcheck --streams 12`",
    ]);
    // Of another host it says nothing: the target is asked, and is not there.
    found["host"] = json!("elsewhere");
    fs::write(scene.path("servegate-selfcheck.json"), found.to_string()).unwrap();
    scene.line(measure).exits(4).says(&["unreachable"]);
}

#[cfg(unix)]
#[test]
fn a_limit_of_open_files_ends_the_loads_and_keeps_what_was_found() {
    let scene = Scene::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 90 && exec \"$0\" selfcheck --streams 64 --json", env!("CARGO_BIN_EXE_servegate")]);
    command.current_dir(scene.path(""));
    let ended = Ended::of(&command.output().unwrap());
    assert!(matches!(ended.code, Some(0 | 4)), "{:?}\n{}", ended.code, ended.stderr);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    let streams: Vec<&Value> = found["loads"].as_array().unwrap().iter().map(|load| &load["streams"]).collect();
    assert_eq!(streams, [&json!(1), &json!(8)]);
    ended.says(&["64 streams and more are not tried", "the host allows 90", "`ulimit -n 128`"]);
    assert!(scene.path("servegate-selfcheck.json").exists());
}

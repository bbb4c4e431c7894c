//! The restart command of a target: where it is found, what it starts, and how it is ended.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::support::{Engine, MODEL, Scene, signal, wait_for};

/// A process that writes to the file `beat` while it lives, for as long as the folder is there and has no `stop`.
const HEART: &str = "(while [ ! -e stop ] && echo >> beat; do sleep 0.05; done)";

/// A scene whose target `staging` is restarted by `restart.sh`.
fn scene(url: &str, script: &str, timeout: &str) -> Scene {
    let scene = Scene::new();
    scene.write("restart.sh", script);
    scene.write("servegate.yaml", &config(url, "[sh, restart.sh]", timeout));
    scene
}

fn config(url: &str, command: &str, timeout: &str) -> String {
    format!(
        "servegate: 1\nkind: config\ntargets:\n  staging:\n    url: {url}\n    model: {MODEL}\n    \
         extra_body: {{ignore_eos: true}}\n    restart: {{command: {command}, timeout: {timeout}}}\n"
    )
}

fn beats(scene: &Scene) -> u64 {
    fs::metadata(scene.path("beat")).map_or(0, |file| file.len())
}

/// Whatever beats is over.
#[track_caller]
fn is_still(scene: &Scene) {
    let then = beats(scene);
    thread::sleep(Duration::from_millis(400));
    assert_eq!(beats(scene), then);
}

const MEASURE: &str = "measure --workload w.yaml --target staging --runs 1 --out runs --session s";

#[test]
fn a_signal_ends_what_the_restart_command_has_started() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let scene = scene("http://127.0.0.1:1", &format!("{HEART} & wait\n"), "1h");
        let mut command = scene.command();
        command.args(MEASURE.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for(|| beats(&scene) > 0);
        signal(child, name).exits(code).says(&["error: interrupted", "hint: nothing was measured"]);
        is_still(&scene);
    }
}

#[test]
fn a_timeout_is_said_in_the_unit_of_the_file_and_leaves_nothing_running() {
    let scene = scene("http://127.0.0.1:1", &format!("echo pulling; {HEART} & wait\n"), "1s");
    scene.line(MEASURE).exits(4).says(&["restart command `sh` was ended after 1 s; ", "its last output:\n| pulling"]);
    is_still(&scene);
}

#[test]
fn what_a_successful_restart_leaves_running_stays() {
    let engine = Engine::quick(0.3);
    let scene = scene(&engine.url(), &format!("{HEART} > /dev/null 2>&1 &\n"), "1m");
    scene.line(MEASURE).exits(0);
    let then = beats(&scene);
    wait_for(|| beats(&scene) > then);
    scene.write("stop", "");
}

#[test]
fn a_program_with_a_slash_counts_from_the_folder_of_the_config_file() {
    let engine = Engine::quick(0.3);
    let scene = Scene::new();
    scene.write("conf/restart.sh", "#!/bin/sh\necho \"$1\" > started\n");
    let executable = std::process::Command::new("chmod").arg("+x").arg(scene.path("conf/restart.sh")).status().unwrap();
    assert!(executable.success());
    scene.write("conf/servegate.yaml", &config(&engine.url(), "[./restart.sh, here]", "1m"));
    scene.line(&format!("{MEASURE} --config conf/servegate.yaml")).exits(0);
    assert_eq!(scene.read("started"), "here\n", "the command runs where servegate was started");
    scene.write("servegate.yaml", &config(&engine.url(), "[./restart.sh]", "1m"));
    scene.line(MEASURE).exits(4).says(&["restart command `./restart.sh`: ", "check the path"]);
}

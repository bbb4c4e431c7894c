//! The API key is in no output and no file, right or wrong.

use crate::stored::first_baseline;
use crate::support::{Ended, Engine, Scene, holds};

const KEY: &str = "sk-Zq3vNeverPrinted7";

fn with_key(scene: &Scene, line: &str, key: &str) -> Ended {
    let output = scene.command().args(line.split(' ')).env("STAGING_KEY", key).output().unwrap();
    Ended::of(&output)
}

#[track_caller]
fn is_nowhere(scene: &Scene, ended: &Ended, secret: &str) {
    assert!(!ended.stdout.contains(secret) && !ended.stderr.contains(secret), "{}\n{}", ended.stdout, ended.stderr);
    for file in scene.files("") {
        assert!(!holds(&file, secret.as_bytes()), "{}", file.display());
    }
}

#[test]
fn a_key_is_used_and_never_shown() {
    let engine = Engine::locked(KEY);
    let scene = Scene::new();
    let line = format!(
        "measure --workload w.yaml --url {} --model {} --ignore-eos --api-key-env STAGING_KEY --release v1 --out runs -vv",
        engine.url(),
        crate::support::MODEL
    );
    let refused = with_key(&scene, &line, "sk-wrong-4711").exits(4);
    let refused =
        refused.says(&["the target refused the API key (401); check the environment variable named by `api_key_env`"]);
    is_nowhere(&scene, &refused, "sk-wrong-4711");
    scene.line(&line).exits(4).says(&["the environment variable `STAGING_KEY` is not set or empty"]);
    // Exit code and sentence, not the key, also where no header can carry it.
    let odd = with_key(&scene, &line, "sk-odd-4711\u{1}x").exits(4);
    is_nowhere(&scene, &odd, "sk-odd-4711");

    let good = with_key(&scene, &line, KEY).exits(0);
    is_nowhere(&scene, &good, KEY);
    first_baseline(&scene, "runs");
    let gate = line.replace("measure --workload w.yaml", "run --policy p.yaml").replace(" --out runs", " --runs 2");
    let gate = with_key(&scene, &gate, KEY);
    assert!(matches!(gate.code, Some(0 | 2..=4)), "{}", gate.stderr);
    is_nowhere(&scene, &gate, KEY);
}

#[test]
fn credentials_in_a_url_are_refused_and_not_shown() {
    let scene = Scene::new();
    let ended = scene.measure("http://me:hunter2@127.0.0.1:1", "--out runs").exits(64);
    is_nowhere(&scene, &ended, "hunter2");
    ended.says(&["--url: the URL holds credentials", "`api_key_env`"]);
    scene.write(
        "servegate.yaml",
        "servegate: 1\nkind: config\ntargets:\n  t: {url: \"http://me:hunter2@h\", model: m}\n",
    );
    let ended = scene.line("check").exits(5);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[test]
fn a_key_that_the_restart_command_prints_is_not_shown() {
    let scene = Scene::new();
    scene.write("restart.sh", "#!/bin/sh\necho \"starting with $STAGING_KEY\"\nexit 1\n");
    scene.write(
        "servegate.yaml",
        "servegate: 1\nkind: config\ntargets:\n  t:\n    url: http://127.0.0.1:1\n    model: m\n    \
         api_key_env: STAGING_KEY\n    restart: {command: [sh, restart.sh]}\n",
    );
    let ended = with_key(&scene, "measure --workload w.yaml --target t --out runs", KEY).exits(4);
    is_nowhere(&scene, &ended, KEY);
    ended.says(&["starting with ***"]);
}

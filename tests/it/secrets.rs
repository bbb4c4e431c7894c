//! The API key is in no output and no file, right or wrong.

use std::fs;

use crate::stored::first_baseline;
use crate::support::{Ended, Engine, Scene, answer, holds, method, scripted};

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

/// The key as a hostile server gives it back; what Base64 makes of `Bearer ` and the key among it.
const GIVEN_BACK: [&str; 8] = [
    KEY,
    "SK-ZQ3VNEVERPRINTED7",
    "sk%2DZq3vNeverPrinted7",
    "\\\\u0073\\\\u006b-Zq3vNeverPrinted7",
    "736b2d5a7133764e657665725072696e74656437",
    "736B2D5A7133764E657665725072696E74656437",
    "c2stWnEzdk5ldmVyUHJpbnRlZDc=",
    "QmVhcmVyIHNrLVpxM3ZOZXZlclByaW50ZWQ3",
];

#[test]
fn a_key_that_a_server_gives_back_encoded_is_in_no_output() {
    for form in GIVEN_BACK {
        let scene = Scene::new();
        let event = |delta: &str, finish: &str| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
        };
        let said = event(&format!("{{\"content\":\"{form}\"}}"), "null").repeat(8);
        let usage =
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":8}}\n\ndata: [DONE]\n\n";
        let good = format!("{said}{}{usage}", event("{}", &format!("\"{form}\"")));
        let bad = format!("{{\"error\":{{\"message\":\"{}{form}\"}}}}", "x".repeat(180));
        let url = scripted(move |head, to| match method(head) {
            "POST" if head.contains("/c2/1\r\n") => answer(to, "500 Oops", "application/json", &bad),
            "POST" => answer(to, "200 OK", "text/event-stream", &good),
            _ => answer(to, "200 OK", "application/json", &format!("{{\"version\":\"v {form}\"}}")),
        });
        let line = format!(
            "measure --workload w.yaml --url {url} --model m --ignore-eos --api-key-env STAGING_KEY --session s --out runs \
             --keep-text -vv"
        );
        let ended = with_key(&scene, &line, KEY).exits(0);
        let run = scene.stored("runs/s-00-baseline");
        let records = format!("{:?}", run.records);
        let texts = zstd::decode_all(&*fs::read(scene.path("runs/s-00-baseline/texts.jsonl.zst")).unwrap()).unwrap();
        let texts = String::from_utf8(texts).unwrap();
        assert!(records.contains(&"x".repeat(179)), "the refused request: {records}");
        let conditions = format!("{:?}", run.manifest.conditions);
        for (what, text) in [("records", &records), ("texts", &texts), ("conditions", &conditions)] {
            assert!(text.contains("***"), "{form} in {what}: {text}");
        }
        // What the server sent, as it reads once JSON has been read, and a part of it that no limit of length leaves out.
        let plain = form.replace("\\\\", "\\");
        for secret in [form, &plain, KEY, &plain[..12]] {
            is_nowhere(&scene, &ended, secret);
            for text in [&records, &texts, &conditions] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
    }
}

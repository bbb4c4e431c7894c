//! What a workload declares about the server's caches, over HTTP: what is asked, what is recorded, and what is refused.

use std::fs;
use std::sync::{Arc, Mutex};

use servegate::artifact::run::Run;
use servegate::base::names::CacheMode;

use crate::stored::first_baseline;
use crate::support::{Engine, MODEL, Scene, answer, scripted, workload};

fn scene(caches: &str) -> Scene {
    let scene = Scene::new();
    declare(&scene, caches);
    scene
}

fn declare(scene: &Scene, caches: &str) {
    scene.write("w.yaml", &workload("tiny", 20, 8).replace("cells:", &format!("{caches}cells:")));
}

fn modes(runs: &[Run]) -> Vec<Option<CacheMode>> {
    runs.iter().map(|run| run.manifest.caches).collect()
}

fn measured(scene: &Scene, url: &str, session: &str) -> [Run; 2] {
    scene.measure(url, &format!("--session {session} --out runs")).exits(0);
    [0, 1].map(|number| scene.stored(&format!("runs/{session}-{number:02}-baseline")))
}

/// Answers a chat request with two tokens, and all others by `other`: method and path to status and body.
fn chat(other: impl Fn(&str) -> (&'static str, String) + Send + Sync + 'static) -> String {
    scripted(move |head, stream| {
        let line = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
        if line == "POST /v1/chat/completions" {
            let word = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
            let end =
                "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
            answer(stream, "200 OK", "text/event-stream", &format!("{word}{word}{end}"));
        } else {
            let (status, body) = other(&line);
            answer(stream, status, "application/json", &body);
        }
    })
}

#[test]
fn each_mode_is_done_and_recorded_and_shown() {
    let engine = Engine::quick(0.3);
    let scene = scene("caches: reset\n");
    let reset = measured(&scene, &engine.url(), "a");
    assert_eq!(modes(&reset), [Some(CacheMode::Reset); 2]);
    assert!(reset.iter().all(|run| run.manifest.salt.is_none()));
    declare(&scene, "caches: cold\n");
    assert_eq!(modes(&measured(&scene, &engine.url(), "b")), [Some(CacheMode::Reset); 2]);
    declare(&scene, "caches: salted\n");
    let salted = measured(&scene, &engine.url(), "c");
    assert_eq!(modes(&salted), [Some(CacheMode::Salted); 2]);
    assert!(salted[0].manifest.salt.is_some() && salted[0].manifest.salt != salted[1].manifest.salt);
    declare(&scene, "");
    let undeclared = measured(&scene, &engine.url(), "d");
    assert_eq!(modes(&undeclared), [None; 2]);
    assert_eq!(undeclared[0].manifest.plan, salted[0].manifest.plan, "the fingerprint is the plan's");
    // The simulated engine answers a prompt with words of its own: other prompts, other answers.
    let texts = |run: &Run| {
        let mut texts: Vec<_> =
            run.records.iter().map(|record| (record.request, record.text_digest.unwrap())).collect();
        texts.sort_unstable();
        texts
    };
    assert_eq!(texts(&undeclared[0]), texts(&reset[1]));
    assert_ne!(texts(&salted[0]), texts(&salted[1]));
    assert_ne!(texts(&salted[0]), texts(&reset[0]));
    let lengths = |run: &Run| run.records.iter().map(|it| it.prompt_tokens).max();
    assert_eq!(lengths(&salted[0]), lengths(&reset[0]));

    declare(&scene, "caches: salted\n");
    scene.measure(&engine.url(), "--out base --release v1 --quiet").exits(0);
    first_baseline(&scene, "base");
    scene.line("baseline show tiny").exits(0).shows(&["caches       salted"]);
}

#[test]
fn a_server_is_asked_before_each_run_or_prompts_are_salted_where_that_is_declared() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let url = chat(move |line| {
        seen.lock().unwrap().push(line.to_owned());
        match line {
            "POST /flush_cache" => ("200 OK", "Cache flushed.".to_owned()),
            _ => ("404 Not Found", "{}".to_owned()),
        }
    });
    let scene = scene("caches: reset\n");
    let line = format!("measure --workload w.yaml --url {url} --model {MODEL} --session s --out runs");
    scene.line(&line).exits(0);
    let flushed = asked.lock().unwrap().iter().filter(|line| *line == "POST /flush_cache").count();
    assert_eq!(flushed, 2, "once a run");

    let bare = chat(|_| ("404 Not Found", "{}".to_owned()));
    let line = |session: &str| {
        format!("measure --workload w.yaml --url {bare} --model {MODEL} --session {session} --out runs")
    };
    scene.line(&line("t")).exits(4).says(&[
        "the workload `tiny` declares `caches: reset`, and the server offers no request that resets its caches (POST \
         /reset_prefix_cache: 404 Not Found {}; POST /flush_cache: 404 Not Found {})",
        "declare `caches: salted`",
        "nothing was measured",
    ]);
    assert!(!scene.path("runs/t-00-baseline").exists());
    declare(&scene, "caches: cold\n");
    let ended =
        scene.line(&line("u")).exits(0).says(&["note: prompts are salted, because the server offers no request"]);
    assert_eq!(ended.stderr.matches("prompts are salted").count(), 1, "once a session");
    assert_eq!(scene.stored("runs/u-01-baseline").manifest.caches, Some(CacheMode::Salted));
}

#[test]
fn a_reset_that_fails_measures_nothing_and_never_falls_back() {
    for (status, body, says) in [
        ("500 Internal Server Error", "boom".to_owned(), "500 Internal Server Error boom, at 3 tries"),
        ("200 OK", "{\"success\":false}".to_owned(), "200 OK {\"success\":false}, at 3 tries"),
        ("200 OK", "x".repeat(3 << 20), "its answer is larger than 1048576 bytes, at 3 tries"),
    ] {
        let url = chat(move |line| match line {
            "POST /reset_prefix_cache" => (status, body.clone()),
            _ => ("404 Not Found", "{}".to_owned()),
        });
        for caches in ["reset", "cold"] {
            let scene = scene(&format!("caches: {caches}\n"));
            let line = format!("measure --workload w.yaml --url {url} --model {MODEL} --session s --out runs");
            scene.line(&line).exits(4).says(&[
                "the server did not reset its caches: POST /reset_prefix_cache: ",
                says,
                "use `caches: salted` in the workload",
                "nothing was measured",
            ]);
            assert!(!scene.path("runs/s-00-baseline").exists());
        }
    }
}

#[test]
fn sides_of_two_modes_are_not_compared_and_a_session_is_not_continued_in_another() {
    let engine = Engine::quick(0.3);
    let scene = scene("");
    scene.measure(&engine.url(), "--out base --release v1 --quiet").exits(0);
    first_baseline(&scene, "base");
    declare(&scene, "caches: salted\n");
    let ended = scene.gate(&engine.url(), "--runs 3 --session now");
    // On a busy machine its runs count for nothing besides, and that is exit code 4.
    assert!(matches!(ended.code, Some(3 | 4)), "{}\n{}", ended.stdout, ended.stderr);
    let verdict: serde_json::Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let policy = &verdict["policies"][0];
    assert_eq!(policy["design"]["caches"], "salted");
    let findings = policy["findings"].as_array().unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"caches-differ"), "{codes:?}");

    declare(&scene, "caches: reset\n");
    scene
        .gate(&engine.url(), "--runs 3 --resume now")
        .exits(64)
        .says(&["its mode of caches is `salted`, and `tiny` declares `reset` now: the workload was changed"]);
}

#[test]
fn a_run_that_is_measured_again_sends_new_prompts_and_the_whole_ones_keep_their_salt() {
    let engine = Engine::quick(2.0);
    let scene = Scene::new();
    scene.write("w.yaml", &workload("tiny", 120, 8).replace("cells:", "caches: salted\ncells:"));
    let mut child = scene.start_measuring(&engine.url(), "runs");
    child.kill().unwrap();
    child.wait().unwrap();
    scene.measure(&engine.url(), "--runs 2 --resume runs").exits(0);
    let draft = fs::read(scene.path("runs/.interrupted/1-s-00-baseline.partial/draft.json")).unwrap();
    let draft: serde_json::Value = serde_json::from_slice(&draft).unwrap();
    let salts = |number: u32| scene.stored(&format!("runs/s-{number:02}-baseline")).manifest.salt.map(String::from);
    let first = [salts(0), salts(1)];
    assert!(first.iter().all(Option::is_some) && draft["salt"].is_string());
    assert_ne!(first[0].as_deref(), draft["salt"].as_str(), "the server may have the prompts of the first try");

    fs::rename(scene.path("runs/s-01-baseline"), scene.path("elsewhere")).unwrap();
    scene.measure(&engine.url(), "--runs 2 --resume runs").exits(0);
    assert_eq!(salts(0), first[0]);
}

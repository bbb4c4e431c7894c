//! Conversations from the workload to the wire, and to the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use servegate::base::names::Side;
use servegate::sim::Deployment;
use servegate::sim::noise::Noise;
use servegate::sim::profile::Profile;

use crate::stored::Session;
use crate::support::{Engine, MODEL, Scene, answer, method, scripted};

/// A cell with sessions of three turns.
fn talk(keys: &str) -> String {
    format!(
        "servegate: 1\nkind: workload\nname: talk\ncells:\n  - name: c2\n    concurrency: 2\n    requests: 24\n    prompt_tokens: 12\n    \
         output_tokens: 4\n    shared_prefix: {{groups: 1, tokens: 8}}\n    session: {{turns: 3, turn_tokens: 5, think: 20ms{keys}}}\n"
    )
}

/// The session of each request, and its messages.
type Requests = Vec<(String, Vec<Value>)>;

/// A server that says how many messages it was sent, and what it got: the session of each request, and its messages.
fn listener() -> (String, Arc<Mutex<Requests>>) {
    let seen: Arc<Mutex<Requests>> = Arc::default();
    let kept = Arc::clone(&seen);
    let url = scripted(move |request, stream| {
        if method(request) == "GET" {
            return answer(stream, "404 Not Found", "text/plain", "");
        }
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let said = format!("answer {}", messages.len());
        if let Some(session) = head.lines().find_map(|line| line.strip_prefix("x-session-id: ")) {
            kept.lock().unwrap().push((session.to_owned(), messages));
        }
        let chunk = |delta: Value, finish: Value| {
            format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
        };
        let usage = json!({ "choices": [], "usage": { "prompt_tokens": 20, "completion_tokens": 4 } });
        let think = chunk(json!({ "reasoning_content": "let me see " }), Value::Null);
        let words = chunk(json!({ "content": said }), Value::Null);
        let end = chunk(json!({}), json!("length"));
        let text = format!("{think}{words}{end}data: {usage}\n\ndata: [DONE]\n\n");
        answer(stream, "200 OK", "text/event-stream", &text);
    });
    (url, seen)
}

/// The messages of each session in the order in which they were sent.
fn conversations(seen: &Mutex<Requests>) -> BTreeMap<String, Vec<Vec<Value>>> {
    let mut all: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    for (session, messages) in seen.lock().unwrap().iter() {
        all.entry(session.clone()).or_default().push(messages.clone());
    }
    all
}

fn measured(keys: &str) -> (Scene, BTreeMap<String, Vec<Vec<Value>>>) {
    let (url, seen) = listener();
    let scene = Scene::new();
    scene.write("w.yaml", &talk(keys));
    scene.write(
        "servegate.yaml",
        &format!("servegate: 1\nkind: config\ntargets:\n  t: {{url: '{url}', model: {MODEL}, session_header: x-session-id}}\n"),
    );
    scene.line("measure --workload w.yaml --target t --release v1 --runs 1 --out out --session s").exits(0);
    (scene, conversations(&seen))
}

#[test]
fn a_conversation_goes_on_from_what_the_model_said_and_keeps_its_session() {
    let (scene, sessions) = measured(", answers: model");
    let run = scene.stored("out/s-00-baseline");
    assert_eq!(run.records.len(), 24);
    let mut turns: Vec<u32> = run.records.iter().filter_map(|record| record.turn).collect();
    turns.sort_unstable();
    assert_eq!(turns, [[1; 8], [2; 8], [3; 8]].concat());
    let whole: Vec<_> = sessions.values().filter(|turns| turns.len() == 3).collect();
    assert!(whole.len() >= 8, "{sessions:?}");
    for turns in whole {
        for (place, pair) in turns.windows(2).enumerate() {
            let (before, after) = (&pair[0], &pair[1]);
            assert_eq!(after[..before.len()], before[..], "the whole turn before");
            // What it thought is not part of the conversation.
            assert_eq!(
                after[before.len()],
                json!({ "role": "assistant", "content": format!("answer {}", 2 + 2 * place) })
            );
            assert_eq!(after.len(), before.len() + 2);
        }
        let roles: Vec<&str> = turns[2].iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
    }
    let names: Vec<&String> = sessions.keys().collect();
    assert!(names.iter().all(|name| name.starts_with("s-00-baseline/c2/session-")), "{names:?}");
}

#[test]
fn fixed_answers_are_the_plans_and_tools_answer_calls() {
    let (_scene, sessions) = measured(", tools: {calls: 2, tokens: 6, time: 1ms}");
    let whole: Vec<_> = sessions.values().filter(|turns| turns.len() == 3).collect();
    assert!(whole.len() >= 8);
    for turns in whole {
        let last = &turns[2];
        let roles: Vec<&str> = last.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool"]);
        assert_eq!(last[2]["tool_calls"][0]["id"], last[3]["tool_call_id"]);
        let text = last[3]["content"].as_str().unwrap();
        assert_eq!(text.split(' ').count(), 6);
        assert!(!last.iter().any(|message| message["content"].as_str().unwrap().contains("answer")));
    }
}

/// A file of the repository.
fn shipped(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("gate-policies").join(path)).unwrap()
}

/// Whether each check of the ready pair passes when the candidate's engine has these coefficients.
fn judged(candidate: &[&str]) -> BTreeMap<String, String> {
    let scene = Scene::new();
    scene.write("w.yaml", &shipped("workloads/agent.yaml"));
    scene.write("p.yaml", &shipped("agent.yaml").replace("workloads/agent.yaml", "w.yaml"));
    let engine = |settings: &[&str]| {
        let mut profile = Profile::h100_8b();
        for setting in settings {
            profile.set(setting).unwrap();
        }
        Deployment::new(profile, Noise::OFF)
    };
    let session = |name, side| Session { name, release: name, side, step_ms: 0.0 };
    session("v1", Side::Baseline).simulate_on(&scene, &engine(&[]));
    session("v2", Side::Candidate).simulate_on(&scene, &engine(candidate));
    let ended = scene.line("compare --policy p.yaml --baseline runs/v1 --candidate runs/v2");
    assert_ne!(ended.code, Some(4), "{}{}", ended.stdout, ended.stderr);
    let verdict: Value = serde_json::from_str(&scene.read("servegate-out/verdict.json")).unwrap();
    let checks = verdict["policies"][0]["checks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    checks.iter().map(|check| (text(&check["id"]), text(&check["verdict"]))).collect()
}

#[test]
fn what_long_contexts_cost_is_found_at_later_turns() {
    let same = judged(&[]);
    assert!(same.values().all(|verdict| verdict != "fail"), "{same:?}");
    for id in ["ttft.p50@agent:turn=2-", "ttft_slope@agent", "tpot.p50@agent:context=32k-"] {
        assert_eq!(same[id], "pass", "{same:?}");
    }
    // A tokeniser that takes 16 us more a token.
    let slow = judged(&["tokenise_us=17.25"]);
    assert_eq!(slow["ttft.p50@agent:turn=2-"], "fail", "{slow:?}");
    assert_ne!(slow["ttft_slope@agent"], "pass", "{slow:?}");
    assert_eq!(slow["tpot.p50@agent:context=32k-"], "pass", "{slow:?}");
}

#[test]
fn a_live_engine_is_asked_turn_by_turn() {
    let engine = Engine::quick(0.2);
    let scene = Scene::new();
    scene.write("w.yaml", &talk(", answers: model"));
    let ended = scene.measure(&engine.url(), "--runs 1 --session s --release v1 --out out").exits(0);
    ended.shows(&["c2:turn=1", "c2:turn=2-"]);
    let run = scene.stored("out/s-00-baseline");
    // 12 tokens, then 4 of an answer and 5 new ones with each turn; what is more is the template's.
    let template = run.records.iter().map(|it| it.prompt_tokens.unwrap() - 12 - 9 * (it.turn.unwrap() - 1));
    let template: BTreeSet<u32> = template.collect();
    assert_eq!(template.len(), 1, "{template:?}");
}

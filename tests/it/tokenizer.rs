//! Servers that send no usage, beside the tokenizer file of their model.

use serde_json::{Value, json};
use servegate::artifact::record::{Doubt, TokenSource};
use servegate::base::digest::Digest;

use crate::support::{MODEL, Scene, answer, method, scripted, workload};

/// Bytes are tokens, and so are `he`, `the`, ` the`, `ll`, `hell` and `hello`.
const TOKENIZER: &str = include_str!("../data/tokenizer.json");

/// A server that answers every prompt with `hello`, ` the`, ` then`: four tokens in three chunks.
fn hello(usage: Option<u32>) -> String {
    let mut events =
        Vec::from(["hello", " the", " then"].map(|text| json!({"choices": [{"delta": {"content": text}}]})));
    events.push(json!({"choices": [{"delta": {}, "finish_reason": "length"}]}));
    events.extend(usage.map(|n| json!({"choices": [], "usage": {"prompt_tokens": 6, "completion_tokens": n}})));
    let data = events.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
    let body = data.map(|data| format!("data: {data}\n\n")).collect::<Vec<_>>().concat();
    scripted(move |head, stream| match method(head) {
        "POST" => answer(stream, "200 OK", "text/event-stream", &body),
        _ => answer(stream, "404 Not Found", "text/plain", ""),
    })
}

/// A scene with a `servegate.yaml` whose target `t` names this tokenizer file.
fn scene(url: &str, tokenizer: &str) -> Scene {
    let scene = Scene::new();
    scene.write(
        "servegate.yaml",
        &format!(
            "servegate: 1\nkind: config\ntargets:\n  t:\n    url: {url}\n    model: {MODEL}\n    tokenizer: {tokenizer}\n"
        ),
    );
    scene
}

#[test]
fn without_usage_the_tokenizer_counts_and_the_run_says_by_which_file() {
    let scene = scene(&hello(None), "model/tokenizer.json");
    scene.write("model/tokenizer.json", TOKENIZER);
    let ended = scene.line("measure --workload w.yaml --target t --out runs --session s --runs 1").exits(0);
    let said = "warning: the stream has no usage: output tokens are those of the text, by the tokenizer";
    assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);
    let run = scene.stored("runs/s-00-baseline");
    assert_eq!(run.manifest.tokenizer, Some(Digest::of(TOKENIZER.as_bytes())));
    assert_eq!(run.records.len(), 20);
    for record in &run.records {
        let chunks: Vec<_> = record.chunks.iter().map(|chunk| chunk.tokens).collect();
        assert_eq!((record.tokens_from, record.output_tokens), (TokenSource::Tokenizer, Some(4)));
        assert_eq!((chunks, record.doubt), (vec![Some(1), Some(1), Some(2)], None));
    }
    // By flags, as a path of its own.
    let url = hello(None);
    scene
        .line(&format!(
            "measure --workload w.yaml --url {url} --model {MODEL} --tokenizer model/tokenizer.json --out f --session s --runs 1"
        ))
        .exits(0);
    let run = scene.stored("f/s-00-baseline");
    assert!(run.records.iter().all(|record| record.output_tokens == Some(4)));
}

#[test]
fn usage_goes_before_and_one_that_the_text_contradicts_is_said_before_anything_is_measured() {
    let scene = scene(&hello(Some(30)), "tokenizer.json");
    scene.write("tokenizer.json", TOKENIZER);
    scene.write("w.yaml", &workload("tiny", 20, 40));
    let ended = scene.line("measure --workload w.yaml --target t --out runs --session s --runs 1").exits(0);
    let said = "warning: the usage counts more output tokens than were asked for";
    assert!(ended.stderr.contains(said), "the first request asks for 16: {}", ended.stderr);
    let run = scene.stored("runs/s-00-baseline");
    assert!(run.records.iter().all(|record| {
        (record.tokens_from, record.output_tokens, record.doubt)
            == (TokenSource::Usage, Some(30), Some(Doubt::MoreThanText))
    }));
}

#[test]
fn a_tokenizer_that_cannot_be_used_is_refused_where_it_is_named() {
    let missing = scene("http://127.0.0.1:9", "none.json");
    let measure = "measure --workload w.yaml --target t --out runs";
    missing.line(measure).exits(5).says(&[
        "servegate.yaml:7:16",
        "unreadable-tokenizer",
        "`targets.t.tokenizer`",
        "cannot read none.json",
        "`tokenizer.json` that lies beside the model's weights",
    ]);
    let folder = scene("http://127.0.0.1:9", ".");
    folder.line(measure).exits(5).says(&["servegate.yaml:7:16", "it is a folder"]);
    let other = scene("http://127.0.0.1:9", "w.yaml");
    other.line(measure).exits(5).says(&["servegate.yaml:7:16", "w.yaml is no tokenizer that can be read"]);
    other
        .line(&format!(
            "measure --workload w.yaml --url http://127.0.0.1:9 --model {MODEL} --tokenizer w.yaml --out runs"
        ))
        .exits(64)
        .says(&["--tokenizer: w.yaml is no tokenizer that can be read"]);
    assert!(other.files("runs").is_empty());
}

#[test]
fn prompts_of_exact_length_need_a_tokenizer_and_are_sent_as_counted() {
    let server = hello(None);
    let scene = scene(&server, "tokenizer.json");
    scene.write("tokenizer.json", TOKENIZER);
    let exact = scene.read("w.yaml").replace("name: tiny", "name: tiny\nprompts: exact");
    scene.write("w.yaml", &exact);
    scene
        .line(&format!("measure --workload w.yaml --url {server} --model {MODEL} --out without"))
        .exits(4)
        .says(&["the target names no tokenizer", "--tokenizer FILE"]);
    scene.line("measure --workload w.yaml --target t --out with --session s --runs 1").exits(0);
    assert!(scene.stored("with/s-00-baseline").records.len() > 1);
}

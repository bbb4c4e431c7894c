//! `servegate workload`: traces of production as a user reads them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::Scene;

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n\
                     2023-11-16 18:15:47.6805900,396,109\r\n2023-11-16 18:15:48.6805900,oops,1\r\n\
                     2023-11-16 18:15:48.6805900,879,55";

#[test]
fn a_trace_is_described_and_its_faults_are_named_by_line() {
    let scene = Scene::new();
    scene.write("trace.csv", AZURE);
    let ended = scene.line("workload inspect trace.csv").exits(0);
    assert_eq!(
        ended.stdout,
        "trace.csv: a trace of the format azure, for its first line names the columns `TIMESTAMP`, `ContextTokens`, \
         `GeneratedTokens`\n\
         requests       3 over 2 s: 1.000 per s\n\
         gaps           coefficient of variation 0.00 (1: Poisson, more: bursts)\n\
         prompt tokens  mean 549.7, p50 396, p90 782, p99 869, max 879\n\
         output tokens  mean 69.3, p50 55, p90 98, p99 108, max 109\n\
         faulty         a length is no whole number up to 10000000: 1 (line 4: ContextTokens)\n"
    );
    assert_eq!(ended.stderr, "");
}

#[test]
fn the_same_numbers_come_as_json() {
    let scene = Scene::new();
    scene.write("trace.csv", AZURE);
    let json: Value = serde_json::from_str(&scene.line("workload inspect trace.csv --json").exits(0).stdout).unwrap();
    assert_eq!(json["format"], "azure");
    assert_eq!(json["requests"]["arrivals"]["rate_per_s"], 1.0);
    assert_eq!(json["requests"]["prompt_tokens"]["p50"], 396.0);
    assert_eq!(json["requests"]["sessions"], Value::Null);
    let fault = &json["faulty"][0];
    assert_eq!((&fault["kind"], &fault["rows"]), (&Value::from("bad-length"), &Value::from(1)));
    assert_eq!(fault["first"][0], serde_json::json!({"line": 4, "field": "ContextTokens"}));
}

#[test]
fn sessions_blocks_and_ticks_are_told() {
    let scene = Scene::new();
    let row = |chat: u32, parent: i32, at: u32, blocks: &str| {
        format!(
            "{{\"chat_id\": {chat}, \"parent_chat_id\": {parent}, \"timestamp\": {at}, \"input_length\": 40, \
             \"output_length\": 5, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [{blocks}]}}\n"
        )
    };
    scene.write("trace.jsonl", &[row(1, -1, 0, "1, 2, 3"), row(2, -1, 0, "1, 4, 5"), row(3, 1, 9, "1, 2, 6")].concat());
    scene.line("workload inspect trace.jsonl").exits(0).shows(&[
        "ticks          1 request at the instant of an earlier one: 2 instants, at most 2 at once, mostly 9 s apart",
        "sessions       2 of 3 requests, 1 continue one that is named",
        "blocks         9 blocks of 16 tokens in prompts; an earlier request had 33.3 %: no prefix cache can hit more",
        "classes        text 3",
    ]);
}

#[test]
fn windows_of_rates_are_told_apart_from_requests() {
    let scene = Scene::new();
    scene.write("chunk-0-trace.csv", "0,0.5,2,Gamma,0.25,8\n600,0,0,,0,0\n");
    scene.line("workload inspect chunk-0-trace.csv").exits(0).shows(&[
        "windows        2 over 1200 s: 1 silent, 1 with gamma gaps, 0 with Weibull gaps",
        "requests       none; the rates stand for 300",
    ]);
}

#[test]
fn a_tokenizer_counts_texts_in_place_of_the_estimate() {
    let scene = Scene::new();
    scene.write("tokenizer.json", include_str!("../data/tokenizer.json"));
    scene.write(
        "batch.jsonl",
        r#"{"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "hello the then", "max_tokens": 9}}"#,
    );
    scene.line("workload inspect batch.jsonl").exits(0).shows(&["prompt tokens  mean 3.0", "output is the limit"]);
    scene.line("workload inspect batch.jsonl --tokenizer tokenizer.json").exits(0).shows(&["prompt tokens  mean 4.0"]);
}

#[test]
fn what_is_refused_exits_5_and_says_what_to_do() {
    let scene = Scene::new();
    scene.write("notes.md", "# Notes\n");
    let ended = scene.line("workload inspect notes.md").exits(5).says(&[
        "error: notes.md is no trace of a known format",
        "hint: formats that are known: `azure`",
        "--format FORMAT",
    ]);
    assert_eq!(ended.stdout, "");
    scene.write(
        "both.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens,num_prefill_tokens,num_decode_tokens\n2023-11-16 18:15:46,1,1,2,2\n",
    );
    scene.line("workload inspect both.csv").exits(5).says(&["fits more than one format: `azure`, `vidur`", "--format"]);
    scene.line("workload inspect both.csv --format vidur").exits(0).shows(&["for `--format vidur`", "mean 2.0"]);
    scene.line("workload inspect both.csv --format mooncake").exits(5).says(&["not JSON"]);
    scene.line("workload inspect both.csv --format nonsense").exits(64).says(&["known are azure, mooncake"]);
    scene.line("workload inspect missing.csv").exits(5).says(&["cannot read missing.csv"]);
    scene.line("workload inspect .").exits(5).says(&["it is a folder"]);
}

#[test]
fn the_requests_of_a_workload_are_shown_as_they_will_be_sent() {
    let scene = Scene::new();
    scene.write(
        "w.yaml",
        "servegate: 1\nkind: workload\nname: w\ncells:\n\
         \u{20} - {name: r2, rate: 2/s, arrivals: constant, warmup: 1, requests: 2, prompt_tokens: 9, output_tokens: 4}\n\
         \u{20} - {name: c1, concurrency: 1, warmup: 0, requests: 1, prompt_tokens: 3, output_tokens: 5}\n",
    );
    let lines = |line: &str| -> Vec<Value> {
        scene.line(line).exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines("workload show w.yaml");
    let shape = |line: &Value| {
        let words = line["prompt"].as_str().unwrap().split(' ').count();
        (line["cell"].clone(), line["warmup"].clone(), line["due_us"].clone(), words, line["output_tokens"].clone())
    };
    let expected = [
        ("r2", true, Some(0), 9, 4),
        ("r2", false, Some(500_000), 9, 4),
        ("r2", false, Some(1_000_000), 9, 4),
        ("c1", false, None, 3, 5),
    ];
    for (line, (cell, warmup, due, words, tokens)) in all.iter().zip(expected) {
        assert_eq!(shape(line), (cell.into(), warmup.into(), due.into(), words, tokens.into()));
    }
    assert_eq!(all.len(), expected.len());
    assert_eq!(lines("workload show w.yaml --cell r2 --measured"), all[1..3]);
    scene.line("workload show w.yaml --cell r3").exits(64).says(&["no such cell", "its cells are r2, c1"]);
}

#[test]
fn prompts_of_exact_length_have_it_by_the_tokenizer_whatever_they_say() {
    let scene = Scene::new();
    scene.write("tokenizer.json", include_str!("../data/tokenizer.json"));
    for content in ["english", "german", "french", "spanish", "chinese", "code"] {
        scene.write(
            "w.yaml",
            &format!(
                "servegate: 1\nkind: workload\nname: w\nprompts: exact\ncells:\n  - {{name: c, concurrency: 2, warmup: 0, \
                 requests: 20, prompt_tokens: 257, output_tokens: 5, shared_prefix: {{groups: 2, tokens: 100}}, \
                 content: {content}}}\n"
            ),
        );
        scene.line("check w.yaml").exits(0);
        scene.line("workload show w.yaml").exits(64).says(&["has an exact length", "--tokenizer"]);
        let shown = scene.line("workload show w.yaml --tokenizer tokenizer.json").exits(0).stdout;
        let prompts: Vec<String> = (shown.lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["prompt"].as_str().unwrap().to_owned())
            .collect();
        let asked = |(at, prompt): (usize, &String)| serde_json::json!({"custom_id": at.to_string(), "url": "/v1/completions", "body": {"prompt": prompt, "max_tokens": 1}});
        let batch: Vec<String> = prompts.iter().enumerate().map(|both| asked(both).to_string()).collect();
        scene.write("batch.jsonl", &batch.join("\n"));
        let line = "workload inspect batch.jsonl --tokenizer tokenizer.json";
        scene.line(line).exits(0).shows(&["prompt tokens  mean 257.0, p50 257, p90 257, p99 257, max 257"]);
        let begins: BTreeSet<String> = prompts.iter().map(|prompt| prompt.chars().take(30).collect()).collect();
        assert_eq!((begins.len(), prompts.iter().collect::<BTreeSet<_>>().len()), (2, 20), "{content}");
    }
}

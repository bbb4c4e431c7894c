//! `workload fit`: from a trace to a workload file that says how like the trace it is.

use std::fmt::Write as _;

use serde_json::Value;

use crate::replay::{published, ticks};
use crate::support::Scene;

/// A trace in the normal form: requests every half a second, long prompts with short answers among them.
fn normal(requests: u32) -> String {
    (0..requests).fold("{\"servegate_trace\":1,\"source\":\"servegate\"}\n".to_owned(), |mut text, number| {
        let (prompt, output) = if number % 5 == 0 { (2_000 + number % 300, 20) } else { (100 + number % 60, 200) };
        let class = if number % 5 == 0 { "summarise" } else { "chat" };
        let (at, session) = (number * 500_000, number.div_euclid(4));
        writeln!(
            text,
            "{{\"at_us\":{at},\"prompt_tokens\":{prompt},\"output_tokens\":{output},\"session\":{session},\"class\":\"{class}\"}}"
        )
        .unwrap();
        text
    })
}

#[test]
fn a_fitted_workload_is_checked_and_shown_as_it_stands() {
    let scene = Scene::new();
    scene.write("t.jsonl", &normal(2_400));
    let ended = scene.line("workload fit t.jsonl -o chat.yaml --window 5m --requests 300").exits(0);
    ended.shows(&[
        "read           2400 requests",
        "cell           busiest; 900 s to 1200 s of the trace: 600 requests, of 4 windows",
        "2.000 per s, burstiness 100.000; 300 requests after a warm-up of 20",
        "class          chat: 480 requests",
        "class          summarise: 120 requests",
        "     trace       plan         KS  by chance",
        "sessions       600",
        "lost           sessions: they are described here and are not in the workload",
        "written        chat.yaml",
    ]);
    let text = scene.read("chat.yaml");
    assert!(text.contains("name: chat\nseed: 1\n") && text.contains("  - name: quietest\n    rate: 2/s\n"), "{text}");
    let checked = scene.line("check chat.yaml").exits(0);
    assert_eq!((checked.stdout.as_str(), checked.stderr.as_str()), ("1 file, no problem\n", ""));
    let shown = scene.line("workload show chat.yaml --cell median --measured").exits(0).stdout;
    let asked: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked.len(), 300);
    // Long prompts have short answers, and only they.
    for request in asked {
        assert_eq!(request["prompt_tokens"].as_u64().unwrap() >= 2_000, request["output_tokens"] == 20, "{request}");
    }
}

#[test]
fn the_same_numbers_come_as_json_and_the_same_seed_gives_the_same_file() {
    let scene = Scene::new();
    scene.write("t.jsonl", &normal(1_200));
    let line = "workload fit t.jsonl -o w.yaml --cells 1 --class chat --max-prompt-tokens 150 --json";
    scene.line(line).exits(64).says(&["w.yaml is there already", "--force"]);
    let forced = format!("{line} --force");
    let json: Value = serde_json::from_str(&scene.line(&forced).exits(0).stdout).unwrap();
    let first = scene.read("w.yaml");
    assert_eq!((&json["requests"], &json["steps"][0]["requests"]), (&1_200.into(), &960.into()));
    let cell = &json["cells"][0];
    assert_eq!((&cell["name"], &cell["among"], &cell["classes"][0]["name"]), (&"all".into(), &1.into(), &Value::Null));
    let like = &cell["likeness"];
    assert!(like["prompt_tokens"]["ks"].as_f64().unwrap() < 0.1, "{like}");
    assert_eq!(like["trace"]["output_tokens"], 200.0);
    assert!(json["sessions"]["think_s"]["p50"].as_f64().unwrap() > 0.0);
    scene.line(&forced).exits(0);
    assert_eq!(scene.read("w.yaml"), first);
    scene.line(&format!("{forced} --seed 2")).exits(0);
    assert_ne!(scene.read("w.yaml"), first);
}

#[test]
fn ticks_of_a_source_are_spread_and_said() {
    let scene = Scene::new();
    scene.write("mooncake.jsonl", &ticks(900, 3_000));
    let ended = scene.line("workload fit mooncake.jsonl -o m.yaml").exits(0);
    ended.shows(&[
        "step           spread 900 requests of one instant with others: 900 requests",
        "ticks          the source writes down ticks of 3 s: requests of one instant are spread",
        "known prompt %",
        "of the trace: 600 requests",
    ]);
    let text = scene.read("m.yaml");
    assert!(text.contains("format mooncake") && text.contains("shared_prefix: {groups: "), "{text}");
    assert!(!text.contains("mooncake.jsonl"));
    scene.line("check m.yaml").exits(0);
}

#[test]
fn what_cannot_be_fitted_says_why_and_writes_nothing() {
    let scene = Scene::new();
    scene.write("t.jsonl", &normal(30));
    scene.write("short.jsonl", &normal(19));
    scene.write("chunk-0-trace.csv", "0,0.5,2,Gamma,0.25,8\n600,0,0,,0,0\n");
    for (line, code, message) in [
        ("chunk-0-trace.csv", 5, "holds rates of arrivals and no requests"),
        ("short.jsonl", 5, "19 requests do not show how lengths and gaps are distributed, and a cell needs 20"),
        ("t.jsonl --from 10m", 64, "no request is left after this: from 600 s to the end"),
        ("t.jsonl --class book", 64, "the trace has no class `book`"),
        ("t.jsonl --window 100ms", 64, "a window has a length from 1s to 24h"),
        ("t.jsonl --cells 0", 64, "--cells"),
        ("t.jsonl --requests 19", 64, "--requests"),
        ("missing.csv", 5, "cannot read missing.csv"),
    ] {
        scene.line(&format!("workload fit {line} -o f.yaml")).exits(code).says(&[message]);
        assert!(!scene.path("f.yaml").exists(), "{line}");
    }
    scene.line("workload fit t.jsonl").exits(64).says(&["--output <FILE>"]);
}

#[test]
fn no_text_of_a_trace_is_in_what_comes_out() {
    let scene = Scene::new();
    let word = "zqmarker";
    let row = |n: u32| {
        format!(
            "{{\"custom_id\": \"{word}-{n}\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": {{\"model\": \"{word}\", \
             \"messages\": [{{\"role\": \"user\", \"content\": \"{}\"}}], \"max_tokens\": 100}}}}\n",
            format!("{word} ").repeat(usize::try_from(n).unwrap() + 1)
        )
    };
    scene.write("batch.jsonl", &(0..40).map(row).collect::<String>());
    let ended = scene.line("workload fit batch.jsonl -o b.yaml").exits(0);
    let json = scene.line("workload fit batch.jsonl -o b.yaml --force --json").exits(0);
    for output in [&ended.stdout, &ended.stderr, &json.stdout, &scene.read("b.yaml")] {
        assert!(!output.contains(word), "{output}");
    }
    ended.shows(&["one request at a time; the trace has no instants"]);
    assert!(scene.read("b.yaml").contains("    concurrency: 1\n"));
    scene.line("check b.yaml").exits(0);
}

#[test]
fn every_published_trace_is_fitted_or_refused_with_a_reason() {
    let mut fitted = 0;
    for path in published() {
        let scene = Scene::new();
        let name = path.display().to_string();
        let ended = scene.run(&["workload", "fit", &name, "-o", "f.yaml"]);
        if ended.code == Some(0) {
            let checked = scene.line("check f.yaml").exits(0);
            assert_eq!(checked.stderr, "", "{name}");
            fitted += 1;
        } else {
            assert!(
                ended.code == Some(5) && ended.stderr.contains("hint: "),
                "{name}: {:?}\n{}",
                ended.code,
                ended.stderr
            );
        }
    }
    assert!(published().is_empty() || fitted == 3, "{fitted}");
}

//! A recorded trace from its own format to a verdict: `workload replay`, the cell that it prints, runs, bundles, and the
//! ways in which a trace can be wrong.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use servegate::base::names::Side;
use servegate::base::units::Nanos;
use servegate::trace::normal;

use crate::stored::{Session, first_baseline, planned};
use crate::support::{Engine, Scene};

/// A trace of Mooncake's kind: so many requests in ticks of three, a tick of `step_ms`.
pub(crate) fn ticks(requests: u32, step_ms: u32) -> String {
    (0..requests).fold(String::new(), |mut text, number| {
        let (tick, input) = (number.div_euclid(3) * step_ms, 520 + number % 7);
        let blocks = format!("[{}, {}]", number % 4, 100 + number);
        writeln!(
            text,
            "{{\"timestamp\": {tick}, \"input_length\": {input}, \"output_length\": {}, \"hash_ids\": {blocks}}}",
            4 + number % 5
        )
        .unwrap();
        text
    })
}

/// A folder with a workload that replays `t.jsonl`, made of such a trace, and its policy.
fn scene(requests: u32, step_ms: u32) -> Scene {
    let scene = Scene::new();
    scene.write("mooncake.jsonl", &ticks(requests, step_ms));
    let told = scene.line("workload replay mooncake.jsonl -o t.jsonl").exits(0).stdout;
    let cells = told.split("\n\n").nth(1).unwrap().replace("name: replay", "name: c2");
    scene.write("w.yaml", &format!("servegate: 1\nkind: workload\nname: tiny\n{cells}"));
    scene
}

const COMPARE: &str = "compare --policy p.yaml --baseline runs/v1 --candidate runs/v2";

#[test]
fn the_printed_cell_is_a_workload_as_it_stands() {
    let scene = scene(120, 600);
    assert_eq!(
        scene.read("w.yaml"),
        "servegate: 1\nkind: workload\nname: tiny\ncells:\n  - name: c2\n    trace: t.jsonl\n    warmup: 20\n    requests: 100\n"
    );
    scene.line("check w.yaml p.yaml").exits(0).shows(&["2 files, no problem"]);
    scene.line("workload inspect t.jsonl").exits(0).shows(&["first read as mooncake", "blocks of 512 tokens"]);
}

#[test]
fn runs_of_a_trace_are_judged_again_from_the_bundle_without_the_original() {
    let scene = scene(120, 600);
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "tue", release: "v2", side: Side::Candidate, step_ms: 5.0 }.simulate(&scene);
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    scene.line(COMPARE).exits(0).shows(&["PASS"]);

    // In virtual time every request is sent when the trace says.
    let trace = normal::read("t.jsonl", scene.read("t.jsonl").as_bytes()).unwrap();
    let run = scene.stored("runs/v1/mon-00-baseline");
    let start = run.records.iter().map(|record| record.due).min().unwrap();
    assert_eq!(run.records.len(), 100);
    for record in &run.records {
        let row = &trace.rows[20 + usize::try_from(record.request).unwrap()];
        assert_eq!(record.sent, record.due);
        assert_eq!(record.due.since(start), row.at.since(trace.rows[20].at));
        assert_eq!(record.output_tokens, row.output_tokens);
    }
    assert_eq!(planned(&scene).cells[0].requests.last().unwrap().due, Some(Nanos::from_millis(39 * 600)));

    let kept = "servegate-out/bundle/traces/tiny-0.jsonl";
    assert_eq!(scene.read(kept), scene.read("t.jsonl"));
    for file in ["t.jsonl", "w.yaml", "p.yaml"] {
        fs::remove_file(scene.path(file)).unwrap();
    }
    scene.line("verify servegate-out/bundle").exits(0).shows(&["the bundle is genuine"]);
    let good = scene.read(kept);
    scene.write(kept, &good.replacen("\"output_tokens\":4", "\"output_tokens\":5", 1));
    scene
        .line("verify servegate-out/bundle")
        .exits(4)
        .says(&["tiny-0.jsonl: its digest is ", "the bundle was changed"]);
    fs::remove_file(scene.path(kept)).unwrap();
    scene.line("verify servegate-out/bundle").exits(4).says(&["tiny-0.jsonl"]);
}

#[test]
fn a_slower_candidate_fails_under_a_trace_too() {
    let scene = scene(120, 600);
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "tue", release: "v2", side: Side::Candidate, step_ms: 80.0 }.simulate(&scene);
    scene.line(COMPARE).exits(1).shows(&["FAIL"]);
}

#[test]
fn a_class_of_a_trace_is_judged_apart_and_a_class_that_it_lacks_is_refused() {
    let scene = Scene::new();
    let rows = (0..120).fold("{\"servegate_trace\":1,\"source\":\"servegate\"}\n".to_owned(), |mut text, number| {
        let class = if number % 4 == 0 { "summarise" } else { "chat" };
        let at = number * 200_000;
        writeln!(text, "{{\"at_us\":{at},\"prompt_tokens\":20,\"output_tokens\":8,\"class\":\"{class}\"}}").unwrap();
        text
    });
    scene.write("t.jsonl", &rows);
    scene.write("all.jsonl", &rows.replace(",\"class\":\"chat\"", "").replace(",\"class\":\"summarise\"", ""));
    let workload = |trace: &str| {
        format!(
            "servegate: 1\nkind: workload\nname: tiny\ncells:\n  - {{name: c2, trace: {trace}, warmup: 20, requests: 100}}\n"
        )
    };
    scene.write("w.yaml", &workload("t.jsonl"));
    let plain = scene.read("p.yaml");
    let check =
        |keys: &str| scene.write("p.yaml", &format!("{plain}  - {{metric: ttft, at_most: 9%, role: guard, {keys}}}\n"));
    check("statistic: p50, class: chit");
    scene.line("check p.yaml w.yaml").exits(5).says(&[
        "unknown-class",
        "`chit` is no class of `c2`",
        "did you mean `chat`?",
        "p.yaml:",
    ]);
    check("statistic: p50, class: books");
    scene.line("check p.yaml w.yaml").exits(5).says(&["the classes there are `chat`, `summarise`"]);
    check("statistic: p75, class: summarise");
    scene.line("check p.yaml w.yaml").exits(5).says(&["too-few-requests", "needs 40 requests", "the class plans 25"]);
    check("statistic: p50, class: summarise");
    scene.line("check p.yaml w.yaml").exits(0);
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    Session { name: "tue", release: "v2", side: Side::Candidate, step_ms: 5.0 }.simulate(&scene);
    scene.line(COMPARE).exits(0).shows(&["c2:summarise"]);
    let run = scene.stored("runs/v1/mon-00-baseline");
    let of = |class: &str| run.records.iter().filter(|record| record.class.as_deref() == Some(class)).count();
    assert_eq!((of("chat"), of("summarise")), (75, 25));
    scene.write("w.yaml", &workload("all.jsonl"));
    scene.line("check p.yaml w.yaml").exits(5).says(&["remove `class`: the trace names no classes"]);
}

#[test]
fn a_trace_that_was_changed_after_the_baseline_is_another_plan() {
    let scene = scene(120, 600);
    Session { name: "mon", release: "v1", side: Side::Baseline, step_ms: 5.0 }.simulate(&scene);
    scene.line("baseline refresh --initial --release v1 --approved-by ada --runs runs/v1").exits(0);
    let good = scene.read("t.jsonl");
    scene.write("t.jsonl", &good.replacen("\"output_tokens\":4", "\"output_tokens\":5", 1));
    Session { name: "tue", release: "v2", side: Side::Candidate, step_ms: 5.0 }.simulate(&scene);
    scene.line(COMPARE).exits(3).shows(&["NOT COMPARABLE", "plan"]);
    scene
        .line("baseline refresh --release v2 --approved-by ada --runs runs/v2 --policy p.yaml")
        .exits(4)
        .says(&["plan"]);
}

#[test]
fn a_gate_over_http_takes_the_instants_of_the_trace() {
    let scene = scene(60, 75);
    let engine = Engine::quick(1.0);
    scene.measure(&engine.url(), "--out runs --release v1 --quiet").exits(0);
    first_baseline(&scene, "runs");
    let ended = scene.gate(&engine.url(), "--release v2");
    // A busy machine sends late, which is no fault of the candidate.
    assert_ne!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert!(matches!(ended.code, Some(0 | 2..=4)), "{}\n{}", ended.stdout, ended.stderr);
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn a_wrong_trace_is_refused_at_the_place_that_names_it() {
    let scene = scene(120, 600);
    let good = scene.read("t.jsonl");
    let lines: Vec<&str> = good.lines().collect();
    let (header, rows) = lines.split_first().unwrap();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        change(&mut rows);
        format!("{header}\n{}\n", rows.join("\n"))
    };
    let parent = |at: usize, parent: usize| {
        changed(&|rows| rows[at] = rows[at].replace('}', &format!(",\"parent\":{parent}}}")))
    };
    let huge = format!("{header}\n{}", "x".repeat(65 << 20));
    let cases: [(&str, String, &str); 11] = [
        ("order", changed(&|rows| rows.swap(10, 90)), "earlier than the row in front"),
        ("itself", parent(7, 7), "continues a request that is not in the trace"),
        ("later", parent(7, 50), "continues a request that is not in the trace"),
        ("text", changed(&|rows| rows[5] = rows[5].replace('}', ",\"prompt\":\"secret words\"}")), "line 7"),
        ("length", changed(&|rows| rows[5] = rows[5].replace("\"prompt_tokens\":5", "\"prompt_tokens\":-5")), "line 7"),
        ("cut", lines[..90].join("\n"), "fewer rows than the first line says"),
        ("empty", String::new(), "t.jsonl is empty"),
        ("binary", "\u{0}\u{1}\u{2}".repeat(50), "t.jsonl:1:1: not JSON"),
        ("mooncake", scene.read("mooncake.jsonl"), "workload replay TRACE -o t.jsonl"),
        ("huge", huge, "has more than 67108864 bytes"),
        ("future", good.replace("\"servegate_trace\":1", "\"servegate_trace\":2"), "version 1"),
    ];
    for (what, text, message) in cases {
        scene.write("t.jsonl", &text);
        let ended = scene.line("check w.yaml").exits(5);
        assert!(
            ended.stderr.contains("w.yaml:6:12") || ended.stderr.contains("cells[0].trace"),
            "{what}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains(message), "{what}: {}", ended.stderr);
        assert!(!ended.stderr.contains("secret words"), "{what}");
    }
    scene.write("t.jsonl", &good);
    scene.write("w.yaml", &scene.read("w.yaml").replace("requests: 100", "requests: 101"));
    let numbers = "the trace has 120 requests, and the cell needs 121: 20 of warm-up and 101 that are measured";
    scene.line("check w.yaml").exits(5).says(&[numbers]);
    scene.line("measure --workload w.yaml --url http://127.0.0.1:1 --model m --out runs").exits(5).says(&[numbers]);
}

#[test]
fn a_trace_lies_beside_its_workload_and_nowhere_else() {
    let scene = scene(120, 600);
    let good = scene.read("w.yaml");
    for (path, message) in [
        ("../t.jsonl", "leads out of the workload's folder"),
        ("traces/../t.jsonl", "leads out of the workload's folder"),
        ("/etc/hostname", "is not a relative path"),
        ("~/t.jsonl", "is not a relative path"),
        ("missing.jsonl", "missing.jsonl"),
        ("traces", "it is a folder"),
        ("link.jsonl", "is a symbolic link"),
        ("linked/t.jsonl", "is a symbolic link"),
    ] {
        fs::create_dir_all(scene.path("traces")).unwrap();
        drop(symlink(scene.path("t.jsonl"), scene.path("link.jsonl")));
        drop(symlink(scene.path("traces"), scene.path("linked")));
        scene.write("w.yaml", &good.replace("t.jsonl", path));
        scene.line("check w.yaml").exits(5).says(&[message]);
    }
    scene.write("traces/t.jsonl", &scene.read("t.jsonl"));
    scene.write("w.yaml", &good.replace("t.jsonl", "traces/t.jsonl"));
    scene.line("check w.yaml").exits(0);
    // A policy elsewhere finds the trace beside the workload.
    scene.write("gate/p.yaml", &scene.read("p.yaml").replace("w.yaml", "../w.yaml"));
    scene.line("check gate/p.yaml").exits(0);
}

#[test]
fn the_report_says_what_each_step_did_and_what_is_lost() {
    let scene = Scene::new();
    scene.write("mooncake.jsonl", &ticks(300, 3_000));
    let ended =
        scene.line("workload replay mooncake.jsonl -o t.jsonl --until 4m --spread --rate 2/s --requests 300").exits(0);
    for line in [
        "read           300 requests",
        "step           from the begin to 240 s: 240 requests, 60 removed",
        "step           spread 240 requests of one instant with others: 240 requests",
        "step           superposed 2 copies, from 1.000 to 2.000 per s: 480 requests, 240 added",
        "step           the first 300 requests: 300 requests, 180 removed",
        "at once        3 at most -> ",
        "lost           texts: ",
        "trace: t.jsonl\n    warmup: 20\n    requests: 280\n",
    ] {
        assert!(ended.stdout.contains(line), "no `{line}` in\n{}", ended.stdout);
    }
    let again = scene.line("workload replay mooncake.jsonl -o t.jsonl").exits(64);
    again.says(&["t.jsonl is there already", "--force"]);
    let first = scene.read("t.jsonl");
    let line = "workload replay mooncake.jsonl -o t.jsonl --force --json --until 4m --spread --rate 2/s --requests 300";
    let json: Value = serde_json::from_str(&scene.line(line).exits(0).stdout).unwrap();
    assert_eq!(scene.read("t.jsonl"), first, "the same seed gives the same bytes");
    assert_eq!((&json["before"]["requests"], &json["after"]["requests"]), (&300.into(), &300.into()));
    assert_eq!(json["steps"][2]["requests"], 480);
    assert!(json["cells"].as_str().unwrap().starts_with("cells:\n  - name: replay\n    trace: t.jsonl\n"));
    scene.line(&format!("{line} --seed 2")).exits(0);
    assert_ne!(scene.read("t.jsonl"), first);
}

#[test]
fn what_cannot_be_replayed_says_why_and_writes_nothing() {
    let scene = Scene::new();
    scene.write("mooncake.jsonl", &ticks(30, 3_000));
    scene.write("chunk-0-trace.csv", "0,0.5,2,Gamma,0.25,8\n600,0,0,,0,0\n");
    scene.write(
        "batch.jsonl",
        r#"{"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "one", "max_tokens": 9}}"#,
    );
    for (line, code, message) in [
        ("chunk-0-trace.csv", 5, "holds rates of arrivals and no requests"),
        ("batch.jsonl", 5, "does not say when its requests arrived"),
        ("mooncake.jsonl --from 10m", 64, "no request is left after this: from 600 s to the end"),
        ("mooncake.jsonl --max-prompt-tokens 9", 64, "no request is left after this: prompts of up to 9 tokens"),
        ("mooncake.jsonl --class chat", 64, "the trace has no class `chat`"),
        ("mooncake.jsonl --thin 1.5", 64, "a share is a number above 0 and up to 1"),
        ("mooncake.jsonl --rate 9", 64, "write `9/s`"),
        ("mooncake.jsonl --thin 0.5 --rate 9/s", 64, "cannot be used with"),
        ("mooncake.jsonl --rate 9000000/s", 64, "copies of 30 requests are more than 5000000"),
        ("missing.csv", 5, "cannot read missing.csv"),
    ] {
        scene.line(&format!("workload replay {line} -o t.jsonl")).exits(code).says(&[message]);
        assert!(!scene.path("t.jsonl").exists(), "{line}");
    }
}

/// Files of the shared folder, where it is at hand: as in the library's tests.
pub(crate) fn published() -> Vec<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let mut folders = vec![std::env::var_os("SERVEGATE_SHARED").map_or_else(beside, PathBuf::from).join("data/traces")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[test]
fn every_published_trace_is_replayed_or_refused_and_its_cell_is_accepted() {
    let mut replayed = 0;
    for path in published() {
        let scene = Scene::new();
        let name = path.display().to_string();
        let ended = scene.run(&["workload", "replay", &name, "-o", "t.jsonl", "--spread", "--rate", "1/s"]);
        if ended.code == Some(0) {
            let cells = ended.stdout.split("\n\n").nth(1).unwrap();
            scene.write("w.yaml", &format!("servegate: 1\nkind: workload\nname: w\n{cells}"));
            scene.line("check w.yaml").exits(0);
            replayed += 1;
        } else {
            assert!(
                ended.code == Some(5) && ended.stderr.contains("hint: "),
                "{name}: {:?}\n{}",
                ended.code,
                ended.stderr
            );
        }
    }
    assert!(published().is_empty() || replayed == 9, "{replayed}");
}

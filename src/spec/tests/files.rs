//! Whole files: those that are shipped, and one of each kind with every key.

use std::fmt::Write as _;

use crate::base::names::{Api, Caches, Condition, HttpVersion, Metric, Role, Statistic};
use crate::base::units::Nanos;
use crate::spec::document::FileKind;
use crate::spec::policy::{Check, Decision, Margin, Policy};
use crate::spec::schema::schema;
use crate::spec::shape::{Kind, Need, Object};
use crate::spec::target::{MetricsPage, Ready};
use crate::spec::tests::schemas::{as_json, broken, objects};
use crate::spec::workload::{Burst, Cell, Content, Lengths, Load, Phase, Prompts, Workload};
use crate::spec::{default_role, read_config, read_policy, read_workload};

const CHAT: &str = include_str!("../../../gate-policies/chat.yaml");
const CHAT_WORKLOAD: &str = include_str!("../../../gate-policies/workloads/chat.yaml");
const BATCH: &str = include_str!("../../../gate-policies/offline-batch.yaml");
const BATCH_WORKLOAD: &str = include_str!("../../../gate-policies/workloads/offline-batch.yaml");

const MIXED: &str = include_str!("../../../gate-policies/mixed.yaml");
const MIXED_WORKLOAD: &str = include_str!("../../../gate-policies/workloads/mixed.yaml");

const FULL_WORKLOAD: &str = "\
servegate: 1
kind: workload
name: full
description: Every key.
seed: 7
cells:
  - name: a
    concurrency: 20
    requests: 50
    warmup: 7
    phases:
      cold:
        requests: 30
    prompt_tokens:
      uniform:
        min: 10
        max: 20
    output_tokens: 5
    shared_prefix:
      groups: 2
      tokens: 3
    timeout: 60s
    stall_timeout: 5s
  - name: b
    rate: 9/s
    arrivals: constant
    requests: 50
    prompt_tokens:
      log_normal:
        median: 30
        sigma: 0.5
        min: 10
        max: 90
    output_tokens:
      table:
        512: 3
        128: 1
";

const FULL_TRACE: &str = "\
servegate: 1
kind: workload
name: traced
cells:
  - name: t
    trace: traces/chat.jsonl
    requests: 50
    output_tokens: 9
    max_connections: 32
";

const FULL_CONTENT: &str = "\
servegate: 1
kind: workload
name: content
prompts: exact
cells:
  - name: c1
    concurrency: 1
    requests: 50
    prompt_tokens: 64
    output_tokens: 9
    content: code
  - name: mixed
    concurrency: 1
    requests: 50
    classes:
      - {name: german, weight: 1, prompt_tokens: 64, output_tokens: 9, content: german}
      - {name: chinese, weight: 1, prompt_tokens: 64, output_tokens: 9, content: chinese}
";

const FULL_LOADS: &str = "\
servegate: 1
kind: workload
name: loads
prompts: token_ids
vocabulary: 32000
caches: cold
capacity: 20/s
cells:
  - name: gamma
    rate: 40% of capacity
    arrivals:
      gamma:
        burstiness: 0.5
    requests: 50
    prompt_tokens: 9
    output_tokens: 9
    max_connections: 32
  - name: ramp
    rate: 1/s
    arrivals:
      ramp:
        to: 20/s
        over: 60s
    requests: 50
    prompt_tokens: 9
    output_tokens: 9
  - name: line
    rate: 4/s
    arrivals:
      bursts:
        every: 10s
        requests: 25
    requests: 50
    phases:
      recovery:
        requests: 51
      burst:
        rate: 5/s
        arrivals:
          bursts:
            every: 10s
            rate: 40/s
            for: 2s
        requests: 52
      idle:
        pause: 30s
        requests: 53
    prompt_tokens: 9
    output_tokens: 9
  - name: closed
    rate: 20/s
    arrivals:
      on_off:
        on: 5s
        off: 10s
    requests: 50
    phases:
      burst:
        concurrency: 9
        requests: 54
    prompt_tokens: 9
    output_tokens: 9
";

const FULL_POLICY: &str = "\
servegate: 1
kind: policy
name: full
description: Every key.
workload: full.yaml
runs: 4
controls: 3
treatment:
  - kv_cache_dtype
when:
  hardware: h100
baseline:
  max_age: 30d
decision:
  alpha_fail: 4%
  alpha_pass: 3%
  session_sd: 1.5%
  session_sd_df: 6
checks:
  - metric: ttft
    statistic: p50
    cells:
      - a
    phase: cold
    at_most: 5%
    floor: 0.3ms
    warn_at: 3%
    objective: 800ms
    role: guard
  - metric: output_tokens
    within: 3%
    role: required
  - metric: goodput
    at_most: 5%
    objective: 9 requests/s
    limits:
      ttft: 500ms
      tpot: 50ms
  - metric: error_rate
    at_most: 1pp
    objective: 2%
";

const FULL_MIX: &str = "\
servegate: 1
kind: workload
name: mix
cells:
  - name: mixed
    rate: 21/s
    requests: 60
    classes:
      - name: chat
        weight: 9
        prompt_tokens: 9
        output_tokens: 9
      - name: paper
        weight: 1
        prompt_tokens:
          uniform:
            min: 7000
            max: 9000
        output_tokens: 8
        shared_prefix:
          groups: 4
          tokens: 50
          zipf: 1.1
          system_tokens: 20
      - name: again
        weight: 2
        repeats:
          class: chat
          after: 10
";

const FULL_SLICES: &str = "\
servegate: 1
kind: policy
name: slices
workload: mix.yaml
checks:
  - metric: error_rate
    class: paper
    context: 8k-32k
    at_most: 1pp
  - metric: error_rate
    class: paper
    at_most: 1pp
  - metric: error_rate
    context: 8k-
    at_most: 1pp
";

const FULL_CONFIG: &str = "\
servegate: 1
kind: config
baselines: kept
out: results
targets:
  staging:
    url: https://staging.internal:8443/llm/
    api: completions
    model: llama
    api_key_env: STAGING_KEY
    ca_file: ca.pem
    tokenizer: llama/tokenizer.json
    protocol: http2
    proxy: http://proxy:3128
    restart:
      command:
        - ./restart.sh
        - --replicas
        - 1
      timeout: 5m
    ready:
      path: /ready
      timeout: 2m
    metrics: http://staging.internal:8002/metrics
    extra_body:
      ignore_eos: true
      top_k: 5
      stop: [a, 'no']
    conditions:
      kv_cache_dtype: bf16
      max_num_seqs: 256
";

#[test]
fn token_ids_need_a_vocabulary_and_text_takes_none() {
    let with = |keys: &str| {
        let cell = "{name: c1, concurrency: 1, requests: 50, prompt_tokens: 64, output_tokens: 8}";
        let text = format!("servegate: 1\nkind: workload\nname: w\n{keys}cells: [{cell}]\n");
        read_workload("w.yaml", &text).map(|read| read.value.prompts).map_err(|found| found[0].code)
    };
    assert_eq!(with(""), Ok(Prompts::Text));
    assert_eq!(with("prompts: text\n"), Ok(Prompts::Text));
    assert_eq!(with("prompts: token_ids\nvocabulary: 49152\n"), Ok(Prompts::TokenIds { vocabulary: 49_152 }));
    assert_eq!(with("prompts: token_ids\n"), Err("missing-key"));
    assert_eq!(with("vocabulary: 49152\n"), Err("conflicting-keys"));
    assert_eq!(with("prompts: exact\n"), Ok(Prompts::Exact));
    assert_eq!(with("prompts: exact\nvocabulary: 49152\n"), Err("conflicting-keys"));
}

#[test]
fn what_prompts_say_is_chosen_where_a_tokenizer_measures_them() {
    let with = |keys: &str, more: &str| {
        let cell = format!("{{name: c1, concurrency: 1, requests: 50, prompt_tokens: 64, output_tokens: 8{more}}}");
        let text = format!("servegate: 1\nkind: workload\nname: w\n{keys}cells: [{cell}]\n");
        let read = read_workload("w.yaml", &text);
        read.map(|read| read.value.cells[0].classes[0].content)
            .map_err(|found| (found[0].code, found[0].message.clone()))
    };
    assert_eq!(with("prompts: exact\n", ""), Ok(Content::English));
    assert_eq!(with("prompts: exact\n", ", content: german"), Ok(Content::German));
    assert_eq!(with("", ", content: german").unwrap_err().0, "conflicting-keys");
    let (code, message) = with("prompts: exact\n", ", content: images").unwrap_err();
    assert_eq!(code, "unknown-value");
    assert!(message.contains("images"), "{message}");
}

#[test]
fn a_mode_of_caches_is_one_of_three_or_undeclared() {
    let with = |keys: &str| {
        let cell = "{name: c1, concurrency: 1, requests: 50, prompt_tokens: 64, output_tokens: 8}";
        let text = format!("servegate: 1\nkind: workload\nname: w\n{keys}cells: [{cell}]\n");
        let read = read_workload("w.yaml", &text).map(|read| read.value.caches);
        read.map_err(|found| (found[0].place.line, found[0].code, found[0].help.clone()))
    };
    assert_eq!(with(""), Ok(None));
    for caches in Caches::ALL {
        assert_eq!(with(&format!("caches: {caches}\n")), Ok(Some(*caches)));
    }
    let (line, code, help) = with("caches: warm\n").unwrap_err();
    assert_eq!((line, code), (4, "unknown-value"));
    assert_eq!(help, "write one of `reset`, `salted`, `cold`");
}

fn workload(text: &str) -> Workload {
    let read = read_workload("w.yaml", text).unwrap();
    assert_eq!(read.warnings, []);
    read.value
}

fn policy(text: &str, workload: &Workload) -> Policy {
    let read = read_policy("p.yaml", text).bind(workload).unwrap();
    assert_eq!(read.warnings, []);
    read.value
}

#[test]
fn shipped_files_are_right_under_the_reader_and_under_the_schema() {
    for (name, policy_text, workload_text) in
        [("chat", CHAT, CHAT_WORKLOAD), ("offline-batch", BATCH, BATCH_WORKLOAD), ("mixed", MIXED, MIXED_WORKLOAD)]
    {
        let workload = workload(workload_text);
        let policy = policy(policy_text, &workload);
        assert_eq!((policy.name.as_str(), workload.name.as_str()), (name, name));
        assert_eq!(policy.workload, format!("workloads/{name}.yaml"));
        for (kind, text) in [(FileKind::Policy, policy_text), (FileKind::Workload, workload_text)] {
            let schema = schema(kind);
            assert_eq!(broken(&as_json(text), &schema, &schema, ""), [""; 0]);
        }
    }
}

#[test]
fn the_chat_policy_requires_what_a_harmless_change_can_show() {
    let policy = policy(CHAT, &workload(CHAT_WORKLOAD));
    let ids = |role: Role| policy.checks.iter().filter(|c| c.role == role).map(Check::id).collect::<Vec<_>>().join(" ");
    assert_eq!(
        ids(Role::Required),
        "tpot.p50@c1 tpot.p50@c8 tpot.p50@c64 ttft.p50@c1 ttft.p50@c8 \
         error_rate@c1 error_rate@c8 error_rate@c64 \
         output_tokens@c1 output_tokens@c8 output_tokens@c64"
    );
    assert_eq!(
        ids(Role::Guard),
        "ttft.p50@c64 ttft.p90@c1 ttft.p90@c8 ttft.p90@c64 e2e.p50@c1 e2e.p50@c8 e2e.p50@c64 \
         throughput@c1 throughput@c8 throughput@c64"
    );
    assert_eq!(policy.treatment, [Condition::KvCacheDtype]);
    let tpot = &policy.checks[0];
    assert_eq!(tpot.margin, Margin::Relative { ratio: 0.05, floor: Some(Nanos(300_000)) });
    assert_eq!(tpot.place.to_string(), "p.yaml:17:5");
}

#[test]
fn warm_up_and_stall_time_have_the_documented_defaults() {
    let chat = workload(CHAT_WORKLOAD);
    assert_eq!(chat.cells.iter().map(|cell| cell.warmup).collect::<Vec<_>>(), [20, 20, 128]);
    assert_eq!(chat.cells[0].timeout, Nanos::from_secs(120));
    assert_eq!(chat.cells[0].stall_timeout, Nanos::from_secs(30));
}

#[test]
fn every_value_arrives_as_it_was_written() {
    let workload = workload(FULL_WORKLOAD);
    assert_eq!(workload.seed, 7);
    let names: Vec<&str> = workload.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(names, ["a/cold", "a", "b"]);
    assert_eq!(workload.cells[1].classes[0].prompt_tokens, Lengths::Uniform { min: 10, max: 20 });
    assert_eq!(workload.cells[2].load, Load::Constant { rate: 9.0 });
    assert_eq!(workload.cells[2].classes[0].output_tokens, Lengths::Table(vec![(128, 1.0), (512, 3.0)]));
    assert_eq!(
        workload.cells[2].classes[0].prompt_tokens,
        Lengths::LogNormal { median: 30.0, sigma: 0.5, min: 10, max: 90 }
    );

    let policy = policy(FULL_POLICY, &workload);
    assert_eq!((policy.runs, policy.controls, policy.baseline_max_age_days), (4, 3, 30));
    assert_eq!(policy.when, [(Condition::Hardware, "h100".to_owned())]);
    assert_eq!(policy.checks.len(), 7);
    assert_eq!(
        (policy.checks[0].id().as_str(), policy.checks[2].id().as_str()),
        ("ttft.p50@a/cold", "output_tokens@b")
    );
    assert_eq!(policy.checks[0].objective, Some(800.0));
    assert_eq!(policy.checks[1].margin, Margin::Within(0.03));
    let limits = [(Metric::Ttft, Nanos::from_millis(500)), (Metric::Tpot, Nanos::from_millis(50))];
    assert_eq!(policy.checks[3].limits, limits);
    assert_eq!(policy.checks[5].margin, Margin::Points(0.01));
    assert_eq!(policy.checks[5].objective, Some(0.02));
}

#[test]
fn every_value_of_a_target_arrives_as_it_was_written() {
    let config = read_config("servegate.yaml", FULL_CONFIG).unwrap().value;
    let target = &config.targets["staging"];
    assert_eq!((target.protocol, target.proxy.as_deref()), (HttpVersion::Http2, Some("http://proxy:3128")));
    assert_eq!(target.url, "https://staging.internal:8443/llm");
    assert_eq!(target.restart.as_ref().unwrap().command, ["./restart.sh", "--replicas", "1"]);
    assert_eq!(
        serde_json::Value::from(target.extra_body.clone()),
        serde_json::json!({"ignore_eos": true, "top_k": 5, "stop": ["a", "no"]})
    );
    assert_eq!(target.conditions[&Condition::MaxNumSeqs], "256");
    assert_eq!(target.metrics, MetricsPage::At("http://staging.internal:8002/metrics".to_owned()));
}

#[test]
fn loads_and_phases_arrive_as_they_were_written() {
    let secs = Nanos::from_secs;
    let cells = workload(FULL_LOADS).cells;
    let of = |cell: &Cell| (cell.name.clone(), cell.phase, cell.load, cell.requests, cell.warmup);
    let bursts = |rate, burst| Load::Bursts { rate, every: secs(10), burst };
    let few = bursts(4.0, Burst::Requests(25));
    let high = bursts(5.0, Burst::Rate { rate: 40.0, length: secs(2) });
    let expected = [
        ("gamma", Phase::Steady, Load::Gamma { rate: 8.0, burstiness: 0.5 }, 50, 20),
        ("ramp", Phase::Steady, Load::Ramp { from: 1.0, to: 20.0, over: secs(60) }, 50, 20),
        ("line", Phase::Steady, few, 50, 20),
        ("line/idle", Phase::Idle, Load::Idle { pause: secs(30) }, 53, 0),
        ("line/burst", Phase::Burst, high, 52, 0),
        ("line/recovery", Phase::Recovery, few, 51, 0),
        ("closed", Phase::Steady, Load::OnOff { rate: 20.0, on: secs(5), off: secs(10) }, 50, 20),
        ("closed/burst", Phase::Burst, Load::Closed { concurrency: 9 }, 54, 0),
    ];
    let expected =
        expected.map(|(name, phase, load, requests, warmup)| (name.to_owned(), phase, load, requests, warmup));
    assert_eq!(cells.iter().map(of).collect::<Vec<_>>(), expected);
    let traced = workload(FULL_TRACE).cells.remove(0);
    let file = traced.trace.unwrap().file;
    assert_eq!((traced.load, &traced.classes[0].prompt_tokens, traced.warmup), (Load::Trace, &Lengths::Traced, 20));
    assert_eq!(
        (file.path.as_str(), file.key.as_str(), file.place.unwrap().line),
        ("traces/chat.jsonl", "cells[0].trace", 6)
    );
    let caps: Vec<_> = cells.iter().map(|cell| cell.max_connections).collect();
    assert_eq!((caps[0], caps.iter().flatten().count()), (Some(32), 1));
}

#[test]
fn an_empty_section_of_defaults_equals_the_default_of_the_type() {
    let text = "servegate: 1\nkind: policy\nname: p\nworkload: w.yaml\nchecks: [{metric: error_rate, at_most: 1pp}]\n";
    let policy = policy(text, &workload(CHAT_WORKLOAD));
    assert_eq!(policy.decision, Decision::default());
    assert_eq!((policy.runs, policy.controls, policy.baseline_max_age_days), (5, 2, 90));
    let config = "servegate: 1\nkind: config\ntargets: {t: {url: 'http://h', model: m}}\n";
    let config = read_config("servegate.yaml", config).unwrap().value;
    assert_eq!(config.targets["t"].ready, Ready::default());
    assert_eq!(config.targets["t"].metrics, MetricsPage::Usual);
    let off = "servegate: 1\nkind: config\ntargets: {t: {url: 'http://h', model: m, metrics: none}}\n";
    assert_eq!(read_config("servegate.yaml", off).unwrap().value.targets["t"].metrics, MetricsPage::Off);
}

/// What a text means, whatever its kind, so that two texts can be compared.
fn meaning(kind: FileKind, text: &str) -> String {
    match kind {
        FileKind::Workload => format!("{:?}", read_workload("f", text)),
        FileKind::Config => {
            let mut reading = read_config("f", text);
            // A place moves with what stands before it.
            let targets = reading.iter_mut().flat_map(|reading| reading.value.targets.values_mut());
            targets.filter_map(|target| target.tokenizer.as_mut()).for_each(|file| file.place = None);
            format!("{reading:?}")
        }
        FileKind::Policy => {
            let of = if text.contains("name: slices") { FULL_MIX } else { FULL_WORKLOAD };
            format!("{:?}", read_policy("f", text).bind(&workload(of)))
        }
    }
}

/// The text without the key on this line and all that belongs to it; lines keep their numbers.
fn without_key(text: &str, at: usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let lines: Vec<&str> = text.lines().collect();
    let mut inside = false;
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        inside = index == at || (inside && indent(line) > indent(lines[at]));
        match (inside, line.trim_start().starts_with("- ") && index == at) {
            (true, true) => out += line.get(..indent(line) - 1).unwrap(),
            (true, false) => {}
            (false, _) => out += line,
        }
        out.push('\n');
    }
    out
}

#[test]
fn every_key_of_every_schema_is_read() {
    let full = [
        (FileKind::Workload, FULL_WORKLOAD),
        (FileKind::Workload, FULL_LOADS),
        (FileKind::Workload, FULL_CONTENT),
        (FileKind::Workload, FULL_TRACE),
        (FileKind::Workload, FULL_MIX),
        (FileKind::Policy, FULL_POLICY),
        (FileKind::Policy, FULL_SLICES),
        (FileKind::Config, FULL_CONFIG),
    ];
    for (kind, text) in full {
        let schema = schema(kind);
        assert_eq!(broken(&as_json(text), &schema, &schema, ""), [""; 0]);
        let whole = meaning(kind, text);
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.contains(':')) {
            assert_ne!(meaning(kind, &without_key(text, at)), whole, "{kind}: nothing reads {line}");
        }
    }
    for field in objects().iter().flat_map(|object| object.fields) {
        let key = format!(" {}:", field.name);
        let written = full.iter().any(|(_, text)| format!("\n{text}").replace('\n', "\n ").contains(&key));
        assert!(written, "no file of this test has {}", field.name);
    }
}

#[test]
fn medians_are_required_and_tails_are_guards() {
    assert_eq!(default_role(Metric::Ttft, Statistic::P50), Role::Required);
    assert_eq!(default_role(Metric::Ttft, Statistic::P95), Role::Guard);
    assert_eq!(default_role(Metric::Tpot, Statistic::P95), Role::Required);
    assert_eq!(default_role(Metric::E2e, Statistic::P99), Role::Guard);
    assert_eq!(default_role(Metric::Itl, Statistic::P50), Role::Guard);
    assert_eq!(default_role(Metric::ErrorRate, Statistic::Value), Role::Required);
}

/// The table of an object's keys in the documentation.
fn table(object: &Object) -> String {
    let mut out = "| key | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for field in object.fields {
        let default = match field.need {
            Need::Required => "required".to_owned(),
            Need::Optional => String::new(),
            Need::Default(text) => format!("`{text}`"),
        };
        writeln!(out, "| `{}` | {} | {default} | {} |", field.name, value(&field.kind), field.doc).unwrap();
    }
    out
}

fn value(kind: &Kind) -> String {
    match kind {
        Kind::Version => "`1`".to_owned(),
        Kind::Word(word) => format!("`{word}`"),
        Kind::Text => "text".to_owned(),
        Kind::Name => "name".to_owned(),
        Kind::Fact => "any value".to_owned(),
        Kind::RelativePath => "relative path".to_owned(),
        Kind::UrlPath => "path of a request".to_owned(),
        Kind::Url => "URL".to_owned(),
        Kind::Page => "path of a request, URL, or `none`".to_owned(),
        Kind::EnvName => "name of a variable".to_owned(),
        Kind::Choice(names) if names().len() <= 8 => {
            names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Choice(_) => "name from the list below".to_owned(),
        Kind::Count { max: u64::MAX, .. } => "whole number".to_owned(),
        Kind::Count { min, max } => format!("whole number, {min} to {max}"),
        Kind::Number { min, max } => format!("number, {min} to {max}"),
        Kind::Duration { min, max } => format!("duration, `{min}` to `{max}`"),
        Kind::Days => "days, such as `90d`".to_owned(),
        Kind::Percent { min, max } => format!("percentage, `{min}` to `{max}`"),
        Kind::Amount => "`5%` or `1pp`".to_owned(),
        Kind::Rate { min, max } => format!("rate, `{min}` to `{max}`"),
        Kind::CellRate { min, max } => format!("rate, `{min}` to `{max}`, or `N% of capacity`"),
        Kind::Objective => "a number with its unit".to_owned(),
        Kind::Context => "range of lengths, such as `8k-32k`".to_owned(),
        Kind::Set(item) | Kind::List(item) => format!("list of: {}", value(item)),
        Kind::Map(keys, values) => format!("for each {}: {}", value(keys), value(values)),
        Kind::Object(object) => object.name.to_owned(),
        Kind::Either(first, second) => format!("{}; or {}", value(first), value(second)),
        Kind::Json => "mapping of any JSON".to_owned(),
    }
}

const DOCS: [&str; 3] = [
    include_str!("../../../docs/policies.md"),
    include_str!("../../../docs/workloads.md"),
    include_str!("../../../docs/targets.md"),
];

#[test]
fn the_documentation_lists_every_key() {
    let missing: Vec<String> = objects()
        .into_iter()
        .map(|object| (object, table(object)))
        .filter(|(_, table)| !DOCS.iter().any(|page| page.contains(table)))
        .map(|(object, table)| format!("{}\n{table}", object.name))
        .collect();
    assert!(missing.is_empty(), "no page has these tables:\n{}", missing.join("\n"));
    for names in [
        Metric::ALL.iter().map(|name| name.id()).collect::<Vec<_>>(),
        Statistic::ALL.iter().map(|name| name.id()).collect(),
        Condition::ALL.iter().map(|name| name.id()).collect(),
    ] {
        assert!(names.iter().all(|name| DOCS[0].contains(&format!("`{name}`"))), "{names:?}");
    }
    assert!(Api::ALL.iter().all(|api| DOCS[2].contains(&format!("\n| `{api}` | "))), "every interface has its row");
}

#[test]
fn a_share_of_the_capacity_is_the_absolute_rate() {
    let file = |rate: &str, surge: &str| {
        format!(
            "servegate: 1\nkind: workload\nname: w\ncapacity: 12.4/s\ncells:\n  - {{name: busy, rate: {rate}, requests: 20, \
             prompt_tokens: 9, output_tokens: 9, phases: {{burst: {{rate: {surge}, requests: 20}}}}}}\n"
        )
    };
    let read = |text: &str| read_workload("w.yaml", text).unwrap().value;
    let relative = read(&file("70% of capacity", "120 %  of capacity"));
    assert_eq!(relative, read(&file("8.68/s", "14.88/s")));
    assert_ne!(relative, read(&file("70% of capacity", "120% of capacity").replace("12.4", "12.5")));
}

#[test]
fn the_examples_of_the_documentation_are_right() {
    for (page, kind) in DOCS.iter().zip([FileKind::Policy, FileKind::Workload, FileKind::Config]) {
        let mut examples = 0;
        for block in page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.starts_with("servegate: 1") {
                let meaning = match kind {
                    FileKind::Policy => read_policy("f", block).bind(&workload(CHAT_WORKLOAD)).map(drop),
                    FileKind::Workload => read_workload("f", block).map(drop),
                    FileKind::Config => read_config("f", block).map(drop),
                };
                meaning.unwrap();
                examples += 1;
            }
        }
        assert!(examples > 0, "{kind}");
    }
}

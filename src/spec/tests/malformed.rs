//! Malformed files, and the place, code and key of every finding about them.

use std::fmt::Write as _;

use proptest::prelude::*;

use crate::base::diagnostic::{Place, Severity};
use crate::spec::tests::{findings, workload};
use crate::spec::{read_config, read_policy, read_workload, render};

const POLICY: &str = "servegate: 1\nkind: policy\nname: p\nworkload: w.yaml\n";
const WORKLOAD: &str = "servegate: 1\nkind: workload\nname: w\n";
const CONFIG: &str = "servegate: 1\nkind: config\n";
const CHECKS: &str =
    "checks:\n  - {metric: tpot, statistic: p50, at_most: 5%}\n  - {metric: error_rate, at_most: 1pp}\n";

/// The line and column of a byte, counted here and not by the parser.
fn position(text: &str, byte: usize) -> (u32, u32) {
    let before = text.get(..byte).unwrap().trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line.try_into().unwrap(), column.try_into().unwrap())
}

/// `line:column code key`, with a `?` for warnings.
fn summary(text: &str) -> String {
    let found = findings(text);
    for Place { line, column, span, .. } in found.iter().map(|finding| &finding.place).filter(|place| place.line > 0) {
        assert_eq!((*line, *column), position(text, span.start), "{found:?}");
    }
    found.iter().fold(String::new(), |mut all, finding| {
        let mark = if finding.severity == Severity::Warning { "?" } else { "" };
        let (place, code) = (&finding.place, finding.code);
        write!(all, "{}:{} {code}{mark} {}|", place.line, place.column, finding.key).unwrap();
        all
    })
}

#[track_caller]
fn assert_found(head: &str, cases: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (body, expected) in cases {
        let found = summary(&format!("{head}{body}"));
        if found.trim_end_matches('|').trim_end() != *expected {
            let shown: String = body.chars().take(400).collect();
            write!(wrong, "{shown}\n  expected {expected}\n  found    {found}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn malformed_classes_and_slices() {
    let cell = |keys: &str| format!("cells:\n  - {{name: m, concurrency: 1, requests: 40, {keys}}}\n");
    let of =
        |name: &str, weight: &str| format!("{{name: {name}, weight: {weight}, prompt_tokens: 9, output_tokens: 9}}");
    let classes = |list: &[String]| cell(&format!("classes: [{}]", list.join(", ")));
    let many: Vec<String> = (0..65).map(|n| of(&format!("c{n}"), "1")).collect();
    assert_found(
        WORKLOAD,
        &[
            (&classes(&[of("a", "9"), of("b", "0.5")]), ""),
            (
                &cell("max_connections: 9"),
                "5:5 missing-key cells[0].output_tokens|5:5 missing-key cells[0].prompt_tokens",
            ),
            (&cell("classes: []"), "5:54 empty-value cells[0].classes"),
            (&classes(&[of("a", "0")]), "5:73 out-of-range cells[0].classes[0].weight"),
            (&classes(&[of("a", "9"), of("b", "0.01")]), "5:131 out-of-range cells[0].classes[1].weight"),
            (&classes(&[of("a", "9"), of("a", "9")]), "5:120 duplicate-name cells[0].classes[1].name"),
            (&classes(&[of("a:b", "9")]), "5:62 invalid-name cells[0].classes[0].name"),
            (
                &classes(&["{name: a, weight: 1}".to_owned()]),
                "5:55 missing-key cells[0].classes[0].output_tokens|5:55 missing-key cells[0].classes[0].prompt_tokens",
            ),
            (
                &cell(&format!("prompt_tokens: 9, classes: [{}]", of("a", "1"))),
                "5:60 conflicting-keys cells[0].prompt_tokens",
            ),
            (&classes(&many), "5:54 too-large cells[0].classes"),
        ],
    );
    let again = |keys: &str| classes(&[of("a", "1"), format!("{{name: b, weight: 1, {keys}}}")]);
    let prefix =
        |keys: &str| cell(&format!("prompt_tokens: 99, output_tokens: 9, shared_prefix: {{groups: 2, {keys}}}"));
    assert_found(
        WORKLOAD,
        &[
            (&again("repeats: {class: a}"), ""),
            (&again("repeats: {class: c}"), "5:151 unknown-class cells[0].classes[1].repeats.class"),
            (&again("repeats: {class: b}"), "5:151 conflicting-keys cells[0].classes[1].repeats.class"),
            (&again("repeats: {class: a, after: 21}"), "5:143 out-of-range cells[0].classes[1].repeats"),
            (
                &again("output_tokens: 8, repeats: {class: a}"),
                "5:149 conflicting-keys cells[0].classes[1].output_tokens",
            ),
            (&prefix("tokens: 50, zipf: 1, system_tokens: 49"), ""),
            (&prefix("tokens: 50, system_tokens: 50"), "5:136 impossible-range cells[0].shared_prefix.system_tokens"),
            (&prefix("tokens: 50, zipf: 0"), "5:127 out-of-range cells[0].shared_prefix.zipf"),
        ],
    );
    let check = |keys: &str| {
        format!(
            "checks:\n  - {{metric: error_rate, at_most: 1pp}}\n  - {{metric: ttft, statistic: p50, at_most: 5%, {keys}}}\n"
        )
    };
    assert_found(
        POLICY,
        &[
            (&check("class: chat"), "7:5 unknown-class checks[1]"),
            (&check("class: chat, cells: [c1]"), "7:70 unknown-class checks[1].cells[0]"),
            (&check("class: Chat"), "7:56 invalid-name checks[1].class"),
            (&check("context: 500-600"), ""),
            (&check("context: 1000-2k"), "7:58 out-of-range checks[1].context"),
            (&check("context: 2k"), "7:58 wrong-type checks[1].context"),
            (&check("context: 1k-2k"), "7:5 impossible-check checks[1]"),
            (&check("context: 1k-2k, cells: [c8]"), "7:73 impossible-check checks[1].cells[0]"),
        ],
    );
}

#[test]
fn what_is_not_one_plain_yaml_document_is_refused_with_its_place() {
    let bomb = "servegate: 1\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='i').fold(String::new(), |text, c| {
            let before = char::from(u8::try_from(c).unwrap() - 1);
            text + &format!("{c}: &{c} [{}]\n", vec![format!("*{before}"); 9].join(", "))
        });
    assert_found(
        "",
        &[
            ("", "0:0 empty-file"),
            ("# only a remark\n", "0:0 empty-file"),
            ("- a list\n", "1:1 wrong-type"),
            ("text\n", "1:1 wrong-type"),
            ("a: [1, 2\nb: 3\n", "2:2 syntax"),
            ("a: \"open\n", "1:4 syntax"),
            ("a:\n\t- b\n", "2:2 syntax"),
            ("a: *nowhere\n", "1:4 syntax"),
            ("a: 1\n---\nb: 2\n", "2:1 several-documents"),
            ("a: &x [1, *x]\n", "1:11 alias-cycle a[1]"),
            (&"[".repeat(100_000), "1:33 too-deep"),
            (&bomb, "6:7 too-large e"),
            (&"a".repeat(1 << 21), "0:0 too-large"),
        ],
    );
}

#[test]
fn what_yaml_allows_and_people_do_not_mean_is_refused() {
    assert_found(
        "",
        &[
            ("servegate: 1\nkind: config\nout: a\nout: b\n", "4:1 duplicate-key out"),
            ("servegate: 1\nkind: config\nout: !!str a\n", "3:12 tag out"),
            ("servegate: 1\nkind: config\n<<: {out: a}\n", "3:1 merge-key <<"),
            ("servegate: 1\nkind: config\n[a]: b\n", "3:1 complex-key"),
            (
                "servegate: 1\nkind: config\ntargets: {a: {url: http://h, url: http://g, model: m}}\n",
                "3:30 duplicate-key targets.a.url",
            ),
        ],
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_read_as_if_they_were_not_there() {
    let text = "\u{feff}servegate: 1\r\nkind: config\r\nouts: a\r\n";
    assert_eq!(summary(text), "3:1 unknown-key outs|");
    let found = findings(text);
    assert_eq!(text.get(found[0].place.span.clone()), Some("outs"));
    assert_eq!(summary("\u{feff}servegate: 2\nkind: config\n"), "1:12 newer-version servegate|");
}

#[test]
fn columns_count_characters_and_spans_count_bytes() {
    let text = "servegate: 1\nkind: config\nout: 'é€', \n".replace("', ", "'") + "\"ключ\": 1\n";
    let found = findings(&text);
    assert_eq!((found[0].place.line, found[0].place.column), (4, 1));
    assert_eq!(text.get(found[0].place.span.clone()), Some("\"ключ\""));
}

#[test]
fn the_header_says_the_format_and_the_kind() {
    assert_found(
        "",
        &[
            ("kind: config\n", "1:1 missing-key servegate"),
            ("servegate: 1\n", "1:1 missing-key kind"),
            ("servegate: 1\nkind: polcy\n", "2:7 unknown-value kind"),
            ("servegate: 2\nkind: config\nnew_key: 1\n", "1:12 newer-version servegate"),
            ("servegate: 0\nkind: config\n", "1:12 wrong-version servegate"),
            ("servegate: v1\nkind: config\n", "1:12 wrong-version servegate"),
            ("servegate: '1'\nkind: config\n", "1:12 wrong-type servegate"),
        ],
    );
    let policy = read_workload("f.yaml", "servegate: 1\nkind: policy\n").unwrap_err();
    assert_eq!((policy[0].code, policy.len()), ("wrong-kind", 1));
}

#[test]
fn every_fault_of_a_workload_is_found() {
    let cell = |text: &str| format!("cells:\n  - {{name: c, requests: 50, {text}}}\n");
    let shaped = |text: &str| cell(&format!("prompt_tokens: 9, output_tokens: 9, {text}"));
    let long = |text: &str| cell(&format!("concurrency: 1, output_tokens: 9, prompt_tokens: {text}"));
    assert_found(
        WORKLOAD,
        &[
            ("", "1:1 missing-key cells"),
            ("cells: []\n", "4:8 empty-value cells"),
            ("cells:\n", "4:6 wrong-type cells"),
            ("cells: c1\n", "4:8 wrong-type cells"),
            (&shaped(""), "5:5 missing-key cells[0]"),
            (&shaped("concurrency: 1, rate: 9/s"), "5:5 conflicting-keys cells[0]"),
            (&shaped("concurrency: 1, arrivals: constant"), "5:91 conflicting-keys cells[0].arrivals"),
            (&shaped("rate: 9/s, arrivals: even"), "5:86 unknown-value cells[0].arrivals"),
            (&shaped("rate: 9"), "5:71 missing-unit cells[0].rate"),
            (&shaped("rate: 0/s"), "5:71 out-of-range cells[0].rate"),
            (&shaped("rate: 70%"), "5:71 wrong-unit cells[0].rate"),
            (&shaped("rate: 70% of capacity"), "5:71 missing-key cells[0].rate"),
            (&shaped("rate: 0% of capacity"), "5:71 out-of-range cells[0].rate"),
            (&shaped("rate: 70 of capacity"), "5:71 missing-unit cells[0].rate"),
            (&shaped("concurrency: 0"), "5:78 out-of-range cells[0].concurrency"),
            (&shaped("concurrency: '8'"), "5:78 wrong-type cells[0].concurrency"),
            (&shaped("concurrency: 64"), "5:25 impossible-range cells[0].requests"),
            (&shaped("concurrency: 1, timeout: 10"), "5:90 missing-unit cells[0].timeout"),
            (&shaped("concurrency: 1, timeout: 10 sec"), "5:90 wrong-unit cells[0].timeout"),
            (
                &shaped("concurrency: 1, timeout: 1s, stall_timeout: 2s"),
                "5:109 impossible-range cells[0].stall_timeout",
            ),
            (&shaped("concurrency: 1, timeout: 2h"), "5:90 out-of-range cells[0].timeout"),
            (
                &shaped("concurrency: 1, shared_prefix: {groups: 2, tokens: 9}"),
                "5:96 impossible-range cells[0].shared_prefix",
            ),
            (&shaped("concurrency: 1, shared_prefix: {groups: 2}"), "5:96 missing-key cells[0].shared_prefix.tokens"),
            (&long("1_000"), "5:78 wrong-type cells[0].prompt_tokens"),
            (&long("{uniform: {min: 9, max: 3}}"), "5:88 impossible-range cells[0].prompt_tokens.uniform"),
            (&long("{uniform: {min: 1, max: 3}, table: {1: 1}}"), "5:78 conflicting-keys cells[0].prompt_tokens"),
            (
                &long("{log_normal: {median: 9, sigma: 1, min: 1, max: 5}}"),
                "5:91 impossible-range cells[0].prompt_tokens.log_normal",
            ),
            (
                &long("{log_normal: {median: 9, sigma: 0, min: 1, max: 50}}"),
                "5:110 out-of-range cells[0].prompt_tokens.log_normal.sigma",
            ),
            (&long("{table: {many: 1}}"), "5:87 wrong-type cells[0].prompt_tokens.table.many"),
            (&long("{table: {5: -1}}"), "5:90 wrong-type cells[0].prompt_tokens.table.5"),
            (
                &(shaped("concurrency: 1")
                    + "  - {name: c, requests: 5, concurrency: 1, prompt_tokens: 9, output_tokens: 9}\n"),
                "6:12 duplicate-name cells[1].name",
            ),
            (
                "cells:\n  - {name: C 1, requests: 5, concurrency: 1, prompt_tokens: 9, output_tokens: 9}\n",
                "5:12 invalid-name cells[0].name",
            ),
        ],
    );
}

#[test]
fn every_fault_of_a_load_and_of_a_phase_is_found() {
    let shaped =
        |text: &str| format!("cells:\n  - {{name: c, requests: 50, prompt_tokens: 9, output_tokens: 9, {text}}}\n");
    let traced = |text: &str| format!("cells:\n  - {{name: c, requests: 50, trace: {text}}}\n");
    assert_found(
        WORKLOAD,
        &[
            (&shaped("rate: 9/s, arrivals: {}"), "5:86 missing-key cells[0].arrivals"),
            (
                &shaped("rate: 9/s, arrivals: {ramp: {to: 2/s, over: 9s}, gamma: {burstiness: 1}}"),
                "5:86 conflicting-keys cells[0].arrivals",
            ),
            (&shaped("rate: 9/s, arrivals: {gamma: {}}"), "5:94 missing-key cells[0].arrivals.gamma.burstiness"),
            (
                &shaped("rate: 9/s, arrivals: {gamma: {burstiness: 0}}"),
                "5:107 out-of-range cells[0].arrivals.gamma.burstiness",
            ),
            (&shaped("rate: 9/s, arrivals: {ramp: {to: 9/s}}"), "5:93 missing-key cells[0].arrivals.ramp.over"),
            (
                &shaped("rate: 9/s, arrivals: {bursts: {every: 9s, rate: 9/s}}"),
                "5:95 missing-key cells[0].arrivals.bursts.for",
            ),
            (
                &shaped("rate: 9/s, arrivals: {bursts: {every: 9s, requests: 9, for: 1s}}"),
                "5:125 conflicting-keys cells[0].arrivals.bursts.for",
            ),
            (
                &shaped("rate: 9/s, arrivals: {bursts: {every: 9s, rate: 9/s, for: 9s}}"),
                "5:123 impossible-range cells[0].arrivals.bursts.for",
            ),
            (
                &shaped("rate: 9/s, arrivals: {on_off: {on: 9s, off: 0s}}"),
                "5:109 out-of-range cells[0].arrivals.on_off.off",
            ),
            (
                &shaped("rate: 9/s, trace: t.jsonl"),
                "5:5 conflicting-keys cells[0]|5:44 conflicting-keys cells[0].prompt_tokens",
            ),
            (&traced("t.jsonl, phases: {idle: {pause: 1s, requests: 9}}"), "5:53 conflicting-keys cells[0].phases"),
            (&traced("t.jsonl, shared_prefix: {groups: 2, tokens: 9}"), "5:60 conflicting-keys cells[0].shared_prefix"),
            (&traced("t.jsonl, arrivals: constant"), "5:55 conflicting-keys cells[0].arrivals"),
            (&traced("../t.jsonl"), "5:36 wrong-path cells[0].trace"),
            (&traced("a/../t.jsonl"), "5:36 wrong-path cells[0].trace"),
            (&traced("./t.jsonl"), "5:36 wrong-path cells[0].trace"),
            (&traced("a//t.jsonl"), "5:36 wrong-path cells[0].trace"),
            (&traced("/t.jsonl"), "5:36 wrong-type cells[0].trace"),
            (&traced("a\\t.jsonl"), "5:36 wrong-type cells[0].trace"),
            (
                "cells:\n  - {name: c, requests: 50, concurrency: 1}\n",
                "5:5 missing-key cells[0].output_tokens|5:5 missing-key cells[0].prompt_tokens",
            ),
            (&shaped("concurrency: 1, max_connections: 9"), "5:98 conflicting-keys cells[0].max_connections"),
            (&shaped("concurrency: 1, phases: {}"), ""),
            (&shaped("concurrency: 1, phases: {warm: {requests: 9}}"), "5:90 unknown-key cells[0].phases.warm"),
            (&shaped("concurrency: 1, phases: {idle: {requests: 9}}"), "5:96 missing-key cells[0].phases.idle.pause"),
            (
                &shaped("concurrency: 1, phases: {recovery: {requests: 9}}"),
                "5:100 missing-key cells[0].phases.recovery",
            ),
            (&shaped("concurrency: 1, phases: {burst: {requests: 9}}"), "5:97 missing-key cells[0].phases.burst"),
            (
                &shaped("concurrency: 1, phases: {burst: {requests: 9, concurrency: 10}}"),
                "5:108 impossible-range cells[0].phases.burst.requests",
            ),
            (
                &(shaped("concurrency: 1, phases: {cold: {requests: 9}}")
                    + "  - {name: d, requests: 5, concurrency: 1, prompt_tokens: 9, output_tokens: 9, phases: {cold: {requests: 9}}}\n"),
                "6:95 conflicting-keys cells[1].phases.cold",
            ),
        ],
    );
}

#[test]
fn every_fault_of_a_check_is_found() {
    let head = format!("{POLICY}{CHECKS}");
    assert_found(
        &head,
        &[
            ("", ""),
            ("  - {statistic: p50, at_most: 5%}\n", "8:5 missing-key checks[2].metric"),
            ("  - {metric: latency, statistic: p50, at_most: 5%}\n", "8:14 unknown-value checks[2].metric"),
            ("  - {metric: e2e, at_most: 5%}\n", "8:5 missing-key checks[2].statistic"),
            ("  - {metric: e2e, statistic: p50, at_most: 5%, phase: hot}\n", "8:55 unknown-value checks[2].phase"),
            ("  - {metric: e2e, statistic: p50, at_most: 5%, phase: burst}\n", "8:5 unknown-phase checks[2]"),
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, phase: idle, cells: [c1]}\n",
                "8:69 unknown-phase checks[2].cells[0]",
            ),
            ("  - {metric: e2e, statistic: value, at_most: 5%}\n", "8:30 wrong-statistic checks[2].statistic"),
            ("  - {metric: throughput, statistic: p50, at_most: 5%}\n", "8:37 wrong-statistic checks[2].statistic"),
            ("  - {metric: e2e, statistic: p50}\n", "8:5 missing-key checks[2]"),
            (
                "  - {metric: e2e, statistic: p50, at_mst: 5%}\n",
                "8:5 missing-key checks[2]|8:35 unknown-key checks[2].at_mst",
            ),
            ("  - {metric: e2e, statistic: p50, at_most: 5}\n", "8:44 missing-unit checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: 0.05}\n", "8:44 missing-unit checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: 0%}\n", "8:44 out-of-range checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: -5%}\n", "8:44 out-of-range checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: 5pp}\n", "8:44 wrong-unit checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: }\n", "8:42 empty-value checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, at_most: [5%]}\n", "8:44 wrong-type checks[2].at_most"),
            ("  - {metric: throughput, at_most: 100%}\n", "8:35 out-of-range checks[2].at_most"),
            ("  - {metric: error_rate, cells: [c1], at_most: 5%}\n", "8:48 wrong-unit checks[2].at_most"),
            ("  - {metric: output_tokens, at_most: 3%}\n", "8:38 wrong-margin checks[2].at_most"),
            ("  - {metric: e2e, statistic: p50, within: 3%}\n", "8:43 wrong-margin checks[2].within"),
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, within: 3%}\n",
                "8:5 conflicting-keys checks[2]|8:56 wrong-margin checks[2].within",
            ),
            ("  - {metric: throughput, at_most: 5%, floor: 1ms}\n", "8:46 wrong-margin checks[2].floor"),
            ("  - {metric: e2e, statistic: p50, at_most: 5%, floor: 10}\n", "8:55 missing-unit checks[2].floor"),
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, warn_at: 5%}\n",
                "8:57 impossible-range checks[2].warn_at",
            ),
            ("  - {metric: e2e, statistic: p50, at_most: 5%, warn_at: 1pp}\n", "8:57 wrong-unit checks[2].warn_at"),
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, objective: 2 tokens/s}\n",
                "8:59 wrong-unit checks[2].objective",
            ),
            ("  - {metric: throughput, at_most: 5%, objective: 2000}\n", "8:50 missing-unit checks[2].objective"),
            ("  - {metric: goodput, at_most: 5%}\n", "8:5 missing-key checks[2].limits"),
            ("  - {metric: goodput, at_most: 5%, limits: {itl: 5ms}}\n", "8:45 unknown-value checks[2].limits.itl"),
            ("  - {metric: goodput, at_most: 5%, limits: {ttft: 500}}\n", "8:51 missing-unit checks[2].limits.ttft"),
            ("  - {metric: throughput, at_most: 5%, limits: {ttft: 5ms}}\n", "8:47 wrong-margin checks[2].limits"),
            ("  - {metric: throughput, at_most: 5%, role: must}\n", "8:45 unknown-value checks[2].role"),
        ],
    );
}

#[test]
fn references_to_cells_are_bound_and_judged() {
    let head = format!("{POLICY}{CHECKS}");
    assert_found(
        &head,
        &[
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, cells: [c1, c9]}\n",
                "8:60 unknown-cell checks[2].cells[1]",
            ),
            (
                "  - {metric: e2e, statistic: p50, at_most: 5%, cells: [c1, c1]}\n",
                "8:60 duplicate-entry checks[2].cells[1]",
            ),
            ("  - {metric: e2e, statistic: p50, at_most: 5%, cells: c1}\n", "8:55 unknown-value checks[2].cells"),
            (
                "  - {metric: tpot, statistic: p50, at_most: 9%, cells: [c8]}\n",
                "8:57 duplicate-check checks[2].cells[0]",
            ),
            (
                "  - {metric: e2e, statistic: p90, at_most: 5%, cells: [c1]}\n",
                "8:56 too-few-requests checks[2].cells[0]",
            ),
            ("  - {metric: e2e, statistic: p90, at_most: 5%, cells: [c1], role: advisory}\n", ""),
            (
                "  - {metric: e2e, statistic: p99, at_most: 5%, cells: [c1]}\n",
                "8:56 too-few-requests? checks[2].cells[0]",
            ),
            (
                "  - {metric: e2e, statistic: p99, at_most: 5%, cells: [c1], role: guard}\n",
                "8:56 too-few-requests checks[2].cells[0]",
            ),
            ("  - {metric: e2e, statistic: p99, at_most: 5%, cells: [c8]}\n", ""),
            ("  - {metric: itl, statistic: p99, at_most: 20%, cells: [c1]}\n", ""),
        ],
    );
}

#[test]
fn every_fault_of_the_rest_of_a_policy_is_found() {
    let checks = CHECKS;
    let with = |text: &str| format!("{text}{checks}");
    assert_found(
        POLICY,
        &[
            ("checks: [{metric: error_rate, at_most: 1pp, role: guard}]\n", "5:9 no-required-check checks"),
            ("checks: [{metric: tpot, statistic: p50, at_most: 5%}]\n", "5:9 no-error-rate? checks"),
            (&with("runs: 2\n"), "5:7 few-runs? runs"),
            (&with("runs: 0\n"), "5:7 out-of-range runs"),
            (&with("treatment: [kv_cache_type]\n"), "5:13 unknown-value treatment[0]"),
            (&with("treatment: [driver, driver]\n"), "5:21 duplicate-entry treatment[1]"),
            (&with("when: {hardwear: h100}\n"), "5:8 unknown-value when.hardwear"),
            (&with("baseline: {max_age: 90}\n"), "5:21 missing-unit baseline.max_age"),
            (&with("baseline: {max_age: 0d}\n"), "5:21 out-of-range baseline.max_age"),
            (&with("decision: {alpha_fail: 0.05}\n"), "5:24 missing-unit decision.alpha_fail"),
            (
                &with("decision: {alpha_fail: 50%, alpha: 5%}\n"),
                "5:24 out-of-range decision.alpha_fail|5:29 unknown-key decision.alpha",
            ),
            (&with("description: \"a\\tb\"\n"), "5:14 wrong-type description"),
        ],
    );
    assert_found(
        "servegate: 1\nkind: policy\nname: p\n",
        &[
            (checks, "1:1 missing-key workload"),
            (&format!("workload: /etc/w.yaml\n{checks}"), "4:11 wrong-type workload"),
        ],
    );
    let missing = read_policy("f.yaml", &format!("{POLICY}{checks}")).without_workload("no such file");
    assert_eq!((missing[0].code, missing[0].place.line, missing[0].place.column), ("missing-workload", 4, 11));
}

#[test]
fn every_fault_of_a_config_is_found() {
    let target = |text: &str| format!("targets:\n  t:\n    url: http://h\n    model: m\n    {text}\n");
    assert_found(
        CONFIG,
        &[
            ("targets: {t: {url: 'http://h'}}\n", "3:14 missing-key targets.t.model"),
            ("targets: {T: {url: 'http://h', model: m}}\n", "3:11 invalid-name targets.T"),
            ("targets: {t: {url: localhost, model: m}}\n", "3:20 invalid-url targets.t.url"),
            ("targets: {t: {url: 'http://u:p@h', model: m}}\n", "3:20 secret-in-file targets.t.url"),
            (&target("api_key: sk-123"), "7:14 secret-in-file targets.t.api_key"),
            (&target("HF-Token: hf-123"), "7:15 secret-in-file targets.t.HF-Token"),
            (&target("api_key_env: sk-123"), "7:18 secret-in-file targets.t.api_key_env"),
            (
                &target("extra_body: {headers: {Authorization: x}}"),
                "7:43 secret-in-file targets.t.extra_body.headers.Authorization",
            ),
            (
                &target("api: tgi\n    extra_body: {ignore_eos: true}"),
                "8:18 unsupported-key targets.t.extra_body.ignore_eos",
            ),
            (&target("api: sglang\n    extra_body: {text: a}"), "8:18 reserved-key targets.t.extra_body.text"),
            (&target("extra_body: {max_tokens: 5}"), "7:18 reserved-key targets.t.extra_body.max_tokens"),
            (&target("extra_body: {ignore_eos: yes}"), "7:30 ambiguous-value targets.t.extra_body.ignore_eos"),
            (&target("extra_body: {top_k: 0x10}"), "7:25 ambiguous-value targets.t.extra_body.top_k"),
            (&target("extra_body: [1]"), "7:17 wrong-type targets.t.extra_body"),
            (&target("api: grpc"), "7:10 unknown-value targets.t.api"),
            (&target("ready: {path: health}"), "7:19 wrong-type targets.t.ready.path"),
            (&target("restart: {command: ./restart.sh}"), "7:24 wrong-type targets.t.restart.command"),
            (&target("restart: {timeout: 5m}"), "7:14 missing-key targets.t.restart.command"),
            (&target("conditions: {gpu: h100}"), "7:18 unknown-value targets.t.conditions.gpu"),
        ],
    );
}

#[test]
fn a_hostile_file_makes_a_bounded_number_of_findings() {
    let keys = (0..10_000).fold(String::new(), |text, n| text + &format!("k{n}: 1\n"));
    let found = findings(&format!("{CONFIG}{keys}"));
    assert_eq!(found.len(), 101);
    assert_eq!(found.last().unwrap().code, "too-many-findings");
}

/// Pieces of which malformed files are made.
const PIECES: &[&str] = &[
    "servegate: 1\n",
    "kind: policy\n",
    "kind: workload\n",
    "kind: config\n",
    "checks:\n",
    "cells:\n",
    "  - ",
    "metric: ttft\n",
    "at_most: ",
    "5%",
    "&a ",
    "*a",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "\n",
    "\t",
    "\"",
    "'",
    "|\n",
    "---\n",
    "!!x ",
    "<<: ",
    "\u{feff}",
    "\r\n",
    "targets:\n",
    "  t: ",
    "url: http://x",
    "extra_body: ",
    "é",
    "\u{0}",
    "~",
    "null",
    "1e999",
    ", ",
    "# ",
    "? ",
    "%YAML 1.2\n",
];

proptest! {
    #[test]
    fn any_text_is_read_the_same_way_twice_and_refused_with_a_reason(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        noise in ".{0,20}",
    ) {
        for text in [pieces.concat(), format!("{}{noise}{}", CONFIG, pieces.concat()), format!("{WORKLOAD}{}", pieces.concat()), format!("{POLICY}{}", pieces.concat())] {
            let found = findings(&text);
            prop_assert_eq!(&found, &findings(&text));
            let refused = [
                read_workload("f", &text).err(),
                read_config("f", &text).err(),
                read_policy("f", &text).bind(&workload()).err(),
            ];
            for findings in refused.iter().flatten() {
                prop_assert!(findings.iter().any(|finding| finding.severity == Severity::Error), "{text:?}");
                prop_assert!(findings.iter().all(|finding| text.get(finding.place.span.clone()).is_some()), "{findings:?}");
                prop_assert!(render(findings, &text, false).lines().all(|line| line.chars().count() < 1_200));
            }
        }
    }
}

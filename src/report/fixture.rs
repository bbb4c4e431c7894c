//! A judgement for tests with one of everything, and the same with hostile text in every field.

use std::collections::BTreeMap;

use crate::base::diagnostic::Place;
use crate::base::names::{CacheMode, Condition, Metric, Role, Statistic};
use crate::report::view::{Context, ExitPolicy};
use crate::verdict::judgement::{
    CheckJudgement, Design, Difference, Effect, Finding, Judgement, PolicyJudgement, Verdict,
};

/// What a gate says besides.
pub(super) fn context(exit_policy: ExitPolicy) -> Context {
    let files = ["servegate-out/junit.xml", "servegate-out/verdict.json", "servegate-out/summary.md"];
    let rebase = "servegate baseline refresh --release v1.5.0-fp8kv --approved-by WHO --runs \
                  servegate-out/runs/chat-steady/ci-481 --rebase REASON";
    let rebase = BTreeMap::from([("chat-steady".to_owned(), rebase.to_owned())]);
    Context { exit_policy, version: "0.1.0".to_owned(), files: files.map(String::from).to_vec(), rebase }
}

/// An FP8 cache: chat fails at c1, is undecided at c8 and passes at c64; offline passes; one error.
pub(super) fn rich() -> Judgement {
    let chat = PolicyJudgement {
        sentence: "chat is blocked: tpot.p50 is 14.5 % worse at c1 (90 % interval +12.1 to +16.9 %), against a \
                   margin of 5 %, compared with v1.4.2."
            .to_owned(),
        differences: vec![Difference {
            condition: Condition::KvCacheDtype,
            baseline: Some("auto".to_owned()),
            candidate: Some("fp8_e4m3".to_owned()),
            allowed: true,
        }],
        findings: vec![Finding {
            verdict: Verdict::Error,
            code: "client-saturated",
            cell: Some("burst".to_owned()),
            message: "the load generator fell 212 ms behind at 640 requests/s: use a faster host".to_owned(),
        }],
        notes: vec!["the session effect is assumed (sd 2 %): the baseline has one session".to_owned()],
        ..policy("chat", "chat-steady", Verdict::Fail, chat_checks())
    };
    let offline = PolicyJudgement {
        sentence: "offline passes: all 2 checks are shown inside their margins.".to_owned(),
        ..policy("offline", "offline", Verdict::Pass, offline_checks())
    };
    Judgement { verdict: Verdict::Fail, candidate: "v1.5.0-fp8kv".to_owned(), policies: vec![chat, offline] }
}

/// A gate that passes but for a warning: more requests fail, and the guard on it is undecided.
pub(super) fn warned() -> Judgement {
    let mut judgement = rich();
    let mut offline = judgement.policies.remove(1);
    let mut guard = check(Metric::ErrorRate, Statistic::Value, "c64", Verdict::Inconclusive, None);
    guard.role = Role::Guard;
    offline.checks.push(guard);
    offline.verdict = Verdict::Warn;
    offline.findings.push(Finding {
        verdict: Verdict::Warn,
        code: "more-failures",
        cell: Some("c64".to_owned()),
        message: "7 of 120 requests failed where 0 of 120 did: not shown worse than the margin, look at them"
            .to_owned(),
    });
    Judgement { verdict: Verdict::Warn, policies: vec![offline], ..judgement }
}

fn chat_checks() -> Vec<CheckJudgement> {
    use Verdict::{Error, Fail, Inconclusive, Pass, Warn};
    let mut checks = vec![
        check(Metric::Tpot, Statistic::P50, "c1", Fail, Some((12.3, 0.145, 0.121, 0.169))),
        check(Metric::Tpot, Statistic::P50, "c8", Inconclusive, Some((14.0, 0.048, 0.012, 0.085))),
        check(Metric::Tpot, Statistic::P50, "c64", Pass, Some((31.4, -0.06, -0.081, -0.039))),
        check(Metric::Ttft, Statistic::P90, "c1", Pass, Some((88.0, 0.004, -0.02, 0.028))),
        check(Metric::Ttft, Statistic::P90, "c64", Inconclusive, Some((410.0, 0.02, -0.06, 0.1))),
        check(Metric::Stall, Statistic::P90, "c8", Warn, Some((52.0, 0.034, 0.021, 0.047))),
        check(Metric::Throughput, Statistic::Value, "c64", Fail, Some((1_840.0, -0.09, -0.12, -0.06))),
        check(Metric::ErrorRate, Statistic::Value, "burst", Error, None),
    ];
    checks[1].to_decide = Some("2 more candidate runs".to_owned());
    checks[4].role = Role::Guard;
    checks[6].role = Role::Advisory;
    checks[7].margin = 0.01;
    (checks[2].margin, checks[2].margin_floor) = (0.1274, Some(4.0));
    checks
}

fn offline_checks() -> Vec<CheckJudgement> {
    vec![
        check(Metric::Tpot, Statistic::P50, "c256", Verdict::Pass, Some((88.0, -0.127, -0.14, -0.114))),
        check(Metric::Throughput, Statistic::Value, "c256", Verdict::Pass, Some((2_900.0, 0.131, 0.11, 0.152))),
    ]
}

fn place(line: u32) -> Place {
    Place { file: "gate-policies/chat.yaml".to_owned(), line, column: line.min(1) * 5, span: 0..0 }
}

fn policy(name: &str, workload: &str, verdict: Verdict, checks: Vec<CheckJudgement>) -> PolicyJudgement {
    let mut counts = BTreeMap::new();
    for check in &checks {
        *counts.entry(check.verdict).or_default() += 1;
    }
    PolicyJudgement {
        policy: name.to_owned(),
        place: place(0),
        workload: workload.to_owned(),
        verdict,
        sentence: String::new(),
        counts,
        design: Design {
            baseline: Some("v1.4.2".to_owned()),
            baseline_sessions: 3,
            baseline_runs: 6,
            controls: 3,
            candidate_runs: 3,
            restarted: true,
            caches: Some(CacheMode::Reset),
            plan: "3f9a1c04be77".to_owned(),
        },
        differences: Vec::new(),
        findings: Vec::new(),
        notes: Vec::new(),
        checks,
    }
}

/// `effect`: baseline value, change, low, high.
fn check(
    metric: Metric,
    statistic: Statistic,
    cell: &str,
    verdict: Verdict,
    effect: Option<(f64, f64, f64, f64)>,
) -> CheckJudgement {
    let id = format!("{}@{cell}", metric.with(statistic));
    CheckJudgement {
        reason: effect.map_or_else(
            || "not measured: the cell has no valid requests.".to_owned(),
            |(_, change, low, high)| {
                format!("{id} changed by {change:+.3} (90 % interval {low:+.3} to {high:+.3}), margin 0.05.")
            },
        ),
        id,
        metric,
        statistic,
        cell: cell.to_owned(),
        against: None,
        role: Role::Required,
        place: place(12),
        verdict,
        effect: effect.map(|(baseline, change, low, high)| Effect {
            baseline,
            candidate: baseline * (1.0 + change),
            change,
            low,
            high,
        }),
        margin: 0.05,
        margin_floor: None,
        p_fail: effect.map(|_| if verdict == Verdict::Fail { 0.000_04 } else { 0.412 }),
        p_pass: effect.map(|_| if verdict == Verdict::Pass { 0.000_2 } else { 0.46 }),
        minimum_detectable: effect.map(|_| 0.083),
        to_decide: None,
    }
}

/// The rich judgement with every text from outside replaced by the next of `texts`, and every number of
/// an effect by `number`.
pub(super) fn hostile(texts: &[String], number: Option<f64>) -> Judgement {
    let mut judgement = rich();
    let mut next = texts.iter().cycle().cloned();
    let mut replace = |field: &mut String| *field = next.next().unwrap_or_default();
    replace(&mut judgement.candidate);
    for policy in &mut judgement.policies {
        for field in [&mut policy.policy, &mut policy.place.file, &mut policy.workload, &mut policy.sentence] {
            replace(field);
        }
        replace(&mut policy.design.plan);
        policy.design.baseline.iter_mut().for_each(&mut replace);
        policy.notes.iter_mut().for_each(&mut replace);
        for difference in &mut policy.differences {
            difference.baseline.iter_mut().chain(&mut difference.candidate).for_each(&mut replace);
        }
        for finding in &mut policy.findings {
            replace(&mut finding.message);
            finding.cell.iter_mut().for_each(&mut replace);
        }
        for check in &mut policy.checks {
            for field in [&mut check.id, &mut check.cell, &mut check.place.file, &mut check.reason] {
                replace(field);
            }
            check.to_decide.iter_mut().for_each(&mut replace);
            if let (Some(effect), Some(x)) = (&mut check.effect, number) {
                *effect = Effect { baseline: x, candidate: x, change: x, low: x, high: x };
            }
        }
    }
    judgement
}

/// Texts that have broken a reader of some report.
pub(super) fn hostile_texts() -> Vec<String> {
    [
        "]]> <script>alert(1)</script> & \"quoted\" 'text'",
        "a|b`c`\n| x | y |\n</details>",
        "\u{1b}[31mred\u{1b}[0m\0\u{7}\u{85}\u{fffe}\u{ffff}\u{202e}",
        "\r\n::error file=a.yaml,line=1::injected\n##[group]x",
        "@org/team #1 https://example.com www.example.com [x](y) *b* _i_ ~s~ $m$ \\ .",
        "[[ATTACHMENT|/etc/passwd]]",
        "",
    ]
    .map(String::from)
    .to_vec()
}

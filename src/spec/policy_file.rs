//! The policy file: its keys, and the text to a [`PolicyDraft`], which becomes a policy when it is bound to its workload.

use crate::base::names::{Condition, Metric, Role, Statistic};
use crate::spec::bind::{Entry, PolicyDraft};
use crate::spec::check_entry::{CHECK, entry};
use crate::spec::config_file::conditions;
use crate::spec::document::{FileKind, VERSION, open};
use crate::spec::findings::{Fault, Findings, Mark};
use crate::spec::policy::{Decision, Policy};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::view::View;

pub(super) static POLICY: Object = Object {
    name: "policy",
    doc: "What a change must not make worse, and by how much, for one workload.",
    one_of: &[],
    fields: &[
        VERSION,
        Field { name: "kind", kind: Kind::Word("policy"), need: Need::Required, doc: "what this file is" },
        Field { name: "name", kind: Kind::Name, need: Need::Required, doc: "the name in every report" },
        Field { name: "description", kind: Kind::Text, need: Need::Optional, doc: "one sentence for people" },
        Field {
            name: "workload",
            kind: Kind::RelativePath,
            need: Need::Required,
            doc: "the workload file, from this file's folder",
        },
        Field {
            name: "runs",
            kind: Kind::Count { min: 1, max: 50 },
            need: Need::Default("5"),
            doc: "candidate runs, each on a fresh start of the deployment",
        },
        Field {
            name: "controls",
            kind: Kind::Count { min: 0, max: 50 },
            need: Need::Default("2"),
            doc: "runs of the baseline image between the candidate's; they need the target's `restart`",
        },
        Field {
            name: "treatment",
            kind: Kind::Set(&Kind::Choice(conditions)),
            need: Need::Optional,
            doc: "the conditions that a change may change; all others must match the baseline's",
        },
        Field {
            name: "when",
            kind: Kind::Map(&Kind::Choice(conditions), &Kind::Fact),
            need: Need::Optional,
            doc: "the policy applies only where the candidate has these values",
        },
        Field {
            name: "baseline",
            kind: Kind::Object(&BASELINE),
            need: Need::Optional,
            doc: "what the stored baseline must be",
        },
        Field {
            name: "decision",
            kind: Kind::Object(&DECISION),
            need: Need::Optional,
            doc: "how strict the statistics are",
        },
        Field { name: "checks", kind: Kind::List(&Kind::Object(&CHECK)), need: Need::Required, doc: "what is judged" },
    ],
};

static BASELINE: Object = Object {
    name: "baseline",
    doc: "What the stored baseline must be.",
    one_of: &[],
    fields: &[Field { name: "max_age", kind: Kind::Days, need: Need::Default("90d"), doc: "an older one is expired" }],
};

static DECISION: Object = Object {
    name: "decision",
    doc: "Parameters of the decision rule.",
    one_of: &[],
    fields: &[
        Field {
            name: "alpha_fail",
            kind: ALPHA,
            need: Need::Default("5%"),
            doc: "the chance of failing a change that is exactly at its margins",
        },
        Field {
            name: "alpha_pass",
            kind: ALPHA,
            need: Need::Default("5%"),
            doc: "the chance, for each required check, of passing a change that is exactly at its margin",
        },
        Field {
            name: "session_sd",
            kind: Kind::Percent { min: "0.1%", max: "50%" },
            need: Need::Default("2%"),
            doc: "how much two sessions on the same hardware are assumed to differ before there is history",
        },
        Field {
            name: "session_sd_df",
            kind: Kind::Number { min: 1.0, max: 1_000.0 },
            need: Need::Default("4"),
            doc: "how many degrees of freedom that assumption is worth",
        },
    ],
};

const ALPHA: Kind = Kind::Percent { min: "0.1%", max: "25%" };

/// Reads a policy file; `file` is its name in the findings. The findings stay in the draft until it is bound.
pub fn read_policy(file: &str, text: &str) -> PolicyDraft {
    let mut findings = Findings::new(file);
    let Some(root) = open(text, FileKind::Policy, &POLICY, &mut findings) else {
        return PolicyDraft::new(None, Vec::new(), None, findings);
    };
    let view = View::new(&POLICY, &root, String::new());
    let workload = view.text("workload").map(|path| (path, view.at("workload")));
    let policy = policy(&view, &mut findings);
    let entries: Vec<Entry> = view.views("checks").iter().map(|check| entry(check, &mut findings)).collect();
    if entries.iter().all(Entry::is_right) && !entries.is_empty() {
        judge_the_whole(&view, &entries, &mut findings);
    }
    PolicyDraft::new(policy, entries, workload, findings)
}

/// The policy without its checks.
fn policy(view: &View<'_>, findings: &mut Findings) -> Option<Policy> {
    let runs = view.count("runs");
    if view.has("runs") && runs.is_some_and(|runs| runs < 3) {
        let message = "a fail needs three candidate runs, so this policy can pass a change but never fail it";
        let fault = Fault::new("few-runs", message, "use `runs: 3` or more to gate");
        findings.warning(&view.at("runs"), &view.key("runs"), fault);
    }
    let treatment = view.items("treatment").into_iter().map(|(_, node)| Condition::from_id(node.text()?));
    let when = view
        .entries("when")
        .iter()
        .map(|entry| Some((Condition::from_id(&entry.key)?, entry.value.text()?.trim().to_owned())));
    Some(Policy {
        name: view.text("name")?,
        description: view.text("description").unwrap_or_default(),
        workload: view.text("workload")?,
        runs: runs?,
        controls: view.count("controls")?,
        treatment: treatment.collect::<Option<_>>()?,
        when: when.collect::<Option<_>>()?,
        decision: decision(view)?,
        baseline_max_age_days: section(view, "baseline", &BASELINE, |baseline| baseline.read("max_age", scalar::days))?,
        checks: Vec::new(),
        place: findings.place(&Mark::default()),
    })
}

fn decision(view: &View<'_>) -> Option<Decision> {
    section(view, "decision", &DECISION, |decision| {
        Some(Decision {
            alpha_fail: decision.read("alpha_fail", scalar::percent)?,
            alpha_pass: decision.read("alpha_pass", scalar::percent)?,
            session_sd: decision.read("session_sd", scalar::percent)?,
            session_sd_df: decision.read("session_sd_df", scalar::number)?,
        })
    })
}

/// What a section says; all its defaults when it is not there.
fn section<T>(view: &View<'_>, key: &str, object: &'static Object, read: impl Fn(&View<'_>) -> Option<T>) -> Option<T> {
    match view.view(key) {
        Some(section) => read(&section),
        None if view.has(key) => None,
        None => read(&View::absent(object)),
    }
}

fn judge_the_whole(view: &View<'_>, entries: &[Entry], findings: &mut Findings) {
    let checks = || entries.iter().filter_map(|entry| entry.check.as_ref());
    if !checks().any(|check| check.role == Role::Required) {
        let message = "no check is required, so the policy could only fail and never pass anything";
        let fault = Fault::new("no-required-check", message, "give at least one check `role: required`");
        findings.error(&view.at("checks"), "checks", fault);
    }
    if !checks().any(|check| check.metric == Metric::ErrorRate && check.role != Role::Advisory) {
        let message = "no check looks at failed requests";
        let fault = Fault::new("no-error-rate", message, "add a check with `metric: error_rate` and `at_most: 1pp`");
        findings.warning(&view.at("checks"), "checks", fault);
    }
}

/// The role of a check that does not say one (`docs/policies.md`): medians, token times, rates and shares must be
/// shown to be harmless; tails and gaps only block when shown worse.
pub const fn default_role(metric: Metric, statistic: Statistic) -> Role {
    let tail = matches!(statistic, Statistic::P99 | Statistic::Tail05);
    match metric {
        Metric::Itl | Metric::ChunkGap | Metric::Cadence | Metric::Stall | Metric::TtftSlope => Role::Guard,
        Metric::Ttft | Metric::Ttfa if !matches!(statistic, Statistic::P50) => Role::Guard,
        Metric::Tpot | Metric::E2e if tail => Role::Guard,
        Metric::Ttft
        | Metric::Ttfa
        | Metric::Tpot
        | Metric::E2e
        | Metric::Throughput
        | Metric::Goodput
        | Metric::CacheHitRate
        | Metric::ErrorRate
        | Metric::OutputTokens => Role::Required,
    }
}

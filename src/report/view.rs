//! The one view model: a judgement with what every report says about it in the same words.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::base::names::Role;
use crate::base::words::count;
use crate::report::effects::Effects;
use crate::report::format;
use crate::verdict::judgement::{CheckJudgement, Design, Difference, Finding, Judgement, PolicyJudgement, Verdict};

/// What a verdict does to the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitPolicy {
    /// Everything but pass and warn blocks.
    #[default]
    Strict,
    /// Nothing blocks; every output says so.
    Advisory,
}

impl ExitPolicy {
    /// The text form.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Advisory => "advisory",
        }
    }
}

/// What a report says besides the judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// What the verdict does to the exit code.
    pub exit_policy: ExitPolicy,
    /// Version of servegate.
    pub version: String,
    /// The report files of this decision, as a reader finds them.
    pub files: Vec<String>,
    /// By workload, the command that makes the candidate's runs the baseline although they are worse.
    pub rebase: BTreeMap<String, String>,
}

/// A judgement ready to be written. All text is as it came: exporters escape it.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// What is reported.
    pub judgement: &'a Judgement,
    /// What is said besides.
    pub context: &'a Context,
    /// The answer in one sentence, advisory mode included.
    pub headline: String,
    /// What counts for this decision: the exit policy is about verdicts, and where nothing was measured there is none.
    pub exit_policy: ExitPolicy,
    /// The exit code of the process.
    pub exit_code: u8,
    /// One per policy, in the order given.
    pub policies: Vec<PolicyView<'a>>,
    /// Checks worse than pass that block (or would, were the mode not advisory), most severe first.
    pub blocking: Vec<CheckView<'a>>,
    /// Checks worse than pass that do not block, most severe first.
    pub tolerated: Vec<CheckView<'a>>,
    /// Metrics side by side over their cells.
    pub effects: Effects,
    /// What a reader can do now, most useful first.
    pub next_steps: Vec<String>,
}

/// One policy.
#[derive(Clone, Debug)]
pub struct PolicyView<'a> {
    /// Its judgement.
    pub policy: &'a PolicyJudgement,
    /// Its checks, in policy order.
    pub checks: Vec<CheckView<'a>>,
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct CheckView<'a> {
    /// Name of its policy.
    pub policy: &'a str,
    /// Its judgement.
    pub check: &'a CheckJudgement,
    /// Whether it contributes to what blocks: a required check that is not shown inside its margin, or a
    /// guard that is shown worse or could not be measured.
    pub blocks: bool,
    /// The finding that its reason only refers to, for a reader who sees nothing but this check.
    pub because: Option<&'a Finding>,
}

impl<'a> View<'a> {
    /// The view of a judgement.
    pub fn new(judgement: &'a Judgement, context: &'a Context) -> Self {
        let policies: Vec<_> = judgement.policies.iter().map(PolicyView::new).collect();
        let raised = policies.iter().flat_map(|view| view.checks.iter().copied());
        let mut raised: Vec<_> = raised.filter(|view| view.check.verdict > Verdict::Pass).collect();
        raised.sort_by_key(|view| Reverse(view.check.verdict));
        let (blocking, tolerated): (Vec<_>, Vec<_>) = raised.into_iter().partition(|view| view.blocks);
        let measured = judgement.policies.iter().any(|policy| policy.design.candidate_runs > 0);
        let exit_policy = if measured { context.exit_policy } else { ExitPolicy::Strict };
        Self {
            judgement,
            context,
            headline: headline(judgement, (context.exit_policy, exit_policy)),
            exit_policy,
            exit_code: match exit_policy {
                ExitPolicy::Strict => judgement.verdict.exit_code(),
                ExitPolicy::Advisory => 0,
            },
            next_steps: next_steps(judgement, context, &blocking),
            effects: Effects::of(judgement),
            policies,
            blocking,
            tolerated,
        }
    }
}

impl View<'_> {
    /// What heads the blocking checks and the findings.
    pub const fn blocking_title(&self) -> &'static str {
        match self.exit_policy {
            ExitPolicy::Strict => "What blocks",
            ExitPolicy::Advisory => "What would block",
        }
    }

    /// The findings of all policies that block. What several policies found of one measurement is there once.
    pub fn findings(&self) -> Vec<&Finding> {
        self.unique(|finding| finding.verdict > Verdict::Warn)
    }

    /// The findings that only warn.
    pub fn warnings(&self) -> Vec<&Finding> {
        self.unique(|finding| finding.verdict == Verdict::Warn)
    }

    fn unique(&self, wanted: fn(&Finding) -> bool) -> Vec<&Finding> {
        let mut findings = Vec::new();
        for finding in self.policies.iter().flat_map(|view| &view.policy.findings).filter(|finding| wanted(finding)) {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        findings
    }
}

impl<'a> PolicyView<'a> {
    fn new(policy: &'a PolicyJudgement) -> Self {
        let checks = policy.checks.iter().map(|check| CheckView::new(policy, check)).collect();
        Self { policy, checks }
    }

    /// How many checks have each verdict, most severe first: `1 fail, 3 pass`.
    pub fn counts(&self) -> String {
        let counts: Vec<_> = self.policy.counts.iter().rev().map(|(verdict, n)| format!("{n} {verdict}")).collect();
        if counts.is_empty() { "no checks".to_owned() } else { counts.join(", ") }
    }

    /// What was compared, the conditions that differ, and the policy's notes: one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![compared(&self.policy.design)];
        notes.extend(self.policy.differences.iter().map(difference));
        notes.extend(self.policy.notes.iter().cloned());
        notes
    }
}

impl<'a> CheckView<'a> {
    fn new(policy: &'a PolicyJudgement, check: &'a CheckJudgement) -> Self {
        let blocks = match check.role {
            Role::Required => check.verdict >= Verdict::Inconclusive,
            Role::Guard => matches!(check.verdict, Verdict::Fail | Verdict::Error),
            Role::Advisory => false,
        };
        let because = policy.findings.iter().find(|finding| check.reason == finding.reference());
        Self { policy: &policy.policy, check, blocks, because }
    }

    /// The numbers by name, in the order of the reports; `n/a` where one is missing.
    pub fn numbers(&self) -> [(&'static str, String); 8] {
        let (check, metric) = (self.check, self.check.metric);
        let (mut baseline, mut candidate) = (format::MISSING.to_owned(), format::MISSING.to_owned());
        if let Some(effect) = check.effect {
            let value = |x| check.against.map_or_else(|| format::value(metric, x), |phase| format::share_of(phase, x));
            (baseline, candidate) = (value(effect.baseline), value(effect.candidate));
        }
        [
            ("baseline", baseline),
            ("candidate", candidate),
            ("change", self.change()),
            ("90 % interval", self.interval()),
            ("margin", self.margin()),
            ("minimum detectable effect", self.detectable()),
            ("p (worse than the margin, Holm-adjusted)", format::p_value(check.p_fail)),
            ("p (inside the margin)", format::p_value(check.p_pass)),
        ]
    }

    /// The change: `+14.5 %`.
    pub fn change(&self) -> String {
        let metric = self.check.metric;
        self.check.effect.map_or_else(|| format::MISSING.to_owned(), |effect| format::change(metric, effect.change))
    }

    /// Its interval: `[+12.1, +16.9]`.
    pub fn interval(&self) -> String {
        self.check.effect.map_or_else(
            || format::MISSING.to_owned(),
            |effect| format::interval(self.check.metric, effect.low, effect.high),
        )
    }

    /// The margin: `5.0 %`, or `28.3 % (floor 5 ms)` where its floor is in force.
    fn margin(&self) -> String {
        let CheckJudgement { metric, margin, margin_floor, .. } = *self.check;
        let share = format::harm(metric, Some(margin));
        margin_floor.map_or_else(|| share.clone(), |floor| format!("{share} (floor {floor} {})", metric.unit()))
    }

    /// The minimum detectable effect: `3.1 %`.
    pub fn detectable(&self) -> String {
        format::harm(self.check.metric, self.check.minimum_detectable)
    }

    /// What the verdict leaves open: for a pass the harm it could have missed, for an inconclusive check
    /// what would decide it.
    pub fn outlook(&self) -> Option<String> {
        match self.check.verdict {
            Verdict::Pass | Verdict::Warn => {
                Some(format!("a true harm of {} would have failed with 80 % probability", self.detectable()))
            }
            Verdict::Inconclusive => {
                let text = self.check.to_decide.as_deref().unwrap_or("more runs; how many is not known");
                Some(format!("to decide: {text}"))
            }
            Verdict::NotApplicable | Verdict::NotComparable | Verdict::Error | Verdict::Fail => None,
        }
    }

    /// What its sentence has in brackets behind the reason: outlook and excuse.
    pub fn asides(&self) -> Vec<String> {
        self.outlook().into_iter().chain(self.excuse().map(str::to_owned)).collect()
    }

    /// Why a check that is not passed does not block.
    pub fn excuse(&self) -> Option<&'static str> {
        match (self.check.verdict > Verdict::Warn && !self.blocks, self.check.role) {
            (true, Role::Guard) => Some("guard: blocks only when shown worse"),
            (true, Role::Advisory) => Some("advisory check: never blocks"),
            _ => None,
        }
    }
}

/// The first line of what kept anything from being measured.
fn cause(judgement: &Judgement) -> Option<&str> {
    let mut unmeasured = judgement.policies.iter().filter(|policy| policy.design.candidate_runs == 0);
    unmeasured.find_map(|policy| policy.findings.first()?.message.lines().next())
}

/// `asked` is the exit policy of the command line, `holds` the one that counts.
fn headline(judgement: &Judgement, (asked, holds): (ExitPolicy, ExitPolicy)) -> String {
    let candidate = &judgement.candidate;
    let cause = cause(judgement).filter(|_| matches!(judgement.verdict, Verdict::NotComparable | Verdict::Error));
    let answer = match judgement.verdict {
        Verdict::Pass => format!("PASS: {candidate} may ship"),
        Verdict::Warn => format!("WARN: {candidate} may ship, with a warning"),
        Verdict::NotApplicable => format!("NOT APPLICABLE: no policy applies to {candidate}"),
        Verdict::Fail => format!("FAIL: {candidate} is shown worse than its baseline"),
        Verdict::Inconclusive => format!("INCONCLUSIVE: {candidate} is not shown to be inside its margins"),
        Verdict::NotComparable if cause.is_some() => format!("NOT COMPARABLE: {candidate} cannot be compared"),
        Verdict::NotComparable => format!("NOT COMPARABLE: {candidate} may not be compared with its baseline"),
        Verdict::Error => format!("ERROR: {candidate} could not be judged"),
    };
    let by: Vec<_> = judgement
        .policies
        .iter()
        .filter(|policy| policy.verdict == judgement.verdict)
        .map(|policy| policy.policy.as_str())
        .collect();
    let by = match (judgement.policies.len(), by.as_slice()) {
        (0, _) => " (no policy was judged)".to_owned(),
        (n, by) if by.len() < n && !by.is_empty() => format!(" (by policy {})", by.join(", ")),
        _ => String::new(),
    };
    let advisory = match (asked, holds) {
        (ExitPolicy::Strict, _) => "",
        (ExitPolicy::Advisory, ExitPolicy::Advisory) => {
            " Advisory mode: this verdict is reported and not enforced; the exit code is 0."
        }
        (ExitPolicy::Advisory, ExitPolicy::Strict) => {
            " Advisory mode is about verdicts: nothing was measured, so the exit code is not 0."
        }
    };
    let cause = cause.map(|cause| format!(": {}", cause.trim_end_matches('.'))).unwrap_or_default();
    format!("{answer}{by}{cause}.{advisory}")
}

fn compared(design: &Design) -> String {
    let baseline = design.baseline.as_ref().map_or_else(
        || "no baseline".to_owned(),
        |release| {
            if design.baseline_runs == 0 {
                return format!("{release}, measured as controls in the same session");
            }
            let sessions = count(design.baseline_sessions, "session");
            format!("baseline {release} ({sessions}, {})", count(design.baseline_runs, "run"))
        },
    );
    let restarted = if design.restarted { "" } else { "; no restart between runs, so the session effect is unknown" };
    format!(
        "compared: {} and {} with {baseline}; plan {}{restarted}",
        count(design.candidate_runs, "candidate run"),
        count(design.controls, "control"),
        design.plan
    )
}

fn difference(difference: &Difference) -> String {
    let value = |side: &Option<String>| side.clone().unwrap_or_else(|| "unknown".to_owned());
    let unknown = difference.baseline.is_none() || difference.candidate.is_none();
    let allowed = match difference.allowed {
        true if unknown => "known on one side only",
        true if difference.condition.is_nuisance() => "recorded, not compared",
        true => "declared as treatment",
        false => "not declared under `treatment`",
    };
    format!("{}: {} -> {} ({allowed})", difference.condition, value(&difference.baseline), value(&difference.candidate))
}

fn next_steps(judgement: &Judgement, context: &Context, blocking: &[CheckView<'_>]) -> Vec<String> {
    let mut steps = Vec::new();
    let first = |verdict| blocking.iter().map(|view| view.check).find(|check| check.verdict == verdict);
    let any = |verdict| judgement.policies.iter().any(|policy| policy.verdict == verdict) || first(verdict).is_some();
    if any(Verdict::Fail) {
        steps.push("mend or take back the change: each failing check says in which cell and by how much".to_owned());
        steps.extend(accepting(judgement, context));
    }
    let findings = || judgement.policies.iter().flat_map(|policy| &policy.findings);
    if findings().any(|finding| finding.verdict == Verdict::Warn) {
        steps.push(
            "see what failed before it ships (`outcome` and `detail` in the candidate's records): a warning blocks nothing"
                .to_owned(),
        );
    }
    if let Some(check) = first(Verdict::Inconclusive) {
        let decide = check.to_decide.as_deref().unwrap_or("measure more runs");
        steps.push(format!("to decide {}: {decide}", check.id));
    }
    let missing = findings().any(|finding| finding.code == "baseline-missing");
    if missing {
        steps.push(
            "measure an approved release (servegate measure) and make it the first baseline: servegate baseline \
             refresh --initial"
                .to_owned(),
        );
    } else if any(Verdict::NotComparable) {
        steps.push(comparable(judgement, first(Verdict::NotComparable)));
    }
    if any(Verdict::Error) {
        steps.push(
            "repair what the findings name and measure again: an error says nothing about the candidate".to_owned(),
        );
    }
    steps
}

/// How a regression is accepted: by a command where there is a stored baseline that can be replaced.
fn accepting(judgement: &Judgement, context: &Context) -> Vec<String> {
    let failed = judgement.policies.iter().filter(|policy| policy.verdict == Verdict::Fail);
    let workloads: BTreeSet<&String> = failed.map(|policy| &policy.workload).collect();
    let commands: Vec<&String> = workloads.into_iter().filter_map(|workload| context.rebase.get(workload)).collect();
    commands
        .into_iter()
        .map(|command| format!("if the regression is accepted, approve the release: {command}"))
        .collect()
}

/// What makes the sides comparable stands in the findings, each with its own way; where there is none, in the checks.
fn comparable(judgement: &Judgement, check: Option<&CheckJudgement>) -> String {
    let findings = judgement.policies.iter().flat_map(|policy| &policy.findings);
    let stops = findings.filter(|finding| finding.verdict == Verdict::NotComparable);
    let mut codes: Vec<String> = Vec::new();
    for code in stops.map(|finding| format!("`{}`", finding.code)) {
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    match (codes.is_empty(), check) {
        (false, _) => format!("to make the sides comparable, do what the finding says: {}", codes.join(", ")),
        (true, Some(check)) => format!("to make the sides comparable, mend what {} names", check.id),
        (true, None) => "to make the sides comparable, mend what the policy's sentence names".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_headline_names_the_verdict_and_who_gives_it() {
        let mut judgement = fixture::rich();
        let strict = fixture::context(ExitPolicy::Strict);
        let view = View::new(&judgement, &strict);
        assert_eq!(view.headline, "FAIL: v1.5.0-fp8kv is shown worse than its baseline (by policy chat).");
        assert_eq!(view.exit_code, 1);
        let advisory = fixture::context(ExitPolicy::Advisory);
        assert_eq!(View::new(&judgement, &advisory).exit_code, 0);
        let stopped = {
            let mut nothing = judgement.clone();
            nothing.policies.iter_mut().for_each(|policy| policy.design.candidate_runs = 0);
            nothing.not_measured("connection refused; check the url\n| details")
        };
        for (context, more) in [(&strict, ""), (&advisory, " Advisory mode is about verdicts: nothing was measured,")] {
            let view = View::new(&stopped, context);
            let start = format!("ERROR: v1.5.0-fp8kv could not be judged: connection refused; check the url.{more}");
            assert!(view.headline.starts_with(&start), "{}", view.headline);
            assert_eq!(view.exit_code, 4, "there is no verdict to be advisory about");
        }
        judgement.policies.clear();
        judgement.verdict = Verdict::Error;
        let view = View::new(&judgement, &strict);
        assert_eq!(view.headline, "ERROR: v1.5.0-fp8kv could not be judged (no policy was judged).");
        assert_eq!(view.exit_code, 4);
    }

    #[test]
    fn what_blocks_stands_first_and_roles_decide_what_blocks() {
        let judgement = fixture::rich();
        let context = fixture::context(ExitPolicy::Strict);
        let view = View::new(&judgement, &context);
        let ids = |views: &[CheckView<'_>]| views.iter().map(|view| view.check.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&view.blocking), ["tpot.p50@c1", "error_rate@burst", "tpot.p50@c8"]);
        assert_eq!(ids(&view.tolerated), ["throughput@c64", "ttft.p90@c64", "stall.p90@c8"]);
        assert_eq!(view.policies[0].counts(), "2 fail, 1 error, 2 inconclusive, 1 warn, 2 pass");
    }

    #[test]
    fn a_pass_says_what_it_could_have_missed_and_an_undecided_check_what_would_decide_it() {
        let judgement = fixture::rich();
        let context = fixture::context(ExitPolicy::Strict);
        for check in View::new(&judgement, &context).policies.into_iter().flat_map(|policy| policy.checks) {
            let outlook = check.outlook();
            match check.check.verdict {
                Verdict::Pass | Verdict::Warn => assert!(outlook.unwrap().contains("80 % probability")),
                Verdict::Inconclusive => assert!(outlook.unwrap().starts_with("to decide: ")),
                Verdict::NotApplicable | Verdict::NotComparable | Verdict::Error | Verdict::Fail => {
                    assert_eq!(outlook, None);
                }
            }
        }
    }
}

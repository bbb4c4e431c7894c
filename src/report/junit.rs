//! `junit.xml`: one flat suite per policy, one case per check. What each reader does with it, and why it
//! looks as it does: `docs/junit.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{
    DeserializeError, NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use crate::base::diagnostic::Place;
use crate::base::names::Role;
use crate::report::escape;
use crate::report::view::{CheckView, ExitPolicy, PolicyView, View};
use crate::verdict::judgement::{Effect, Finding, Verdict};

/// The file could not be written in a way that every reader understands.
#[derive(Debug, thiserror::Error)]
pub enum JunitError {
    /// The XML writer failed.
    #[error("the XML writer failed: {0}")]
    Write(#[from] SerializeError),
    /// What was written does not read back; readers would show no tests at all.
    #[error("the written XML does not read back: {0}")]
    ReadBack(#[from] DeserializeError),
    /// A counter that some readers trust without counting is wrong.
    #[error("the counters of suite `{suite}` do not match its cases")]
    Counters {
        /// Name of the suite; empty for the whole file.
        suite: String,
    },
}

/// What a case shows to every reader: nothing (green), or exactly one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    Error,
    Skipped,
}

/// The file as text.
///
/// # Errors
/// When it cannot be written, or does not read back with the same cases and right counters.
pub fn render(view: &View<'_>) -> Result<String, JunitError> {
    let mut report = Report::new("servegate");
    let mut names = Names::default();
    for policy in &view.policies {
        report.add_test_suite(policy_suite(view, policy, &mut names));
    }
    if view.policies.is_empty() {
        report.add_test_suite(empty_suite(view));
    }
    // Readers expect the attribute; a judgement takes no time worth telling, and no metric belongs here.
    report.set_time(Duration::ZERO);
    let xml = report.to_string()?;
    verify(&xml, &report)?;
    Ok(xml)
}

/// Reads the file back and counts, because some readers trust the counters and others count.
fn verify(xml: &str, written: &Report) -> Result<(), JunitError> {
    let read = Report::deserialize_from_str(xml)?;
    let wrong = |suite: &str| Err(JunitError::Counters { suite: suite.to_owned() });
    let mut total = [0; 4];
    for suite in &read.test_suites {
        let kind = |outcome| suite.test_cases.iter().filter(|case| outcome_of(case) == outcome).count();
        let counted = [suite.test_cases.len(), kind(Outcome::Failure), kind(Outcome::Error), kind(Outcome::Skipped)];
        if counted != [suite.tests, suite.failures, suite.errors, suite.skipped] {
            return wrong(&suite.name);
        }
        for (sum, n) in total.iter_mut().zip(counted) {
            *sum += n;
        }
    }
    let stated = |report: &Report| [report.tests, report.failures, report.errors, report.skipped];
    if total != stated(&read) || total != stated(written) {
        return wrong("");
    }
    Ok(())
}

fn outcome_of(case: &TestCase) -> Outcome {
    match &case.status {
        TestCaseStatus::Success { .. } => Outcome::Success,
        TestCaseStatus::NonSuccess { kind: NonSuccessKind::Failure, .. } => Outcome::Failure,
        TestCaseStatus::NonSuccess { kind: NonSuccessKind::Error, .. } => Outcome::Error,
        TestCaseStatus::Skipped { .. } => Outcome::Skipped,
    }
}

/// A verdict as an element. `blocks` is whether the check's role lets it block at all.
fn outcome(verdict: Verdict, blocks: bool, exit_policy: ExitPolicy) -> Outcome {
    match (verdict, exit_policy) {
        (Verdict::Pass | Verdict::Warn, _) => Outcome::Success,
        (Verdict::NotApplicable, _) => Outcome::Skipped,
        _ if !blocks => Outcome::Skipped,
        (Verdict::Error, _) | (Verdict::Inconclusive | Verdict::NotComparable, ExitPolicy::Strict) => Outcome::Error,
        (Verdict::Fail, ExitPolicy::Strict) => Outcome::Failure,
        (_, ExitPolicy::Advisory) => Outcome::Skipped,
    }
}

/// The `type` attribute.
const fn type_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fail => "regression",
        Verdict::Error => "measurement",
        Verdict::NotApplicable | Verdict::Pass | Verdict::Warn | Verdict::Inconclusive | Verdict::NotComparable => {
            verdict.id()
        }
    }
}

/// Keeps names apart: GitLab drops the second case of one name.
#[derive(Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let mut name = escape::xml_line(name);
        loop {
            let seen = self.0.entry(name.clone()).or_default();
            *seen += 1;
            if *seen == 1 {
                return name;
            }
            name = format!("{name}#{seen}");
        }
    }
}

/// One case before it is XML.
struct Case<'a> {
    name: String,
    place: &'a Place,
    verdict: Verdict,
    blocks: bool,
    /// Why a raised verdict does not block: goes in front of the message.
    excuse: &'a str,
    message: &'a str,
    lines: Vec<String>,
}

impl Case<'_> {
    fn build(self, classname: &str, exit_policy: ExitPolicy) -> TestCase {
        let kind = outcome(self.verdict, self.blocks, exit_policy);
        let mut status = match kind {
            Outcome::Success => TestCaseStatus::success(),
            Outcome::Failure => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Outcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
            Outcome::Skipped => TestCaseStatus::skipped(),
        };
        let raised = self.verdict > Verdict::Warn;
        let lead = match (raised, self.blocks, exit_policy) {
            (true, false, _) => format!("{} {}: ", self.excuse, self.verdict.id().to_uppercase()),
            (true, true, ExitPolicy::Advisory) => format!("ADVISORY {}: ", self.verdict.id().to_uppercase()),
            _ => String::new(),
        };
        let mut body = vec![format!("{lead}{}", self.message)];
        if self.verdict == Verdict::Warn {
            body.insert(0, "[WARN]".to_owned());
        }
        // One reader finds the place only as ` path:line` in the body.
        body.push(format!(" {}:{}", escape::one_line(&self.place.file), self.place.line.max(1)));
        body.extend(self.lines);
        let body = escape::xml(&body.join("\n"));
        if kind != Outcome::Success {
            status.set_type(type_of(self.verdict));
            status.set_message(escape::xml_line(&format!("{lead}{}", self.message)));
            status.set_description(&body);
        }
        let mut case = TestCase::new(self.name, status);
        case.set_classname(classname);
        case.set_time(Duration::ZERO);
        case.set_system_out(body);
        case.extra.insert("file".into(), escape::xml_line(&self.place.file).into());
        case.extra.insert("line".into(), self.place.line.max(1).to_string().into());
        case.add_property(("verdict", self.verdict.id()));
        case
    }
}

fn policy_suite(view: &View<'_>, policy: &PolicyView<'_>, suites: &mut Names) -> TestSuite {
    let exit_policy = view.exit_policy;
    let judged = policy.policy;
    let path =
        |joint: &str| format!("{}{joint}{}", escape::xml_line(&judged.policy), escape::xml_line(&judged.workload));
    let classname = format!("gate.{}", path("."));
    let mut suite = TestSuite::new(suites.unique(&path("/")));
    suite.set_time(Duration::ZERO);
    let about = [
        ("servegate", escape::xml_line(&view.context.version)),
        ("exit_policy", view.context.exit_policy.id().to_owned()),
        ("candidate", escape::xml_line(&view.judgement.candidate)),
        ("baseline", escape::xml_line(judged.design.baseline.as_deref().unwrap_or("none"))),
        ("plan", escape::xml_line(&judged.design.plan)),
    ];
    suite.add_properties(about.map(|(name, value)| Property::new(name, value)));
    let mut names = Names::default();
    suite.add_test_case(verdict_case(view, policy, names.unique("gate.verdict")).build(&classname, exit_policy));
    for (name, findings) in validity(&judged.findings) {
        let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Error);
        let Some((first, more)) = findings.split_first() else { continue };
        let case = Case {
            name: names.unique(&name),
            place: &judged.place,
            verdict,
            blocks: true,
            excuse: "",
            message: &first.message,
            lines: more.iter().map(|finding| finding.message.clone()).collect(),
        };
        suite.add_test_case(case.build(&classname, exit_policy));
    }
    for check in &policy.checks {
        let mut case = check_case(check, names.unique(&check.check.id)).build(&classname, exit_policy);
        case.add_properties(properties(check));
        suite.add_test_case(case);
    }
    suite
}

/// The policy's own answer, so that a suite without checks can never look green.
fn verdict_case<'a>(view: &View<'_>, policy: &PolicyView<'a>, name: String) -> Case<'a> {
    let mut lines = vec![format!("whole gate: {}", view.headline), format!("checks: {}", policy.counts())];
    lines.extend(policy.notes());
    lines.extend(view.effects.flips());
    let verdict = policy.policy.verdict;
    let blocks = verdict >= Verdict::Inconclusive;
    Case { name, place: &policy.policy.place, verdict, blocks, excuse: "", message: &policy.policy.sentence, lines }
}

fn check_case<'a>(view: &CheckView<'a>, name: String) -> Case<'a> {
    let check = view.check;
    let mut lines: Vec<String> = view.numbers().iter().map(|(name, number)| format!("{name}: {number}")).collect();
    lines.extend(view.asides());
    // Many readers show one case at a time: there is no "above" for them.
    lines.extend(view.because.map(|finding| format!("{}: {}", finding.code, finding.message)));
    let excuse = match check.role {
        Role::Required => "",
        Role::Guard => "GUARD",
        Role::Advisory => "ADVISORY CHECK",
    };
    Case {
        name,
        place: &check.place,
        verdict: check.verdict,
        blocks: view.blocks,
        excuse,
        message: &check.reason,
        lines,
    }
}

/// Numbers as they are, for tools; a missing one is left out.
fn properties(view: &CheckView<'_>) -> Vec<Property> {
    let check = view.check;
    let effect = |part: fn(Effect) -> f64| check.effect.map(|effect| part(effect).to_string());
    let number = |number: Option<f64>| number.map(|x| x.to_string());
    [
        ("metric", Some(check.metric.id().to_owned())),
        ("statistic", Some(check.statistic.id().to_owned())),
        ("cell", Some(escape::xml_line(&check.cell))),
        ("role", Some(check.role.id().to_owned())),
        ("unit", Some(check.unit().to_owned())),
        ("baseline", effect(|effect| effect.baseline)),
        ("candidate", effect(|effect| effect.candidate)),
        ("change", effect(|effect| effect.change)),
        ("low", effect(|effect| effect.low)),
        ("high", effect(|effect| effect.high)),
        ("margin", number(Some(check.margin))),
        ("margin_floor", number(check.margin_floor)),
        ("p_fail", number(check.p_fail)),
        ("p_pass", number(check.p_pass)),
        ("minimum_detectable", number(check.minimum_detectable)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some(Property::new(name, value?)))
    .collect()
}

/// Findings by the name of their case, in the order of the findings: one case for each code and cell.
fn validity(findings: &[Finding]) -> Vec<(String, Vec<&Finding>)> {
    let mut cases: Vec<(String, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        let cell = finding.cell.as_ref().map(|cell| format!("@{cell}")).unwrap_or_default();
        let name = format!("validity.{}{cell}", finding.code);
        match cases.iter_mut().find(|(known, _)| *known == name) {
            Some((_, same)) => same.push(finding),
            None => cases.push((name, vec![finding])),
        }
    }
    cases
}

/// A gate without a policy judged nothing, and must not read as a file without failures.
fn empty_suite(view: &View<'_>) -> TestSuite {
    let place = Place::default();
    let verdict = view.judgement.verdict;
    let case = Case {
        name: "gate.verdict".to_owned(),
        place: &place,
        verdict,
        blocks: verdict >= Verdict::Inconclusive,
        excuse: "",
        message: &view.headline,
        lines: Vec::new(),
    };
    let mut suite = TestSuite::new("gate");
    suite.set_time(Duration::ZERO);
    suite.add_test_case(case.build("gate.none", view.exit_policy));
    suite
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::fixture;
    use crate::verdict::judgement::Judgement;

    fn rendered(judgement: &Judgement, exit_policy: ExitPolicy) -> String {
        render(&View::new(judgement, &fixture::context(exit_policy))).unwrap()
    }

    fn read(judgement: &Judgement, exit_policy: ExitPolicy) -> Report {
        Report::deserialize_from_str(&rendered(judgement, exit_policy)).unwrap()
    }

    fn outcomes(report: &Report, suite: usize) -> Vec<(&str, Outcome)> {
        report.test_suites[suite].test_cases.iter().map(|case| (case.name.as_str(), outcome_of(case))).collect()
    }

    #[test]
    fn the_file_is_as_documented() {
        insta::assert_snapshot!("strict", rendered(&fixture::rich(), ExitPolicy::Strict));
    }

    #[test]
    fn hostile_text_is_written_as_text() {
        let judgement = fixture::hostile(&fixture::hostile_texts(), None);
        insta::assert_snapshot!("hostile", rendered(&judgement, ExitPolicy::Advisory));
    }

    #[test]
    fn strict_shows_what_blocks_and_skips_what_may_not_block() {
        let report = read(&fixture::rich(), ExitPolicy::Strict);
        assert_eq!(
            outcomes(&report, 0),
            [
                ("gate.verdict", Outcome::Failure),
                ("validity.client-saturated@burst", Outcome::Error),
                ("tpot.p50@c1", Outcome::Failure),
                ("tpot.p50@c8", Outcome::Error),
                ("tpot.p50@c64", Outcome::Success),
                ("ttft.p90@c1", Outcome::Success),
                ("ttft.p90@c64", Outcome::Skipped),
                ("stall.p90@c8", Outcome::Success),
                ("throughput@c64", Outcome::Skipped),
                ("error_rate@burst", Outcome::Error),
            ]
        );
        assert_eq!((report.tests, report.failures, report.errors, report.skipped), (13, 2, 3, 2));
        assert!(outcomes(&report, 1).iter().all(|(_, outcome)| *outcome == Outcome::Success));
    }

    #[test]
    fn a_warning_is_green_and_marked_in_its_own_case_and_in_the_policys() {
        for exit_policy in [ExitPolicy::Strict, ExitPolicy::Advisory] {
            let report = read(&fixture::warned(), exit_policy);
            assert_eq!((report.failures, report.errors, report.skipped), (0, 0, 1), "the guard is undecided");
            for (name, case) in
                ["gate.verdict", "validity.more-failures@c64"].iter().zip(&report.test_suites[0].test_cases)
            {
                assert_eq!((case.name.as_str(), outcome_of(case)), (*name, Outcome::Success));
                assert!(case.system_out.as_ref().unwrap().as_str().starts_with("[WARN]\n"), "{name}");
            }
        }
    }

    #[test]
    fn advisory_mode_reddens_nothing_but_what_could_not_be_measured() {
        let report = read(&fixture::rich(), ExitPolicy::Advisory);
        assert_eq!((report.failures, report.errors, report.skipped), (0, 2, 5));
        let TestCaseStatus::Skipped { message, .. } = &report.test_suites[0].test_cases[2].status else {
            panic!("not skipped")
        };
        assert!(message.as_ref().unwrap().starts_with("ADVISORY FAIL: tpot.p50@c1"), "{message:?}");
    }

    #[test]
    fn a_gate_that_judged_nothing_is_not_green() {
        let mut judgement = fixture::rich();
        judgement.verdict = Verdict::Error;
        judgement.policies.truncate(1);
        judgement.policies[0].verdict = Verdict::Error;
        judgement.policies[0].checks.clear();
        judgement.policies[0].findings.clear();
        assert_eq!(outcomes(&read(&judgement, ExitPolicy::Strict), 0), [("gate.verdict", Outcome::Error)]);
        judgement.policies.clear();
        assert_eq!(outcomes(&read(&judgement, ExitPolicy::Strict), 0), [("gate.verdict", Outcome::Error)]);
    }

    #[test]
    fn names_stay_apart_and_places_can_be_found() {
        let mut judgement = fixture::rich();
        judgement.policies[1].checks[1].id = judgement.policies[1].checks[0].id.clone();
        let other = judgement.policies[1].clone();
        judgement.policies.push(other);
        let report = read(&judgement, ExitPolicy::Strict);
        let suites: Vec<_> = report.test_suites.iter().map(|suite| suite.name.as_str()).collect();
        assert_eq!(suites, ["chat/chat-steady", "offline/offline", "offline/offline#2"]);
        let names: Vec<_> = outcomes(&report, 1).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["gate.verdict", "tpot.p50@c256", "tpot.p50@c256#2"]);
        let xml = rendered(&judgement, ExitPolicy::Strict);
        assert!(
            xml.contains("\n gate-policies/chat.yaml:12\n")
                && xml.contains("file=\"gate-policies/chat.yaml\" line=\"12\"")
        );
    }

    #[test]
    fn hostile_text_is_harmless() {
        let xml = rendered(&fixture::hostile(&fixture::hostile_texts(), None), ExitPolicy::Strict);
        assert!(!xml.chars().any(|c| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}')));
        for bad in ["]]>", "<script", "[[ATTACHMENT|"] {
            assert!(!xml.contains(bad), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_and_number_leave_the_file_readable(
            texts in prop::collection::vec(any::<String>(), 1..8),
            number in any::<f64>(),
        ) {
            let judgement = fixture::hostile(&texts, Some(number));
            for exit_policy in [ExitPolicy::Strict, ExitPolicy::Advisory] {
                let report = read(&judgement, exit_policy);
                prop_assert_eq!(report.tests, 13);
                for suite in &report.test_suites {
                    let mut names: Vec<_> = suite.test_cases.iter().map(|case| case.name.as_str()).collect();
                    names.sort_unstable();
                    names.dedup();
                    prop_assert_eq!(names.len(), suite.tests);
                }
            }
        }
    }
}

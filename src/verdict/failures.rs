//! A guard on the error rate that is undecided blocks nothing. Where the candidate fails more often than by chance all the
//! same, the answer is a warning and not a plain pass: a green mark must not hide it.

use crate::base::names::{Metric, Role, Side};
use crate::spec::policy::Check;
use crate::stats::fisher::more_failures;
use crate::verdict::judgement::{CheckJudgement, Finding, Verdict};
use crate::verdict::rules::Screening;
use crate::verdict::subjects::Subject;
use crate::verdict::words;

/// One-sided, for each cell by itself: a warning that is not needed costs a look.
const ALPHA: f64 = 0.05;

/// One warning for each cell whose guard on the error rate is undecided while the candidate's failures are significantly
/// more frequent than those of the baseline and its controls, over all runs that count.
pub(super) fn unguarded(screening: &Screening<'_>, subjects: &[Subject], checks: &[CheckJudgement]) -> Vec<Finding> {
    let undecided = |(_, check): &(&Subject, &CheckJudgement)| {
        check.metric == Metric::ErrorRate && check.role == Role::Guard && check.verdict == Verdict::Inconclusive
    };
    let judged = subjects.iter().zip(checks).filter(undecided);
    judged.filter_map(|(subject, _)| warning(screening, &subject.check)).collect()
}

fn warning(screening: &Screening<'_>, check: &Check) -> Option<Finding> {
    let baseline = screening.failures(check, |side| side != Side::Candidate);
    let candidate = screening.failures(check, |side| side == Side::Candidate);
    let p = more_failures(baseline, candidate).get();
    (p <= ALPHA).then(|| Finding {
        verdict: Verdict::Warn,
        code: "more-failures",
        cell: Some(check.subject()),
        message: format!(
            "{} of {} requests failed where {} of {} did: not shown worse than the margin, look at them (Fisher's exact test, {})",
            candidate.failed,
            candidate.attempted,
            baseline.failed,
            baseline.attempted,
            words::p(p)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::record::Outcome;
    use crate::artifact::run::Run;
    use crate::base::names::Statistic;
    use crate::compare::synthetic::policy::{check, in_all_cells};
    use crate::compare::synthetic::{Shape, Sides, Traffic};
    use crate::spec::policy::{Margin, Policy};
    use crate::verdict::case::Case;
    use crate::verdict::judge::judge;
    use crate::verdict::judgement::PolicyJudgement;

    /// Three runs a side of 40 requests each in `c1` and `c8`; so many of the candidate's first run fail at `c8`.
    fn judged(policy: &Policy, failed: usize, of_baseline: usize) -> PolicyJudgement {
        let shape = Shape { sessions: 1, controls: 1, candidate: 3, traffic: Traffic::default(), ..Shape::default() };
        let mut sides = Sides::new(shape, |_, _| {});
        let spoil = |run: &mut Run, failed: usize| {
            for record in run.records.iter_mut().filter(|record| record.cell == "c8").take(failed) {
                record.outcome = Outcome::Shed;
                record.chunks.clear();
                (record.first_answer, record.first_byte, record.head, record.output_tokens) = (None, None, None, None);
            }
        };
        spoil(&mut sides.candidate[0], failed);
        spoil(&mut sides.baseline[0], of_baseline);
        judge(&[Case { policy, evidence: sides.evidence() }]).policies.remove(0)
    }

    fn warnings(found: &PolicyJudgement) -> Vec<&str> {
        let warnings = found.findings.iter().filter(|finding| finding.verdict == Verdict::Warn);
        warnings.map(|finding| finding.message.as_str()).collect()
    }

    fn of_error_rate(found: &PolicyJudgement) -> &CheckJudgement {
        found.checks.iter().find(|check| check.metric == Metric::ErrorRate && check.cell == "c8").unwrap()
    }

    #[test]
    fn failures_that_are_not_chance_warn_where_the_guard_is_undecided() {
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let found = judged(&policy, 7, 0);
        assert_eq!(of_error_rate(&found).verdict, Verdict::Inconclusive);
        let says = "7 of 120 requests failed where 0 of 120 did: not shown worse than the margin, look at them";
        assert!(warnings(&found).len() == 1 && warnings(&found)[0].starts_with(says), "{:?}", found.findings);
        assert_eq!(found.findings[0].cell.as_deref(), Some("c8"));
        assert_eq!(found.verdict, Verdict::Warn, "{:?}", found.sentence);
        assert!(found.sentence.starts_with(&format!("chat passes with a warning: at c8 {says}")), "{}", found.sentence);
    }

    #[test]
    fn what_chance_makes_and_what_the_baseline_does_too_is_no_warning() {
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        // 4 of 120 against none have p = 0.061, and 5 have 0.030.
        for (failed, of_baseline, warned) in [(0, 0, false), (4, 0, false), (5, 0, true), (7, 5, false), (0, 7, false)]
        {
            let found = judged(&policy, failed, of_baseline);
            let verdict = if warned { Verdict::Warn } else { Verdict::Pass };
            assert_eq!(
                (found.verdict, warnings(&found).len()),
                (verdict, usize::from(warned)),
                "{failed} {of_baseline}"
            );
        }
    }

    #[test]
    fn a_guard_of_the_policy_warns_too_and_other_roles_decide_themselves() {
        let with = |role: Role| {
            let mut policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
            let mut errors = check(Metric::ErrorRate, Statistic::Value, "c8", Margin::Points(0.01));
            errors.role = role;
            policy.checks.push(errors);
            let found = judged(&policy, 7, 0);
            (found.verdict, warnings(&found).len())
        };
        assert_eq!(with(Role::Guard), (Verdict::Warn, 1));
        assert_eq!(with(Role::Required), (Verdict::Inconclusive, 0));
        assert_eq!(with(Role::Advisory), (Verdict::Pass, 0));
    }
}

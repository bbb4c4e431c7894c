//! A measurement that ended early, or never began: what could be judged is judged, and the answer is never better
//! than what kept the rest from being measured.

use crate::verdict::judgement::{Finding, Judgement, PolicyJudgement, Verdict};

impl Judgement {
    /// The judgement when something kept the measurement from being complete. A proven fail stays a fail.
    #[must_use]
    pub fn not_measured(self, what: &str) -> Self {
        self.stopped(Verdict::Error, "measurement-stopped", what)
    }

    /// The judgement when it was known before that the sides cannot be compared, for which reason nothing was measured:
    /// `code` is that of the finding.
    #[must_use]
    pub fn not_comparable(self, code: &'static str, what: &str) -> Self {
        self.stopped(Verdict::NotComparable, code, what)
    }

    fn stopped(mut self, verdict: Verdict, code: &'static str, what: &str) -> Self {
        for policy in &mut self.policies {
            let nothing = policy.design.candidate_runs == 0;
            let message = match (verdict, nothing) {
                (Verdict::NotComparable, _) => what.to_owned(),
                (_, true) => format!("{what} (nothing was measured)"),
                (_, false) => format!("{what} (the measurement ended early)"),
            };
            let cause = Finding { verdict, code, cell: None, message };
            if nothing {
                nothing_measured(policy, cause);
            } else {
                ended_early(policy, cause);
            }
        }
        let worst = self.policies.iter().map(|policy| policy.verdict).max();
        self.verdict = worst.unwrap_or(self.verdict).max(verdict);
        self
    }
}

/// What was measured before stands as it was judged, and the policy is no better than the cause.
fn ended_early(policy: &mut PolicyJudgement, cause: Finding) {
    if policy.verdict < cause.verdict {
        policy.verdict = cause.verdict;
        policy.sentence = format!("{} could not be judged: {}", policy.policy, cause.message);
    }
    policy.findings.insert(0, cause);
}

/// That there is no data says less than why there is none, so the cause takes its place, in the checks too.
fn nothing_measured(policy: &mut PolicyJudgement, cause: Finding) {
    policy.sentence = format!("{} could not be judged: {}", policy.policy, cause.message);
    policy.counts.clear();
    for check in &mut policy.checks {
        if check.verdict != Verdict::NotApplicable {
            check.verdict = cause.verdict;
            check.reason = cause.reference();
            check.to_decide = None;
        }
        *policy.counts.entry(check.verdict).or_default() += 1;
    }
    // Controls that were to be the baseline are missing for the same reason.
    let explained = |code: &str| ["no-candidate-data", "baseline-missing", cause.code].contains(&code);
    policy.findings.retain(|finding| !explained(finding.code));
    policy.findings.insert(0, cause);
    let whole = policy.findings.iter().filter(|finding| finding.cell.is_none()).map(|finding| finding.verdict);
    policy.verdict = whole.max().unwrap_or(policy.verdict);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::diagnostic::Place;
    use crate::verdict::judgement::Design;

    fn judgement(verdict: Verdict, candidate_runs: u32) -> Judgement {
        let none = Finding {
            verdict: Verdict::Error,
            code: "no-candidate-data",
            cell: None,
            message: "there is no run of the candidate".to_owned(),
        };
        let policy = PolicyJudgement {
            policy: "chat".to_owned(),
            place: Place::default(),
            workload: "chat".to_owned(),
            verdict,
            sentence: "as judged".to_owned(),
            counts: [].into(),
            design: Design { candidate_runs, ..Design::default() },
            differences: Vec::new(),
            findings: if candidate_runs == 0 { vec![none] } else { Vec::new() },
            notes: Vec::new(),
            checks: Vec::new(),
        };
        Judgement { verdict, candidate: "c".to_owned(), policies: vec![policy] }
    }

    #[test]
    fn what_ended_early_is_never_green_and_a_proven_fail_stays_one() {
        for (before, after) in [
            (Verdict::Pass, Verdict::Error),
            (Verdict::Inconclusive, Verdict::Error),
            (Verdict::NotApplicable, Verdict::Error),
            (Verdict::Fail, Verdict::Fail),
        ] {
            let stopped = judgement(before, 2).not_measured("the target is down");
            assert_eq!((stopped.verdict, stopped.policies[0].verdict), (after, after));
            assert_eq!(stopped.policies[0].findings[0].code, "measurement-stopped");
            let told = stopped.policies[0].sentence.contains("the target is down (the measurement ended early)");
            assert_eq!(told, before != Verdict::Fail);
        }
        let none = Judgement { policies: Vec::new(), ..judgement(Verdict::Error, 0) };
        assert_eq!(none.not_measured("x").verdict, Verdict::Error);
    }

    #[test]
    fn where_nothing_was_measured_the_cause_is_all_that_is_said() {
        let stopped = judgement(Verdict::Error, 0).not_measured("connection refused");
        let [only] = stopped.policies[0].findings.as_slice() else { panic!("{stopped:?}") };
        assert_eq!(only.message, "connection refused (nothing was measured)");
        assert_eq!(stopped.policies[0].sentence, "chat could not be judged: connection refused (nothing was measured)");
        let missing = judgement(Verdict::Error, 0).not_comparable("baseline-missing", "there is no baseline");
        assert_eq!((missing.verdict, missing.policies[0].verdict), (Verdict::NotComparable, Verdict::NotComparable));
        assert_eq!(missing.policies[0].findings[0].code, "baseline-missing");
    }
}

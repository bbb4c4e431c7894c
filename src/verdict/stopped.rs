//! A measurement that ended early: what could be judged is judged, and the answer is never better than `error`.

use crate::verdict::judgement::{Finding, Judgement, Verdict};

impl Judgement {
    /// The judgement when something kept the measurement from being complete. A proven fail stays a fail.
    #[must_use]
    pub fn not_measured(mut self, what: &str) -> Self {
        for policy in &mut self.policies {
            let message = format!("the measurement ended early: {what}; repair it and measure again");
            let code = "measurement-stopped";
            policy.findings.insert(0, Finding { verdict: Verdict::Error, code, cell: None, message: message.clone() });
            if policy.verdict < Verdict::Error {
                policy.verdict = Verdict::Error;
                policy.sentence = format!("{} could not be judged: {message}", policy.policy);
            }
        }
        self.verdict = self.verdict.max(Verdict::Error);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::diagnostic::Place;
    use crate::verdict::judgement::{Design, PolicyJudgement};

    fn judgement(verdict: Verdict) -> Judgement {
        let policy = PolicyJudgement {
            policy: "chat".to_owned(),
            place: Place::default(),
            workload: "chat".to_owned(),
            verdict,
            sentence: "as judged".to_owned(),
            counts: [].into(),
            design: Design::default(),
            differences: Vec::new(),
            findings: Vec::new(),
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
            let stopped = judgement(before).not_measured("the target is down");
            assert_eq!((stopped.verdict, stopped.policies[0].verdict), (after, after));
            assert_eq!(stopped.policies[0].findings[0].code, "measurement-stopped");
            let told = stopped.policies[0].sentence.contains("the target is down");
            assert_eq!(told, before != Verdict::Fail);
        }
        let none = Judgement { policies: Vec::new(), ..judgement(Verdict::Error) };
        assert_eq!(none.not_measured("x").verdict, Verdict::Error);
    }
}

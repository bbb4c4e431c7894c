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

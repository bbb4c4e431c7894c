//! What a design can show: the smallest change it detects, the smallest margin it can certify, and the runs that
//! would decide.
//!
//! Lengths are on the scale of `y`; [`crate::stats::margin::relative`] turns them into percentages. The degrees of
//! freedom are those of the test itself at the planned variances, so that a plan predicts the decision it plans.
//! A two-sided check is planned with half of `alpha` for failing and half of `beta` for passing.

use crate::stats::design::Design;
use crate::stats::moderated::{HISTORY_TO_PASS_ALONE, RUNS_TO_FAIL};
use crate::stats::student;

/// More candidate runs than this are no answer to an undecided check.
pub const MOST_RUNS: usize = 100;

/// More controls or stored sessions than this are none either.
pub const MOST_BASELINE: usize = 20;

/// The two errors of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    /// The level of the test; divided by the number of tests where Holm's correction applies.
    pub alpha: f64,
    /// The chance to miss what is to be shown: one minus the power.
    pub beta: f64,
}

/// What would decide a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// This many candidate runs, or pairs of runs, in all.
    Runs(usize),
    /// No number of candidate runs up to [`MOST_RUNS`]: the baseline must be known better.
    Baseline {
        /// Controls in all with which the design's own candidate runs would do; `None` if not [`MOST_BASELINE`].
        controls: Option<usize>,
        /// Stored sessions in all, each as large as the last one, with which they would do; `None` as above.
        sessions: Option<usize>,
    },
    /// Nothing: the effect does not lie beyond the margin, or the margin is not above zero, or the run variance is
    /// unknown.
    Nothing,
}

impl Design {
    /// The smallest effect beyond `log_margin` that fails with probability `1 - beta`:
    /// `M + (T(1 - alpha) + T(1 - beta)) se`. `None` where the design knows nothing.
    pub fn minimum_detectable(&self, log_margin: f64, risk: Risk) -> Option<f64> {
        Some(log_margin + self.reach(risk)?)
    }

    /// The smallest margin within which an unchanged candidate passes with probability `1 - beta`:
    /// `(T(1 - alpha) + T(1 - beta)) se`. `None` where the design knows nothing.
    pub fn certifiable(&self, risk: Risk) -> Option<f64> {
        self.reach(risk)
    }

    /// What it takes for an unchanged candidate to pass with probability `1 - beta`.
    pub fn needed_to_pass(&self, log_margin: f64, risk: Risk) -> Needed {
        let fewest = match self.pair_variance {
            Some(_) => RUNS_TO_FAIL,
            None if self.prior_df >= HISTORY_TO_PASS_ALONE => 1,
            None => 2,
        };
        self.needed(log_margin, fewest, risk)
    }

    /// What it takes for a candidate whose true effect is `log_effect` to fail with probability `1 - beta`.
    pub fn needed_to_fail(&self, log_effect: f64, log_margin: f64, risk: Risk) -> Needed {
        self.needed(log_effect - log_margin, RUNS_TO_FAIL, risk)
    }

    /// The distance from the margin that is shown with probability `1 - beta`.
    fn reach(&self, risk: Risk) -> Option<f64> {
        let precision = self.precision()?;
        let quantiles =
            student::upper_quantile(risk.alpha, precision.df) + student::upper_quantile(risk.beta, precision.df);
        Some(quantiles * precision.standard_error()).filter(|reach| reach.is_finite())
    }

    fn needed(&self, distance: f64, fewest: usize, risk: Risk) -> Needed {
        let enough = |design: &Self| design.reach(risk).is_some_and(|reach| reach <= distance);
        let with_candidate = |candidate| Self { candidate, ..self.clone() };
        if distance.is_nan() || distance <= 0.0 || with_candidate(MOST_RUNS).reach(risk).is_none() {
            return Needed::Nothing;
        }
        if let Some(runs) = (fewest..=MOST_RUNS).find(|&runs| enough(&with_candidate(runs))) {
            return Needed::Runs(runs);
        }
        let design = with_candidate(self.candidate.max(fewest));
        let size = self.stored.last().copied().unwrap_or_default();
        let with_sessions = |sessions: usize| {
            let mut design = design.clone();
            design.stored.resize(sessions, size);
            design
        };
        Needed::Baseline {
            controls: (self.controls + 1..=MOST_BASELINE)
                .find(|&controls| enough(&Self { controls, ..design.clone() })),
            sessions: (self.stored.len() + 1..=MOST_BASELINE).find(|&sessions| enough(&with_sessions(sessions))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::names::Direction;
    use crate::stats::history::SessionPrior;
    use crate::stats::margin::relative;

    const RISK: Risk = Risk { alpha: 0.05, beta: 0.2 };

    fn design(sd: f64, stored: &[usize], controls: usize, candidate: usize, prior_df: f64) -> Design {
        Design {
            stored: stored.to_vec(),
            controls,
            candidate,
            baseline_variance: sd * sd,
            candidate_variance: sd * sd,
            prior_df,
            session: SessionPrior::default(),
            drifted: false,
            pair_variance: None,
        }
    }

    #[test]
    fn detectable_and_certifiable_changes() {
        // scipy 1.17.1: run sd, baseline runs in the same session, candidate runs, margin, d0, MDE, m_cert.
        for (sd, controls, candidate, margin, d0, detectable, certifiable) in [
            (0.02, 6, 5, 0.05, 12.0, 0.083_323_140_470_576_86, 0.031_736_324_257_692_23),
            (0.03, 8, 3, 0.1, 12.0, 0.159_172_640_285_442_04, 0.053_793_309_350_401_87),
            (0.02, 5, 5, 0.05, 0.0, 0.087_145_501_161_315_8, 0.035_376_667_772_681_7),
        ] {
            let design = design(sd, &[], controls, candidate, d0);
            let percent = |log: Option<f64>| relative(Direction::LowerIsBetter, log.unwrap());
            let margin = f64::ln_1p(margin);
            assert!((percent(design.minimum_detectable(margin, RISK)) - detectable).abs() < 1e-9);
            assert!((percent(design.certifiable(RISK)) - certifiable).abs() < 1e-9);
        }
    }

    #[test]
    fn the_needed_runs_are_the_fewest_that_do() {
        let margin = 1.05_f64.ln();
        let plan = design(0.02, &[], 6, 3, 12.0);
        let Needed::Runs(runs) = plan.needed_to_pass(margin, RISK) else {
            panic!("controls alone have no session effect")
        };
        assert!(design(0.02, &[], 6, runs, 12.0).certifiable(RISK).unwrap() <= margin);
        assert!(design(0.02, &[], 6, runs - 1, 12.0).certifiable(RISK).unwrap() > margin);
        assert_eq!(runs, 2);
        // The formula of the specification with 21 degrees of freedom: 0.0004 / ((ln(1.08/1.05)/2.58)^2 - 0.0004/6) = 7.1.
        let Needed::Runs(runs) = plan.needed_to_fail(1.08_f64.ln(), margin, RISK) else { panic!() };
        assert!((6..=8).contains(&runs), "{runs}");
        assert_eq!(plan.needed_to_fail(2.0, margin, RISK), Needed::Runs(3), "two runs never fail");
        assert_eq!(design(0.002, &[], 6, 3, 0.0).needed_to_pass(margin, RISK), Needed::Runs(2));
    }

    #[test]
    fn where_the_session_effect_hides_the_margin_the_answer_is_a_better_baseline() {
        let margin = 1.05_f64.ln();
        let stored = design(0.01, &[2, 2, 2], 0, 5, 12.0);
        let Needed::Baseline { controls: Some(controls), sessions } = stored.needed_to_pass(margin, RISK) else {
            panic!("{:?}", stored.needed_to_pass(margin, RISK))
        };
        assert_eq!(sessions, None, "the candidate's own session effect alone is too large");
        let with = |controls| Design { controls, ..stored.clone() }.certifiable(RISK).unwrap();
        assert!(with(controls) <= margin && (controls == 1 || with(controls - 1) > margin));
        let near = Design { session: SessionPrior { variance: 0.000_2, df: 30.0, assumed: false }, ..stored };
        let one = Design { stored: vec![2], ..near };
        let Needed::Baseline { sessions: Some(2..=5), .. } = one.needed_to_pass(margin, RISK) else {
            panic!("{:?}", one.needed_to_pass(margin, RISK))
        };
    }

    #[test]
    fn an_effect_inside_the_margin_and_a_baseline_without_variance_need_nothing() {
        let margin = 1.05_f64.ln();
        let plan = design(0.02, &[2, 2], 0, 3, 12.0);
        assert_eq!(plan.needed_to_fail(1.04_f64.ln(), margin, RISK), Needed::Nothing);
        assert_eq!(plan.needed_to_pass(f64::NAN, RISK), Needed::Nothing);
        assert_eq!(design(0.02, &[], 0, 3, 12.0).needed_to_pass(margin, RISK), Needed::Nothing);
        assert_eq!(design(0.02, &[1, 1], 0, 3, 0.0).certifiable(RISK), None);
    }
}

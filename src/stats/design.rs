//! How many runs a comparison has on each side, and how precisely it therefore knows the difference.
//!
//! One formula serves the comparison and its planning: the comparison puts in the variances it found, a plan those
//! it expects.

use crate::stats::history::{Noise, RunPrior, SessionPrior};
use crate::stats::sample::{SD_FLOOR, df, real, sum_of_squares};

/// The runs and variances of a comparison of a candidate, measured in one session, with its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Runs of the baseline in each stored session.
    pub stored: Vec<usize>,
    /// Runs of the baseline inside the candidate's session.
    pub controls: usize,
    /// Runs of the candidate.
    pub candidate: usize,
    /// `t_b`, the moderated variance of a baseline or control run.
    pub baseline_variance: f64,
    /// `t_c`, the moderated variance of a candidate run.
    pub candidate_variance: f64,
    /// `d0`, the degrees of freedom of the history in both variances.
    pub prior_df: f64,
    /// The variance between sessions.
    pub session: SessionPrior,
    /// The stored level does not hold in the candidate's session: controls alone are the baseline.
    pub drifted: bool,
    /// The moderated variance of a difference inside a pair, where runs are compared pair by pair; then there are as
    /// many baseline runs as candidate runs, whatever `stored` and `controls` say.
    pub pair_variance: Option<f64>,
}

/// The variance of an estimated difference of logarithms, by its sources, and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// `w`, the weight of the controls in the baseline's level; 0 without controls, 1 without stored sessions.
    pub controls_weight: f64,
    /// `c_S`, the part of the session effect.
    pub session: f64,
    /// `c_b`, the part of the baseline's runs, stored and controls.
    pub baseline: f64,
    /// `c_c`, the part of the candidate's runs.
    pub candidate: f64,
    /// Degrees of freedom of the baseline's run variance, history included.
    pub baseline_df: f64,
    /// Degrees of freedom of the candidate's run variance, history included.
    pub candidate_df: f64,
    /// `nu`, the effective degrees of freedom (Satterthwaite 1946).
    pub df: f64,
}

impl Precision {
    /// `V`, the variance of the difference.
    pub fn variance(&self) -> f64 {
        self.session + self.baseline + self.candidate
    }

    /// The standard error of the difference.
    pub fn standard_error(&self) -> f64 {
        self.variance().sqrt()
    }
}

/// The variance of these groups of runs around their means, shrunk towards that of the history (Smyth 2004), not
/// below the floor of 0.2 % squared. `None` without any degree of freedom.
fn moderated(prior: RunPrior, groups: &[&[f64]]) -> Option<f64> {
    let (squares, freedom) = groups.iter().fold((prior.df * prior.variance, prior.df), |(squares, freedom), runs| {
        (squares + sum_of_squares(runs), freedom + df(runs.len()))
    });
    let variance = squares / freedom;
    let floor = SD_FLOOR * SD_FLOOR;
    // Not `max`, which would turn a variance that is not a number into the floor.
    (freedom > 0.0).then_some(if variance < floor { floor } else { variance })
}

/// What a part of a variance brings to the denominator of the effective degrees of freedom.
fn share(part: f64, df: f64) -> f64 {
    if part > 0.0 { part * part / df } else { 0.0 }
}

/// What is known of the baseline's level apart from the controls.
struct StoredLevel {
    runs: f64,
    session: f64,
}

impl StoredLevel {
    fn variance(&self) -> f64 {
        self.runs + self.session
    }
}

impl Design {
    /// The design of a candidate of `candidate` runs and `controls` controls that is still to be measured against
    /// these stored sessions, expecting the run variance that they and the history show. `None` when they show none,
    /// or not a finite one.
    pub fn planned(stored: &[Vec<f64>], noise: &Noise, controls: usize, candidate: usize) -> Option<Self> {
        let sessions: Vec<&[f64]> = stored.iter().map(Vec::as_slice).collect();
        let variance = moderated(noise.run, &sessions).filter(|variance| variance.is_finite())?;
        Some(Self { controls, candidate, ..Self::against(stored, noise, variance, variance) })
    }

    /// The design of these runs, with their variances moderated by the history. `None` when a side's runs and the
    /// history show no variance.
    pub(super) fn observed(stored: &[Vec<f64>], controls: &[f64], candidate: &[f64], noise: &Noise) -> Option<Self> {
        let baseline: Vec<&[f64]> = stored.iter().map(Vec::as_slice).chain([controls]).collect();
        let design =
            Self::against(stored, noise, moderated(noise.run, &baseline)?, moderated(noise.run, &[candidate])?);
        Some(Self { controls: controls.len(), candidate: candidate.len(), ..design })
    }

    /// A design against these stored sessions that has no other runs yet.
    fn against(stored: &[Vec<f64>], noise: &Noise, baseline_variance: f64, candidate_variance: f64) -> Self {
        Self {
            stored: stored.iter().map(Vec::len).collect(),
            controls: 0,
            candidate: 0,
            baseline_variance,
            candidate_variance,
            prior_df: noise.run.df,
            session: noise.session,
            drifted: false,
            pair_variance: None,
        }
    }

    /// The same runs compared pair by pair, with these differences; that of two runs scatters twice as much as one.
    /// `None` when neither they nor the history show a variance.
    pub(super) fn by_pairs(self, differences: &[f64], run: RunPrior) -> Option<Self> {
        let prior = RunPrior { variance: 2.0 * run.variance, ..run };
        Some(Self { drifted: false, pair_variance: Some(moderated(prior, &[differences])?), ..self })
    }

    /// The variance of the mean of the candidate's runs alone, and its degrees of freedom, history included.
    pub fn candidate_alone(&self) -> (f64, f64) {
        (self.candidate_variance / real(self.candidate), self.prior_df + df(self.candidate))
    }

    /// Degrees of freedom that the baseline's runs leave, without the history.
    pub(super) fn baseline_runs_df(&self) -> f64 {
        self.stored.iter().map(|&runs| df(runs)).sum::<f64>() + df(self.controls)
    }

    /// The variance of the distance between the mean of the controls and the stored level, where there are both.
    pub(super) fn environment_variance(&self) -> Option<f64> {
        (self.controls > 0).then_some(self.stored_level()?.variance() + self.controls_variance())
    }

    /// How precisely this design knows the difference. `None` when it cannot: a side without runs, or a variance
    /// without a degree of freedom, or numbers that are not finite, or `nu` below 1.
    pub fn precision(&self) -> Option<Precision> {
        if self.candidate == 0 {
            return None;
        }
        if let Some(variance) = self.pair_variance {
            return self.paired(variance);
        }
        let (controls_weight, session, baseline) = self.baseline_parts()?;
        let (candidate, candidate_df) = self.candidate_alone();
        let baseline_df = self.prior_df + self.baseline_runs_df();
        let variance = session + baseline + candidate;
        let mut nu = variance * variance
            / (share(session, self.session.df) + share(baseline, baseline_df) + share(candidate, candidate_df));
        if session <= 0.0 {
            // Both variances lean on the same history, which must not be counted twice.
            nu = nu.min(baseline_df + candidate_df - self.prior_df);
        }
        let known = baseline_df > 0.0 && candidate_df > 0.0 && variance.is_finite() && nu >= 1.0 && nu.is_finite();
        known.then_some(Precision { controls_weight, session, baseline, candidate, baseline_df, candidate_df, df: nu })
    }

    /// The precision of a mean difference inside pairs. Without restarts, which is when the baseline's runs are a
    /// session of their own, the unknown effects of both boots remain in it.
    fn paired(&self, variance: f64) -> Option<Precision> {
        let (candidate, freedom) = (variance / real(self.candidate), self.prior_df + df(self.candidate));
        let one_boot = !self.stored.is_empty();
        let session = if one_boot { 2.0 * self.session.variance } else { 0.0 };
        let total = session + candidate;
        let nu = total * total / (share(session, self.session.df) + share(candidate, freedom));
        let known = freedom > 0.0 && total.is_finite() && nu >= 1.0 && nu.is_finite();
        known.then_some(Precision {
            controls_weight: if one_boot { 0.0 } else { 1.0 },
            session,
            baseline: 0.0,
            candidate,
            baseline_df: freedom,
            candidate_df: freedom,
            df: nu,
        })
    }

    /// `(w, c_S, c_b)`: the controls and the stored level weighted by their precision.
    fn baseline_parts(&self) -> Option<(f64, f64, f64)> {
        let stored = self.stored_level().filter(|_| !self.drifted);
        match (stored, self.controls) {
            (None, 0) => None,
            (None, _) => Some((1.0, 0.0, self.controls_variance())),
            (Some(stored), 0) => Some((0.0, stored.session, stored.runs)),
            (Some(stored), _) => {
                let controls = self.controls_variance();
                let weight = stored.variance() / (stored.variance() + controls);
                let rest = (1.0 - weight).powi(2);
                Some((weight, rest * stored.session, rest * stored.runs + weight * weight * controls))
            }
        }
    }

    fn controls_variance(&self) -> f64 {
        self.baseline_variance / real(self.controls)
    }

    /// The level is the mean of the session means, and the candidate's session has an effect of its own.
    fn stored_level(&self) -> Option<StoredLevel> {
        let runs: Vec<f64> = self.stored.iter().filter(|&&runs| runs > 0).map(|&runs| 1.0 / real(runs)).collect();
        let sessions = real(runs.len());
        (sessions > 0.0).then(|| StoredLevel {
            runs: self.baseline_variance * runs.iter().sum::<f64>() / (sessions * sessions),
            session: self.session.variance * (1.0 + 1.0 / sessions),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design() -> Design {
        Design {
            stored: vec![2, 2, 2],
            controls: 0,
            candidate: 4,
            baseline_variance: 0.0004,
            candidate_variance: 0.0004,
            prior_df: 6.0,
            session: SessionPrior::assumed(0.02, 4.0),
            drifted: false,
            pair_variance: None,
        }
    }

    #[test]
    fn a_stored_baseline_carries_the_session_effect_and_controls_remove_most_of_it() {
        let stored = design().precision().unwrap();
        assert!((stored.session - 0.0004 * 4.0 / 3.0).abs() < 1e-15);
        assert!((stored.baseline - 0.0004 / 6.0).abs() < 1e-15);
        assert!((stored.candidate - 0.0001).abs() < 1e-15);
        assert_eq!((stored.controls_weight, stored.baseline_df, stored.candidate_df), (0.0, 9.0, 9.0));
        let with_controls = Design { controls: 2, ..design() }.precision().unwrap();
        assert!((with_controls.controls_weight - 0.75).abs() < 1e-12, "{with_controls:?}");
        assert!(with_controls.session < stored.session / 10.0);
        assert!(with_controls.variance() < stored.variance() / 2.0);
    }

    #[test]
    fn one_stored_session_has_an_unknown_effect_of_its_own() {
        let precision = Design { stored: vec![6], ..design() }.precision().unwrap();
        assert!((precision.session - 2.0 * 0.0004).abs() < 1e-15, "its own and the candidate's");
    }

    #[test]
    fn controls_alone_carry_no_session_effect_and_the_history_counts_once() {
        let drifted = Design { controls: 3, drifted: true, ..design() }.precision().unwrap();
        assert_eq!((drifted.controls_weight, drifted.session), (1.0, 0.0));
        let alone = Design { stored: vec![], controls: 3, ..design() }.precision().unwrap();
        assert!((alone.df - (6.0 + 2.0 + 3.0)).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_estimated_has_no_precision() {
        let none = |design: Design| assert_eq!(design.precision(), None, "{design:?}");
        none(Design { candidate: 0, ..design() });
        none(Design { stored: vec![0], ..design() });
        none(Design { stored: vec![], ..design() });
        none(Design { prior_df: 0.0, candidate: 1, ..design() });
        none(Design { prior_df: 0.0, stored: vec![1, 1, 1], ..design() });
        none(Design { baseline_variance: f64::NAN, ..design() });
        none(Design { candidate_variance: f64::INFINITY, ..design() });
        none(Design { prior_df: 0.5, stored: vec![], controls: 1, candidate: 1, ..design() });
    }
}

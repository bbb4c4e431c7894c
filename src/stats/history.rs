//! What earlier releases say about noise: how far runs of one session scatter, and how far sessions lie apart.
//!
//! The same two numbers serve every later comparison of the same check under the same conditions, which is why a
//! decision is possible from very few runs.

use crate::stats::sample::{SD_FLOOR, df, mean, real, sum_of_squares};

/// Releases that count, the latest.
const RELEASES: usize = 12;

/// The history never weighs more than this many degrees of freedom, because earlier noise is not quite today's.
const MOST_DF: f64 = 12.0;

/// The variance of runs inside a session, as far as earlier releases know it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunPrior {
    /// `s0^2`, of log summaries; 0 and of no weight where `df` is 0.
    pub variance: f64,
    /// `d0`, in `[0, 12]`; 0 without history.
    pub df: f64,
}

/// `d0`: of the degrees of freedom of a history half count, and 12 at most.
pub(super) fn weight(df: f64) -> f64 {
    (df / 2.0).min(MOST_DF)
}

/// The variance that all runs of a session share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionPrior {
    /// `v_S`, of log summaries.
    pub variance: f64,
    /// `d_S`.
    pub df: f64,
    /// No release was ever measured in two sessions: the variance is the policy's assumption.
    pub assumed: bool,
}

impl SessionPrior {
    /// A session standard deviation (of log summaries: 0.02 is 2 %) that is assumed with the weight of `df` degrees
    /// of freedom.
    pub fn assumed(sd: f64, df: f64) -> Self {
        Self { variance: sd * sd, df, assumed: true }
    }

    /// The least that any variance is taken for: 0.2 % squared.
    pub fn least(df: f64) -> Self {
        Self::assumed(SD_FLOOR, df)
    }

    /// The assumption improved by `sessions` sessions beyond the first of their releases, whose variance was
    /// `estimate`: never below the estimate, so that a quiet assumption cannot hide a loud reality.
    fn updated(self, estimate: f64, sessions: f64) -> Self {
        let df = self.df + sessions;
        let pooled = (self.df * self.variance + sessions * estimate) / df;
        Self { variance: estimate.max(pooled), df, assumed: false }
    }
}

impl Default for SessionPrior {
    fn default() -> Self {
        Self::assumed(0.02, 4.0)
    }
}

/// The noise of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Between the runs of a session.
    pub run: RunPrior,
    /// Between sessions.
    pub session: SessionPrior,
}

/// Learns the noise of a check from earlier releases of it (oldest first; each a list of sessions, each a list of
/// runs' `y`) and from the sessions of the stored baseline.
///
/// The candidate must not be among them. The baseline is evidence about the variance between sessions only; its run
/// variance enters the comparison itself, and is used here only where the history has none. The last 12 releases
/// count. Runs that are not finite are left out.
///
/// Run variance: pooled within sessions, `d0 = min(df / 2, 12)`. Session variance: the analysis-of-variance
/// estimator of the unbalanced one-way random effects model (Searle 1971, chapter 9), pooled over releases, moderated
/// by `assumed`.
pub fn noise(history: &[Vec<Vec<f64>>], baseline: &[Vec<f64>], assumed: SessionPrior) -> Noise {
    let latest = history.get(history.len().saturating_sub(RELEASES)..).unwrap_or_default();
    let mut releases: Vec<Vec<Vec<f64>>> = latest.iter().map(|release| observed(release)).collect();
    let earlier = within(&releases);
    releases.push(observed(baseline));
    let session = earlier
        .or_else(|| within(&releases))
        .and_then(|(run_variance, _)| between(&releases, run_variance))
        .map_or(assumed, |(estimate, sessions)| assumed.updated(estimate, sessions));
    let run = earlier.map_or_else(RunPrior::default, |(variance, df)| RunPrior { variance, df: weight(df) });
    Noise { run, session }
}

/// The sessions with their finite runs; empty ones are left out.
fn observed(sessions: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let finite = |session: &Vec<f64>| session.iter().copied().filter(|y| y.is_finite()).collect::<Vec<f64>>();
    sessions.iter().map(finite).filter(|session| !session.is_empty()).collect()
}

/// The pooled variance inside sessions and its degrees of freedom; `None` without a session of two runs.
fn within(releases: &[Vec<Vec<f64>>]) -> Option<(f64, f64)> {
    let (squares, freedom) = releases
        .iter()
        .flatten()
        .fold((0.0, 0.0), |(squares, freedom), runs| (squares + sum_of_squares(runs), freedom + df(runs.len())));
    (freedom > 0.0).then(|| (squares / freedom, freedom))
}

/// The variance between the sessions of a release and its degrees of freedom; `None` without a release of two.
fn between(releases: &[Vec<Vec<f64>>], run_variance: f64) -> Option<(f64, f64)> {
    let (mut squares, mut freedom, mut size) = (0.0, 0.0, 0.0);
    for sessions in releases.iter().filter(|sessions| sessions.len() > 1) {
        let runs: f64 = sessions.iter().map(|session| real(session.len())).sum();
        let centre = sessions.iter().flatten().sum::<f64>() / runs;
        squares += sessions.iter().map(|session| real(session.len()) * (mean(session) - centre).powi(2)).sum::<f64>();
        freedom += df(sessions.len());
        size += runs - sessions.iter().map(|session| real(session.len()).powi(2)).sum::<f64>() / runs;
    }
    // MSB estimates run variance + n0 * session variance, with n0 = size / freedom.
    (freedom > 0.0).then(|| (((squares - freedom * run_variance) / size).max(0.0), freedom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }

    fn releases() -> Vec<Vec<Vec<f64>>> {
        vec![
            vec![vec![5.3, 5.32, 5.31], vec![5.34, 5.33, 5.36]],
            vec![vec![5.21, 5.2, 5.23], vec![5.22, 5.21, 5.19]],
            vec![vec![5.41, 5.4, 5.42], vec![5.37, 5.39, 5.38]],
        ]
    }

    #[test]
    fn three_releases_of_two_sessions() {
        // numpy 2.4.6.
        let found = noise(&releases(), &[], SessionPrior::default());
        near(found.run.variance, 0.000_166_666_666_666_666);
        near(found.run.df, 6.0);
        near(found.session.variance, 0.000_351_587_301_587_306_6);
        near(found.session.df, 7.0);
        assert!(!found.session.assumed);
    }

    #[test]
    fn groups_of_one_session_give_the_run_variance_and_the_session_is_assumed() {
        // numpy 2.4.6.
        let groups = [[5.3, 5.33, 5.31], [5.25, 5.29, 5.27], [5.41, 5.36, 5.4], [5.22, 5.24, 5.19], [5.31, 5.27, 5.3]];
        let history: Vec<Vec<Vec<f64>>> = groups.iter().map(|group| vec![group.to_vec()]).collect();
        let found = noise(&history, &[], SessionPrior::default());
        near(found.run.variance, 0.000_48);
        near(found.run.df, 5.0);
        assert_eq!(found.session, SessionPrior { variance: 0.02 * 0.02, df: 4.0, assumed: true });
    }

    #[test]
    fn without_history_the_sessions_of_the_baseline_are_the_evidence() {
        assert_eq!(noise(&[], &[], SessionPrior::default()), Noise::default());
        // Two sessions of one run: their distance may be run noise alone.
        assert!(noise(&[], &[vec![5.0], vec![5.1]], SessionPrior::default()).session.assumed);
        let baseline = [vec![5.0, 5.01], vec![5.1, 5.11]];
        let found = noise(&[], &baseline, SessionPrior::default());
        assert_eq!(found.run, RunPrior::default());
        // MSB = 2 * 2 * 0.05^2 = 0.01, run variance 0.00005, n0 = 2: larger than what the assumption would make of it.
        near(found.session.variance, (0.01 - 0.000_05) / 2.0);
        near(found.session.df, 5.0);
    }

    #[test]
    fn old_releases_and_failed_runs_do_not_count_and_the_weight_is_capped() {
        let mut history = vec![vec![vec![1.0, 9.0]]];
        history.extend((0..12).map(|_| vec![vec![5.0, 5.02, 5.01, f64::INFINITY, f64::NAN], vec![]]));
        let found = noise(&history, &[], SessionPrior::default());
        near(found.run.variance, 0.000_1);
        near(found.run.df, 12.0);
        assert!(found.session.assumed);
    }

    #[test]
    fn session_variance_is_never_negative_and_shrinks_towards_the_assumption() {
        let history = [vec![vec![5.0, 5.1], vec![5.1, 5.0]]];
        let found = noise(&history, &[], SessionPrior::default()).session;
        near(found.variance, 4.0 * 0.0004 / 5.0);
        near(found.df, 5.0);
    }
}

//! The comparison of two shares of failed requests, by their difference.
//!
//! Failures come in bursts, so requests are no independent draws: the scatter of the counts between runs tells how
//! many independent requests they are worth.

use crate::stats::history::weight;
use crate::stats::p_value::PValue;
use crate::stats::sample::df;
use crate::stats::student;

/// The p-values lie between this and one minus this.
const ALPHA_FLOOR: f64 = 1e-9;

/// Halvings of the search for a p-value: from the widest bracket (one degree of freedom) to the last digit.
const HALVINGS: usize = 100;

/// The requests of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Requests that failed; more than were attempted count as all.
    pub failed: u64,
    /// Requests that were attempted.
    pub attempted: u64,
}

impl Count {
    /// Of no run.
    pub const NONE: Self = Self { failed: 0, attempted: 0 };

    /// Of both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            failed: self.failed.saturating_add(other.failed),
            attempted: self.attempted.saturating_add(other.attempted),
        }
    }
}

/// The runs of a comparison. Runs without requests are left out.
#[derive(Clone, Copy, Debug)]
pub struct Counts<'a> {
    /// The baseline: stored runs and controls.
    pub baseline: &'a [Count],
    /// The candidate.
    pub candidate: &'a [Count],
    /// Runs of earlier releases; they say only how far counts scatter.
    pub history: &'a [Count],
}

/// The difference of two error rates and its test against an absolute margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorRates {
    /// The baseline's rate.
    pub baseline: f64,
    /// The candidate's rate.
    pub candidate: f64,
    /// Lower one-sided limit of candidate minus baseline.
    pub lower: f64,
    /// Upper one-sided limit of candidate minus baseline.
    pub upper: f64,
    /// How many requests are worth one independent one; at least 1.
    pub design_effect: f64,
    /// Degrees of freedom of the limits.
    pub df: f64,
    /// Small when the difference is shown above the margin.
    pub p_fail: PValue,
    /// Small when the difference is shown below the margin.
    pub p_pass: PValue,
}

/// Tests whether the candidate's error rate exceeds the baseline's by more than `margin` (absolute: 0.01 is one
/// point). The limits are one-sided at level `alpha`.
///
/// Limits: Newcombe 1998, method 10 (hybrid score), on counts divided by the design effect, with a t quantile for
/// the normal one. The p-values are the levels at which a limit meets the margin, found by bisection between 1e-9
/// and 1 - 1e-9; beyond level one half a limit crosses the estimate, so the two add up to 1.
///
/// `None` when a side has no request, or the scatter between runs has less than one degree of freedom.
pub fn error_rates(counts: &Counts<'_>, margin: f64, alpha: f64) -> Option<ErrorRates> {
    let (baseline, candidate) = (Side::of(counts.baseline)?, Side::of(counts.candidate)?);
    let history = Side::of(counts.history).filter(|history| history.df > 0.0);
    let (prior_df, prior_dispersion) =
        history.map_or((0.0, 1.0), |history| (weight(history.df), (history.dispersion / history.df).max(1.0)));
    let df = prior_df + baseline.df + candidate.df;
    if df < 1.0 {
        return None;
    }
    let design_effect = ((prior_df * prior_dispersion + baseline.dispersion + candidate.dispersion) / df).max(1.0);
    let shares = (baseline.share(design_effect), candidate.share(design_effect));
    let z = student::upper_quantile(alpha, df);
    // The upper limit at z is the lower one at -z.
    let limit = |z: f64| lower_limit(shares.1, shares.0, z);
    let p_fail = student::sf(crossing(limit, margin, df), df);
    Some(ErrorRates {
        baseline: baseline.rate,
        candidate: candidate.rate,
        lower: limit(z),
        upper: limit(-z),
        design_effect,
        df,
        p_fail: PValue::nearest(p_fail),
        p_pass: PValue::nearest(1.0 - p_fail),
    })
}

/// The `z` at which a falling limit meets the margin, or the nearer end of the range of levels.
fn crossing(limit: impl Fn(f64) -> f64, margin: f64, df: f64) -> f64 {
    let end = student::upper_quantile(ALPHA_FLOOR, df);
    let (mut low, mut high) = (-end, end);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if limit(middle) > margin {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The runs of one side, put together.
struct Side {
    rate: f64,
    attempted: f64,
    /// Pearson's statistic of the runs' counts against the common rate.
    dispersion: f64,
    df: f64,
}

impl Side {
    fn of(runs: &[Count]) -> Option<Self> {
        let runs: Vec<(f64, f64)> = runs
            .iter()
            .filter(|run| run.attempted > 0)
            .map(|run| (real(run.failed.min(run.attempted)), real(run.attempted)))
            .collect();
        let failed: f64 = runs.iter().map(|(failed, _)| failed).sum();
        let attempted: f64 = runs.iter().map(|(_, attempted)| attempted).sum();
        let rate = failed / attempted;
        let scatter = |(failed, n): &(f64, f64)| (failed - n * rate).powi(2) / (n * rate * (1.0 - rate));
        let dispersion = if rate > 0.0 && rate < 1.0 { runs.iter().map(scatter).sum() } else { 0.0 };
        (attempted > 0.0).then(|| Self { rate, attempted, dispersion, df: df(runs.len()) })
    }

    fn share(&self, design_effect: f64) -> Share {
        Share { rate: self.rate, requests: self.attempted / design_effect }
    }
}

/// A rate and the independent requests it is worth.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) rate: f64,
    pub(super) requests: f64,
}

impl Share {
    /// The score limit below the rate for `z > 0`, above it for `z < 0` (Wilson 1927).
    pub(super) fn score_limit(self, z: f64) -> f64 {
        let Self { rate, requests: n } = self;
        let square = z * z;
        let half = z * (rate * (1.0 - rate) / n + square / (4.0 * n * n)).sqrt();
        ((rate + square / (2.0 * n) - half) / (1.0 + square / n)).clamp(0.0, 1.0)
    }
}

/// The lower limit of `a - b` for `z > 0`; the upper one for `z < 0`.
pub(super) fn lower_limit(a: Share, b: Share, z: f64) -> f64 {
    let distance = (a.rate - a.score_limit(z)).hypot(b.rate - b.score_limit(-z));
    a.rate - b.rate - distance.copysign(z)
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    fn runs(failed: &[u64]) -> Vec<Count> {
        failed.iter().map(|&failed| Count { failed, attempted: 300 }).collect()
    }

    fn test(baseline: &[u64], candidate: &[u64]) -> ErrorRates {
        let (baseline, candidate) = (runs(baseline), runs(candidate));
        let history = runs(&[0, 1, 1, 0, 2, 0, 1, 0, 0, 1, 0, 2]);
        let counts = Counts { baseline: &baseline, candidate: &candidate, history: &history };
        error_rates(&counts, 0.01, 0.05).unwrap()
    }

    #[test]
    fn limits_are_those_of_newcombe_and_wilson() {
        let z = 1.644_853_626_951_472_7;
        // Newcombe 1998 method 10 in Python: 30 of 1500 against 9 of 1500, one-sided 5 %; then with design effect 2.5.
        let share = |rate: f64, requests: f64| Share { rate, requests };
        let (a, b) = (share(0.02, 1500.0), share(0.006, 1500.0));
        near(lower_limit(a, b, z), 0.007_309_203_786_033_783);
        near(lower_limit(a, b, -z), 0.021_310_151_377_675_49);
        let (a, b) = (share(0.02, 600.0), share(0.006, 600.0));
        near(lower_limit(a, b, z), 0.003_166_290_452_820_556);
        near(lower_limit(a, b, -z), 0.026_263_188_928_756_682);
        // scipy 1.17.1, `binomtest(3, 100).proportion_ci(0.95, "wilson")`; and none of 100.
        let z = 1.959_963_984_540_054;
        near(share(0.03, 100.0).score_limit(z), 0.010_254_524_024_038_925);
        near(share(0.03, 100.0).score_limit(-z), 0.084_519_364_290_527_62);
        near(share(0.0, 100.0).score_limit(-z), 0.036_993_498_206_985_68);
    }

    #[test]
    fn a_clear_rise_a_burst_and_no_errors() {
        // numpy 2.4.6 and scipy 1.17.1.
        let clear = test(&[0, 1, 0, 2, 1], &[14, 11, 9, 16, 12]);
        near(clear.design_effect, 1.0);
        near(clear.lower, 0.029_744_150_734_786_77);
        near(clear.upper, 0.048_851_167_575_658_7);
        assert!(clear.p_fail.get() < 0.001);
        let burst = test(&[0, 1, 0, 2, 1], &[0, 25, 1, 0, 1]);
        near(burst.design_effect, 7.389_175_601_620_527);
        near(burst.lower, -0.005_019_086_145_043_566);
        near(burst.upper, 0.040_637_873_448_516_756);
        assert!(burst.p_fail.get() > 0.05 && burst.p_pass.get() > 0.05);
        let none = test(&[0; 5], &[0; 5]);
        near(none.upper, 0.002_074_695_102_799_065);
        assert!(none.p_pass.get() < 0.001);
    }

    #[test]
    fn a_side_without_requests_or_scatter_cannot_be_tested() {
        let (one, nothing) = (runs(&[1]), [Count { failed: 0, attempted: 0 }]);
        let counts = |baseline, candidate, history| Counts { baseline, candidate, history };
        assert_eq!(error_rates(&counts(&one, &nothing, &one), 0.01, 0.05), None);
        assert_eq!(error_rates(&counts(&[], &one, &one), 0.01, 0.05), None);
        assert_eq!(error_rates(&counts(&one, &one, &[]), 0.01, 0.05), None);
        let all = [Count { failed: 400, attempted: 300 }; 3];
        let found = error_rates(&counts(&one, &all, &[]), 0.01, 0.05).unwrap();
        assert_eq!((found.candidate, found.df), (1.0, 2.0));
        assert!(found.p_fail.get() < 0.01);
    }

    proptest! {
        #[test]
        fn the_tests_agree_with_their_limits(
            baseline in prop::collection::vec(0_u64..40, 2..6), candidate in prop::collection::vec(0_u64..40, 2..6),
            margin in 0.001..0.2, wider in 1.0..3.0,
        ) {
            let (b, c) = (runs(&baseline), runs(&candidate));
            let at = |margin| error_rates(&Counts { baseline: &b, candidate: &c, history: &[] }, margin, 0.05).unwrap();
            let found = at(margin);
            let (p_fail, p_pass) = (found.p_fail.get(), found.p_pass.get());
            prop_assert!((p_fail + p_pass - 1.0).abs() < 1e-12);
            prop_assert!(found.lower <= margin + 1e-9 || p_fail < 0.05);
            prop_assert!(found.lower >= margin - 1e-9 || p_fail > 0.05);
            prop_assert!(found.upper >= margin - 1e-9 || p_pass < 0.05);
            prop_assert!(found.upper <= margin + 1e-9 || p_pass > 0.05);
            prop_assert!(found.lower <= found.upper && found.lower >= -1.0 && found.upper <= 1.0);
            prop_assert!(at(margin * wider).p_fail.get() >= p_fail - 1e-12);
        }
    }
}

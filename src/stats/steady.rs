//! Whether the runs of a side were in a steady state: a warm-up, a heating device or a growing queue shows as a
//! drift between the first and the last third of each run.

use crate::stats::quantile::quantile;
use crate::stats::sample::{SD_FLOOR, df, mean, real, sum_of_squares};
use crate::stats::student;

/// Fewer runs than this show no drift.
const RUNS: usize = 3;

/// The two-sided level of the test.
const LEVEL: f64 = 0.01;

/// The drift of a side's runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// The mean drift over runs, a difference of logarithms; positive is slower at the end.
    pub drift: f64,
    /// The two-sided p-value of no drift (one-sample t-test over runs); NaN where a drift is no number.
    pub p: f64,
    /// False when the drift is shown (`p < 0.01`) and larger than half the margin.
    pub steady: bool,
}

/// The drift of one run: the logarithm of the median of the last third of its values over that of the first third.
///
/// `values` are in the order of the run's schedule; a failed request (`+inf`) counts as `time_out`. Thirds are of
/// `floor(n / 3)` values. `None` for fewer than three values or medians without a logarithm.
pub fn drift(values: &[f64], time_out: f64) -> Option<f64> {
    let third = values.len().div_euclid(3);
    let median = |part: &[f64]| quantile(&mut part.iter().map(|value| value.min(time_out)).collect::<Vec<f64>>(), 0.5);
    let first = median(values.get(..third)?)?;
    let last = median(values.get(values.len() - third..)?)?;
    Some((last / first).ln()).filter(|drift| drift.is_finite())
}

/// Tests the drifts of a side's runs against half the relative `margin` of the check. `None` for fewer than three
/// runs, which show nothing.
pub fn steadiness(drifts: &[f64], margin: f64) -> Option<Steadiness> {
    if drifts.len() < RUNS {
        return None;
    }
    let freedom = df(drifts.len());
    let drift = mean(drifts);
    let variance = (sum_of_squares(drifts) / freedom).max(SD_FLOOR * SD_FLOOR);
    let t = drift / (variance / real(drifts.len())).sqrt();
    let p = 2.0 * student::sf(t.abs(), freedom);
    // Written so that a drift that is not a number is not steady.
    let steady = drift.abs() <= margin / 2.0 || p >= LEVEL;
    Some(Steadiness { drift, p, steady })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drift_of_a_run_compares_its_thirds() {
        let values = [10.0, 10.0, 11.0, 50.0, 1.0, 12.0, 12.0, f64::INFINITY];
        // First third 10 10, last third 12 and a failure: the median lies between 12 and the time-out of 30.
        let found = drift(&values, 30.0).unwrap();
        assert!((found - 2.1_f64.ln()).abs() < 1e-12, "{found}");
        assert_eq!(drift(&[1.0, 2.0], 30.0), None);
        assert_eq!(drift(&[0.0, 2.0, 2.0], 30.0), None);
    }

    #[test]
    fn a_drift_must_be_both_shown_and_large() {
        // By hand: mean 0.04, standard error 0.002 / sqrt(3) by the floor, t = 34.641 with 2 df.
        let shown = steadiness(&[0.04; 3], 0.05).unwrap();
        assert!((shown.p - 8.322e-4).abs() < 1e-6 && !shown.steady, "{shown:?}");
        assert!(steadiness(&[0.04; 3], 0.1).unwrap().steady, "smaller than half the margin");
        assert!(steadiness(&[0.1, -0.02, 0.04], 0.05).unwrap().steady, "not shown");
        assert!(!steadiness(&[-0.04; 5], 0.05).unwrap().steady, "a run that speeds up is no steady state either");
        assert!(!steadiness(&[0.04, f64::NAN, 0.04], 0.05).unwrap().steady);
        assert_eq!(steadiness(&[0.04; 2], 0.05), None);
    }
}

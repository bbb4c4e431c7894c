//! Whether the runs of a side were in a steady state: a warm-up, a heating device or a growing queue shows as a
//! drift between the first and the last third of each run.

use std::collections::BTreeMap;

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

/// The drift of one run whose values are of several kinds that come more often early or late, as the turns of sessions do:
/// that of [`drift`] within each kind, between the same thirds of the run, weighted by the fewer of its values in the two
/// thirds. Values of one kind have the drift of [`drift`].
pub fn drift_within<K: Ord>(values: &[(K, f64)], time_out: f64) -> Option<f64> {
    let third = values.len().div_euclid(3);
    let mut kinds: BTreeMap<&K, [Vec<f64>; 2]> = BTreeMap::new();
    for (place, part) in [values.get(..third)?, values.get(values.len() - third..)?].into_iter().enumerate() {
        for (kind, value) in part {
            kinds.entry(kind).or_default().get_mut(place)?.push(value.min(time_out));
        }
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for [mut first, mut last] in kinds.into_values() {
        let weight = real(first.len().min(last.len()));
        let medians = quantile(&mut first, 0.5).zip(quantile(&mut last, 0.5)).filter(|_| weight > 0.0);
        if let Some((first, last)) = medians {
            sum += weight * (last / first).ln();
            weights += weight;
        }
    }
    Some(sum / weights).filter(|drift| drift.is_finite())
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
    fn kinds_that_come_early_or_late_are_no_drift() {
        let values = [10.0, 10.0, 11.0, 50.0, 1.0, 12.0, 12.0, f64::INFINITY];
        let one_kind: Vec<((), f64)> = values.iter().map(|value| ((), *value)).collect();
        assert_eq!(drift_within(&one_kind, 30.0), drift(&values, 30.0));
        // Kind 1 early, kind 2 late, and no slower: a third of 4 values.
        let mut kinds = vec![
            (1, 5.0),
            (1, 5.0),
            (1, 5.0),
            (2, 9.0),
            (1, 5.0),
            (2, 9.0),
            (1, 5.0),
            (2, 9.0),
            (2, 9.0),
            (1, 5.0),
            (2, 9.0),
            (2, 9.0),
        ];
        assert_eq!(drift_within(&kinds, 30.0), Some(0.0));
        kinds[9].1 = 10.0;
        // Kind 1: 5 to 10 with weight 1; kind 2: no change with weight 1.
        assert!((drift_within(&kinds, 30.0).unwrap() - 2.0_f64.ln() / 2.0).abs() < 1e-12);
        assert_eq!(drift_within(&[(1, 5.0), (1, 5.0), (2, 9.0)], 30.0), None, "no kind is in both");
        assert_eq!(drift_within::<()>(&[], 30.0), None);
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

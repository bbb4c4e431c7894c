//! One number out of the many values of a run: quantiles and the mean of the slowest twentieth.
//!
//! A failed request is `+inf`: infinitely slow, and part of the count.

use crate::stats::sample::{mean, real};

/// The quantile of type 7 (Hyndman and Fan 1996; the default of numpy and R) at `level`, in the unit of the values.
///
/// With `h = (n - 1) level` it interpolates between the order statistics around `h`; where `h` lies between a finite
/// value and `+inf`, the quantile is `+inf`. A NaN or negative value is no measurement and counts as failed.
/// `None` without values or with a level outside `[0, 1]`. Linear time; reorders `values`.
pub fn quantile(values: &mut [f64], level: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&level) {
        return None;
    }
    reject_impossible(values);
    let (index, fraction) = position(values.len().checked_sub(1)?, level);
    let (_, lower, above) = values.select_nth_unstable_by(index, f64::total_cmp);
    let lower = *lower;
    if fraction <= 0.0 || lower.is_infinite() {
        return Some(lower);
    }
    let upper = above.iter().copied().fold(f64::INFINITY, f64::min);
    Some(lower + fraction * (upper - lower))
}

/// The order statistic at or below `last * level`, and the fraction of the way to the next one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number between 0 and `last`")]
fn position(last: usize, level: f64) -> (usize, f64) {
    let h = real(last) * level;
    let nearest = h.round();
    // 100 * 0.07 is a little above 7; without this the rounding error alone could reach for an infinite neighbour.
    let h = if (h - nearest).abs() <= 2.0 * f64::EPSILON * h { nearest } else { h };
    ((h.floor() as usize).min(last), h.fract())
}

/// `tail05`: the mean of the natural logarithms of the slowest `ceil(n / 20)` values, where a failed request counts
/// as `time_out` (in the unit of the values).
///
/// A NaN or negative value counts as failed. Zero has no logarithm: the caller clamps values to the clock's
/// resolution. `None` without values. Linear time; reorders `values`; the result does not depend on their order.
pub fn tail05(values: &mut [f64], time_out: f64) -> Option<f64> {
    reject_impossible(values);
    let slowest = values.len().div_ceil(20);
    let first = values.len().checked_sub(slowest.max(1))?;
    values.select_nth_unstable_by(first, f64::total_cmp);
    let tail = values.get_mut(first..)?;
    tail.sort_unstable_by(f64::total_cmp);
    let logs: Vec<f64> = tail.iter().map(|&value| if value.is_finite() { value } else { time_out }.ln()).collect();
    Some(mean(&logs))
}

fn reject_impossible(values: &mut [f64]) {
    for value in values {
        if value.is_nan() || *value < 0.0 {
            *value = f64::INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWENTY: [f64; 20] = [
        200.4, 215.87, 187.07, 160.35, 178.81, 156.35, 203.37, 280.07, 177.14, 171.55, 226.44, 219.03, 205.69, 158.76,
        198.88, 238.37, 143.16, 178.68, 124.55, 145.13,
    ];

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy 2.4.6, `quantile(x, p, method="linear")`.
        for (level, expected) in [(0.0, 124.55), (0.25, 159.9525), (0.5, 182.94), (0.9, 227.633), (0.95, 240.455)] {
            let found = quantile(&mut TWENTY.clone(), level).unwrap();
            assert!((found - expected).abs() < 1e-12, "{level}: {found}");
        }
        assert_eq!(quantile(&mut [42.0], 0.99), Some(42.0));
        assert_eq!(quantile(&mut [3.0, 5.0, 5.0, 7.0, 8.0, 8.0, 8.0, 10.0, 12.0, 15.0], 0.5), Some(8.0));
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [1.0], f64::NAN), None);
    }

    #[test]
    fn a_quantile_that_touches_a_failed_request_is_infinite() {
        let mut values = TWENTY;
        for value in &mut values {
            if *value > 220.0 {
                *value = f64::INFINITY;
            }
        }
        let mut at = |level| quantile(&mut values, level).unwrap();
        assert!((at(0.8) - 216.502).abs() < 1e-12);
        assert_eq!((at(0.85), at(0.95)), (f64::INFINITY, f64::INFINITY));
        // 100 * 0.07 is 7.000000000000001 in doubles; the 0-based 7th value is finite.
        let mut values: Vec<f64> = (0..101).map(|i| if i < 8 { f64::from(i) } else { f64::INFINITY }).collect();
        assert_eq!(quantile(&mut values, 0.07), Some(7.0));
        assert_eq!(quantile(&mut [1.0, f64::NAN, -1.0], 0.5), Some(f64::INFINITY));
    }

    #[test]
    fn the_tail_mean_takes_the_slowest_twentieth_and_counts_failures_as_time_outs() {
        assert!((tail05(&mut TWENTY.clone(), 1e4).unwrap() - 5.635_039_571_924_457).abs() < 1e-12);
        let mut failed = TWENTY;
        failed[3] = f64::INFINITY;
        assert!((tail05(&mut failed, 1e4).unwrap() - 1e4_f64.ln()).abs() < 1e-12);
        let mut twenty_one: Vec<f64> = (1..=21).map(f64::from).collect();
        assert!((tail05(&mut twenty_one, 1e4).unwrap() - (20.0_f64 * 21.0).ln() / 2.0).abs() < 1e-12);
        assert_eq!(tail05(&mut [], 1e4), None);
    }

    proptest! {
        #[test]
        fn selection_agrees_with_sorting(mut values in prop::collection::vec(0.0..1e4, 1..60), level in 0.0..=1.0) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let (index, fraction) = position(sorted.len() - 1, level);
            let next = sorted[(index + 1).min(sorted.len() - 1)];
            let expected = sorted[index] + fraction * (next - sorted[index]);
            prop_assert!((quantile(&mut values, level).unwrap() - expected).abs() < 1e-9);
        }

        #[test]
        fn quantiles_rise_with_the_level_and_scale_with_the_values(
            values in prop::collection::vec(0.0..1e4, 1..60), a in 0.0..=1.0, b in 0.0..=1.0, scale in 0.01..100.0_f64,
        ) {
            let at = |level: f64| quantile(&mut values.clone(), level).unwrap();
            prop_assert!(at(f64::min(a, b)) <= at(f64::max(a, b)) + 1e-9);
            let mut scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            prop_assert!((quantile(&mut scaled, a).unwrap() - scale * at(a)).abs() < 1e-9 * scale * 1e4);
        }
    }
}

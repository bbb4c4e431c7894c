//! Means and sums of squares of a few runs, and the variance floor that all tests share.

/// The smallest standard deviation of a run's log summary that is believed: 0.2 %. A mock server or a coarse
/// timer shows none at all.
pub(super) const SD_FLOOR: f64 = 0.002;

/// A number of things as a real number.
#[expect(clippy::cast_precision_loss, reason = "counts of runs and requests are far below 2^53")]
pub(super) fn real(count: usize) -> f64 {
    count as f64
}

/// The arithmetic mean; NaN of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len())
}

/// The sum of squared distances from the mean (two passes, so that close values keep their digits); 0 of nothing.
pub(super) fn sum_of_squares(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

/// Degrees of freedom that `runs` values leave after their mean is taken.
pub(super) fn df(runs: usize) -> f64 {
    real(runs.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_values_keep_their_digits() {
        let values = [5.3, 5.33, 5.31].map(|y| y + 1e6);
        assert!((sum_of_squares(&values) - 0.000_466_667).abs() < 1e-8);
        assert_eq!((sum_of_squares(&[]), df(0), df(3)), (0.0, 0.0, 2.0));
        assert!(mean(&[]).is_nan());
    }
}

//! How irregular a process is.

use crate::stats::sample::{mean, real, sum_of_squares};

/// The coefficient of variation: the standard deviation (divisor `n - 1`) over the mean.
///
/// Of the gaps between arrivals it is 0 for a clock, 1 for a Poisson process and above 1 for bursts; its square is
/// the index of dispersion of intervals at lag 1 (Cox and Lewis 1966, section 4.2). `None` with fewer than two values
/// or a mean that is not above zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let (free, centre) = (values.len().checked_sub(1).filter(|free| *free > 0)?, mean(values));
    (centre > 0.0).then(|| (sum_of_squares(values) / real(free)).sqrt() / centre)
}

/// The index of dispersion of counts: the variance (divisor `n - 1`) of the counts of consecutive windows over their mean
/// (Cox and Lewis 1966, section 4.5). `instants` are seconds from 0 in order; only whole windows before `end` count.
///
/// 1 for a Poisson process, above 1 for bursts. `None` with fewer than ten windows or without arrivals in them.
pub fn index_of_dispersion(instants: &[f64], window: f64, end: f64) -> Option<f64> {
    let windows = (end / window).floor();
    if windows.is_nan() || windows < 10.0 {
        return None;
    }
    let place = |instant: &f64| (instant / window).floor();
    let inside = instants.partition_point(|instant| place(instant) < windows);
    let counts = instants
        .get(..inside)?
        .chunk_by(|one, other| place(one).total_cmp(&place(other)).is_eq())
        .map(|all| real(all.len()));
    let (sum, squares) = counts.fold((0.0, 0.0), |(sum, squares), count| (sum + count, squares + count * count));
    let mean = sum / windows;
    (sum > 0.0).then(|| (squares - windows * mean * mean).max(0.0) / (windows - 1.0) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_none_and_a_burst_more_than_one() {
        assert_eq!(coefficient_of_variation(&[2.0, 2.0, 2.0]), Some(0.0));
        // Mean 2, squared distances 1 + 1, divisor 1.
        assert!((coefficient_of_variation(&[1.0, 3.0]).unwrap() - 2.0_f64.sqrt() / 2.0).abs() < 1e-12);
        assert!(coefficient_of_variation(&[0.0, 0.0, 0.0, 9.0]).unwrap() > 1.0);
        assert_eq!([coefficient_of_variation(&[1.0]), coefficient_of_variation(&[0.0, 0.0])], [None, None]);
    }

    #[test]
    fn counts_of_a_clock_do_not_scatter_and_those_of_pairs_twice_as_much() {
        let clock: Vec<f64> = (0..40).map(|second| f64::from(second) + 0.5).collect();
        assert_eq!(index_of_dispersion(&clock, 1.0, 40.0), Some(0.0));
        // Ten windows, two of which have five: mean 1, squares 50, so (50 - 10) / 9.
        let bursts: Vec<f64> = [2.1, 7.1].iter().flat_map(|at| [*at; 5]).collect();
        assert!((index_of_dispersion(&bursts, 1.0, 10.0).unwrap() - 40.0 / 9.0).abs() < 1e-12);
        // What lies behind the last whole window does not count.
        assert_eq!(index_of_dispersion(&[0.5, 10.2, 10.3], 1.0, 10.9), index_of_dispersion(&[0.5], 1.0, 10.0));
        assert_eq!([index_of_dispersion(&clock, 5.0, 40.0), index_of_dispersion(&[], 1.0, 40.0)], [None, None]);
    }
}

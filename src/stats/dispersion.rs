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
}

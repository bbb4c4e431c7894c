//! When requests are due. Open-loop schedules are fixed before the run and never rescaled to what the
//! target or the generator manages.

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::spec::workload::Load;

/// Due instants from the cell's start, in order: the first `count` arrivals of the process, or nothing
/// in the closed loop. They are whole microseconds, the resolution in which due times are stored.
///
/// A Poisson process has independent exponential gaps with mean `1 / rate`, the first of them before
/// its first arrival.
pub(super) fn due(load: Load, count: u32, stream: &mut Stream) -> Vec<Option<Nanos>> {
    let mut clock = 0.0;
    (0..count)
        .map(|number| match load {
            Load::Closed { .. } => None,
            Load::Poisson { rate } => {
                clock += stream.exponential() / rate;
                Some(Nanos::from_seconds(clock).to_stored_resolution())
            }
            // Multiplied, not summed, so that rounding does not add up.
            Load::Constant { rate } => Some(Nanos::from_seconds(f64::from(number) / rate).to_stored_resolution()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand seconds")]
    fn second(instant: Nanos) -> usize {
        instant.as_secs() as usize
    }

    /// Arrivals per window of one second.
    fn counts(load: Load, arrivals: u32, seconds: usize) -> Vec<f64> {
        let mut counts = vec![0.0; seconds];
        for instant in due(load, arrivals, &mut Stream::named(5, "arrivals")).into_iter().flatten() {
            if let Some(count) = counts.get_mut(second(instant)) {
                *count += 1.0;
            }
        }
        counts
    }

    /// Mean, and variance over mean (index of dispersion; 1 for a Poisson process).
    fn dispersion(counts: &[f64]) -> (f64, f64) {
        let n = f64::from(u32::try_from(counts.len()).unwrap());
        let mean = counts.iter().sum::<f64>() / n;
        (mean, counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n / mean)
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_a_dispersion_of_one() {
        let (mean, index) = dispersion(&counts(Load::Poisson { rate: 20.0 }, 42_000, 2_000));
        // Standard errors: 0.1 for the mean, sqrt(2 / 2000) = 0.03 for the index.
        assert!((mean - 20.0).abs() < 0.4, "{mean}");
        assert!((index - 1.0).abs() < 0.12, "{index}");
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced_for_hours() {
        let (mean, index) = dispersion(&counts(Load::Constant { rate: 20.0 }, 42_000, 2_000));
        assert!((mean - 20.0).abs() < 1e-9 && index.abs() < 1e-9, "{mean} {index}");
        let thirds = due(Load::Constant { rate: 3.0 }, 36_001, &mut Stream::named(5, "thirds"));
        assert_eq!(thirds[1], Some(Nanos::from_micros(333_333)));
        assert_eq!(thirds[36_000], Some(Nanos::from_secs(12_000)));
    }

    #[test]
    fn instants_never_fall_and_the_closed_loop_has_none() {
        let instants = due(Load::Poisson { rate: 5_000.0 }, 5_000, &mut Stream::named(6, "order"));
        assert!(instants.is_sorted() && instants[0] > Some(Nanos::ZERO));
        assert_eq!(due(Load::Closed { concurrency: 8 }, 2, &mut Stream::named(6, "none")), [None, None]);
    }
}

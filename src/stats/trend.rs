//! Whether a series rises: a queue that grows shows in latency long before it breaks a limit.

use crate::stats::quantile::quantile;
use crate::stats::sample::real;

/// Consecutive parts of a series whose medians are compared: few enough that neighbours hardly tell the same story twice.
const PARTS: usize = 10;

/// The Mann-Kendall test against a rise (Mann 1945, Econometrica 13), on the medians of [`PARTS`] consecutive parts of
/// the series: the chance of at least so many pairs in rising order if every order of the medians were as likely.
///
/// A failed request (`+inf`) counts as `time_out`. Equal medians are no rising pair. The parts are of `floor(n / 10)`
/// values, the last of what is left. `None` for fewer than ten values.
pub fn p_of_a_rise(values: &[f64], time_out: f64) -> Option<f64> {
    let size = values.len().div_euclid(PARTS);
    if size == 0 {
        return None;
    }
    let end = |part: usize| if part + 1 == PARTS { values.len() } else { (part + 1) * size };
    let part = |number: usize| values.get(number * size..end(number));
    let median = |part: &[f64]| quantile(&mut part.iter().map(|value| value.min(time_out)).collect::<Vec<f64>>(), 0.5);
    let medians = (0..PARTS).map(|number| median(part(number)?)).collect::<Option<Vec<f64>>>()?;
    let later = |(at, first): (usize, &f64)| medians.iter().skip(at + 1).filter(|second| *second > first).count();
    let rising: usize = medians.iter().enumerate().map(later).sum();
    Some(chance_of_at_least(rising))
}

/// The chance that a random order of [`PARTS`] different values has at least `pairs` pairs in rising order. Orders by
/// their number of such pairs are the coefficients of the product of `1 + x + ... + x^k` (Knuth, The Art of Computer
/// Programming 3, 5.1.1).
fn chance_of_at_least(pairs: usize) -> f64 {
    let mut chances = vec![1.0];
    for placed in 1..PARTS {
        let mut next = vec![0.0; chances.len() + placed];
        for (before, chance) in chances.iter().enumerate() {
            next.iter_mut().skip(before).take(placed + 1).for_each(|sum| *sum += chance / real(placed + 1));
        }
        chances = next;
    }
    chances.iter().skip(pairs).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::rng::Stream;

    #[test]
    fn chances_are_those_of_kendalls_table() {
        // Kendall, Rank Correlation Methods, table of S for n = 10: P(S >= 45) = 1 / 10!, P(S >= 21) = 0.036, P(S >= 29) = 0.0046,
        // where S = 2 pairs - 45.
        assert!((chance_of_at_least(45) - 1.0 / 3_628_800.0).abs() < 1e-15);
        assert!((chance_of_at_least(33) - 0.036).abs() < 5e-4, "{}", chance_of_at_least(33));
        assert!((chance_of_at_least(37) - 0.0046).abs() < 5e-5, "{}", chance_of_at_least(37));
        assert!((chance_of_at_least(0) - 1.0).abs() < 1e-12);
        assert!((chance_of_at_least(23) - 0.5).abs() < 1e-12, "the distribution is symmetric");
    }

    #[test]
    fn a_growing_queue_rises_and_noise_does_not() {
        let mut noise = Stream::named(1, "trend");
        let growing: Vec<f64> = (0..200).map(|n| 10.0 + f64::from(n) * 0.1 + noise.exponential() * 5.0).collect();
        assert!(p_of_a_rise(&growing, 1e4).unwrap() < 0.01);
        let falling: Vec<f64> = growing.iter().rev().copied().collect();
        assert!(p_of_a_rise(&falling, 1e4).unwrap() > 0.9);
        assert!((p_of_a_rise(&[5.0; 50], 1e4).unwrap() - 1.0).abs() < 1e-12, "equal is no rise");
        assert_eq!(p_of_a_rise(&[1.0; 9], 1e4), None);
        let failing: Vec<f64> =
            (0..100).map(|n| if 10 * (n % 10) < n { f64::INFINITY } else { f64::from(n) }).collect();
        assert!(p_of_a_rise(&failing, 200.0).unwrap() < 0.05, "failures are as slow as the time-out");
    }

    proptest! {
        #[test]
        fn one_independent_series_in_a_hundred_seems_to_rise(seed in 0_u64..10_000) {
            let mut noise = Stream::named(seed, "level");
            let series = |noise: &mut Stream| (0..100).map(|_| noise.log_normal(0.5)).collect::<Vec<f64>>();
            let rises = (0..200).filter(|_| p_of_a_rise(&series(&mut noise), 1e4).unwrap() < 0.01).count();
            // Binomial with at most 1 %: more than 10 of 200 has a chance below 1e-5.
            prop_assert!(rises <= 10, "{rises}");
        }
    }
}

//! Whether a series rises: a queue that grows shows in latency long before it breaks a limit.

use crate::stats::quantile::quantile;
use crate::stats::sample::real;

/// Consecutive parts of a series whose medians are compared: few enough that neighbours hardly tell the same story twice.
const PARTS: usize = 10;

/// How a series rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rise {
    /// The chance of so many rises by accident, where the values have nothing to do with their order.
    pub p: f64,
    /// What it would add if it went on for another series as long, in the unit of the values.
    pub growth: f64,
    /// The median of the last third over that of the first.
    pub ratio: f64,
}

/// The rise of a series, in its order; a failed request (`+inf`) counts as `time_out`.
///
/// `p` is that of the Mann-Kendall test (Mann 1945, Econometrica 13), on the medians of ten consecutive parts: the chance
/// of at least so many pairs in rising order if every order of the medians were as likely. Equal medians are no rising
/// pair. `growth` is one and a half times the difference between the medians of the outer thirds, whose middles are two
/// thirds of the series apart. `None` for fewer than ten values.
pub fn rise(values: &[f64], time_out: f64) -> Option<Rise> {
    let median = |part: &[f64]| quantile(&mut part.iter().map(|value| value.min(time_out)).collect::<Vec<f64>>(), 0.5);
    let cut = |parts: usize, number: usize| (values.len() * number).div_euclid(parts);
    let part = |parts: usize, number: usize| values.get(cut(parts, number)..cut(parts, number + 1)).and_then(median);
    if values.len() < PARTS {
        return None;
    }
    let medians = (0..PARTS).map(|number| part(PARTS, number)).collect::<Option<Vec<f64>>>()?;
    let later = |(at, first): (usize, &f64)| medians.iter().skip(at + 1).filter(|second| *second > first).count();
    let rising: usize = medians.iter().enumerate().map(later).sum();
    let (first, last) = (part(3, 0)?, part(3, 2)?);
    Some(Rise { p: chance_of_at_least(rising), growth: 1.5 * (last - first), ratio: last / first })
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
        let found = rise(&growing, 1e4).unwrap();
        assert!(found.p < 0.01 && (found.growth - 20.0).abs() < 4.0, "{found:?}");
        let falling: Vec<f64> = growing.iter().rev().copied().collect();
        assert!(rise(&falling, 1e4).unwrap().p > 0.9);
        assert!((rise(&[5.0; 50], 1e4).unwrap().p - 1.0).abs() < 1e-12, "equal is no rise");
        assert_eq!(rise(&[1.0; 9], 1e4), None);
        let failing: Vec<f64> =
            (0..100_u32).map(|n| if 10 * (n % 10) < n { f64::INFINITY } else { f64::from(n) }).collect();
        assert!(rise(&failing, 200.0).unwrap().p < 0.05, "failures are as slow as the time-out");
    }

    proptest! {
        #[test]
        fn one_independent_series_in_a_hundred_seems_to_rise(seed in 0_u64..10_000) {
            let mut noise = Stream::named(seed, "level");
            let series = |noise: &mut Stream| (0..100).map(|_| noise.log_normal(0.5)).collect::<Vec<f64>>();
            let rises = (0..200).filter(|_| rise(&series(&mut noise), 1e4).unwrap().p < 0.01).count();
            // Binomial with at most 1 %: more than 10 of 200 has a chance below 1e-5.
            prop_assert!(rises <= 10, "{rises}");
        }
    }
}

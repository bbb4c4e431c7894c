//! How far apart two samples are, and how two numbers of a thing go together.

use crate::stats::sample::{mean, real};

/// The two-sample distance of Kolmogorov and Smirnov: the largest difference of the two empirical distribution functions.
///
/// Equal values of both samples are passed together. From 0 to 1, without unit. `None` when a sample is empty or holds a NaN.
pub fn kolmogorov_smirnov(one: &[f64], other: &[f64]) -> Option<f64> {
    let [one, other] = [sorted(one)?, sorted(other)?];
    let (mut at, mut beside, mut largest) = (0_usize, 0_usize, 0.0_f64);
    while let Some(value) = smaller(one.get(at), other.get(beside)) {
        at = passed(&one, at, value);
        beside = passed(&other, beside, value);
        largest = largest.max((real(at) / real(one.len()) - real(beside) / real(other.len())).abs());
    }
    Some(largest)
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty() && !values.iter().any(|value| value.is_nan())).then_some(values)
}

fn smaller(one: Option<&f64>, other: Option<&f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(*other)),
        (Some(one), None) | (None, Some(one)) => Some(*one),
        (None, None) => None,
    }
}

/// How many of the sorted values from `at` on are behind once those equal to `value` are.
fn passed(values: &[f64], at: usize, value: f64) -> usize {
    let equal = values.get(at..).unwrap_or_default().iter().take_while(|one| **one <= value).count();
    at.saturating_add(equal)
}

/// The distance that two samples of one continuous distribution exceed once in twenty, for large samples: `c sqrt((n + m) /
/// (n m))` with `c = 1.358` (Smirnov 1948). Ties make it smaller.
pub fn kolmogorov_smirnov_by_chance(one: usize, other: usize) -> f64 {
    let (n, m) = (real(one.max(1)), real(other.max(1)));
    (1.358 * ((n + m) / (n * m)).sqrt()).min(1.0)
}

/// The rank correlation of Spearman: the correlation of the ranks, equal values sharing the mean of their ranks.
///
/// From -1 to 1. `None` with fewer than two pairs or when one of the numbers never changes.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let [first, second] = [ranks(&first), ranks(&second)];
    let centre = mean(&first);
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - centre) * (other - centre)).sum()
    };
    let scale = (product(&first, &first) * product(&second, &second)).sqrt();
    (scale > 0.0).then(|| (product(&first, &second) / scale).clamp(-1.0, 1.0))
}

/// Ranks from 1, in the order of the values.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0_usize;
    for equal in order.chunk_by(|one, other| one.1.total_cmp(&other.1).is_eq()) {
        let rank = real(before) + f64::midpoint(1.0, real(equal.len()));
        for (place, _) in equal {
            if let Some(of) = ranks.get_mut(*place) {
                *of = rank;
            }
        }
        before = before.saturating_add(equal.len());
    }
    ranks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn distances_are_those_of_the_textbook() {
        // Empirical distributions by hand: after 2 it is 2/3 to 0, after 3 all to 1/2.
        assert_eq!(kolmogorov_smirnov(&[3.0, 1.0, 2.0], &[3.0, 4.0]), Some(2.0 / 3.0));
        assert_eq!(kolmogorov_smirnov(&[1.0, 1.0, 2.0], &[1.0, 1.0, 2.0]), Some(0.0));
        assert_eq!(kolmogorov_smirnov(&[1.0], &[2.0]), Some(1.0));
        assert_eq!([kolmogorov_smirnov(&[], &[2.0]), kolmogorov_smirnov(&[f64::NAN], &[2.0])], [None, None]);
        assert!((kolmogorov_smirnov_by_chance(100, 100) - 0.192).abs() < 1e-3);
        assert!(kolmogorov_smirnov_by_chance(0, 0) >= 1.0);
    }

    #[test]
    fn ranks_go_together_whatever_the_scale() {
        assert_eq!(spearman(&[(1.0, 10.0), (2.0, 100.0), (3.0, 1e9)]), Some(1.0));
        assert_eq!(spearman(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // scipy.stats.spearmanr([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]).
        let pairs = [(1.0, 5.0), (2.0, 6.0), (3.0, 7.0), (4.0, 8.0), (5.0, 7.0)];
        assert!((spearman(&pairs).unwrap() - 0.820_782_681_668_123_3).abs() < 1e-12);
        assert_eq!([spearman(&[(1.0, 1.0)]), spearman(&[(1.0, 1.0), (2.0, 1.0)])], [None, None]);
    }

    proptest! {
        #[test]
        fn a_distance_is_symmetric_and_of_a_sample_to_itself_none(
            one in prop::collection::vec(0_u8..20, 1..60), other in prop::collection::vec(0_u8..20, 1..60),
        ) {
            let [one, other] = [one, other].map(|all| all.into_iter().map(f64::from).collect::<Vec<_>>());
            let between = kolmogorov_smirnov(&one, &other).unwrap();
            prop_assert!((0.0..=1.0).contains(&between));
            prop_assert_eq!(kolmogorov_smirnov(&other, &one), Some(between));
            prop_assert_eq!(kolmogorov_smirnov(&one, &one), Some(0.0));
        }
    }
}

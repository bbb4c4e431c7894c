//! The slope of one number on another, as the median of the slopes of all pairs (Theil 1950, A rank-invariant method of
//! linear and polynomial regression analysis; Sen 1968, Estimates of the regression coefficient based on Kendall's tau,
//! section 3). Up to 29 % of the points may be anything.
//!
//! The pairs are not made: the points ordered by `x`, so many slopes lie below `t` as `y - t x` has inversions. The number
//! is counted in `n log n` steps, and the slope that has half of the pairs below it is found by bisection.

use crate::stats::sample::real;

/// Halvings of the interval in which a slope is looked for: more than a double has bits.
const HALVINGS: u32 = 80;

/// The median of the slopes of all pairs of points with different `x`, and of the `lost` points that have no `y` because
/// something failed: a pair of these, or with one of these, has the slope `+inf`, whatever its `x`. So one failure more
/// never makes the slope smaller. Whole `x`, finite `y`. None without a pair.
pub fn median_slope(points: &[(u32, f64)], lost: usize) -> Option<f64> {
    let mut points = points.to_vec();
    points.sort_by(|(x, y), (other_x, other_y)| x.cmp(other_x).then(y.total_cmp(other_y)));
    let twins: f64 = points.chunk_by(|(x, _), (other, _)| x == other).map(|group| pairs(group.len())).sum();
    let seen = pairs(points.len()) - twins;
    let all = seen + real(lost) * real(points.len()) + pairs(lost);
    if all < 1.0 {
        return None;
    }
    // The two in the middle, which are one where their number is odd.
    let (low, high) = (((all - 1.0) / 2.0).floor(), (all / 2.0).floor());
    if high >= seen {
        return Some(f64::INFINITY);
    }
    let found = ranked(&points, low);
    Some(if high > low { f64::midpoint(found, ranked(&points, high)) } else { found })
}

/// The slope with `rank` slopes of finite pairs below it.
fn ranked(points: &[(u32, f64)], rank: f64) -> f64 {
    let ys = || points.iter().map(|(_, y)| *y);
    // Different whole numbers lie one apart or more.
    let reach = ys().fold(f64::NEG_INFINITY, f64::max) - ys().fold(f64::INFINITY, f64::min) + 1.0;
    let (mut low, mut high) = (-reach, reach);
    let mut rests = vec![0.0; points.len()];
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        for (rest, (x, y)) in rests.iter_mut().zip(points) {
            *rest = y - middle * f64::from(*x);
        }
        // Points of one `x` stand in the order of their `y`, so they have no inversion.
        if inversions(&mut rests) > rank {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// How many pairs stand in the wrong order; they are in order afterwards. A merge sort.
fn inversions(values: &mut [f64]) -> f64 {
    let (left, right) = values.split_at_mut(values.len().div_ceil(2));
    if right.is_empty() {
        return 0.0;
    }
    let mut count = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut one, mut other) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(from_left), Some(from_right)) = (one.peek(), other.peek()) {
        if from_right < from_left {
            count += real(one.len());
            merged.extend(other.next());
        } else {
            merged.extend(one.next());
        }
    }
    merged.extend(one);
    merged.extend(other);
    values.copy_from_slice(&merged);
    count
}

/// Pairs of so many things.
fn pairs(count: usize) -> f64 {
    real(count) * (real(count) - 1.0).max(0.0) / 2.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, word by word.
    fn of_all_pairs(points: &[(u32, f64)], lost: usize) -> Option<f64> {
        let mut slopes = Vec::new();
        for (index, (x, y)) in points.iter().enumerate() {
            for (other_x, other_y) in &points[index + 1..] {
                if x != other_x {
                    slopes.push((other_y - y) / (f64::from(*other_x) - f64::from(*x)));
                }
            }
        }
        slopes.extend(vec![f64::INFINITY; lost * points.len() + (0..lost).sum::<usize>()]);
        slopes.sort_unstable_by(f64::total_cmp);
        let middle = |all: &[f64]| f64::midpoint(all[(all.len() - 1).div_euclid(2)], all[all.len().div_euclid(2)]);
        (!slopes.is_empty()).then(|| middle(&slopes))
    }

    fn points() -> impl Strategy<Value = Vec<(u32, f64)>> {
        prop::collection::vec((0_u32..40, 0.0..500.0_f64), 0..40)
    }

    #[test]
    fn a_line_has_its_slope_and_outliers_do_not_bend_it() {
        let line: Vec<(u32, f64)> = (1..=40).map(|n| (n * 250, 30.0 + 0.04 * f64::from(n * 250))).collect();
        let near = |points: &[(u32, f64)], lost, expected: f64| {
            let found = median_slope(points, lost).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
        };
        near(&line, 0, 0.04);
        let mut bent = line.clone();
        bent.iter_mut().step_by(8).for_each(|(_, y)| *y = 9_000.0);
        near(&bent, 0, 0.04);
        // Of ten slopes the two in the middle are 0.5 and 1.2.
        near(&[(1, 3.0), (2, 1.0), (3, 4.0), (4, 1.5), (6, 9.0)], 0, 0.85);
        assert_eq!(median_slope(&[(5, 1.0), (5, 2.0)], 0), None);
        assert_eq!(median_slope(&[], 1), None);
    }

    #[test]
    fn many_failures_are_an_infinite_slope() {
        let line: Vec<(u32, f64)> = (1..=40).map(|n| (n, f64::from(n))).collect();
        assert!((median_slope(&line, 4).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(median_slope(&line, 30), Some(f64::INFINITY));
        assert_eq!(median_slope(&[], 2), Some(f64::INFINITY));
    }

    proptest! {
        #[test]
        fn it_is_the_median_of_all_pairs(points in points(), lost in 0_usize..6) {
            match (median_slope(&points, lost), of_all_pairs(&points, lost)) {
                (Some(found), Some(expected)) if expected.is_finite() => prop_assert!((found - expected).abs() < 1e-6, "{} for {}", found, expected),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }

        #[test]
        fn a_failure_never_makes_it_smaller(points in points(), lost in 0_usize..6, which: prop::sample::Index) {
            prop_assume!(!points.is_empty());
            let mut fewer = points.clone();
            fewer.remove(which.index(points.len()));
            if let Some(before) = median_slope(&points, lost) {
                prop_assert!(median_slope(&fewer, lost + 1).unwrap() >= before - 1e-6);
            }
        }
    }
}

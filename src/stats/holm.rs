//! Holm's step-down correction (Holm 1979): the chance of any false rejection among all tests stays below the
//! level, whatever their dependence.

use crate::stats::p_value::PValue;
use crate::stats::sample::real;

/// The adjusted p-values, in the order given: `adj_(i) = max_{j <= i} min(1, (N - j + 1) p_(j))` over the ascending
/// p-values. A test is rejected at a level when its adjusted p-value is at or below the level.
pub fn holm(p: &[PValue]) -> Vec<PValue> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    let number = |index: &usize| p.get(*index).map_or(1.0, |p| p.get());
    order.sort_by(|a, b| number(a).total_cmp(&number(b)));
    let mut adjusted = vec![PValue::ONE; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        largest = largest.max(real(p.len() - rank) * number(index));
        if let Some(slot) = adjusted.get_mut(*index) {
            *slot = PValue::nearest(largest);
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn adjusted(p: &[f64]) -> Vec<f64> {
        let p: Vec<PValue> = p.iter().map(|&p| PValue::new(p).unwrap()).collect();
        holm(&p).into_iter().map(PValue::get).collect()
    }

    #[test]
    fn values_are_those_of_statsmodels() {
        let found = adjusted(&[0.001, 0.04, 0.03, 0.012, 0.2, 0.5, 0.0004, 0.05]);
        let expected = [0.007, 0.16, 0.15, 0.072, 0.4, 0.5, 0.0032, 0.16];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
        assert_eq!(adjusted(&[0.01, 0.01, 1.0, 1.0]), [0.04, 0.04, 1.0, 1.0]);
        assert_eq!(adjusted(&[0.03]), [0.03]);
        assert!(adjusted(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn adjusted_values_keep_the_order_and_never_shrink(p in prop::collection::vec(0.0..=1.0, 0..30)) {
            let found = adjusted(&p);
            for (i, a) in found.iter().enumerate() {
                prop_assert!(*a >= p[i] && *a <= 1.0);
                prop_assert!(*a <= (real(p.len()) * p[i]).min(1.0) + 1e-15, "never worse than Bonferroni");
                for (j, b) in found.iter().enumerate() {
                    prop_assert!(p[i] > p[j] || a <= b);
                }
            }
            let mut reversed = p.clone();
            reversed.reverse();
            let mut back = adjusted(&reversed);
            back.reverse();
            prop_assert_eq!(back, found);
        }
    }
}

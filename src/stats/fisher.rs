//! Fisher's exact test of two shares, one-sided: for events that should never happen, where a handful counts.

use statrs::distribution::{DiscreteCDF as _, Hypergeometric};

use crate::stats::error_rate::Count;
use crate::stats::p_value::PValue;

/// How probable so many or more failures in `candidate` are if both sides fail alike: the upper tail of the
/// hypergeometric distribution that has both sides' failures and requests fixed (Fisher 1922). 1 when a side is
/// empty: nothing shows nothing.
pub fn more_failures(baseline: Count, candidate: Count) -> PValue {
    let [baseline, candidate] =
        [baseline, candidate].map(|count| Count { failed: count.failed.min(count.attempted), ..count });
    let Some(below) = candidate.failed.checked_sub(1) else { return PValue::ONE };
    if baseline.attempted == 0 {
        return PValue::ONE;
    }
    let population = baseline.attempted.saturating_add(candidate.attempted);
    let failed = baseline.failed.saturating_add(candidate.failed);
    Hypergeometric::new(population, failed, candidate.attempted)
        .map_or(PValue::ONE, |drawn| PValue::nearest(drawn.sf(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(b: (u64, u64), c: (u64, u64)) -> f64 {
        let count = |(failed, attempted)| Count { failed, attempted };
        more_failures(count(b), count(c)).get()
    }

    #[test]
    fn it_is_the_hypergeometric_tail() {
        // Fisher's tea: 3 of 4 against 1 of 4, 17/70.
        assert!((p((1, 4), (3, 4)) - 17.0 / 70.0).abs() < 1e-12);
        // All of three failures among a third of the requests: (100*99*98)/(300*299*298).
        assert!((p((0, 200), (3, 100)) - 970_200.0 / 26_730_600.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_shows_nothing() {
        for (b, c) in [((0, 100), (0, 100)), ((0, 0), (5, 5)), ((3, 100), (0, 0)), ((0, 0), (0, 0))] {
            assert!((p(b, c) - 1.0).abs() < 1e-12, "{b:?} {c:?}");
        }
        // More failures than requests count as all.
        assert!((p((9, 4), (9, 4)) - 1.0).abs() < 1e-12);
        assert!(p((0, 50_000), (40, 50_000)) < 1e-9);
    }
}

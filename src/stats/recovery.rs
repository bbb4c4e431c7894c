//! When a series is back at its usual level, and stays there for a while.

use crate::stats::quantile::quantile;

/// Values in a running median, centred on the one it stands for; at the ends of a series as many as there are. Of so many
/// up to ten may be odd. Centred, it keeps the edges of a series in their place (Tukey 1977, Exploratory Data Analysis,
/// chapter 7): it is neither early nor late. It must then be back for as many values in a row.
pub const WINDOW: usize = 21;

/// The place of the first value from which on [`WINDOW`] running medians in a row are at most `limit`; none where there is
/// no such place. Values may be `+inf`; smaller values are never back later.
pub fn back_at(values: &[f64], limit: f64) -> Option<usize> {
    let inside: Vec<bool> = running_medians(values).map(|median| median <= limit).collect();
    inside.windows(WINDOW).position(|all| all.iter().all(|inside| *inside))
}

/// The running medians of a series, one for each value.
fn running_medians(values: &[f64]) -> impl Iterator<Item = f64> {
    let half = WINDOW.div_euclid(2);
    (0..values.len()).map(move |at| {
        let around = values.get(at.saturating_sub(half)..values.len().min(at + half + 1));
        quantile(&mut around.unwrap_or_default().to_vec(), 0.5).unwrap_or(f64::INFINITY)
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// So many slow values, then usual ones.
    fn step(slow: usize, usual: usize) -> Vec<f64> {
        [vec![9.0; slow], vec![1.0; usual]].concat()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        for slow in [11, 30, 59] {
            assert_eq!(back_at(&step(slow, 60), 1.5), Some(slow));
        }
        assert_eq!(back_at(&step(0, 60), 1.5), Some(0));
        // Fewer than half of the first window: the series as a whole was never away.
        assert_eq!(back_at(&step(5, 60), 1.5), Some(0));
        assert_eq!(back_at(&step(60, 20), 1.5), None, "not seen long enough to say so");
        assert_eq!(back_at(&step(60, 21), 1.5), Some(60));
        assert_eq!(back_at(&step(60, 0), 1.5), None);
        assert_eq!(back_at(&[1.0; 20], 1.5), None);
        assert_eq!(back_at(&[], 1.5), None);
    }

    #[test]
    fn a_few_odd_values_move_nothing_and_a_lull_is_no_recovery() {
        let mut odd = step(30, 60);
        for (at, value) in [(3, 1.0), (7, 1.0), (50, f64::INFINITY), (51, 9.0), (52, 9.0), (70, 9.0)] {
            odd[at] = value;
        }
        assert_eq!(back_at(&odd, 1.5), Some(30));
        let lull = [step(30, 20), step(30, 60)].concat();
        assert_eq!(back_at(&lull, 1.5), Some(80));
        // What comes after it was back for long is another matter.
        let relapse = [step(30, 60), step(40, 0)].concat();
        assert_eq!(back_at(&relapse, 1.5), Some(30));
        // A ramp crosses the limit where it does: 1.5 is value 50 of 100 to 51 hundredths less.
        let ramp: Vec<f64> = (0_u32..120).map(|at| 2.0 - 0.01 * f64::from(at)).collect();
        assert_eq!(back_at(&ramp, 1.495), Some(51));
    }

    proptest! {
        #[test]
        fn slower_is_never_back_earlier(values in vec(0.1..3.0_f64, 0..120), at in 0_usize..120, more in 0.0..5.0_f64) {
            let mut slower = values.clone();
            if let Some(value) = slower.get_mut(at) {
                *value += more;
            }
            let place = |values: &[f64]| back_at(values, 1.5).unwrap_or(usize::MAX);
            prop_assert!(place(&slower) >= place(&values));
            prop_assert!(back_at(&values, 1.2).unwrap_or(usize::MAX) >= place(&values));
        }

        #[test]
        fn where_it_is_back_the_next_values_are_mostly_inside(values in vec(0.1..3.0_f64, 42..160)) {
            if let Some(at) = back_at(&values, 1.5) {
                let next = &values[at..at + WINDOW];
                prop_assert!(2 * next.iter().filter(|value| **value <= 1.5).count() >= next.len());
            }
        }
    }
}

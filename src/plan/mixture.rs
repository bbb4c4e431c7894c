//! Which request of a cell is of which class. Classes are stratified as lengths are: of every twenty consecutive requests
//! each class has its share, in random order. So any part of a run sees the same mixture, and the number of requests of a
//! class is its share of the cell's to within one.

use crate::base::rng::Stream;
use crate::spec::workload::{Class, sequence};

/// Requests in which every class has its share.
const BLOCK: usize = 20;

/// The class of each of `count` consecutive requests, as an index into `classes`. Longer lists change nothing but the order
/// within the last block, where it was not full.
pub(super) fn order(classes: &[Class], count: usize, stream: &mut Stream) -> Vec<usize> {
    let mut order: Vec<usize> = sequence(classes).take(count).collect();
    if classes.len() > 1 {
        order.chunks_mut(BLOCK).for_each(|block| stream.shuffle(block));
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::workload::Lengths;

    fn classes(weights: &[f64]) -> Vec<Class> {
        let class = |weight: &f64| Class { weight: *weight, ..Class::only(Lengths::Fixed(1), Lengths::Fixed(1)) };
        weights.iter().map(class).collect()
    }

    fn drawn(weights: &[f64], count: usize, seed: u64) -> Vec<usize> {
        order(&classes(weights), count, &mut Stream::named(seed, "classes"))
    }

    #[test]
    fn every_twenty_requests_have_the_mixture_in_another_order() {
        let order = drawn(&[17.0, 2.0, 1.0], 2_000, 3);
        let mut places = Vec::new();
        for block in order.chunks_exact(20) {
            let of = |class: usize| block.iter().filter(|one| **one == class).count();
            assert_eq!([of(0), of(1), of(2)], [17, 2, 1]);
            places.push(block.iter().position(|class| *class == 2).unwrap());
        }
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 15, "the rare class comes anywhere in a block: {places:?}");
        assert_eq!(drawn(&[3.0], 7, 1), [0; 7]);
        assert_eq!(drawn(&[3.0, 4.0], 0, 1), [0; 0]);
    }

    proptest! {
        #[test]
        fn each_class_has_its_share_to_within_one(weights in prop::collection::vec(0.01..100.0_f64, 1..8), count in 1_usize..900, seed: u64) {
            let order = drawn(&weights, count, seed);
            prop_assert_eq!(order.len(), count);
            let (total, n) = (weights.iter().sum::<f64>(), f64::from(u32::try_from(count).unwrap()));
            for (class, weight) in weights.iter().enumerate() {
                let found = f64::from(u32::try_from(order.iter().filter(|one| **one == class).count()).unwrap());
                prop_assert!((found - n * weight / total).abs() <= 1.0 + 1e-9, "{} of {}", found, n * weight / total);
            }
        }

        #[test]
        fn more_requests_leave_all_full_blocks_as_they_were(weights in prop::collection::vec(0.01..100.0_f64, 1..8), count in 1_usize..300, seed: u64) {
            let (few, many) = (drawn(&weights, count, seed), drawn(&weights, count + 133, seed));
            let full = count - count % 20;
            prop_assert_eq!(&few[..full], &many[..full]);
        }
    }
}

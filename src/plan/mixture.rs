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

    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::request::{PlannedCell, PlannedRequest};
    use crate::plan::{build, fingerprint};
    use crate::spec::read_workload;
    use crate::spec::slice::{Context, Slice};
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

    /// A cell with these classes, each with a prefix that its requests share.
    fn planned(classes: &[(&str, u32)], keys: &str) -> PlannedCell {
        let class = |(name, weight): &(&str, u32)| {
            format!(
                "      - {{name: {name}, weight: {weight}, prompt_tokens: {{uniform: {{min: 40, max: 90}}}}, output_tokens: \
                 {{uniform: {{min: 4, max: 9}}}}, shared_prefix: {{groups: 2, tokens: 20}}}}\n"
            )
        };
        let classes: String = classes.iter().map(class).collect();
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - name: c\n    rate: 5/s\n    {keys}\n    warmup: 40\n    \
             classes:\n{classes}"
        );
        build(&read_workload("w.yaml", &text).unwrap().value).cells.remove(0)
    }

    fn of<'p>(requests: &'p [PlannedRequest], class: &str) -> Vec<&'p PlannedRequest> {
        requests.iter().filter(|request| request.class.as_deref() == Some(class)).collect()
    }

    #[test]
    fn a_class_keeps_its_requests_whatever_stands_beside_it() {
        let [two, three] = [&[("chat", 3), ("paper", 1)][..], &[("paper", 1), ("chat", 3), ("code", 4)]]
            .map(|classes| planned(classes, "requests: 200"));
        let counts = |cell: &PlannedCell| ["chat", "paper", "code"].map(|class| of(&cell.requests, class).len());
        assert_eq!((counts(&two), counts(&three)), ([150, 50, 0], [75, 25, 100]));
        assert_eq!((of(&two.warmup, "chat").len(), of(&two.warmup, "paper").len()), (30, 10));
        for class in ["chat", "paper"] {
            let shapes = |cell: &PlannedCell| -> Vec<_> {
                let all = of(&cell.requests, class).into_iter().take(25);
                all.map(|request| (request.prompt.clone(), request.output_tokens)).collect()
            };
            assert_eq!(shapes(&two), shapes(&three), "{class}");
        }
        // Another order of the file is the same mixture, dealt in another order.
        assert_eq!(three.classes().into_iter().collect::<Vec<_>>(), ["chat", "code", "paper"]);
    }

    #[test]
    fn classes_share_no_prefix_and_fillers_keep_their_class() {
        let cell = planned(&[("chat", 3), ("paper", 1)], "requests: 200");
        let prefixes = |class: &str| -> BTreeSet<u64> {
            let all = of(&cell.requests, class).into_iter().chain(of(&cell.warmup, class));
            all.flat_map(|request| &request.prompt.prefix).map(|part| part.seed).collect()
        };
        let (chat, paper) = (prefixes("chat"), prefixes("paper"));
        assert_eq!((chat.len(), paper.len(), chat.is_disjoint(&paper)), (2, 2, true));
        for n in 0..200 {
            let (filler, shape) = (cell.filler(n).unwrap(), &cell.requests[usize::try_from(n).unwrap()]);
            assert_eq!(filler.class, shape.class);
        }
    }

    #[test]
    fn phases_have_the_classes_of_their_cell_and_a_part_is_found_by_class_and_length() {
        let cell = planned(&[("chat", 3), ("paper", 1)], "requests: 100");
        let of = |class: Option<&str>, context| {
            cell.numbers(&Slice { class: class.map(str::to_owned), context, turn: None })
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some("chat"), None).unwrap().len(), 75);
        assert_eq!(of(Some("book"), None).unwrap().len(), 0);
        let range = Context { from: 60, upto: 70 };
        let long = of(None, Some(range)).unwrap();
        let planned = cell.requests.iter().filter(|request| (60..70).contains(&request.prompt.words));
        assert_eq!(long, planned.map(|request| request.number).collect());
        let both = of(Some("chat"), Some(range)).unwrap();
        assert_eq!(both, long.intersection(&of(Some("chat"), None).unwrap()).copied().collect());
    }

    #[test]
    fn the_names_of_classes_are_part_of_the_fingerprint() {
        let of = |classes: &[(&str, u32)]| fingerprint::of(&[planned(classes, "requests: 40")]);
        let mixed = of(&[("chat", 3), ("paper", 1)]);
        assert_eq!(of(&[("chat", 6), ("paper", 2)]), mixed, "weights count by their shares");
        assert_ne!(of(&[("chat", 3), ("book", 1)]), mixed);
        assert_ne!(of(&[("chat", 2), ("paper", 1)]), mixed);
        let mut renamed = planned(&[("chat", 3), ("paper", 1)], "requests: 40");
        renamed.requests[0].class = Some("other".into());
        assert_ne!(fingerprint::of(&[renamed]), mixed);
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

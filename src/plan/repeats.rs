//! Requests that are sent again, word for word: the positive control of a prefix cache. A cache that works has the whole
//! prompt of a repeat.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use crate::plan::request::PlannedRequest;
use crate::spec::workload::Cell;

/// Makes the requests of each class that repeats another one the same as requests of that class that come earlier in the
/// line, by the distance that the class asks for or more.
///
/// A repeat takes of those the one that was repeated least often, and of these the oldest. Where there is none yet, a measured
/// repeat changes places with the next request that repeats nothing; a repeat in the warm-up keeps words of its own.
pub(super) fn repeat(cell: &Cell, warmup: &mut [PlannedRequest], measured: &mut [PlannedRequest]) {
    let first_measured = warmup.len();
    let repeating: Vec<&str> =
        cell.classes.iter().filter(|class| class.repeats.is_some()).filter_map(|class| class.name.as_deref()).collect();
    let mut line: Vec<&mut PlannedRequest> = warmup.iter_mut().chain(measured).collect();
    for class in &cell.classes {
        let (Some(name), Some(repeats)) = (&class.name, &class.repeats) else { continue };
        let after = usize::try_from(repeats.distance(cell.load)).unwrap_or(usize::MAX);
        let mut firsts = Firsts { class: &repeats.class, known: BinaryHeap::new() };
        for place in 0..line.len() {
            if let Some(earlier) = place.checked_sub(after) {
                firsts.meet(&line, earlier);
            }
            if !is_of(&line, place, name) {
                continue;
            }
            if firsts.known.is_empty() && place >= first_measured && put_off(&mut line, place, &repeating) {
                continue;
            }
            // A cell may be too short to have one so far behind.
            let oldest =
                || (0..place).find(|earlier| place >= first_measured && is_of(&line, *earlier, &repeats.class));
            if let Some(first) = firsts.next().or_else(oldest) {
                copy(&mut line, first, place);
            }
        }
    }
}

/// The requests of a class that are far enough behind to be repeated.
struct Firsts<'a> {
    class: &'a str,
    /// How often each was repeated, and its place.
    known: BinaryHeap<Reverse<(u32, usize)>>,
}

impl Firsts<'_> {
    fn meet(&mut self, line: &[&mut PlannedRequest], place: usize) {
        if is_of(line, place, self.class) {
            self.known.push(Reverse((0, place)));
        }
    }

    fn next(&mut self) -> Option<usize> {
        let Reverse((times, place)) = self.known.pop()?;
        self.known.push(Reverse((times.saturating_add(1), place)));
        Some(place)
    }
}

fn is_of(line: &[&mut PlannedRequest], place: usize, class: &str) -> bool {
    line.get(place).is_some_and(|request| request.class.as_deref() == Some(class))
}

/// Changes places with the next request of a class that repeats nothing; false where there is none.
fn put_off(line: &mut [&mut PlannedRequest], place: usize, repeating: &[&str]) -> bool {
    let mut rest = line.iter_mut().skip(place);
    let Some(request) = rest.next() else { return false };
    let is_free =
        |other: &&mut &mut PlannedRequest| other.class.as_deref().is_some_and(|class| !repeating.contains(&class));
    let Some(other) = rest.find(is_free) else { return false };
    // Numbers and instants belong to the places.
    mem::swap(&mut request.class, &mut other.class);
    mem::swap(&mut request.prompt, &mut other.prompt);
    mem::swap(&mut request.output_tokens, &mut other.output_tokens);
    true
}

fn copy(line: &mut [&mut PlannedRequest], first: usize, place: usize) {
    let same = line.get(first).map(|first| (first.prompt.clone(), first.output_tokens));
    if let (Some((prompt, output_tokens)), Some(request)) = (same, line.get_mut(place)) {
        request.prompt = prompt;
        request.output_tokens = output_tokens;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::build;
    use crate::plan::hit_rate::HitRate;
    use crate::plan::request::PlannedCell;
    use crate::spec::read_workload;
    use crate::spec::slice::Slice;

    fn cell(load: &str, keys: &str, weights: [u32; 2], after: &str) -> PlannedCell {
        let [first, twin] = weights;
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - name: c\n    {load}\n    {keys}\n    classes:\n      - {{name: \
             first, weight: {first}, prompt_tokens: {{uniform: {{min: 40, max: 90}}}}, output_tokens: {{uniform: {{min: 4, max: \
             90}}}}}}\n      - {{name: twin, weight: {twin}, repeats: {{class: first{after}}}}}\n      - {{name: other, weight: 1, \
             prompt_tokens: 50, output_tokens: 5}}\n"
        );
        build(&read_workload("w.yaml", &text).unwrap().value).cells.remove(0)
    }

    /// How far behind its first each measured twin comes; none for one that repeats nothing.
    fn distances(cell: &PlannedCell) -> Vec<Option<usize>> {
        let line: Vec<&PlannedRequest> = cell.warmup.iter().chain(&cell.requests).collect();
        let first = |twin: usize| {
            let same = |other: &usize| {
                line[*other].prompt == line[twin].prompt && line[*other].class.as_deref() == Some("first")
            };
            (0..twin).find(same).map(|first| twin - first)
        };
        let twins = cell.warmup.len()..line.len();
        twins.filter(|place| line[*place].class.as_deref() == Some("twin")).map(first).collect()
    }

    #[test]
    fn every_measured_twin_is_an_earlier_first_word_for_word_and_far_enough_behind_it() {
        for (load, least) in [("concurrency: 4", 8), ("concurrency: 30", 60), ("rate: 5/s", 64)] {
            let cell = cell(load, "requests: 400", [2, 1], "");
            assert_eq!(cell.warmup.len(), least + 20, "{load}: the warm-up holds firsts for the first twins");
            let distances = distances(&cell);
            assert_eq!(distances.len(), 100);
            assert!(distances.iter().all(|far| far.is_some_and(|far| far >= least)), "{load}: {distances:?}");
            // With twice as many firsts nobody is repeated twice, and the answers have the same length, too.
            let mut pairs: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for request in cell.requests.iter().filter(|it| it.class.as_deref() != Some("other")) {
                pairs.entry(request.prompt.seed).or_default().push(request.output_tokens);
            }
            assert!(pairs.values().all(|lengths| lengths.len() < 3 && lengths.iter().all(|it| *it == lengths[0])));
        }
    }

    #[test]
    fn each_part_of_a_run_has_its_twins_and_numbers_and_instants_stay_in_order() {
        let cell = cell("rate: 5/s", "requests: 400", [2, 1], "");
        for block in cell.requests.chunks_exact(20) {
            assert_eq!(block.iter().filter(|it| it.class.as_deref() == Some("twin")).count(), 5);
        }
        assert!(cell.requests.is_sorted_by_key(|it| (it.number, it.due)));
    }

    #[test]
    fn without_a_warm_up_firsts_come_before_their_twins() {
        let cell = cell("concurrency: 4", "requests: 200\n    warmup: 0", [2, 1], ", after: 30");
        let distances = distances(&cell);
        assert_eq!(distances.len(), 50);
        assert!(distances.iter().all(|far| far.is_some_and(|far| far >= 30)), "{distances:?}");
        assert!(cell.requests.is_sorted_by_key(|it| it.number));
    }

    #[test]
    fn a_twin_hits_all_its_blocks_and_a_first_none() {
        let cell = cell("concurrency: 4", "requests: 200", [2, 1], "");
        let of = |class: &str| HitRate::expected(&cell, &Slice { class: Some(class.to_owned()), context: None }, 1);
        let (first, twin) = (of("first"), of("twin"));
        assert_eq!((first.cached_tokens, of("other").cached_tokens), (0, 0));
        assert_eq!(twin.cached_tokens, twin.prompt_tokens - 50, "all but the last token of each");
    }

    proptest! {
        #[test]
        fn twins_of_any_mixture_come_after_their_firsts(
            first in 1..5_u32, twin in 1..5_u32, warmup in 0..90_u32, after in 1..60_u32, requests in 300..500_u32,
        ) {
            let keys = format!("requests: {requests}\n    warmup: {warmup}");
            let cell = cell("rate: 5/s", &keys, [first, twin], &format!(", after: {after}"));
            let far = distances(&cell);
            prop_assert!(far.iter().all(|far| far.is_some_and(|far| far >= usize::try_from(after).unwrap())), "{:?}", far);
        }
    }
}

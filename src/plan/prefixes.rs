//! Which prefix each request of a class begins with.
//!
//! Prefixes are drawn one by one, each independently of those before (the independent reference model: Coffman and Denning,
//! Operating Systems Theory, 1973). Lengths and classes are stratified because they only have to be mixed well; a draw of
//! prefixes that is too even would bring a popular one back at regular distances, and a cache that is too small for all of
//! them would look better than it is.

use crate::base::rng::Stream;
use crate::plan::request::Part;
use crate::spec::workload::SharedPrefix;

/// Draws the shared prefixes of consecutive requests.
pub(super) struct Prefixes {
    shared: SharedPrefix,
    /// Of the part that all prefixes begin with.
    system: u64,
    /// Of each prefix, the most popular first.
    seeds: Vec<u64>,
    /// By Zipf's law: how popular each prefix and all before it are together. Else empty.
    popular: Vec<f64>,
    stream: Stream,
}

impl Prefixes {
    /// The prefixes of the class at `place` under `seed`, drawn from `stream`. They are common to warm-up and measured
    /// requests: the warm-up brings the prefix cache to the state in which the cell is measured.
    pub(super) fn new(shared: Option<SharedPrefix>, (seed, place): (u64, &str), stream: Stream) -> Self {
        let shared = shared.unwrap_or(SharedPrefix { groups: 0, tokens: 0, zipf: None, system_tokens: 0 });
        let mut seeds = Stream::named(seed, &format!("prefixes/{place}"));
        Self {
            shared,
            system: Stream::named(seed, &format!("system/{place}")).bits(),
            seeds: (0..shared.groups).map(|_| seeds.bits()).collect(),
            popular: shared.zipf.map_or_else(Vec::new, |exponent| zipf(shared.groups, exponent)),
            stream,
        }
    }

    /// What stands before the own words of the next request, whose prompt has so many.
    pub(super) fn next(&mut self, words: u32) -> Vec<Part> {
        let Some(seed) = self.draw() else { return Vec::new() };
        let SharedPrefix { tokens, system_tokens, .. } = self.shared;
        let system = Part { seed: self.system, words: system_tokens.min(words) };
        let own = Part { seed, words: tokens.min(words).saturating_sub(system.words) };
        [system, own].into_iter().filter(|part| part.words > 0).collect()
    }

    fn draw(&mut self) -> Option<u64> {
        let Some(all) = self.popular.last() else { return self.stream.choose(&self.seeds).copied() };
        let at = self.stream.uniform() * all;
        let rank = self.popular.partition_point(|upto| *upto <= at);
        self.seeds.get(rank).or(self.seeds.last()).copied()
    }
}

/// Sums of the weights of the first 1, 2, ... of `count` prefixes: the n-th has the weight n^-exponent.
fn zipf(count: u32, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut up_to = |rank: u32| {
        sum += libm::pow(f64::from(rank), -exponent);
        sum
    };
    (1..=count).map(&mut up_to).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::build;
    use crate::plan::request::{Plan, PlannedRequest};
    use crate::spec::read_workload;

    fn drawn(shared: SharedPrefix, draws: usize, seed: u64) -> Vec<Vec<Part>> {
        let mut prefixes = Prefixes::new(Some(shared), (seed, "c"), Stream::named(seed, "groups/c"));
        (0..draws).map(|_| prefixes.next(500)).collect()
    }

    fn pool(groups: u32, zipf: Option<f64>) -> SharedPrefix {
        SharedPrefix { groups, tokens: 100, zipf, system_tokens: 0 }
    }

    #[test]
    fn the_nth_prefix_comes_as_often_as_zipf_says() {
        for (exponent, seed) in [(0.6, 1), (1.0, 2), (1.1, 3), (2.0, 4)] {
            let (groups, draws) = (50, 100_000);
            let seeds = Prefixes::new(Some(pool(groups, None)), (seed, "c"), Stream::named(0, "")).seeds;
            let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
            for parts in drawn(pool(groups, Some(exponent)), draws, seed) {
                *counts.entry(parts[0].seed).or_default() += 1.0;
            }
            let all: f64 = (1..=groups).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let chi_square: f64 = (1..=groups)
                .zip(&seeds)
                .map(|(rank, seed)| {
                    let expected = 100_000.0 * f64::from(rank).powf(-exponent) / all;
                    (counts.get(seed).copied().unwrap_or_default() - expected).powi(2) / expected
                })
                .sum();
            // 49 degrees of freedom: 0.1 % lie above 85.4.
            assert!(chi_square < 85.4, "{exponent}: {chi_square}");
        }
    }

    #[test]
    fn draws_are_independent_so_that_a_prefix_may_follow_itself() {
        let drawn = drawn(pool(2, Some(1.0)), 30_000, 5);
        let again = drawn.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // (2/3)^2 + (1/3)^2 = 5/9 of 29,999: 16,666, standard deviation under 100.
        assert!((16_300..17_030).contains(&again), "{again}");
    }

    #[test]
    fn a_hundred_thousand_prefixes_are_all_within_reach() {
        let parts = drawn(pool(100_000, Some(0.01)), 2_000, 6);
        let different: BTreeMap<u64, u32> = parts.iter().map(|parts| (parts[0].seed, 1)).collect();
        assert!(different.len() > 1_900, "{}", different.len());
        assert_eq!(zipf(100_000, 1.1).len(), 100_000);
    }

    #[test]
    fn all_prefixes_begin_with_the_system_prompt() {
        let shared = SharedPrefix { system_tokens: 30, ..pool(4, None) };
        let parts = drawn(shared, 200, 7);
        let [system, own]: [BTreeMap<u64, u32>; 2] =
            [0, 1].map(|at| parts.iter().map(|parts| (parts[at].seed, parts[at].words)).collect());
        assert_eq!((system.len(), own.len()), (1, 4));
        assert!(system.values().all(|words| *words == 30) && own.values().all(|words| *words == 70));
        let mut prefixes = Prefixes::new(Some(shared), (7, "c"), Stream::named(7, ""));
        let lengths = [20, 30, 99].map(|words| prefixes.next(words).iter().map(|part| part.words).collect::<Vec<_>>());
        assert_eq!(lengths, [vec![20], vec![30], vec![30, 69]]);
    }

    fn plan(shared: &str) -> Plan {
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, rate: 5/s, requests: 60, prompt_tokens: 200, \
             output_tokens: 9, shared_prefix: {{groups: 8, tokens: 100{shared}}}}}\n"
        );
        build(&read_workload("w.yaml", &text).unwrap().value)
    }

    #[test]
    fn the_fingerprint_sees_the_exponent_and_the_system_prompt_where_they_are_given() {
        let plain = plan("");
        let others = [", zipf: 1.1", ", zipf: 1.2", ", system_tokens: 20", ", system_tokens: 21"].map(plan);
        let mut all: Vec<String> = others.iter().map(|plan| plan.fingerprint.to_string()).collect();
        all.push(plain.fingerprint.to_string());
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 5);
        // The same pool, drawn otherwise; what is not about prefixes stays.
        let own = |plan: &Plan| plan.cells[0].requests.iter().map(|it| it.prompt.seed).collect::<Vec<_>>();
        let pool = |plan: &Plan| {
            let all = |it: &PlannedRequest| it.prompt.prefix[0].seed;
            plan.cells[0]
                .requests
                .iter()
                .chain(&plan.cells[0].warmup)
                .map(all)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(own(&others[0]), own(&plain));
        assert!(pool(&others[0]).is_subset(&pool(&plain)));
    }
}

//! How much of its prompts a prefix cache is expected to answer for: the share that an earlier prompt of the cell began
//! with. No cache can do better within a run, because cells share nothing; one that forgets or is asked too soon does worse.

use std::collections::BTreeMap;

use crate::plan::request::{Part, PlannedCell, PromptRecipe};
use crate::spec::slice::Slice;

/// The length of a cache block where the server does not tell: that of vLLM on most hardware.
pub const BLOCK_TOKENS: u32 = 16;

/// What a cache that forgets nothing finds of some requests' prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitRate {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Those in blocks that an earlier prompt had.
    pub cached_tokens: u64,
    /// Whole blocks of the prompts.
    pub blocks: u64,
    /// Those that an earlier prompt had.
    pub cached_blocks: u64,
}

impl HitRate {
    /// The expected hit rate of the measured requests of a part of a cell, in the order in which they are sent, with
    /// whole blocks of `block_tokens` (at least 1). Prompts of the warm-up are earlier ones. The last token of a prompt is
    /// never read from a cache: engines compute it to begin the answer. What a chat template adds is not in it.
    pub fn expected(cell: &PlannedCell, part: &Slice, block_tokens: u32) -> Self {
        let (block_tokens, wanted) = (block_tokens.max(1), cell.numbers(part));
        let mut prompts = Prompts::default();
        cell.warmup.iter().for_each(|request| {
            prompts.add(&request.prompt);
        });
        let mut rate = Self::default();
        for request in &cell.requests {
            let (words, known) = (request.prompt.words, prompts.add(&request.prompt));
            if wanted.as_ref().is_none_or(|wanted| wanted.contains(&request.number)) {
                let blocks = known.min(words.saturating_sub(1)).div_euclid(block_tokens);
                rate.prompt_tokens = rate.prompt_tokens.saturating_add(words.into());
                rate.cached_tokens =
                    rate.cached_tokens.saturating_add(u64::from(blocks).saturating_mul(block_tokens.into()));
                rate.blocks = rate.blocks.saturating_add(words.div_euclid(block_tokens).into());
                rate.cached_blocks = rate.cached_blocks.saturating_add(blocks.into());
            }
        }
        rate
    }

    /// Cached tokens as a share of all; 0 of none.
    #[expect(clippy::cast_precision_loss, reason = "token counts of a plan are far below 2^53")]
    pub fn share(&self) -> f64 {
        if self.prompt_tokens == 0 { 0.0 } else { self.cached_tokens as f64 / self.prompt_tokens as f64 }
    }
}

/// The beginning of a prompt: a node of the tree of all prompts, the root is 0.
type Beginning = usize;

/// The prompts that were sent, as a tree of their parts.
#[derive(Default)]
struct Prompts {
    /// Where each part leads from the beginning that it follows: by its seed and words, so that those of a seed lie together.
    parts: BTreeMap<(Beginning, u64, u32), Beginning>,
}

impl Prompts {
    /// Adds a prompt; gives how many of its words an earlier one began with.
    fn add(&mut self, prompt: &PromptRecipe) -> u32 {
        let (mut at, mut known, mut all) = (0, 0_u32, true);
        for Part { seed, words } in prompt.parts().filter(|part| part.words > 0) {
            if let Some(next) = self.parts.get(&(at, seed, words)) {
                known = known.saturating_add(words);
                at = *next;
                continue;
            }
            if all {
                // Of one seed the shorter text is the beginning of the longer one.
                let longest = self.parts.range((at, seed, 0)..=(at, seed, u32::MAX)).next_back();
                known = known.saturating_add(longest.map_or(0, |((_, _, longest), _)| words.min(*longest)));
                all = false;
            }
            let next = self.parts.len().saturating_add(1);
            self.parts.insert((at, seed, words), next);
            at = next;
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::base::digest::Hasher;
    use crate::plan::{build, prompt};
    use crate::spec::read_workload;

    fn cell(keys: &str) -> PlannedCell {
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, concurrency: 2, output_tokens: 4, {keys}}}\n"
        );
        build(&read_workload("w.yaml", &text).unwrap().value).cells.remove(0)
    }

    /// What a cache of blocks finds that looks at the words themselves and forgets nothing.
    fn found(cell: &PlannedCell, block: usize) -> HitRate {
        let (mut cache, mut rate) = (BTreeSet::new(), HitRate::default());
        let number = |count: usize| u64::try_from(count).unwrap();
        for (measured, request) in
            cell.warmup.iter().map(|it| (false, it)).chain(cell.requests.iter().map(|it| (true, it)))
        {
            let text = prompt::text(&request.prompt);
            let words: Vec<&str> = text.split(' ').collect();
            let mut chain = Hasher::default();
            let keys: Vec<_> = (words.chunks_exact(block))
                .map(|block| {
                    chain.field(block.join(" ").as_bytes());
                    chain.clone().finish()
                })
                .collect();
            let hits = keys.iter().take_while(|key| cache.contains(*key)).count().min((words.len() - 1) / block);
            cache.extend(keys.iter().cloned());
            if measured {
                rate.prompt_tokens += number(words.len());
                rate.cached_tokens += number(hits * block);
                rate.blocks += number(keys.len());
                rate.cached_blocks += number(hits);
            }
        }
        rate
    }

    fn expected(cell: &PlannedCell, block: u32) -> HitRate {
        HitRate::expected(cell, &Slice::default(), block)
    }

    #[test]
    fn prompts_that_share_nothing_hit_nothing() {
        let none = expected(&cell("requests: 50, prompt_tokens: 100"), 16);
        assert_eq!((none.cached_tokens, none.prompt_tokens, none.blocks), (0, 5_000, 300));
        assert!(none.share().abs() < 1e-12 && HitRate::default().share().abs() < 1e-12);
    }

    #[test]
    fn a_prefix_counts_by_its_whole_blocks_and_the_rest_of_a_block_never_hits() {
        // One prefix for all, so that each measured request has met it: docs/prefixes.md has these numbers.
        let share = |tokens: u32, block| {
            let cell =
                cell(&format!("requests: 50, prompt_tokens: 64, shared_prefix: {{groups: 1, tokens: {tokens}}}"));
            expected(&cell, block).share()
        };
        let table =
            [(15, 0.0, 15.0), (16, 16.0, 16.0), (17, 16.0, 17.0), (31, 16.0, 31.0), (32, 32.0, 32.0), (63, 48.0, 63.0)];
        for (tokens, in_blocks, in_tokens) in table {
            let found = [share(tokens, 16), share(tokens, 1)];
            assert_eq!(found, [in_blocks / 64.0, in_tokens / 64.0], "{tokens}");
        }
    }

    #[test]
    fn the_first_request_of_each_prefix_misses_and_the_warm_up_counts_as_earlier() {
        let keys = "requests: 40, prompt_tokens: 64, shared_prefix: {groups: 1, tokens: 48}";
        assert_eq!(expected(&cell(&format!("{keys}, warmup: 0")), 16).cached_tokens, 39 * 48);
        assert_eq!(expected(&cell(&format!("{keys}, warmup: 1")), 16).cached_tokens, 40 * 48);
        let system =
            "requests: 40, warmup: 1, prompt_tokens: 64, shared_prefix: {groups: 40000, tokens: 48, system_tokens: 32}";
        // Next to no prefix comes twice, but all begin alike.
        assert!((40 * 32..40 * 32 + 49).contains(&expected(&cell(system), 16).cached_tokens));
    }

    proptest! {
        #[test]
        fn it_is_what_a_cache_finds_in_the_words(
            groups in 1..12_u32, tokens in 20..120_u32, system in 0..20_u32, zipf in 0..3_u8, warmup in 0..30_u32, block in 8..40_u32,
        ) {
            // Behind a shared prefix a word or two may be alike by chance.
            prop_assume!(tokens % block + 4 <= block);
            let zipf = ["", ", zipf: 0.8", ", zipf: 2"][usize::from(zipf)];
            let system = if system == 0 { String::new() } else { format!(", system_tokens: {system}") };
            let cell = cell(&format!(
                "requests: 60, warmup: {warmup}, prompt_tokens: {{uniform: {{min: 121, max: 140}}}}, shared_prefix: \
                 {{groups: {groups}, tokens: {tokens}{zipf}{system}}}"
            ));
            prop_assert_eq!(expected(&cell, block), found(&cell, usize::try_from(block).unwrap()));
        }
    }
}

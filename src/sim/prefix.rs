//! The prefix cache: whole blocks of prompts that were computed, each known by itself and all that is in front of it. What was
//! used last is forgotten last. It says which tokens need no computing; memory is not shared, so that each request still
//! holds blocks of its own in the pool.

use std::collections::BTreeMap;

use crate::base::rng::Stream;
use crate::sim::profile::Profile;

/// A block with all that is in front of it.
pub(crate) type Block = u64;

/// The whole blocks of a prompt of these tokens, each with all that is in front of it.
pub(crate) fn blocks(tokens: &[&str], block_tokens: u32) -> Vec<Block> {
    let (mut blocks, mut text, mut held, mut before) = (Vec::new(), String::new(), 0, 0);
    for token in tokens {
        text.push_str(token);
        text.push(' ');
        held += 1;
        if held == block_tokens {
            before = Stream::named(before, &text).bits();
            blocks.push(before);
            text.clear();
            held = 0;
        }
    }
    blocks
}

/// Prompt tokens that were looked up, and those that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// All.
    pub queries: u64,
    /// Found.
    pub hits: u64,
}

/// The blocks that are known.
pub(crate) struct PrefixCache {
    block_tokens: u32,
    /// Most blocks.
    room: usize,
    /// When each was used last.
    used: BTreeMap<Block, u64>,
    /// The same by that time.
    by_use: BTreeMap<u64, Block>,
    clock: u64,
    lookups: Lookups,
}

impl PrefixCache {
    pub(crate) fn new(profile: &Profile) -> Self {
        let room = profile.prefix_cache_tokens.div_euclid(profile.block_tokens.max(1));
        Self {
            block_tokens: profile.block_tokens,
            room: usize::try_from(room).unwrap_or(usize::MAX),
            used: BTreeMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            lookups: Lookups::default(),
        }
    }

    /// How many tokens of a prompt need no computing; never the last one, which begins the answer. None where there is no
    /// cache.
    pub(crate) fn find(&mut self, blocks: &[Block], prompt_tokens: u32) -> Option<u32> {
        if self.room == 0 {
            return None;
        }
        let most = prompt_tokens.saturating_sub(1).div_euclid(self.block_tokens);
        let within = blocks.iter().take(usize::try_from(most).unwrap_or(usize::MAX));
        let found: Vec<Block> = within.take_while(|block| self.used.contains_key(block)).copied().collect();
        self.keep(&found);
        let cached = u32::try_from(found.len()).unwrap_or(most).saturating_mul(self.block_tokens);
        self.lookups.queries += u64::from(prompt_tokens);
        self.lookups.hits += u64::from(cached);
        Some(cached)
    }

    /// Takes blocks in, or makes them the last used ones: of a prompt, its end is forgotten first.
    pub(crate) fn keep(&mut self, blocks: &[Block]) {
        for block in blocks.iter().rev() {
            self.clock += 1;
            if let Some(before) = self.used.insert(*block, self.clock) {
                self.by_use.remove(&before);
            }
            self.by_use.insert(self.clock, *block);
        }
        while self.used.len() > self.room {
            if let Some((_, oldest)) = self.by_use.pop_first() {
                self.used.remove(&oldest);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        self.used.clear();
        self.by_use.clear();
    }

    /// What was looked up since the boot; none where there is no cache.
    pub(crate) fn lookups(&self) -> Option<Lookups> {
        (self.room > 0).then_some(self.lookups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(tokens: u32) -> PrefixCache {
        PrefixCache::new(&Profile { prefix_cache_tokens: tokens, block_tokens: 4, ..Profile::h100_8b() })
    }

    fn of(text: &str) -> (Vec<Block>, u32) {
        let count = u32::try_from(text.split(' ').count()).unwrap();
        (blocks(&text.split(' ').collect::<Vec<_>>(), 4), count)
    }

    #[test]
    fn whole_blocks_that_were_computed_are_found_with_all_in_front_of_them() {
        let mut cache = cache(400);
        let mut find = |text: &str| {
            let (blocks, count) = of(text);
            let found = cache.find(&blocks, count);
            cache.keep(&blocks);
            found.unwrap()
        };
        assert_eq!(find("a b c d e f g h i j"), 0);
        assert_eq!(find("a b c d e f g h i j"), 8, "two whole blocks");
        assert_eq!(find("a b c d e f g h"), 4, "the last token is always computed");
        assert_eq!(find("a b c d e f g x i j k l"), 4);
        assert_eq!(find("x b c d e f g h i j"), 0, "a block counts with what is in front of it");
        assert_eq!(cache.lookups(), Some(Lookups { queries: 10 + 10 + 8 + 12 + 10, hits: 16 }));
        cache.reset();
        assert_eq!(cache.find(&of("a b c d e").0, 5), Some(0));
    }

    #[test]
    fn what_was_used_last_is_forgotten_last_and_no_cache_says_nothing() {
        let mut two = cache(8);
        for text in ["a a a a", "b b b b"] {
            two.keep(&of(text).0);
        }
        assert_eq!(two.find(&of("a a a a a").0, 5), Some(4));
        two.keep(&of("c c c c").0);
        assert_eq!(
            ["a a a a a", "b b b b b", "c c c c c"].map(|text| two.find(&of(text).0, 5)),
            [Some(4), Some(0), Some(4)]
        );
        let mut none = cache(0);
        none.keep(&of("a a a a").0);
        assert_eq!((none.find(&of("a a a a a").0, 5), none.lookups()), (None, None));
    }
}

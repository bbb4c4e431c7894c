//! Which words the prompts of a trace have in common.
//!
//! A block of a trace is a run of words: equal numbers give equal words. Blocks that only ever come together, one behind
//! the other, are one part, and blocks that come once are the request's own words. So a plan holds a few parts a request
//! where a trace names hundreds of blocks.
//!
//! A request without blocks that continues another one begins with the whole prompt of that one.

use crate::plan::request::{Part, PromptRecipe};
use crate::trace::request::{Request, Requests};

/// What stands beside a block: the number of another one, or one of these.
type Neighbour = u32;
/// Not met yet.
const UNKNOWN: Neighbour = u32::MAX;
/// Nothing: the block is at an end of its prompt.
const END: Neighbour = u32::MAX - 1;
/// Sometimes this, sometimes that.
const DIFFERS: Neighbour = u32::MAX - 2;

/// A block of the trace. A trace has millions.
#[derive(Clone, Copy, Debug)]
struct Block {
    before: Neighbour,
    behind: Neighbour,
    /// How often it is there.
    times: u32,
}

impl Default for Block {
    fn default() -> Self {
        Self { before: UNKNOWN, behind: UNKNOWN, times: 0 }
    }
}

/// Notes what stands beside a block this time.
fn meet(known: &mut Neighbour, met: Neighbour) {
    *known = if *known == UNKNOWN || *known == met { met } else { DIFFERS };
}

/// The blocks of a trace by their numbers, and their length.
pub(super) struct Prompts {
    blocks: Vec<Block>,
    words: u32,
    seed: u64,
}

impl Prompts {
    /// Looks at the whole trace, also at rows that are not used: with more of them in use the others stay as they were.
    /// `seed` and its number give each block its words.
    pub(super) fn new(trace: &Requests, seed: u64) -> Self {
        let mut all = Self { blocks: Vec::new(), words: trace.block_tokens.unwrap_or(0), seed };
        // Numbers are given in the order in which blocks come, so that none is larger than how many there are.
        let (mut named, mut different) = (0_usize, 0);
        for numbers in trace.rows.iter().map(|row| all.numbers(row)) {
            named = named.saturating_add(numbers.len());
            different = numbers.iter().map(|number| index(*number).saturating_add(1)).fold(different, usize::max);
        }
        all.blocks.resize_with(different.min(named), Block::default);
        for row in &trace.rows {
            let numbers = all.numbers(row);
            for (place, number) in numbers.iter().enumerate() {
                let at = |place: Option<usize>| {
                    place.and_then(|place| numbers.get(place)).map_or(END, |number| always(*number))
                };
                let (before, behind) = (at(place.checked_sub(1)), at(place.checked_add(1)));
                if let Some(block) = all.blocks.get_mut(index(*number)) {
                    meet(&mut block.before, before);
                    meet(&mut block.behind, behind);
                    block.times = block.times.saturating_add(1);
                }
            }
        }
        all
    }

    /// The blocks within a prompt.
    fn numbers<'t>(&self, row: &'t Request) -> &'t [u64] {
        let within = row.prompt_tokens.checked_div(self.words).map_or(0, |whole| {
            let cut = row.prompt_tokens > whole.saturating_mul(self.words);
            index(u64::from(whole)).saturating_add(usize::from(cut))
        });
        row.blocks.get(..within.min(row.blocks.len())).unwrap_or_default()
    }

    /// What stands before a request's own words. `earlier` are the prompts of the rows in front of it.
    pub(super) fn prefix(&self, row: &Request, earlier: &[PromptRecipe]) -> Vec<Part> {
        if !row.blocks.is_empty() {
            return self.of_blocks(row);
        }
        let parent = row.parent.and_then(|parent| earlier.get(index(parent.into())));
        // A prompt that is no longer than the one before cannot hold it.
        let parent = parent.filter(|parent| parent.words < row.prompt_tokens);
        parent.map_or_else(Vec::new, |parent| parent.parts().filter(|part| part.words > 0).collect())
    }

    fn of_blocks(&self, row: &Request) -> Vec<Part> {
        let mut parts: Vec<(Part, u32)> = Vec::new();
        let mut last = None;
        for number in self.numbers(row) {
            let Some(block) = self.blocks.get(index(*number)) else { break };
            match parts.last_mut().filter(|_| last.is_some_and(|last| self.follows(last, *number))) {
                Some((part, _)) => part.words = part.words.saturating_add(self.words),
                None => parts.push((Part { seed: mixed(self.seed, *number), words: self.words }, block.times)),
            }
            last = Some(*number);
        }
        while parts.last().is_some_and(|(_, times)| *times == 1) {
            parts.pop();
        }
        let mut left = row.prompt_tokens;
        let cut = |(part, _): (Part, u32)| {
            let words = part.words.min(left);
            left = left.saturating_sub(words);
            Part { words, ..part }
        };
        parts.into_iter().map(cut).collect()
    }

    /// Whether the second block never comes without the first one in front of it, and the first is never without it.
    fn follows(&self, first: u64, second: u64) -> bool {
        let (Some(one), Some(other)) = (self.blocks.get(index(first)), self.blocks.get(index(second))) else {
            return false;
        };
        one.behind == always(second) && other.before == always(first)
    }
}

fn always(number: u64) -> Neighbour {
    u32::try_from(number).ok().filter(|number| *number < DIFFERS).unwrap_or(DIFFERS)
}

/// A seed of its own for every number, so that no two blocks have the same words: the output function of `SplitMix64` (Steele,
/// Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014), which maps no two inputs to one output.
const fn mixed(seed: u64, number: u64) -> u64 {
    let state = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

//! What a person asks first about the requests of a trace, as counts.

use std::collections::BTreeMap;

use crate::base::units::Nanos;
use crate::trace::request::{Request, Requests};

/// Requests that share an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Different instants.
    pub instants: usize,
    /// Requests at the instant of an earlier one.
    pub repeated: usize,
    /// Most requests at one instant.
    pub largest: usize,
    /// The median time between two different instants (the lower one of two), which is the tick of a source that has
    /// ticks; zero with one instant.
    pub step: Nanos,
}

/// Sessions and their turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Requests of each session.
    pub turns: Vec<usize>,
    /// Requests that continue one that is named.
    pub continued: usize,
}

/// How much of the prompts was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Blocks of all prompts.
    pub blocks: u64,
    /// Different blocks.
    pub different: u64,
    /// Blocks that an earlier request had. With a cache that forgets nothing, no more can be hit.
    pub repeated: u64,
}

/// Tokens of one prompt that are in others, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Those that an earlier request had.
    pub known: u32,
    /// Those that an earlier or a later request has.
    pub shared: u32,
}

/// How arrivals share instants.
pub fn ticks(requests: &Requests) -> Ticks {
    let mut ticks = Ticks::default();
    for together in requests.rows.chunk_by(|one, next| one.at == next.at) {
        ticks.instants = ticks.instants.saturating_add(1);
        ticks.repeated = ticks.repeated.saturating_add(together.len().saturating_sub(1));
        ticks.largest = ticks.largest.max(together.len());
    }
    let next = requests.rows.iter().skip(1);
    let mut steps: Vec<Nanos> = requests.rows.iter().zip(next).map(|(one, next)| next.at.since(one.at)).collect();
    steps.retain(|step| *step > Nanos::ZERO);
    if let Some(middle) = steps.len().checked_sub(1).map(|last| last >> 1) {
        let (_, step, _) = steps.select_nth_unstable(middle);
        ticks.step = *step;
    }
    ticks
}

/// The tick of a source that writes down ticks in place of instants: requests share instants, and either all of these lie on a
/// clock of 100 ms or coarser, or most of them have the same distance from the next. Bursts have neither.
pub fn tick(requests: &Requests) -> Option<Nanos> {
    let Ticks { repeated, step, .. } = ticks(requests);
    if !requests.arrivals || repeated == 0 || step < COARSE {
        return None;
    }
    let clock = clock(requests);
    if clock >= COARSE {
        return Some(clock);
    }
    let next = requests.rows.iter().skip(1);
    let steps =
        requests.rows.iter().zip(next).map(|(one, next)| next.at.since(one.at)).filter(|gap| *gap > Nanos::ZERO);
    let even = |gap: Nanos| gap.0.abs_diff(step.0) <= step.0.div_euclid(EVEN);
    let (all, regular) = steps.fold((0_usize, 0_usize), |(all, regular), gap| {
        (all.saturating_add(1), regular.saturating_add(usize::from(even(gap))))
    });
    (regular > all.saturating_sub(regular)).then_some(step)
}

/// A clock from which on instants that requests share are ticks of the source and no bursts.
const COARSE: Nanos = Nanos::from_millis(100);
/// Distances that differ by less than one in so many are the same.
const EVEN: u64 = 20;

/// The coarsest clock on which all instants lie: their greatest common divisor. Zero with one instant.
fn clock(requests: &Requests) -> Nanos {
    let mut clock = 0_u64;
    for row in &requests.rows {
        let mut other = row.at.0;
        while let Some(rest) = clock.checked_rem(other) {
            (clock, other) = (other, rest);
        }
    }
    Nanos(clock)
}

/// The tokens of each prompt that an earlier request had, and those that any other request of the trace has. Blocks say
/// so, the first ones up to one that is new; zeros where the length of a block is not known.
pub fn reuse(requests: &Requests) -> Vec<Reuse> {
    let Some(size) = requests.block_tokens else { return vec![Reuse::default(); requests.rows.len()] };
    let named = requests.rows.iter().map(|row| row.blocks.len()).sum();
    let index = |block: &u64| usize::try_from(*block).ok().filter(|block| *block < named);
    let mut times: Vec<u32> = vec![0; named];
    for block in requests.rows.iter().flat_map(|row| &row.blocks).filter_map(index) {
        if let Some(times) = times.get_mut(block) {
            *times = times.saturating_add(1);
        }
    }
    let mut before = 0;
    let of = |row: &Request| {
        let tokens =
            |blocks: usize| u32::try_from(blocks).unwrap_or(u32::MAX).saturating_mul(size).min(row.prompt_tokens);
        let again = |block: &&u64| index(block).and_then(|block| times.get(block)).is_some_and(|times| *times > 1);
        let known = row.blocks.iter().take_while(|block| **block < before).count();
        let shared = row.blocks.iter().take_while(again).count();
        before = row.blocks.iter().fold(before, |before, block| before.max(block.saturating_add(1)));
        Reuse { known: tokens(known), shared: tokens(shared) }
    };
    requests.rows.iter().map(of).collect()
}

/// The gaps between one request and the next, in seconds.
pub fn gaps(requests: &Requests) -> Vec<f64> {
    let next = requests.rows.iter().skip(1);
    requests.rows.iter().zip(next).map(|(one, next)| next.at.since(one.at).as_secs()).collect()
}

/// How requests form sessions.
pub fn sessions(requests: &Requests) -> Sessions {
    let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
    for session in requests.rows.iter().filter_map(|request| request.session) {
        let turns = turns.entry(session).or_default();
        *turns = turns.saturating_add(1);
    }
    let continued = requests.rows.iter().filter(|request| request.parent.is_some()).count();
    Sessions { turns: turns.into_values().collect(), continued }
}

/// How prompts share blocks.
pub fn sharing(requests: &Requests) -> Sharing {
    let mut sharing = Sharing::default();
    for request in &requests.rows {
        // Blocks are numbered in the order in which they come: those below were there before this request.
        let before = sharing.different;
        for block in &request.blocks {
            sharing.blocks = sharing.blocks.saturating_add(1);
            sharing.repeated = sharing.repeated.saturating_add(u64::from(*block < before));
            sharing.different = sharing.different.max(block.saturating_add(1));
        }
    }
    sharing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Format;

    fn at(millis: &[u64]) -> Requests {
        let row = |at: &u64| Request { at: Nanos::from_millis(*at), prompt_tokens: 30, ..Request::default() };
        let rows = millis.iter().map(row).collect();
        Requests { source: Format::Servegate, arrivals: true, block_tokens: None, classes: Vec::new(), rows }
    }

    #[test]
    fn ticks_are_told_from_bursts_and_from_clocks() {
        assert_eq!(tick(&at(&[0, 0, 1_000, 4_000, 4_000])), Some(Nanos::from_secs(1)), "a clock of seconds");
        // Some ticks are a little late.
        assert_eq!(tick(&at(&[0, 0, 3_000, 6_001, 6_001, 9_001, 12_007])), Some(Nanos::from_secs(3)));
        assert_eq!(tick(&at(&[0, 0, 0, 731, 731, 4_210, 4_210, 9_003])), None, "bursts");
        assert_eq!(tick(&at(&[0, 1_000, 2_000])), None, "nothing is shared");
        assert_eq!(tick(&at(&[0, 0, 3, 6, 9])), None, "a clock of milliseconds");
        assert_eq!([tick(&at(&[0, 0, 0])), tick(&Requests { arrivals: false, ..at(&[0, 0, 1_000]) })], [None, None]);
    }

    #[test]
    fn what_prompts_have_in_common_ends_at_the_first_block_that_is_new() {
        let mut requests = at(&[0, 1, 2]);
        for (row, blocks) in requests.rows.iter_mut().zip([vec![0, 1, 2], vec![0, 1, 3], vec![4, 1]]) {
            row.blocks = blocks;
        }
        assert_eq!(reuse(&requests), [Reuse::default(); 3], "blocks without a length");
        requests.block_tokens = Some(16);
        // The second block of a prompt of 30 is cut; the first request had nothing before it.
        let found = |known, shared| Reuse { known, shared };
        assert_eq!(reuse(&requests), [found(0, 30), found(30, 30), found(0, 0)]);
    }
}

//! What a person asks first about the requests of a trace, as counts.

use std::collections::BTreeMap;

use crate::base::units::Nanos;
use crate::trace::request::Requests;

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

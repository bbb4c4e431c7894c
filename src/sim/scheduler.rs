//! Continuous batching as vLLM does it: decodes first, prefill in chunks of what the token budget leaves,
//! admission in order of arrival, and when blocks run out the last admitted is preempted and recomputed.

use std::collections::VecDeque;

use crate::sim::cost::Work;
use crate::sim::kv::Pool;
use crate::sim::prefix::{Block, Lookups, PrefixCache};
use crate::sim::profile::Profile;

/// A request inside the engine.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    id: u64,
    prompt: u32,
    output: u32,
    generated: u32,
    /// Tokens whose keys and values are in the cache.
    computed: u32,
    /// Tokens that the step under way computes.
    chunk: u32,
    blocks: u32,
    /// The whole blocks of the prompt, for the prefix cache.
    beginning: Vec<Block>,
    /// Tokens of the prompt that the prefix cache had; none before the first admission, or without a cache.
    cached: Option<u32>,
}

impl Sequence {
    /// A request of `prompt` tokens that asks for `output` tokens; each at least one.
    pub(crate) fn new(id: u64, prompt: u32, output: u32, beginning: Vec<Block>) -> Self {
        let (prompt, output) = (prompt.max(1), output.max(1));
        Self { id, prompt, output, generated: 0, computed: 0, chunk: 0, blocks: 0, beginning, cached: None }
    }

    const fn known(&self) -> u32 {
        self.prompt + self.generated
    }

    const fn missing(&self) -> u32 {
        self.known() - self.computed
    }
}

/// A token that a step produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) id: u64,
    /// Its number in the answer, from 0.
    pub(crate) index: u32,
    /// Whether the answer is complete.
    pub(crate) last: bool,
    /// Tokens of the prompt that the prefix cache had; none without one.
    pub(crate) cached: Option<u32>,
}

/// The queue, the batch and the cache.
pub(crate) struct Scheduler {
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    pool: Pool,
    prefixes: PrefixCache,
    max_batched: u32,
    max_seqs: usize,
    max_len: u32,
    preemptions: u64,
}

/// The step being put together.
struct Batch {
    budget: u32,
    work: Work,
}

impl Batch {
    /// Gives a sequence its part of the step; false when the cache has no blocks for it.
    fn take(&mut self, sequence: &mut Sequence, pool: &mut Pool) -> bool {
        let chunk = sequence.missing().min(self.budget);
        if !pool.grow(&mut sequence.blocks, sequence.computed + chunk) {
            return false;
        }
        if chunk == 1 && sequence.generated > 0 {
            self.work.cached += sequence.computed;
        } else {
            self.work.attention += f64::from(chunk) * (f64::from(sequence.computed) + f64::from(chunk) / 2.0);
        }
        sequence.chunk = chunk;
        self.budget -= chunk;
        self.work.tokens += chunk;
        self.work.requests += u32::from(chunk > 0);
        true
    }
}

impl Scheduler {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            pool: Pool::new(profile),
            prefixes: PrefixCache::new(profile),
            max_batched: profile.max_num_batched_tokens,
            max_seqs: usize::try_from(profile.max_num_seqs).unwrap_or(usize::MAX),
            max_len: profile.max_model_len,
            preemptions: 0,
        }
    }

    /// Queues a sequence; false when it could never run.
    pub(crate) fn enqueue(&mut self, sequence: Sequence) -> bool {
        let length = sequence.prompt.saturating_add(sequence.output);
        let fits = length <= self.max_len && self.pool.can_hold(length);
        if fits {
            self.waiting.push_back(sequence);
        }
        fits
    }

    /// Forms the next step. No tokens means that there is nothing to do.
    pub(crate) fn schedule(&mut self) -> Work {
        let mut batch = Batch { budget: self.max_batched, work: Work::default() };
        let mut index = 0;
        let before = self.preemptions;
        while let Some(sequence) = self.running.get_mut(index) {
            if batch.take(sequence, &mut self.pool) {
                index += 1;
            } else {
                self.preempt_last();
            }
        }
        if self.preemptions == before {
            self.admit(&mut batch);
        }
        batch.work
    }

    fn admit(&mut self, batch: &mut Batch) {
        while self.running.len() < self.max_seqs && batch.budget > 0 {
            let alone = self.running.is_empty();
            let Some(mut sequence) = self.waiting.pop_front_if(|head| self.pool.admits(head.known(), alone)) else {
                return;
            };
            if sequence.cached.is_none() {
                sequence.cached = self.prefixes.find(&sequence.beginning, sequence.prompt);
                sequence.computed = sequence.cached.unwrap_or_default();
            }
            // The pool admits the whole sequence, so its first chunk has blocks.
            batch.take(&mut sequence, &mut self.pool);
            self.running.push(sequence);
        }
    }

    /// The last admitted loses its blocks and goes to the head of the queue, to be computed again.
    /// It is never one that the step already holds: those come earlier in the batch.
    fn preempt_last(&mut self) {
        if let Some(mut sequence) = self.running.pop() {
            self.pool.release(&mut sequence.blocks);
            sequence.computed = 0;
            sequence.chunk = 0;
            self.preemptions += 1;
            self.waiting.push_front(sequence);
        }
    }

    /// Ends the step under way: every sequence whose known tokens are all computed has a new one.
    pub(crate) fn complete(&mut self, mut produced: impl FnMut(Produced)) {
        let (pool, prefixes) = (&mut self.pool, &mut self.prefixes);
        self.running.retain_mut(|sequence| {
            sequence.computed += sequence.chunk;
            let ready = sequence.chunk > 0 && sequence.missing() == 0;
            sequence.chunk = 0;
            if !ready {
                return true;
            }
            let index = sequence.generated;
            sequence.generated += 1;
            let last = sequence.generated == sequence.output;
            if index == 0 {
                prefixes.keep(&sequence.beginning);
            }
            produced(Produced { id: sequence.id, index, last, cached: sequence.cached });
            if last {
                pool.release(&mut sequence.blocks);
            }
            !last
        });
    }

    /// Forgets a sequence; the step under way keeps its length.
    pub(crate) fn cancel(&mut self, id: u64) {
        self.waiting.retain(|sequence| sequence.id != id);
        if let Some(at) = self.running.iter().position(|sequence| sequence.id == id) {
            self.pool.release(&mut self.running.remove(at).blocks);
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) const fn prefixes(&mut self) -> &mut PrefixCache {
        &mut self.prefixes
    }

    pub(crate) fn lookups(&self) -> Option<Lookups> {
        self.prefixes.lookups()
    }

    pub(crate) const fn preemptions(&self) -> u64 {
        self.preemptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(scheduler: &mut Scheduler) -> (Work, Vec<(u64, u32, bool)>) {
        let work = scheduler.schedule();
        let mut tokens = Vec::new();
        scheduler.complete(|token| tokens.push((token.id, token.index, token.last)));
        (work, tokens)
    }

    #[test]
    fn decodes_come_first_and_chunks_get_the_rest_of_the_budget() {
        let mut scheduler = Scheduler::new(&Profile { max_num_batched_tokens: 100, ..Profile::h100_8b() });
        assert!(scheduler.enqueue(Sequence::new(1, 50, 10, Vec::new())));
        assert_eq!(step(&mut scheduler).1, [(1, 0, false)]);
        assert!(scheduler.enqueue(Sequence::new(2, 150, 2, Vec::new())));
        let (work, tokens) = step(&mut scheduler);
        assert_eq!((work.tokens, work.cached, work.requests), (100, 50, 2));
        assert_eq!(tokens, [(1, 1, false)]);
        let (work, tokens) = step(&mut scheduler);
        assert_eq!((work.tokens, work.cached), (1 + 51, 51));
        assert!((work.attention - 51.0 * (99.0 + 25.5)).abs() < 1e-9);
        assert_eq!(tokens, [(1, 2, false), (2, 0, false)]);
        assert_eq!(step(&mut scheduler).1, [(1, 3, false), (2, 1, true)]);
        assert_eq!(scheduler.running(), 1);
    }

    #[test]
    fn what_the_prefix_cache_has_is_not_computed_again() {
        let mut scheduler = Scheduler::new(&Profile { prefix_cache_tokens: 1_000, ..Profile::h100_8b() });
        let beginning: Vec<Block> = (0..6).collect();
        let mut tokens = |id| {
            assert!(scheduler.enqueue(Sequence::new(id, 100, 1, beginning.clone())));
            step(&mut scheduler).0
        };
        let (first, again) = (tokens(1), tokens(2));
        assert_eq!((first.tokens, again.tokens), (100, 4), "six blocks of 16");
        assert!((again.attention - 4.0 * (96.0 + 2.0)).abs() < 1e-9);
        assert_eq!(scheduler.lookups(), Some(Lookups { queries: 200, hits: 96 }));
        assert_eq!(scheduler.pool().used(), 0);
    }

    #[test]
    fn the_last_admitted_is_preempted_and_continues_where_it_was() {
        let profile = Profile { kv_capacity_tokens: 16 * 6, ..Profile::h100_8b() };
        let mut scheduler = Scheduler::new(&profile);
        assert!(scheduler.enqueue(Sequence::new(1, 40, 40, Vec::new())));
        assert!(scheduler.enqueue(Sequence::new(2, 40, 12, Vec::new())));
        let mut tokens = Vec::new();
        while scheduler.running() + scheduler.waiting() > 0 {
            tokens.extend(step(&mut scheduler).1);
        }
        assert!(scheduler.preemptions() > 0);
        for (id, output) in [(1, 40), (2, 12)] {
            let indices: Vec<u32> = tokens.iter().filter(|token| token.0 == id).map(|token| token.1).collect();
            assert_eq!(indices, (0..output).collect::<Vec<_>>());
        }
        let last = |id| tokens.iter().position(|token| token.0 == id && token.2);
        assert!(last(1) < last(2), "the first admitted is never preempted");
        assert!(!scheduler.enqueue(Sequence::new(3, 90, 7, Vec::new())), "longer than the cache");
    }
}

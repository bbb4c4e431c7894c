//! The plan and its requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::digest::Digest;
use crate::base::names::Caches;
use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::spec::slice::Slice;
use crate::spec::workload::{Class, Content, Load, Phase, Prompts};

/// The exact list of requests of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the workload.
    pub workload: String,
    /// Seed it was made from.
    pub seed: u64,
    /// How the server's caches are kept from answering with what earlier runs left, where the workload declares it. No
    /// part of the fingerprint.
    pub caches: Option<Caches>,
    /// Cells in file order, the phases of a cell one after the other. Each run visits the cells in a seeded random
    /// order of its own.
    pub cells: Vec<PlannedCell>,
    /// SHA-256 over everything that is sent and when.
    pub fingerprint: Digest,
}

/// The requests of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCell {
    /// Name of the cell, with the phase unless it is the steady one: `c8`, `c8/burst`.
    pub name: String,
    /// Which part of its cell's time line this is.
    pub phase: Phase,
    /// How requests arrive.
    pub load: Load,
    /// The measured requests, in order.
    pub requests: Vec<PlannedRequest>,
    /// Requests before the measured ones. Their prompts are outside the measured set.
    pub warmup: Vec<PlannedRequest>,
    /// Open loop: at most this many requests in flight; more wait for their turn, and their latency counts.
    pub max_connections: Option<u32>,
    /// A request that takes longer has failed.
    pub timeout: Nanos,
    /// A stream that is silent for longer has failed.
    pub stall_timeout: Nanos,
}

impl PlannedCell {
    /// Whether this is a part of the same cell's time line as `other`.
    pub fn is_with(&self, other: &Self) -> bool {
        Phase::cell(&self.name) == Phase::cell(&other.name)
    }

    /// The classes of its measured requests, by name; empty where it has none.
    pub fn classes(&self) -> BTreeSet<&str> {
        self.requests.iter().filter_map(|request| request.class.as_deref()).collect()
    }

    /// The numbers of the measured requests of a part of the cell; none for all of them.
    pub fn numbers(&self, slice: &Slice) -> Option<BTreeSet<u32>> {
        let belongs = |request: &&PlannedRequest| {
            slice.class.as_deref().is_none_or(|class| request.class.as_deref() == Some(class))
                && slice.context.is_none_or(|context| context.holds(request.prompt.words))
        };
        (!slice.is_whole()).then(|| self.requests.iter().filter(belongs).map(|request| request.number).collect())
    }

    /// The `n`-th request of an endless supply that holds a closed loop's load until the last measured
    /// request has ended: the measured shapes over again, with new words. None in a cell without requests.
    pub fn filler(&self, n: u32) -> Option<PlannedRequest> {
        let planned = u32::try_from(self.requests.len() + self.warmup.len()).unwrap_or(u32::MAX);
        let shape = self.requests.get(usize::try_from(n).ok()?.checked_rem(self.requests.len())?)?;
        let seed = Stream::named(shape.prompt.seed, &format!("filler/{n}")).bits();
        let prompt = PromptRecipe { seed, ..shape.prompt.clone() };
        Some(PlannedRequest { number: planned.saturating_add(n), prompt, due: None, ..shape.clone() })
    }
}

/// One request. Its text is made from `prompt` when it is sent, so that a plan stays small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number in its cell: measured requests from 0, then the warm-up's, then the fillers'.
    pub number: u32,
    /// Its class, in a cell that has some.
    pub class: Option<Arc<str>>,
    /// Recipe of the prompt.
    pub prompt: PromptRecipe,
    /// Output tokens to ask for.
    pub output_tokens: u32,
    /// Open loop: due instant from the phase's start (warm-up requests come first). Closed loop: none.
    pub due: Option<Nanos>,
}

/// A run of words that is the same wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Seed of its words.
    pub seed: u64,
    /// How many.
    pub words: u32,
}

/// How a prompt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain words, about one token each.
    Words,
    /// Token ids of a vocabulary of this size: the recipe's words are tokens, exactly.
    Ids(u32),
    /// Text of as many tokens as the recipe has words, by the tokenizer of the target.
    Exact(Content),
}

impl Form {
    /// How a class of a workload sends its prompts.
    pub const fn of(prompts: Prompts, class: &Class) -> Self {
        match prompts {
            Prompts::Text => Self::Words,
            Prompts::TokenIds { vocabulary } => Self::Ids(vocabulary),
            Prompts::Exact => Self::Exact(class.content),
        }
    }
}

/// Everything that fixes a prompt's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRecipe {
    /// Seed of the request's own words.
    pub seed: u64,
    /// Length in words, which are tokens of nearly every vocabulary.
    pub words: u32,
    /// What stands before the request's own words and may be shared with other requests, in order; part of `words`.
    pub prefix: Vec<Part>,
    /// How it is sent.
    pub form: Form,
}

impl PromptRecipe {
    /// The parts of the prompt in order, its own words last, together `words` long.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let mut left = self.words;
        let own = Part { seed: self.seed, words: self.words };
        self.prefix.iter().copied().chain([own]).map(move |part| {
            let words = part.words.min(left);
            left -= words;
            Part { words, ..part }
        })
    }
}

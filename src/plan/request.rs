//! The plan and its requests.

use crate::base::digest::Digest;
use crate::base::units::Nanos;
use crate::spec::workload::Load;

/// The exact list of requests of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the workload.
    pub workload: String,
    /// Seed it was made from.
    pub seed: u64,
    /// Cells in file order. Each run visits them in a seeded random order of its own.
    pub cells: Vec<PlannedCell>,
    /// SHA-256 over everything that is sent and when.
    pub fingerprint: Digest,
}

/// The requests of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCell {
    /// Name of the cell.
    pub name: String,
    /// How requests arrive.
    pub load: Load,
    /// The measured requests, in order.
    pub requests: Vec<PlannedRequest>,
    /// Requests before the measured ones (and, in the closed loop, after them, to hold the load until
    /// the last measured one has ended). Their prompts are outside the measured set.
    pub warmup: Vec<PlannedRequest>,
    /// A request that takes longer has failed.
    pub timeout: Nanos,
    /// A stream that is silent for longer has failed.
    pub stall_timeout: Nanos,
}

/// One request. Its text is made from `prompt` when it is sent, so that a plan stays small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number in its cell, from 0.
    pub number: u32,
    /// Recipe of the prompt.
    pub prompt: PromptRecipe,
    /// Output tokens to ask for.
    pub output_tokens: u32,
    /// Open loop: due instant from the cell's start (warm-up requests come first). Closed loop: none.
    pub due: Option<Nanos>,
}

/// Everything that fixes a prompt's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRecipe {
    /// Seed of the request's own words.
    pub seed: u64,
    /// Length in words, which are tokens of nearly every vocabulary.
    pub words: u32,
    /// Seed and length in words of a prefix shared with other requests, part of `words`.
    pub prefix: Option<(u64, u32)>,
}

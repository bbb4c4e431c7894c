//! A workload: the traffic, as cells.

use crate::base::names::Caches;
use crate::base::units::Nanos;
pub use crate::spec::load::{Burst, Load, Phase};
use crate::spec::target::NamedFile;

/// A validated workload file.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name; also the name of its folder under `baselines/`.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// Seed of everything random in its plan.
    pub seed: u64,
    /// Where prompts are sent as token ids and not as text: the size of the model's vocabulary.
    pub vocabulary: Option<u32>,
    /// How the server's caches are kept from answering with what earlier runs left; none: they are left as they are.
    pub caches: Option<Caches>,
    /// The operating points, in file order; at least one, names unique. Each phase of a cell is one of its own,
    /// and the phases of a cell follow each other in the order of their time line.
    pub cells: Vec<Cell>,
}

/// One operating point: a load level and a request shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name, for example `c8`; with the phase unless it is the steady one, for example `c8/burst`.
    pub name: String,
    /// Which part of its cell's time line this is.
    pub phase: Phase,
    /// How requests arrive.
    pub load: Load,
    /// Measured requests per run.
    pub requests: u32,
    /// Requests before the measured ones, outside the plan's prompts, not drained before them.
    pub warmup: u32,
    /// The trace whose requests the cell repeats; its load is then [`Load::Trace`].
    pub trace: Option<Replay>,
    /// Prompt length in tokens.
    pub prompt_tokens: Lengths,
    /// Output length in tokens, forced where the engine allows it; with a trace, of the answers whose length it does not
    /// tell.
    pub output_tokens: Lengths,
    /// Prefixes shared between requests; none by default.
    pub shared_prefix: Option<SharedPrefix>,
    /// Open loop: at most this many requests in flight; more wait for their turn, and their latency counts.
    pub max_connections: Option<u32>,
    /// A request that takes longer has failed.
    pub timeout: Nanos,
    /// A stream that is silent for longer has failed.
    pub stall_timeout: Nanos,
}

impl Cell {
    /// Measured requests that are sure to be asked for answers of two tokens or more.
    pub fn long_answers(&self) -> u32 {
        let drawn = if self.output_tokens.least() < 2 { 0 } else { self.requests };
        self.trace.as_ref().map_or(drawn, |trace| trace.long_answers)
    }

    /// Gaps between tokens that the measured requests are sure to have.
    pub fn least_gaps(&self) -> u64 {
        let drawn = || u64::from(self.requests).saturating_mul(self.output_tokens.least().saturating_sub(1).into());
        self.trace.as_ref().map_or_else(drawn, |trace| trace.least_gaps)
    }
}

/// A trace that a cell repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The file, by its path from the workload's folder, and where the workload names it.
    pub file: NamedFile,
    /// Measured requests with answers of two tokens or more. Zero until the trace was read, as below.
    pub long_answers: u32,
    /// Gaps between tokens that the measured requests have at least.
    pub least_gaps: u64,
}

/// A distribution of token counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(u32),
    /// Uniform on `min..=max`.
    Uniform {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Log-normal, truncated to `min..=max`.
    LogNormal {
        /// Median of the untruncated distribution.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Lengths with weights (non-empty, positive weights).
    Table(Vec<(u32, f64)>),
    /// Those of the cell's trace.
    Traced,
}

/// Prefixes shared between requests of a cell, for cells that are about the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// Number of different prefixes; requests take one at random.
    pub groups: u32,
    /// Length of each in tokens, part of the prompt length.
    pub tokens: u32,
}

impl Lengths {
    /// The smallest length that may be drawn; 1 where a trace decides.
    pub fn least(&self) -> u32 {
        match self {
            Self::Fixed(length) => *length,
            Self::Uniform { min, .. } | Self::LogNormal { min, .. } => *min,
            Self::Traced => 1,
            Self::Table(weights) => weights.iter().map(|(length, _)| *length).min().unwrap_or_default(),
        }
    }
}

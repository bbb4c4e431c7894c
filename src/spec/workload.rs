//! A workload: the traffic, as cells.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::base::names::Caches;
use crate::base::units::Nanos;
pub use crate::spec::load::{Burst, Load, Phase};
use crate::spec::slice::Context;
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
    /// How prompts are sent.
    pub prompts: Prompts,
    /// How the server's caches are kept from answering with what earlier runs left; none: they are left as they are.
    pub caches: Option<Caches>,
    /// The operating points, in file order; at least one, names unique. Each phase of a cell is one of its own,
    /// and the phases of a cell follow each other in the order of their time line.
    pub cells: Vec<Cell>,
}

/// How prompts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// Text of words that are one token each in nearly every vocabulary.
    Text,
    /// Token ids.
    TokenIds {
        /// Size of the model's vocabulary.
        vocabulary: u32,
    },
    /// Text that has its length by the target's tokenizer file.
    Exact,
}

/// What prompts of exact length say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// English prose.
    #[default]
    English,
    /// German prose.
    German,
    /// French prose.
    French,
    /// Spanish prose.
    Spanish,
    /// Chinese prose.
    Chinese,
    /// A program.
    Code,
}

impl Content {
    /// All.
    pub const ALL: [Self; 6] = [Self::English, Self::German, Self::French, Self::Spanish, Self::Chinese, Self::Code];

    /// As people write it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::English => "english",
            Self::German => "german",
            Self::French => "french",
            Self::Spanish => "spanish",
            Self::Chinese => "chinese",
            Self::Code => "code",
        }
    }

    /// The content of this name.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|content| content.id() == id)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
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
    /// What its requests look like: its classes, or one class without a name. Never empty.
    pub classes: Vec<Class>,
    /// Open loop: at most this many requests in flight; more wait for their turn, and their latency counts.
    pub max_connections: Option<u32>,
    /// A request that takes longer has failed.
    pub timeout: Nanos,
    /// A stream that is silent for longer has failed.
    pub stall_timeout: Nanos,
}

impl Cell {
    /// The names of the classes that its measured requests have, in order; none where it has no classes.
    pub fn class_names(&self) -> BTreeSet<&str> {
        let drawn = self.classes.iter().filter_map(|class| class.name.as_deref());
        let traced = self.trace.iter().flat_map(|trace| trace.parts.keys());
        drawn.chain(traced.filter_map(Option::as_deref)).collect()
    }

    /// What its measured requests of a class are sure to have; without a class, all of them.
    pub fn sure(&self, class: Option<&str>) -> Sure {
        let wanted = |name: Option<&str>| class.is_none() || name == class;
        if let Some(trace) = &self.trace {
            let parts = trace.parts.iter().filter(|(name, _)| wanted(name.as_deref()));
            return parts.fold(Sure::default(), |sum, (_, part)| sum.and(*part));
        }
        let drawn = self.classes.iter().zip(self.class_counts()).filter(|(class, _)| wanted(class.name.as_deref()));
        drawn.fold(Sure::default(), |sum, (class, count)| sum.and(Sure::of(count, class.output_tokens.least())))
    }

    /// How many of its measured requests each class has, in the order of the classes.
    pub fn class_counts(&self) -> Vec<u32> {
        shares(&self.classes, self.requests)
    }
}

/// How many of the first `requests` requests of a cell each class has, as [`sequence`] deals them.
pub fn shares(classes: &[Class], requests: u32) -> Vec<u32> {
    let mut counts = vec![0_u32; classes.len()];
    for class in sequence(classes).take(usize::try_from(requests).unwrap_or(usize::MAX)) {
        if let Some(count) = counts.get_mut(class) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// Deals an endless list of requests to the classes, as indices: of any number of first requests each class has its share to
/// within one. The chairman assignment of Tijdeman (1980, Discrete Mathematics 32): of the classes that are far enough
/// behind their share, the one that would first be a whole request behind.
pub fn sequence(classes: &[Class]) -> impl Iterator<Item = usize> {
    let total: f64 = classes.iter().map(|class| class.weight).sum();
    let shares: Vec<f64> = classes.iter().map(|class| class.weight / total).collect();
    let slack = 1.0 / (2.0 * real(shares.len()) - 2.0).max(1.0);
    let mut dealt = vec![0.0; shares.len()];
    (1..).map(move |number: u32| {
        let behind = |(share, dealt): (&f64, &f64)| f64::from(number) * share - dealt;
        let late = shares.iter().zip(&dealt).map(|both| (behind(both), (1.0 - slack - behind(both)) / both.0));
        // Where rounding leaves nobody far enough behind, all are asked.
        let order = |(behind, patience): (f64, f64)| (behind < slack - 1e-9, patience);
        let class = late
            .map(order)
            .enumerate()
            .min_by(|(_, one), (_, other)| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let class = class.map_or(0, |(class, _)| class);
        if let Some(count) = dealt.get_mut(class) {
            *count += 1.0;
        }
        class
    })
}

#[expect(clippy::cast_precision_loss, reason = "a cell has few classes")]
fn real(count: usize) -> f64 {
    count as f64
}

/// Requests of one kind among those of a cell: what they look like and how frequent they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Name, for example `chat`; none where the cell has no classes.
    pub name: Option<String>,
    /// Its share of the requests is its weight among those of all classes of the cell. Positive.
    pub weight: f64,
    /// Prompt length in tokens.
    pub prompt_tokens: Lengths,
    /// Output length in tokens, forced where the engine allows it.
    pub output_tokens: Lengths,
    /// Prompt and output lengths together, in which case the two above are its margins; empty where they are apart.
    pub lengths: Vec<LengthRow>,
    /// Prefixes shared between requests of the class; none by default.
    pub shared_prefix: Option<SharedPrefix>,
    /// What its prompts say, where their length is exact.
    pub content: Content,
}

impl Class {
    /// The only one of a cell without classes.
    pub const fn only(prompt_tokens: Lengths, output_tokens: Lengths) -> Self {
        Self {
            name: None,
            weight: 1.0,
            prompt_tokens,
            output_tokens,
            lengths: Vec::new(),
            shared_prefix: None,
            content: Content::English,
        }
    }

    /// The only one of a cell, with lengths from a table.
    pub fn joint(lengths: Vec<LengthRow>) -> Self {
        let margin = |of: fn(&LengthRow) -> Range| lengths.iter().map(|row| (of(row), row.weight)).collect();
        let [prompts, outputs] = [margin(|row| row.prompt), margin(|row| row.output)].map(Lengths::Ranges);
        Self { lengths, ..Self::only(prompts, outputs) }
    }
}

/// Token counts from one to another, both among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// Smallest.
    pub min: u32,
    /// Largest.
    pub max: u32,
}

/// Requests whose prompts and answers have lengths of these ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthRow {
    /// Prompt length in tokens.
    pub prompt: Range,
    /// Output length in tokens.
    pub output: Range,
    /// Its share of the requests is its weight among those of all rows. Positive.
    pub weight: f64,
}

/// A trace that a cell repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The file, by its path from the workload's folder, and where the workload names it.
    pub file: NamedFile,
    /// Its measured requests by their class; empty until the trace was read.
    pub parts: BTreeMap<Option<String>, Sure>,
}

/// What some requests of a cell are sure to have, whatever is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sure {
    /// How many they are.
    pub requests: u64,
    /// Those with answers of two tokens or more.
    pub long_answers: u64,
    /// Gaps between tokens.
    pub gaps: u64,
}

impl Sure {
    /// So many requests with answers of at least so many tokens.
    pub fn of(requests: u32, tokens: u32) -> Self {
        let requests = u64::from(requests);
        let gaps = requests.saturating_mul(tokens.saturating_sub(1).into());
        Self { requests, long_answers: if tokens > 1 { requests } else { 0 }, gaps }
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            long_answers: self.long_answers.saturating_add(other.long_answers),
            gaps: self.gaps.saturating_add(other.gaps),
        }
    }
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
    /// Ranges with weights: one side of a table of prompts and answers.
    Ranges(Vec<(Range, f64)>),
    /// Those of the cell's trace.
    Traced,
}

/// Prefixes shared between requests of a class, for cells that are about the prefix cache.
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
            Self::Ranges(ranges) => ranges.iter().map(|(range, _)| range.min).min().unwrap_or_default(),
            Self::Table(weights) => weights.iter().map(|(length, _)| *length).min().unwrap_or_default(),
        }
    }

    /// Whether a length in this range may be drawn.
    pub fn reaches(&self, range: Context) -> bool {
        match self {
            Self::Fixed(length) => range.holds(*length),
            Self::Uniform { min, max } | Self::LogNormal { min, max, .. } => range.from <= *max && range.upto > *min,
            Self::Table(weights) => weights.iter().any(|(length, _)| range.holds(*length)),
            Self::Ranges(ranges) => ranges.iter().any(|(part, _)| range.from <= part.max && range.upto > part.min),
            // Only the trace knows.
            Self::Traced => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn classes(weights: &[f64]) -> Vec<Class> {
        let class = |weight: &f64| Class { weight: *weight, ..Class::only(Lengths::Fixed(1), Lengths::Fixed(1)) };
        weights.iter().map(class).collect()
    }

    #[test]
    fn shares_are_those_of_the_weights() {
        assert_eq!(shares(&classes(&[19.0, 1.0]), 200), [190, 10]);
        assert_eq!(shares(&classes(&[1.0, 1.0, 1.0]), 100), [34, 33, 33]);
        assert_eq!(shares(&classes(&[0.1, 0.2, 0.7]), 10), [1, 2, 7]);
        assert_eq!(shares(&classes(&[1e-6, 1e6]), 1_000), [0, 1_000]);
        assert_eq!(shares(&classes(&[5.0]), 17), [17]);
    }

    proptest! {
        #[test]
        fn shares_are_exact_to_one_and_never_shrink(weights in prop::collection::vec(0.001..1_000.0_f64, 1..9), n in 0_u32..5_000) {
            let (classes, total) = (classes(&weights), weights.iter().sum::<f64>());
            let found = shares(&classes, n);
            prop_assert_eq!(found.iter().sum::<u32>(), n);
            for (share, weight) in found.iter().zip(&weights) {
                prop_assert!((f64::from(*share) - f64::from(n) * weight / total).abs() <= 1.0 + 1e-9);
            }
            prop_assert!(shares(&classes, n + 20).iter().zip(&found).all(|(more, share)| more >= share));
        }
    }
}

//! A workload: the traffic, as cells.

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
    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name.as_deref() == Some(name))
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
    /// Prefixes shared between requests of the class; none by default.
    pub shared_prefix: Option<SharedPrefix>,
    /// What its prompts say, where their length is exact.
    pub content: Content,
    /// Its requests are those of another class again, whose lengths and prefixes these are.
    pub repeats: Option<Repeats>,
}

impl Class {
    /// The only one of a cell without classes.
    pub const fn only(prompt_tokens: Lengths, output_tokens: Lengths) -> Self {
        let content = Content::English;
        Self { name: None, weight: 1.0, prompt_tokens, output_tokens, shared_prefix: None, content, repeats: None }
    }
}

/// Which requests of the cell are sent again, word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// Name of the class of those that are sent first; one that repeats nothing.
    pub class: String,
    /// How many requests of the cell after the first one a repeat comes at least, where that is written; positive.
    pub after: Option<u32>,
}

impl Repeats {
    /// How many requests after the first one a repeat comes at least: by default twice as many as are in flight, so that
    /// the first one has ended; in an open loop nobody knows how many that are, and it is [`FAR`](Self::FAR).
    pub fn distance(&self, load: Load) -> u32 {
        let usual = match load {
            Load::Closed { concurrency } => concurrency.saturating_mul(2),
            Load::Idle { .. } => 2,
            _ => Self::FAR,
        };
        self.after.unwrap_or(usual)
    }

    /// The distance in an open loop.
    pub const FAR: u32 = 64;
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

/// Prefixes shared between requests of a class, for cells that are about the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedPrefix {
    /// Number of different prefixes; requests take one at random.
    pub groups: u32,
    /// Length of each in tokens, part of the prompt length.
    pub tokens: u32,
    /// The exponent of Zipf's law, above 0: the n-th prefix is taken n^-zipf as often as the first. None: all as often.
    pub zipf: Option<f64>,
    /// Tokens at its start in which all prefixes are alike; fewer than `tokens`.
    pub system_tokens: u32,
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

    /// Whether a length in this range may be drawn.
    pub fn reaches(&self, range: Context) -> bool {
        match self {
            Self::Fixed(length) => range.holds(*length),
            Self::Uniform { min, max } | Self::LogNormal { min, max, .. } => range.from <= *max && range.upto > *min,
            Self::Table(weights) => weights.iter().any(|(length, _)| range.holds(*length)),
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

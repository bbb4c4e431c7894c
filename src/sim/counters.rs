//! What the simulated engine counts about itself in virtual time: the numbers of the HTTP server's page without a page.

use std::collections::BTreeMap;

use crate::base::units::Nanos;
use crate::sim::engine::Gauges;
use crate::sim::prefix::Lookups;
use crate::wire::counters::{Meter, Quantity, Reading, Snapshot};

/// Counters since the boot. An engine without a prefix cache says nothing of one.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The engine's state when it was asked last.
    pub(super) gauges: Gauges,
    /// Tokens of a block of its cache.
    pub(super) block_tokens: u32,
    prompt_tokens: u64,
    generated_tokens: u64,
    /// Readings that were begun.
    begun: u64,
    /// Those that were not taken, by number.
    readings: BTreeMap<u64, Snapshot>,
}

impl Counted {
    /// Those of an engine with cache blocks of so many tokens.
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens, ..Self::default() }
    }

    /// A token of an answer has left the engine.
    pub(super) fn token(&mut self, index: u32, prompt_tokens: u32) {
        if index == 0 {
            self.prompt_tokens += u64::from(prompt_tokens);
        }
        self.generated_tokens += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation are far below 2^53")]
    fn snapshot(&self) -> Snapshot {
        let Gauges { running, waiting, used_blocks, total_blocks, preemptions, prefixes } = self.gauges;
        let prefixes = prefixes.map(|Lookups { queries, hits }| {
            [(Quantity::CacheQueries, queries as f64), (Quantity::CacheHits, hits as f64)]
        });
        let counted = [
            (Quantity::PromptTokens, self.prompt_tokens as f64),
            (Quantity::GeneratedTokens, self.generated_tokens as f64),
            (Quantity::Preemptions, preemptions as f64),
            (Quantity::Running, running as f64),
            (Quantity::Waiting, waiting as f64),
            (Quantity::KvUse, f64::from(used_blocks) / f64::from(total_blocks.max(1))),
        ];
        let snapshot = Snapshot::known(counted.into_iter().chain(prefixes.into_iter().flatten()));
        if prefixes.is_some() { snapshot.in_blocks(self.block_tokens) } else { snapshot }
    }
}

impl Meter for Counted {
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.readings.insert(self.begun, self.snapshot());
        self.begun
    }

    fn reading(&mut self, number: u64) -> Result<Reading, String> {
        self.readings = self.readings.split_off(&number);
        let snapshot = self.readings.remove(&number).ok_or_else(|| "no reading was begun".to_owned())?;
        Ok(Reading { snapshot, took: Nanos::ZERO, at_unix_s: None })
    }
}

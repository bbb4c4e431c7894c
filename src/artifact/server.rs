//! What the server counted while a cell, or a phase of it, was measured, from its own page at the borders of the window,
//! and whether it agrees with what was measured.

use serde::{Deserialize, Serialize};

use crate::artifact::record::{Record, TokenSource};
use crate::wire::counters::{Quantity, Reading};

/// The share of the measured output tokens by which the server's count may differ for no reason that is known.
pub const TOKEN_TOLERANCE: f64 = 0.05;
/// The same in tokens, for cells with few.
pub const TOKEN_FLOOR: f64 = 64.0;
/// A process that started so many seconds before the first reading may have started after it: clocks are read in
/// whole seconds.
const SAME_SECOND: f64 = 2.0;

/// What the server counted between the first and the last reading. Unknown stays unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerEvidence {
    /// Prompt tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<f64>,
    /// Generated tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated_tokens: Option<f64>,
    /// Preemptions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_queries: Option<f64>,
    /// Prompt tokens found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<f64>,
    /// Tokens of a block of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_tokens: Option<u32>,
    /// Requests in the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Levels>,
    /// Requests in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Levels>,
    /// Share of the key-value cache in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_use: Option<Levels>,
    /// A counter went backwards, or the process started inside the cell: the server was restarted. What it counted is
    /// then unknown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub restarted: bool,
    /// How long after the window's start the first reading was there, in microseconds.
    pub first_read_us: u64,
    /// How long after the window's end the last reading was there, in microseconds.
    pub last_read_us: u64,
    /// Most output tokens that the measured requests may have caused.
    pub asked_tokens: u64,
    /// Most output tokens that other requests of servegate may have added: those in flight when the window began
    /// (warm-up, the phase before), those that hold a closed loop's load to its end, and those of the next phase that
    /// were due before the last reading was there.
    pub others_tokens: u64,
    /// Most output tokens of the measured requests that were in flight when the next phase began: the server may have
    /// counted them after the last reading.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A level at both borders.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// When the window began.
    pub start: f64,
    /// When its last measured request had ended, or the next phase began.
    pub end: f64,
}

/// What servegate itself caused, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caused {
    /// Output tokens of the measured requests.
    pub asked_tokens: u64,
    /// Output tokens of all others that may fall between the readings.
    pub others_tokens: u64,
    /// Output tokens of the measured requests that may fall after them.
    pub left_tokens: u64,
}

/// The last reading is not of the server of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another server answered at the end of the cell than at its start: several answer under one URL")]
pub struct AnotherServer;

impl ServerEvidence {
    /// The difference of two readings.
    ///
    /// # Errors
    /// [`AnotherServer`]: the processes differ, and that of the last reading is not younger than the first reading.
    pub fn between(first: &Reading, last: &Reading, caused: Caused) -> Result<Self, AnotherServer> {
        let get = |reading: &Reading, quantity| reading.snapshot.get(quantity);
        let both = |quantity| Some((get(first, quantity)?, get(last, quantity)?));
        let new_process = match both(Quantity::Started) {
            Some((before, after)) if (after - before).abs() >= 1.0 => {
                let oldest = first.at_unix_s.map_or(before, |at| at - SAME_SECOND);
                if after < oldest {
                    return Err(AnotherServer);
                }
                true
            }
            Some(_) | None => false,
        };
        let counters = [
            Quantity::PromptTokens,
            Quantity::GeneratedTokens,
            Quantity::Preemptions,
            Quantity::CacheQueries,
            Quantity::CacheHits,
        ];
        let backwards = counters.iter().any(|counter| both(*counter).is_some_and(|(before, after)| after < before));
        let restarted = new_process || backwards;
        let counted = |quantity| both(quantity).filter(|_| !restarted).map(|(before, after)| after - before);
        let level = |quantity| both(quantity).map(|(start, end)| Levels { start, end });
        Ok(Self {
            prompt_tokens: counted(Quantity::PromptTokens),
            generated_tokens: counted(Quantity::GeneratedTokens),
            preemptions: counted(Quantity::Preemptions),
            cache_queries: counted(Quantity::CacheQueries),
            cache_hits: counted(Quantity::CacheHits),
            block_tokens: last.snapshot.block_tokens(),
            running: level(Quantity::Running),
            waiting: level(Quantity::Waiting),
            kv_use: level(Quantity::KvUse),
            restarted,
            first_read_us: micros(first),
            last_read_us: micros(last),
            asked_tokens: caused.asked_tokens,
            others_tokens: caused.others_tokens,
            left_tokens: caused.left_tokens,
        })
    }

    /// Whether every number can be one: finite and not negative.
    pub fn is_sound(&self) -> bool {
        let counted =
            [self.prompt_tokens, self.generated_tokens, self.preemptions, self.cache_queries, self.cache_hits];
        let levels = [self.running, self.waiting, self.kv_use];
        let all = levels.into_iter().flatten().flat_map(|level| [level.start, level.end]);
        counted.into_iter().flatten().chain(all).all(|number| number.is_finite() && number >= 0.0)
    }

    /// The share of the looked-up prompt tokens that came from the prefix cache; none without look-ups.
    pub fn cache_hit_share(&self) -> Option<f64> {
        self.cache_queries.zip(self.cache_hits).filter(|(queries, _)| *queries > 0.0).map(|(all, hits)| hits / all)
    }
}

fn micros(reading: &Reading) -> u64 {
    reading.took.to_stored_resolution().0.div_euclid(1_000)
}

/// The server's count of output tokens beside ours.
///
/// A measured request lies wholly inside the window, or was in flight at its end, where the next phase began. So the
/// server counts at least what was measured, but for the latter and for what it generated before the first reading was
/// there. Beyond that it may count the parts of other requests of servegate
/// that fall into the window (an engine that counts a request when it ends counts all of it), what followed until the
/// last reading, and what measured requests without a known count got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBalance {
    /// What the server counted.
    pub server: f64,
    /// What was measured.
    pub ours: f64,
    /// The least that the server may have counted.
    pub least: f64,
    /// The most that the requests of servegate explain.
    pub most: f64,
    /// Whether a measured request's tokens were not counted by the server, so that a difference is no proof.
    pub estimated: bool,
}

impl TokenBalance {
    /// The balance of a cell with these records and this window; none where the server did not tell.
    #[expect(clippy::cast_precision_loss, reason = "token counts and times of a run are far below 2^53")]
    pub fn of(server: &ServerEvidence, records: &[&Record], window_us: u64) -> Option<Self> {
        let counted = server.generated_tokens?;
        let known: Vec<f64> = records.iter().filter_map(|record| record.output_tokens).map(f64::from).collect();
        let ours: f64 = known.iter().sum();
        let largest = known.iter().copied().fold(0.0, f64::max);
        let (asked, others) = (server.asked_tokens as f64, server.others_tokens as f64);
        let left = server.left_tokens as f64;
        // More than was asked for came back (several choices): the others may have got as much more.
        let factor = if asked > 0.0 { (ours / asked).max(1.0) } else { 1.0 };
        let missed = server.first_read_us as f64 / (window_us.max(1) as f64);
        let tolerance = (TOKEN_TOLERANCE * ours).max(TOKEN_FLOOR);
        let at_most = if known.len() < records.len() { ours.max(asked * factor) } else { ours };
        Some(Self {
            server: counted,
            ours,
            least: ours * (1.0 - missed) - tolerance - largest - left * factor,
            most: at_most + others * factor + tolerance,
            estimated: records.iter().any(|record| record.tokens_from != TokenSource::Usage),
        })
    }

    /// The server generated more than servegate asked it for: somebody else did.
    pub fn is_foreign(&self) -> bool {
        self.server > self.most && !self.estimated
    }

    /// The server counted less than what came: its page is not that of all servers that answered.
    pub fn is_partial(&self) -> bool {
        self.server < self.least
    }

    /// The server counted more, and ours are those of chunks or of text: they are likely too low.
    pub fn is_underestimate(&self) -> bool {
        self.server > self.most && self.estimated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::samples::{refused, streamed};
    use crate::base::units::Nanos;
    use crate::wire::counters::Snapshot;

    fn reading(at: f64, numbers: &[(Quantity, f64)]) -> Reading {
        let snapshot = Snapshot::known(numbers.iter().copied());
        Reading { snapshot, took: Nanos::from_micros(1_500), at_unix_s: Some(at) }
    }

    const CAUSED: Caused = Caused { asked_tokens: 1_000, others_tokens: 100, left_tokens: 0 };

    #[test]
    fn counters_are_differences_and_gauges_are_levels() {
        use Quantity::{CacheHits, CacheQueries, GeneratedTokens, KvUse, Preemptions, Running};
        let first = reading(50.0, &[(GeneratedTokens, 1e6), (CacheQueries, 40.0), (CacheHits, 4.0), (Running, 8.0)]);
        let last = [(GeneratedTokens, 1e6 + 1_042.0), (CacheQueries, 60.0), (CacheHits, 9.0), (Running, 7.0)];
        let last = reading(60.0, &[&last[..], &[(KvUse, 0.5), (Preemptions, 3.0)]].concat());
        let found = ServerEvidence::between(&first, &last, CAUSED).unwrap();
        assert_eq!((found.generated_tokens, found.cache_hit_share()), (Some(1_042.0), Some(0.25)));
        assert_eq!(found.running, Some(Levels { start: 8.0, end: 7.0 }));
        assert_eq!((found.preemptions, found.kv_use, found.restarted), (None, None, false), "once is not twice");
        assert_eq!((found.first_read_us, found.others_tokens), (1_500, 100));
        assert!(found.is_sound());
    }

    #[test]
    fn a_restart_is_seen_and_another_replica_is_not_taken_for_one() {
        use Quantity::{GeneratedTokens, Started};
        let first = reading(5_000.0, &[(GeneratedTokens, 900.0), (Started, 1_000.0)]);
        let between = |numbers: &[(Quantity, f64)]| ServerEvidence::between(&first, &reading(5_060.0, numbers), CAUSED);
        let same = between(&[(GeneratedTokens, 950.0), (Started, 1_000.4)]).unwrap();
        assert_eq!((same.generated_tokens, same.restarted), (Some(50.0), false));
        for numbers in [[(GeneratedTokens, 4_000.0), (Started, 5_030.0)], [(GeneratedTokens, 10.0), (Started, 1_000.0)]]
        {
            let found = between(&numbers).unwrap();
            assert_eq!((found.generated_tokens, found.restarted), (None, true));
        }
        assert_eq!(between(&[(GeneratedTokens, 4_000.0), (Started, 1_200.0)]), Err(AnotherServer));
        assert_eq!(between(&[(GeneratedTokens, 4.0), (Started, 800.0)]), Err(AnotherServer));
    }

    fn balance(generated: f64, records: &[Record]) -> TokenBalance {
        let caused = ServerEvidence { asked_tokens: 1_000, others_tokens: 100, ..ServerEvidence::default() };
        let server = ServerEvidence { generated_tokens: Some(generated), first_read_us: 10_000, ..caused };
        TokenBalance::of(&server, &records.iter().collect::<Vec<_>>(), 1_000_000).unwrap()
    }

    #[test]
    fn only_what_servegate_cannot_have_caused_is_foreign() {
        let records: Vec<_> = (0..100).map(|n| streamed(n, u64::from(n), 5, 1, 10)).collect();
        let foreign = |generated| balance(generated, &records).is_foreign();
        assert!(!foreign(1_000.0) && !foreign(1_164.0) && foreign(1_165.0));
        let partial = |generated| balance(generated, &records).is_partial();
        assert!(!partial(1_000.0) && !partial(916.0) && partial(915.0));
        assert!(partial(500.0), "one of two replicas");
    }

    #[test]
    fn requests_without_a_count_may_have_got_all_they_asked_for() {
        let mut records: Vec<_> = (0..90).map(|n| streamed(n, u64::from(n), 5, 1, 10)).collect();
        records.extend((90..100).map(|n| refused(n, 1)));
        assert!(!balance(1_164.0, &records).is_foreign() && balance(1_165.0, &records).is_foreign());
        records[0].tokens_from = TokenSource::Chunks;
        let found = balance(2_000.0, &records);
        assert!(!found.is_foreign() && found.is_underestimate());
        // Two choices a request: 2,000 tokens came for 1,000 asked.
        let double: Vec<_> = (0..100).map(|n| streamed(n, u64::from(n), 5, 1, 20)).collect();
        assert!(!balance(2_290.0, &double).is_foreign() && balance(2_310.0, &double).is_foreign());
    }

    #[test]
    fn numbers_that_cannot_be_are_unsound() {
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!ServerEvidence { preemptions: Some(bad), ..ServerEvidence::default() }.is_sound());
            let levels = Some(Levels { start: 0.0, end: bad });
            assert!(!ServerEvidence { kv_use: levels, ..ServerEvidence::default() }.is_sound());
        }
    }
}

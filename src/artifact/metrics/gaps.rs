//! The family of gaps between content chunks: inter-token latency, chunk gap, and the longest gap.

use crate::artifact::metrics::{at_least_shortest, elapsed_ms};
use crate::artifact::record::{Chunk, Record};

/// A chunk gap divided by the tokens of the chunk that ends it. A chunk of unknown size says nothing.
pub(super) fn inter_token(record: &Record, values: &mut Vec<f64>) {
    let per_token = |(before, chunk): (Chunk, Chunk)| {
        let tokens = chunk.tokens.filter(|tokens| *tokens > 0)?;
        Some(at_least_shortest(chunk.at.since(before.at).as_ms() / f64::from(tokens)))
    };
    values.extend(pairs(record).filter_map(per_token));
}

/// The gap between two chunks, however many tokens they hold.
pub(super) fn between_chunks(record: &Record, values: &mut Vec<f64>) {
    values.extend(pairs(record).map(|(before, chunk)| elapsed_ms(before.at, chunk.at)));
}

/// The largest gap of a request: how long its reader saw nothing move. Not defined for a single chunk.
pub(super) fn longest(record: &Record) -> Option<f64> {
    pairs(record).map(|(before, chunk)| chunk.at.since(before.at)).max().map(|gap| at_least_shortest(gap.as_ms()))
}

/// Each chunk with the one before it.
pub(super) fn pairs(record: &Record) -> impl Iterator<Item = (Chunk, Chunk)> {
    record.chunks.iter().copied().zip(record.chunks.iter().copied().skip(1))
}

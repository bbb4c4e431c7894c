//! The stored form of a run: `manifest.json` and `records.jsonl.zst` (`docs/formats.md`). Writing and
//! reading share one set of rules, so that whatever is written can be read again, and nothing else can.

pub mod line;
pub mod manifest;
pub mod read;
pub mod write;

use std::io;

use crate::artifact::run::FORMAT;

/// Longest line of the records, in bytes: the largest response that a transport takes fits.
pub const MAX_LINE: usize = 32 << 20;
/// Largest text of a run's records, in bytes: about 80 million tokens.
pub const MAX_TEXT: u64 = 512 << 20;
/// Largest stored (compressed) records, in bytes.
pub const MAX_STORED: u64 = 512 << 20;
/// Largest manifest, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 20;

/// Text of a record without its chunks, in bytes.
const RECORD_TEXT: u64 = 350;
/// Text of a chunk, in bytes: its gap, up to a second, and a comma.
const CHUNK_TEXT: u64 = 7;

/// About how much text the record of an answer takes, in bytes, where each token comes in a chunk of its own.
pub fn record_text(output_tokens: u32) -> u64 {
    CHUNK_TEXT.saturating_mul(output_tokens.into()).saturating_add(RECORD_TEXT)
}

/// Why stored records or a manifest cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The destination refused bytes.
    #[error("cannot write records: {0}")]
    Write(#[source] io::Error),
    /// The compressed bytes end early or are damaged.
    #[error("records are cut or damaged after line {line}: {source}; restore the file from its source")]
    Damaged {
        /// Last whole line.
        line: u64,
        /// What the decoder says.
        #[source]
        source: io::Error,
    },
    /// A line breaks a rule of the format.
    #[error(
        "line {line} of the records is refused: {what}; the file was not written by servegate or was changed since"
    )]
    Line {
        /// Number of the line, from 1; the header is line 1.
        line: u64,
        /// Which rule.
        what: String,
    },
    /// A record that may not be stored.
    #[error("request {request} of cell `{cell}` cannot be stored: {what}")]
    Record {
        /// Cell of the record.
        cell: String,
        /// Number of the request.
        request: u32,
        /// Which rule it breaks.
        what: String,
    },
    /// The manifest breaks a rule of the format.
    #[error("the manifest is refused: {what}; it was not written by servegate or was changed since")]
    Manifest {
        /// Which rule.
        what: String,
    },
    /// Written by a newer version.
    #[error("format {found} is newer than {FORMAT}, the newest that this version reads; use a newer servegate")]
    Newer {
        /// The format of the file.
        found: u32,
    },
    /// More than a reader takes.
    #[error("{what} is larger than {limit} bytes; split the workload into smaller ones")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// Text from outside for a message: no control characters, at most 200 characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(200).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(200).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
pub(crate) mod samples {
    //! Records for tests.

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use crate::artifact::record::{Chunk, Doubt, Outcome, Record, TokenSource};
    use crate::base::digest::ShortDigest;
    use crate::base::units::Nanos;

    /// A successful request of cell `c8`: due at `due_ms`, content every `gap_ms` after `ttft_ms`.
    pub(crate) fn streamed(request: u32, due_ms: u64, ttft_ms: u64, gap_ms: u64, tokens: u32) -> Record {
        let due = Nanos::from_millis(due_ms);
        let at = |n: u32| due + Nanos::from_millis(ttft_ms + gap_ms * u64::from(n));
        let chunks: Vec<Chunk> = (0..tokens).map(|n| Chunk { at: at(n), tokens: Some(1) }).collect();
        let end = chunks.last().map_or(due, |chunk| chunk.at);
        Record {
            cell: "c8".to_owned(),
            request,
            class: None,
            turn: None,
            due,
            sent: due,
            connect: None,
            tls: None,
            head: Some(at(0)),
            first_byte: Some(at(0)),
            first_answer: Some(at(0)),
            reads: tokens,
            chunks,
            end,
            prompt_tokens: Some(512),
            cached_tokens: Some(0),
            output_tokens: Some(tokens),
            reasoning_tokens: None,
            tokens_from: TokenSource::Usage,
            doubt: None,
            text_bytes: 4 * u64::from(tokens),
            text_digest: (tokens > 0).then_some(ShortDigest(0xff)),
            finish: Some("length".to_owned()),
            outcome: Outcome::Ok,
            detail: None,
        }
    }

    /// A request that was refused at once.
    pub(crate) fn refused(request: u32, due_ms: u64) -> Record {
        Record {
            outcome: Outcome::Shed,
            chunks: Vec::new(),
            reads: 0,
            head: None,
            first_byte: None,
            first_answer: None,
            output_tokens: None,
            detail: Some("503 busy".to_owned()),
            ..streamed(request, due_ms, 1, 1, 1)
        }
    }

    /// Every shape that a record can have.
    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let outcome = prop::sample::select(vec![
            Outcome::Ok,
            Outcome::Truncated,
            Outcome::WrongLength,
            Outcome::Empty,
            Outcome::InStreamError,
            Outcome::Malformed,
            Outcome::HttpError,
            Outcome::Shed,
            Outcome::Stalled,
            Outcome::TimedOut,
            Outcome::Connection,
            Outcome::ClientFault,
        ]);
        let tokens = prop_oneof![
            3 => Just(Vec::new()).boxed(),
            1 => vec(option::of(0_u32..9), 40).boxed(),
        ];
        let counts = (option::of(any::<u32>()), option::of(any::<u32>()), option::of(any::<u32>()));
        let words = (option::of("[ -~é]{0,40}"), option::of("[a-z_]{0,20}"), "[a-zA-Z0-9._-]{1,20}");
        (0_u64..1 << 40, vec(0_u64..1 << 30, 0..40), tokens, outcome, counts, words, any::<(u32, bool, bool)>())
            .prop_map(|(due, gaps, tokens, outcome, counts, (detail, finish, cell), (request, one, usage))| {
                let mut at = due;
                let chunks: Vec<Chunk> = gaps
                    .iter()
                    .enumerate()
                    .map(|(n, gap)| {
                        at += gap;
                        Chunk { at: Nanos::from_micros(at), tokens: tokens.get(n).copied().unwrap_or(one.then_some(1)) }
                    })
                    .collect();
                Record {
                    cell,
                    request,
                    class: None,
                    turn: None,
                    due: Nanos::from_micros(due),
                    sent: Nanos::from_micros(due),
                    connect: one.then_some(Nanos::from_micros(request.into())),
                    tls: usage.then_some(Nanos::from_micros(7)),
                    head: chunks.first().map(|chunk| chunk.at),
                    first_byte: chunks.first().map(|chunk| chunk.at),
                    first_answer: chunks.get(chunks.len().saturating_sub(2)).filter(|_| one).map(|chunk| chunk.at),
                    reads: request,
                    chunks,
                    end: Nanos::from_micros(at + 7),
                    prompt_tokens: counts.0,
                    cached_tokens: counts.1,
                    output_tokens: counts.2,
                    reasoning_tokens: counts.0,
                    tokens_from: if usage { TokenSource::Usage } else { TokenSource::Chunks },
                    doubt: usage.then_some(Doubt::FewerThanChunks),
                    text_bytes: u64::from(request),
                    text_digest: (request > 0 && usage).then_some(ShortDigest(at.rotate_right(8))),
                    finish,
                    outcome,
                    detail,
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::write::RecordWriter;

    #[test]
    fn the_estimate_of_a_records_text_is_near_it_and_not_below() {
        for (tokens, gap_ms) in [(1, 10), (16, 10), (256, 12), (256, 999), (4_096, 120)] {
            let record = samples::streamed(100_000, 3_600_000, 500, gap_ms, tokens);
            let mut writer = RecordWriter::new(io::sink()).unwrap();
            let empty = writer.text_bytes();
            writer.write(&record).unwrap();
            let (text, estimate) = (writer.text_bytes() - empty, record_text(tokens));
            assert!(text <= estimate && estimate <= 2 * text, "{tokens}: {text} {estimate}");
        }
    }
}

//! Tokens were counted alike. TPOT, throughput and output length are per token: who changes the count changes them all.

use crate::artifact::record::{Record, TokenSource};
use crate::artifact::run::Run;
use crate::base::digest::Digest;
use crate::compare::evidence::Evidence;
use crate::compare::rules::workload::per_cell;
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

/// The largest difference of the share of answers whose tokens the server counted.
const SOURCE_TOLERANCE: f64 = 0.03;
/// The largest relative change of tokens a chunk that needs no explanation.
const PER_CHUNK_TOLERANCE: f64 = 0.05;
/// The largest relative change of the text of a chunk where chunks are taken for tokens: other answers to the same
/// prompts have other words.
const TEXT_OF_A_CHUNK: f64 = 0.2;
/// Of a change of tokens a chunk, so much must be found again in the text of a chunk (on logarithms).
const EXPLAINED: f64 = 0.5;

/// The server counts the tokens of both sides, or of neither; and then a tokenizer those of both, or of neither.
pub(super) fn same_source(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let usage = differs(evidence, TokenSource::Usage, "the server", "make both sides send usage");
    if usage.is_empty() {
        let fix = "give the targets of both sides the same `tokenizer`";
        differs(evidence, TokenSource::Tokenizer, "a tokenizer file", fix)
    } else {
        usage
    }
}

fn differs(evidence: &Evidence<'_>, source: TokenSource, who: &str, fix: &str) -> Vec<Mismatch> {
    let counted = |record: &Record| {
        let counted = f64::from(u8::from(record.tokens_from == source));
        record.is_success().then_some([counted, 1.0])
    };
    per_cell(evidence, counted, |cell, baseline, candidate| {
        ((candidate - baseline).abs() > SOURCE_TOLERANCE).then(|| Mismatch {
            code: "token-source-differs",
            cell: Some(cell.to_owned()),
            message: format!(
                "{who} counted the tokens of {:.0} % of the answers in the baseline and of {:.0} % in the candidate at \
                 {cell}; the others were counted in another way, from chunks or text: {fix}",
                100.0 * baseline,
                100.0 * candidate
            ),
        })
    })
}

/// All that a tokenizer counted was counted by one.
pub(super) fn same_tokenizer(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let counts = |run: &Run| run.records.iter().any(|record| record.tokens_from == TokenSource::Tokenizer);
    let mut files = evidence.all().filter(|(_, run)| counts(run)).map(|(_, run)| run.manifest.tokenizer);
    let first = files.next();
    let name = |file: Option<Digest>| file.map_or_else(|| "none".to_owned(), |file| file.short());
    let other = first.and_then(|first| files.find(|file| *file != first).map(|other| [first, other].map(name)));
    let mismatch = other.map(|[first, other]| {
        let message = format!(
            "output tokens were counted by different tokenizers ({first} and {other}): give the targets of both sides the \
             same `tokenizer` and measure again, or make them send usage"
        );
        whole("tokenizer-differs", message)
    });
    mismatch.into_iter().collect()
}

/// Where chunks are taken for tokens, they hold as much text as before: else they are other chunks.
pub(super) fn same_chunks(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer than 2^53 bytes")]
    let bytes = |record: &Record| {
        let as_tokens =
            record.tokens_from == TokenSource::Chunks && record.output_tokens.map(f64::from) == Some(chunks(record));
        (record.is_success() && as_tokens && record.text_bytes > 0).then(|| [record.text_bytes as f64, chunks(record)])
    };
    per_cell(evidence, bytes, |cell, baseline, candidate| {
        ((candidate / baseline).ln().abs() > TEXT_OF_A_CHUNK.ln_1p()).then(|| Mismatch {
            code: "token-counts-differ",
            cell: Some(cell.to_owned()),
            message: format!(
                "no usage came, so chunks were taken for tokens, and a chunk holds {baseline:.1} bytes of text in the baseline \
                 and {candidate:.1} in the candidate at {cell}: they are not the same unit; make both sides send usage, or give \
                 the targets a `tokenizer`"
            ),
        })
    })
}

fn chunks(record: &Record) -> f64 {
    f64::from(u32::try_from(record.chunks.len()).unwrap_or(u32::MAX))
}

/// Where a chunk holds more tokens than before, it holds more text. Speculative decoding and coarser flushing do
/// both; a server that only says so is not faster.
pub(super) fn same_counts(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let tokens = |record: &Record| Some([f64::from(record.output_tokens?), chunks(record)]);
    #[expect(clippy::cast_precision_loss, reason = "an answer has far fewer than 2^53 bytes")]
    let bytes = |record: &Record| Some([record.text_bytes as f64, chunks(record)]);
    let answers = |record: &Record| record.is_success() && !record.chunks.is_empty();
    let of_text = |judge: &dyn Fn(&str, f64, f64) -> Option<Mismatch>| {
        per_cell(evidence, |record| if answers(record) { bytes(record) } else { None }, judge)
    };
    per_cell(
        evidence,
        |record| if answers(record) { tokens(record) } else { None },
        |cell, baseline, candidate| {
            let grown = (candidate / baseline).ln();
            if grown.abs() <= PER_CHUNK_TOLERANCE.ln_1p() {
                return None;
            }
            let unexplained = |here: &str, b: f64, c: f64| {
                // Where there is no text (tool calls) nothing explains it.
                let explained = if b > 0.0 && c > 0.0 { (c / b).ln() / grown } else { 0.0 };
                (here == cell && explained < EXPLAINED).then(|| Mismatch {
                code: "token-counts-differ",
                cell: Some(cell.to_owned()),
                message: format!(
                    "a content chunk holds {baseline:.2} tokens and {b:.1} bytes of text in the baseline and \
                     {candidate:.2} tokens and {c:.1} bytes in the candidate at {cell}: the counts changed and the text \
                     did not, so nothing per token can be compared; see what the server reports as usage"
                ),
            })
            };
            of_text(&unexplained).pop()
        },
    )
}

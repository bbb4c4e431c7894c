//! What must hold for every stream and every metrics page whatsoever, as ordinary functions: property tests drive them
//! in `cargo test`, and the targets of `fuzz/` for longer.

use crate::base::digest::Digest;
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::wire::counters::Snapshot;
use crate::wire::decoded::{Decoded, TokenSource, Wanted};
use crate::wire::dialect;
use crate::wire::excerpt::DETAIL;
use crate::wire::exposition::{self, MAX_LABELS, MAX_WORD, Sample};
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::{Exchange, Failure, Read};

/// Decodes a body as every interface would, whole and in pieces of `piece` bytes.
///
/// # Errors
/// What does not hold.
pub fn check_body(body: &[u8], piece: usize) -> Result<(), String> {
    Api::ALL
        .iter()
        .try_for_each(|api| check_stream(*api, body, piece, 200).map_err(|broken| format!("{api}: {broken}")))
}

/// Decodes a body as one interface, whole and in pieces of `piece` bytes, ended in order and broken off.
///
/// # Errors
/// What does not hold.
pub fn check_stream(api: Api, body: &[u8], piece: usize, status: u16) -> Result<(), String> {
    let piece = piece.max(1);
    let ends = (piece..body.len()).step_by(piece).chain([body.len()]);
    let pieces: Vec<Read> = (1..).zip(ends).map(|(at, end)| Read { at: Nanos::from_millis(at), end }).collect();
    let last = pieces.last().map_or(Nanos::ZERO, |read| read.at);
    let exchange = |reads: Vec<Read>, failure| Exchange {
        id: 0,
        due: Nanos::ZERO,
        sent: Nanos::ZERO,
        connect: None,
        tls: None,
        status: Some(status),
        head: None,
        body: body.to_vec(),
        reads,
        end: last,
        failure,
        resent: false,
    };
    let wanted = Wanted { output_tokens: 8, forced: piece.is_multiple_of(2) };
    let tokenizer = Tokenizer::new(Digest::of(b""), |text| u32::try_from(text.len().div_ceil(4)).ok());
    let tokenizer = piece.is_multiple_of(3).then_some(&tokenizer);
    let read = |exchange: &Exchange| dialect::of(api).decode_with(tokenizer, exchange, wanted);
    let one = read(&exchange(vec![Read { at: last, end: body.len() }], None));
    let many = read(&exchange(pieces.clone(), None));
    let broken = read(&exchange(pieces, Some(Failure::Stalled)));
    for decoded in [&one, &many, &broken] {
        sane(decoded)?;
    }
    if said(&one) != said(&many) {
        return Err(format!("pieces of {piece} bytes change what was said"));
    }
    if broken.outcome.is_ok() && !many.outcome.is_ok() {
        return Err("a stream that broke off is better than one that ended".to_owned());
    }
    Ok(())
}

/// Reads bytes as a metrics page, and what an engine's counters are made of it.
///
/// # Errors
/// What does not hold.
pub fn check_page(bytes: &[u8]) -> Result<(), String> {
    let page = exposition::parse(bytes);
    let lines = bytes.split(|b| *b == b'\n').count();
    let is_sane = |sample: &Sample<'_>| {
        (1..=MAX_WORD).contains(&sample.name.len())
            && sample.labels.len() <= MAX_LABELS
            && sample.labels.iter().all(|(label, value)| label.len().max(value.len()) <= MAX_WORD)
    };
    let snapshot = Snapshot::of(&page, "m");
    let rules = [
        ("more samples and unread lines than lines", page.samples.len() + page.unread <= lines),
        ("a sample does not fit", page.samples.iter().all(is_sane)),
        ("an engine is told from an empty page", !page.samples.is_empty() || !snapshot.is_of_an_engine()),
    ];
    all_hold(&rules)
}

/// All that does not depend on when bytes came.
fn said(decoded: &Decoded) -> impl PartialEq {
    let tokens: Vec<Option<u32>> = decoded.chunks.iter().map(|chunk| chunk.tokens).collect();
    let counts = [decoded.prompt_tokens, decoded.cached_tokens, decoded.output_tokens, decoded.reasoning_tokens];
    let text = (decoded.text, decoded.text_bytes, decoded.finish.clone(), decoded.ended);
    (decoded.outcome, decoded.detail.clone(), decoded.doubt, tokens, counts, text)
}

/// What holds for every decoded answer.
fn sane(decoded: &Decoded) -> Result<(), String> {
    let fits = |text: &Option<String>, limit: usize| {
        text.as_ref().is_none_or(|text| text.len() <= limit && !text.chars().any(char::is_control))
    };
    let told: Option<u32> = decoded.chunks.iter().try_fold(0_u32, |sum, chunk| sum.checked_add(chunk.tokens?));
    let first_answer_is_a_chunk =
        decoded.first_answer.is_none_or(|first| decoded.chunks.iter().any(|chunk| chunk.at == first));
    let rules = [
        ("a success has a detail, or a failure none", decoded.outcome.is_ok() == decoded.detail.is_none()),
        ("a success has no content", !decoded.outcome.is_ok() || !decoded.chunks.is_empty()),
        ("a success has no tokens", !decoded.outcome.is_ok() || decoded.output_tokens.is_some_and(|tokens| tokens > 0)),
        ("a failure has a doubt", decoded.outcome.is_ok() || decoded.doubt.is_none()),
        ("chunks are out of order", decoded.chunks.is_sorted_by_key(|chunk| chunk.at)),
        ("the first answer is no chunk", first_answer_is_a_chunk),
        ("a chunk of no tokens", decoded.chunks.iter().all(|chunk| chunk.tokens != Some(0))),
        (
            "chunks hold more tokens than were counted",
            told.unwrap_or_default() <= decoded.output_tokens.unwrap_or_default(),
        ),
        (
            "an estimate is below the number of chunks",
            decoded.tokens_from != TokenSource::Chunks
                || u32::try_from(decoded.chunks.len()).unwrap_or(u32::MAX) <= decoded.output_tokens.unwrap_or_default(),
        ),
        ("the finish reason does not fit", fits(&decoded.finish, 64)),
        ("the detail does not fit", fits(&decoded.detail, DETAIL)),
    ];
    all_hold(&rules)
}

fn all_hold(rules: &[(&str, bool)]) -> Result<(), String> {
    match rules.iter().find(|(_, holds)| !holds) {
        Some((broken, _)) => Err((*broken).to_owned()),
        None => Ok(()),
    }
}

//! Answers beside a tokenizer: what it counts where the server does not, and what it says of a usage.

use crate::base::digest::Digest;
use crate::base::names::Api;
use crate::wire::decoded::{Decoded, Doubt, KEPT, Outcome, TokenSource, Wanted};
use crate::wire::dialect;
use crate::wire::dialect::tests::{exchange, frames, tokens};
use crate::wire::tokenizer::Tokenizer;

/// Every space begins a token, and so does the text.
fn words() -> Tokenizer {
    Tokenizer::new(Digest::of(b"words"), |text| {
        let spaces = text.matches(' ').count();
        u32::try_from(spaces + usize::from(!text.starts_with(' ') && !text.is_empty())).ok()
    })
}

/// A completion that comes in these pieces, with these output tokens as usage, read beside a tokenizer.
fn read_with(tokenizer: &Tokenizer, pieces: &[&str], usage: Option<u32>, wanted: Wanted) -> Decoded {
    let text = |text: &&str| serde_json::json!({"choices": [{"text": text}]}).to_string();
    let mut events: Vec<String> = pieces.iter().map(text).collect();
    events.push(r#"{"choices":[{"text":"","finish_reason":"length"}]}"#.to_owned());
    events.extend(
        usage.map(|output| format!(r#"{{"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{output}}}}}"#)),
    );
    events.push("[DONE]".to_owned());
    let stream = exchange(&frames(&events.iter().map(String::as_str).collect::<Vec<_>>()));
    dialect::of(Api::Completions).decode_with(Some(tokenizer), &stream, wanted)
}

fn read(pieces: &[&str], usage: Option<u32>) -> Decoded {
    read_with(&words(), pieces, usage, Wanted { output_tokens: 1_000, forced: false })
}

/// Source and number of the output tokens, and the tokens of each chunk.
fn account(decoded: &Decoded) -> (TokenSource, Option<u32>, Vec<Option<u32>>) {
    (decoded.tokens_from, decoded.output_tokens, tokens(decoded))
}

#[test]
fn without_usage_the_tokenizer_counts_the_text_and_each_chunk_of_it() {
    let decoded = read(&["one two", " three", " four five six"], None);
    assert_eq!(account(&decoded), (TokenSource::Tokenizer, Some(6), vec![Some(2), Some(1), Some(3)]));
    assert_eq!((decoded.outcome, decoded.doubt), (Outcome::Ok, None));
    // A chunk that begins within a word: its parts are three tokens and the whole has two.
    let cut = read(&["one tw", "o"], None);
    assert_eq!(account(&cut), (TokenSource::Tokenizer, Some(2), vec![Some(1), Some(1)]), "as many chunks as tokens");
    let cut = read(&["one tw", "o three"], None);
    assert_eq!(account(&cut), (TokenSource::Tokenizer, Some(3), vec![None, None]));
}

#[test]
fn what_the_server_tells_goes_before_the_tokenizer() {
    let decoded = read(&["one two", " three"], Some(9));
    assert_eq!(account(&decoded), (TokenSource::Usage, Some(9), vec![None, None]));
    let listed = [
        r#"{"choices":[{"index":0,"text":"one two","token_ids":[7,8,9]}]}"#,
        r#"{"choices":[{"index":0,"text":" three","token_ids":[8,9],"finish_reason":"length"}]}"#,
        "[DONE]",
    ];
    let wanted = Wanted { output_tokens: 8, forced: false };
    let stream = exchange(&frames(&listed));
    let decoded = dialect::of(Api::Completions).decode_with(Some(&words()), &stream, wanted);
    assert_eq!(account(&decoded), (TokenSource::Chunks, Some(5), vec![Some(3), Some(2)]));
}

#[test]
fn a_text_that_is_not_all_there_is_not_counted() {
    let long = "word ".repeat(KEPT.div_ceil(5));
    assert_eq!(account(&read(&[&long, "end"], None)).0, TokenSource::Chunks, "only its beginning is kept");
    let call = r#"{"choices":[{"index":0,"delta":{"content":"a b c","tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let stream = exchange(&frames(&[call, "[DONE]"]));
    let wanted = Wanted { output_tokens: 8, forced: false };
    let decoded = dialect::of(Api::Chat).decode_with(Some(&words()), &stream, wanted);
    assert_eq!(account(&decoded), (TokenSource::Chunks, Some(1), vec![Some(1)]));
    // Nor one that the tokenizer cannot count.
    let unable = Tokenizer::new(Digest::of(b""), |_| None);
    let decoded = read_with(&unable, &["one two", " three"], None, wanted);
    assert_eq!(account(&decoded), (TokenSource::Chunks, Some(2), vec![Some(1), Some(1)]));
}

#[test]
fn a_count_of_text_fails_no_forced_length() {
    // Six of eight: two special tokens may have had no text.
    let forced = Wanted { output_tokens: 8, forced: true };
    let decoded = read_with(&words(), &["one two", " three", " four five six"], None, forced);
    assert_eq!((decoded.outcome, decoded.output_tokens), (Outcome::Ok, Some(6)));
    let short = read_with(&words(), &["one two", " three", " four five six"], Some(6), forced);
    assert_eq!(short.outcome, Outcome::WrongLength);
}

#[test]
fn a_usage_far_from_the_text_is_doubtful_and_one_near_it_is_not() {
    let text = " word".repeat(200);
    let doubt = |text: &str, usage| read(&[text], Some(usage)).doubt;
    assert_eq!([180, 200, 201, 220].map(|usage| doubt(&text, usage)), [None; 4]);
    assert_eq!(doubt(&text, 221), Some(Doubt::MoreThanText));
    assert_eq!(doubt(&text, 179), Some(Doubt::FewerThanText));
    // The replacement character stands for bytes that are no text: the tokens said something else.
    assert_eq!(doubt(&format!("{text}\u{fffd}"), 50), None);
    let broken = read_with(&words(), &[&text], Some(50), Wanted { output_tokens: 10, forced: false });
    assert_eq!(broken.doubt, Some(Doubt::MoreThanWanted), "what was asked for decides first");
}

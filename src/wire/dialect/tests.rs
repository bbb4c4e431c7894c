//! Streams as servers send them, case by case. They are written after real ones and shortened.

use std::fmt::Write as _;

use proptest::prelude::*;

use crate::base::digest::Digest;
use crate::base::names::Api;
use crate::base::recorded_tests::shared;
use crate::base::units::Nanos;
use crate::wire::decoded::{Decoded, Outcome, TokenSource, Wanted};
use crate::wire::dialect;
use crate::wire::transport::{Exchange, Failure, Read};

pub(super) const FREE: Wanted = Wanted { output_tokens: 8, forced: false };

/// An exchange of status 200 whose pieces arrived at 10 ms, 20 ms, ...
pub(super) fn exchange<T: AsRef<[u8]>>(pieces: &[T]) -> Exchange {
    let mut body = Vec::new();
    let mut reads = Vec::new();
    for (piece, at) in pieces.iter().zip(1..) {
        body.extend_from_slice(piece.as_ref());
        reads.push(Read { at: Nanos::from_millis(10 * at), end: body.len() });
    }
    let end = Nanos::from_secs(9);
    let (due, sent, head) = (Nanos::ZERO, Nanos(1), Some(Nanos::from_millis(9)));
    Exchange { id: 1, due, sent, connect: None, tls: None, status: Some(200), head, body, reads, end, failure: None }
}

/// The frames of some events, one piece each.
pub(super) fn frames(events: &[&str]) -> Vec<String> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn chat(events: &[&str]) -> Decoded {
    dialect::of(Api::Chat).decode(&exchange(&frames(events)), FREE)
}

/// A chat event with this delta.
fn delta(delta: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    )
}

/// Arrivals of the chunks in milliseconds.
pub(super) fn instants(decoded: &Decoded) -> Vec<u64> {
    decoded.chunks.iter().map(|chunk| chunk.at.0.checked_div(1_000_000).unwrap()).collect()
}

pub(super) fn tokens(decoded: &Decoded) -> Vec<Option<u32>> {
    decoded.chunks.iter().map(|chunk| chunk.tokens).collect()
}

const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#;
const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#;

#[test]
fn a_vllm_chat_stream_is_read_whole() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":37,"total_tokens":39,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}"#;
    let decoded =
        chat(&[ROLE, &delta(r#"{"content":"Hel"}"#), &delta(r#"{"content":"lo \u00e9"}"#), FINISH, usage, "[DONE]"]);
    assert_eq!((decoded.outcome, &decoded.detail, decoded.ended), (Outcome::Ok, &None, true));
    // The role event, the finish, the usage and the end mark are no content and stretch nothing.
    assert_eq!((decoded.first_byte, instants(&decoded)), (Some(Nanos::from_millis(10)), vec![20, 30]));
    assert_eq!(decoded.first_answer, Some(Nanos::from_millis(20)));
    assert_eq!((decoded.prompt_tokens, decoded.cached_tokens, decoded.output_tokens), (Some(37), Some(16), Some(2)));
    // As many chunks as tokens: one each.
    assert_eq!((decoded.tokens_from, tokens(&decoded)), (TokenSource::Usage, vec![Some(1), Some(1)]));
    assert_eq!(
        (decoded.finish.as_deref(), decoded.text, decoded.text_bytes),
        (Some("length"), Digest::of("Hello é".as_bytes()), 8)
    );
}

#[test]
fn a_llama_cpp_completion_with_several_tokens_in_a_chunk_has_unknown_tokens() {
    let text = |text: &str| {
        format!(
            r#"{{"choices":[{{"text":"{text}","index":0,"logprobs":null,"finish_reason":null}}],"object":"text_completion"}}"#
        )
    };
    let last = r#"{"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"length"}],"usage":{"completion_tokens":6,"prompt_tokens":5,"total_tokens":11},"timings":{"cache_n":4,"prompt_ms":26.614}}"#;
    let stream = exchange(&frames(&[&text(" Paris"), &text("."), &text("\\n"), last, "[DONE]"]));
    let decoded = dialect::of(Api::Completions).decode(&stream, FREE);
    assert_eq!((decoded.outcome, decoded.output_tokens, instants(&decoded)), (Outcome::Ok, Some(6), vec![10, 20, 30]));
    assert_eq!(tokens(&decoded), [None; 3]);
}

#[test]
fn usage_in_every_chunk_gives_the_tokens_of_each() {
    let text = |text: &str, n: u32| {
        format!(r#"{{"choices":[{{"text":"{text}"}}],"usage":{{"prompt_tokens":3,"completion_tokens":{n}}}}}"#)
    };
    let total = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#;
    let read = |events: &[&str]| dialect::of(Api::Completions).decode(&exchange(&frames(events)), FREE);
    // The event without text holds no content; its token counts towards the next.
    let decoded = read(&[&text("a", 1), &text("b", 4), &text("", 5), &text("c", 8), total, "[DONE]"]);
    assert_eq!((tokens(&decoded), decoded.output_tokens), (vec![Some(1), Some(3), Some(4)], Some(9)));
    // A count that does not rise tells nothing: all are unknown.
    let decoded = read(&[&text("a", 1), &text("b", 1), total, "[DONE]"]);
    assert_eq!((tokens(&decoded), decoded.outcome), (vec![None, None], Outcome::Ok));
}

#[test]
fn without_usage_every_chunk_counts_as_one_token_and_says_so() {
    let decoded = chat(&[ROLE, &delta(r#"{"content":"a"}"#), &delta(r#"{"content":"b"}"#), FINISH, "[DONE]"]);
    assert_eq!(
        (decoded.tokens_from, decoded.output_tokens, tokens(&decoded)),
        (TokenSource::Chunks, Some(2), vec![Some(1); 2])
    );
    assert_eq!((decoded.outcome, decoded.prompt_tokens), (Outcome::Ok, None));
}

#[test]
fn reasoning_is_content_and_not_yet_an_answer() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":3}}}"#;
    let decoded = chat(&[
        ROLE,
        &delta(r#"{"content":null,"reasoning_content":"Hm"}"#),
        &delta(r#"{"reasoning":"m","reasoning_content":"m"}"#),
        &delta(r#"{"reasoning":"."}"#),
        &delta(r#"{"content":"Yes","reasoning_content":null}"#),
        usage,
        "[DONE]",
    ]);
    assert_eq!((instants(&decoded), decoded.first_answer), (vec![20, 30, 40, 50], Some(Nanos::from_millis(50))));
    assert_eq!((decoded.output_tokens, decoded.reasoning_tokens), (Some(5), Some(3)));
    assert_eq!(decoded.text, Digest::of(b"Hmm.Yes"));
}

#[test]
fn tool_calls_and_refusals_are_answers() {
    let call =
        delta(r#"{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}"#);
    let none = delta(r#"{"tool_calls":[],"function_call":null,"refusal":null}"#);
    let decoded = chat(&[ROLE, &none, &call, FINISH, "[DONE]"]);
    assert_eq!(
        (decoded.outcome, instants(&decoded), decoded.first_answer),
        (Outcome::Ok, vec![30], Some(Nanos::from_millis(30)))
    );
    assert_eq!(chat(&[&delta(r#"{"refusal":"No"}"#), "[DONE]"]).text, Digest::of(b"No"));
}

#[test]
fn comments_and_events_in_one_read_share_its_instant() {
    let [one, two] = ["a", "b"].map(|text| delta(&format!(r#"{{"content":"{text}"}}"#)));
    let (half, rest) = two.split_at(20);
    let pieces = [
        ": PROCESSING\n\n".to_owned(),
        format!("data: {one}\n\ndata: {half}"),
        format!("{rest}\r\n\r\ndata: [DONE]\n\n"),
    ];
    let decoded = dialect::of(Api::Chat).decode(&exchange(&pieces), FREE);
    assert_eq!((decoded.first_byte, instants(&decoded)), (Some(Nanos::from_millis(10)), vec![20, 30]));
    let unstamped = Exchange { reads: Vec::new(), ..exchange(&pieces) };
    assert_eq!(instants(&dialect::of(Api::Chat).decode(&unstamped, FREE)), [9_000, 9_000]);
}

#[test]
fn errors_inside_a_success_are_found_in_every_form() {
    let content = delta(r#"{"content":"a"}"#);
    for (events, message) in [
        (
            vec![content.as_str(), r#"{"error":{"code":500,"message":"engine \u001b[31mdied\n"}}"#, "[DONE]"],
            r"engine \u{1b}[31mdied",
        ),
        (vec![r#"{"error":"out of memory"}"#], "out of memory"),
        (vec![r#"{"object":"error","message":"too long","code":40303}"#], "too long"),
        (
            vec![&content, r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#, "[DONE]"],
            "the server gave up: finish reason abort",
        ),
    ] {
        let decoded = chat(&events);
        assert_eq!((decoded.outcome, decoded.detail.as_deref()), (Outcome::InStreamError, Some(message)));
    }
    for body in [
        "event: error\ndata: boom\n\n",
        "event: error\ndata: {\"message\":\"boom\"}",
        "{\"error\":{\"message\":\"boom\"}}\n",
    ] {
        let decoded = dialect::of(Api::Chat).decode(&exchange(&[body]), FREE);
        assert_eq!((decoded.outcome, decoded.detail.as_deref()), (Outcome::InStreamError, Some("boom")), "{body}");
    }
    assert_eq!(chat(&[&content, r#"{"error":null,"choices":[]}"#, "[DONE]"]).outcome, Outcome::Ok);
}

#[test]
fn streams_that_stop_early_or_say_nothing_are_failures() {
    let content = delta(r#"{"content":"a"}"#);
    let decoded = chat(&[ROLE, &content, FINISH]);
    assert_eq!((decoded.outcome, decoded.chunks.len()), (Outcome::Truncated, 1));
    let cut = format!("data: {content}\n\ndata: {}", content.split_at(30).0);
    assert_eq!(dialect::of(Api::Chat).decode(&exchange(&[cut]), FREE).outcome, Outcome::Truncated);
    // The end mark counts even where its line was not ended.
    let bare = format!("data: {content}\n\ndata: [DONE]");
    assert_eq!(dialect::of(Api::Chat).decode(&exchange(&[bare]), FREE).outcome, Outcome::Ok);
    assert_eq!(chat(&[ROLE, FINISH, "[DONE]"]).outcome, Outcome::Empty);
    assert_eq!(chat(&[]).outcome, Outcome::Empty);
    assert_eq!(chat(&[ROLE]).outcome, Outcome::Truncated);
}

#[test]
fn the_wanted_length_counts_only_where_it_was_forced() {
    let content = delta(r#"{"content":"a"}"#);
    let read = |n: u32, reason: &str, usage: bool, forced: bool| {
        let finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        let usage =
            if usage { format!(r#"{{"choices":[],"usage":{{"completion_tokens":{n}}}}}"#) } else { "{}".to_owned() };
        let stream = exchange(&frames(&[&content, &content, &finish, &usage, "[DONE]"]));
        dialect::of(Api::Chat).decode(&stream, Wanted { output_tokens: 8, forced })
    };
    assert_eq!(read(7, "stop", true, false).outcome, Outcome::Ok);
    assert_eq!(read(8, "stop", true, true).outcome, Outcome::Ok);
    assert_eq!(read(0, "length", false, true).outcome, Outcome::Ok);
    let short = read(7, "length", true, true);
    assert_eq!(
        (short.outcome, short.detail.as_deref()),
        (Outcome::WrongLength, Some("7 of 8 tokens, finish reason length"))
    );
    assert_eq!(read(0, "stop", false, true).outcome, Outcome::WrongLength);
    assert_eq!(read(0, "length", true, false).outcome, Outcome::Malformed, "no tokens, yet content");
}

#[test]
fn broken_streams_are_malformed_and_say_where() {
    let content = delta(r#"{"content":"a"}"#);
    for broken in [
        "<html>",
        "5",
        r#"{"choices":5}"#,
        r#"{"choices":[{"delta":{"content":{}}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]"#,
        r#"{"usage":{"completion_tokens":NaN}}"#,
        r#"{"usage":{"completion_tokens":-3}}"#,
        r#"{"usage":{"prompt_tokens":1e30}}"#,
        r#"{"usage":{"completion_tokens":1e400}}"#,
        r#"{"usage":{"prompt_tokens_details":{"cached_tokens":"all"}}}"#,
    ] {
        let decoded = chat(&[&content, broken, "[DONE]"]);
        assert_eq!((decoded.outcome, decoded.chunks.len()), (Outcome::Malformed, 1), "{broken}");
        assert!(decoded.detail.unwrap().contains("byte"), "{broken}");
    }
    let decoded = dialect::of(Api::Chat).decode(&exchange(&[b"data: {\"x\":\"\xff\"}\n\n"]), FREE);
    assert_eq!(decoded.outcome, Outcome::Malformed);
    assert!(decoded.detail.unwrap().contains("utf-8"));
    let long = dialect::of(Api::Chat).decode(&exchange(&[format!("data: {}\n\n", "x".repeat(5 << 20))]), FREE);
    assert_eq!(long.outcome, Outcome::Malformed);
    for body in ["<!DOCTYPE html>\n<p>login: here", r#"{"choices":[{"message":{"content":"whole"}}]}"#] {
        let decoded = dialect::of(Api::Chat).decode(&exchange(&[body]), FREE);
        assert_eq!((decoded.outcome, decoded.hint.is_some()), (Outcome::Malformed, true), "{body}");
    }
}

#[test]
fn refusals_carry_the_servers_message_and_a_hint() {
    for (status, body, outcome, detail) in [
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist.","code":404}}"#,
            Outcome::HttpError,
            "HTTP 404: The model `x` does not exist.",
        ),
        (422, r#"{"detail":[{"loc":["body"]}]}"#, Outcome::HttpError, r#"HTTP 422: [{"loc":["body"]}]"#),
        (500, "", Outcome::HttpError, "HTTP 500"),
        (429, "slow down", Outcome::Shed, "HTTP 429: slow down"),
        (503, "data: {}\n\n", Outcome::Shed, "HTTP 503: data: {}"),
    ] {
        let refused = Exchange { status: Some(status), ..exchange(&[body]) };
        let decoded = dialect::of(Api::Chat).decode(&refused, FREE);
        assert_eq!((decoded.outcome, decoded.detail.as_deref()), (outcome, Some(detail)));
        assert_eq!(decoded.hint.is_some(), status == 404);
        assert!(decoded.chunks.is_empty());
    }
}

#[test]
fn failures_of_the_exchange_keep_what_came_before_them() {
    let content = format!("data: {}\n\n", delta(r#"{"content":"a"}"#));
    for (failure, outcome, detail) in [
        (Failure::Cut("reset".to_owned()), Outcome::Connection, "1 content events: reset"),
        (Failure::TimedOut, Outcome::TimedOut, "time limit"),
        (Failure::Stalled, Outcome::Stalled, "silent"),
        (Failure::TooLarge, Outcome::Malformed, "67108864 bytes"),
    ] {
        let broken = Exchange { failure: Some(failure.clone()), ..exchange(&[&content]) };
        let decoded = dialect::of(Api::Chat).decode(&broken, FREE);
        assert_eq!((decoded.outcome, decoded.chunks.len()), (outcome, 1));
        assert!(decoded.detail.as_ref().unwrap().contains(detail), "{:?}", decoded.detail);
        // Whatever happens to the connection after the end mark, the answer is whole.
        let whole = Exchange { failure: Some(failure), ..exchange(&[content.as_str(), "data: [DONE]\n\n"]) };
        assert_eq!(dialect::of(Api::Chat).decode(&whole, FREE).outcome, Outcome::Ok);
    }
    for failure in [Failure::Connect("refused\n".to_owned()), Failure::Tls("bad certificate".to_owned())] {
        let none = Exchange { status: None, head: None, failure: Some(failure), ..exchange::<&str>(&[]) };
        let decoded = dialect::of(Api::Chat).decode(&none, FREE);
        assert_eq!((decoded.outcome, decoded.first_byte), (Outcome::Connection, None));
        assert!(!decoded.detail.unwrap().ends_with('\n'));
    }
}

/// Recorded streams of real servers, where they are at hand.
#[test]
fn recorded_streams_decode() {
    for (file, api, chunks, outcome) in [
        ("vllm_real_0.32.0/completions-continuous-usage.sse", Api::Completions, 4, Outcome::Ok),
        ("vllm_real_0.32.0/chat-logprobs.sse", Api::Chat, 4, Outcome::Ok),
        ("llamacpp_real/chat_usage.sse", Api::Chat, 24, Outcome::Ok),
        ("llamacpp_real/tools.sse", Api::Chat, 24, Outcome::Ok),
        ("llamacpp_real_b11434/openai-completions.sse", Api::Completions, 6, Outcome::Ok),
        ("pydantic_ai/test_openrouter_stream_error.0.sse", Api::Chat, 2, Outcome::InStreamError),
        ("pydantic_ai/test_deepseek_model_thinking_stream.0.sse", Api::Chat, 209, Outcome::Ok),
    ] {
        let Some(body) = shared(&format!("data/streams/{file}")) else { continue };
        let decoded = dialect::of(api).decode(&exchange(&[body]), FREE);
        assert_eq!((decoded.outcome, decoded.chunks.len()), (outcome, chunks), "{file}: {:?}", decoded.detail);
    }
}

proptest! {
    #[test]
    fn any_body_in_any_pieces_decodes_to_the_same_content(
        parts in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..8),
                (0..9_usize).prop_map(|kind| {
                    let mut text = String::new();
                    write!(text, "data: {}\n\n", [
                        ROLE, FINISH, "[DONE]", "{}", "5", r#"{"error":"x"}"#, r#"{"usage":{"completion_tokens":2}}"#,
                        r#"{"choices":[{"delta":{"content":"é"}}]}"#, r#"{"choices":[{"delta":{"reasoning":"r"}}]}"#,
                    ][kind]).unwrap();
                    text.into_bytes()
                }),
            ],
            0..12,
        ),
        size in 1_usize..40,
        status in proptest::sample::select(vec![None, Some(200), Some(204), Some(400)]),
    ) {
        let whole = parts.concat();
        let pieces: Vec<&[u8]> = whole.chunks(size).collect();
        for api in [Api::Chat, Api::Completions] {
            let read = |exchange| dialect::of(api).decode(&Exchange { status, ..exchange }, FREE);
            let (one, many) = (read(exchange(&[&whole])), read(exchange(&pieces)));
            prop_assert_eq!((one.outcome, &one.detail, one.text), (many.outcome, &many.detail, many.text));
            prop_assert_eq!(one.chunks.len(), many.chunks.len());
            prop_assert!(many.chunks.is_sorted_by_key(|chunk| chunk.at));
            prop_assert_eq!(many.outcome.is_ok(), many.detail.is_none());
        }
    }
}

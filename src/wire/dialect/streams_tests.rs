//! Streams of the interfaces besides the two OpenAI completions, written after real ones and shortened.

use crate::base::digest::Digest;
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::wire::decoded::{Decoded, Doubt, Outcome, TokenSource, Wanted};
use crate::wire::dialect;
use crate::wire::dialect::tests::{FREE, exchange, frames, instants, tokens};
use crate::wire::transport::{Exchange, Failure};

/// A whole answer of each interface.
pub(super) const WHOLE: [(Api, &[&str]); 10] = [
    (
        Api::Chat,
        &[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning":"Hm"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"é"},"logprobs":{"content":[{"token":"é"}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3}}"#,
            "[DONE]",
        ],
    ),
    (
        Api::Completions,
        &[
            r#"{"choices":[{"index":0,"text":"a","token_ids":[7]}]}"#,
            r#"{"choices":[{"index":0,"text":"b","token_ids":[8,9],"finish_reason":"length"}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3}}"#,
            "[DONE]",
        ],
    ),
    (
        Api::Responses,
        &[
            r#"{"type":"response.created","response":{"status":"in_progress","usage":null,"error":null}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"reasoning","content":[]}}"#,
            r#"{"type":"response.reasoning_text.delta","delta":"Hm"}"#,
            r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
            r#"{"type":"response.output_text.delta","delta":"a","logprobs":[],"obfuscation":"xx"}"#,
            r#"{"type":"response.output_text.done","text":"a"}"#,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}}"#,
        ],
    ),
    (
        Api::Anthropic,
        &[
            r#"{"type":"message_start","message":{"content":[],"stop_reason":null,"usage":{"input_tokens":4,"cache_read_input_tokens":3,"cache_creation_input_tokens":2,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"xx"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    ),
    (
        Api::Tgi,
        &[
            r#"{"index":1,"token":{"id":5,"text":"Hm","special":false},"generated_text":null,"details":null}"#,
            r#"{"index":2,"token":{"id":6,"text":"a","special":false},"generated_text":null,"details":null}"#,
            r#"{"index":3,"token":{"id":2,"text":"</s>","special":true},"generated_text":"Hma","details":{"finish_reason":"eos_token","generated_tokens":3,"input_length":9}}"#,
        ],
    ),
    (
        Api::Sglang,
        &[
            r#"{"text":"Hm","output_ids":[5],"meta_info":{"finish_reason":null,"prompt_tokens":9,"completion_tokens":1,"cached_tokens":4}}"#,
            r#"{"text":"Hm a","output_ids":[5,6,7],"meta_info":{"finish_reason":null,"prompt_tokens":9,"completion_tokens":3,"cached_tokens":4}}"#,
            r#"{"text":"Hm a","output_ids":[5,6,7],"meta_info":{"finish_reason":{"type":"length","length":3},"prompt_tokens":9,"completion_tokens":3,"cached_tokens":4}}"#,
            "[DONE]",
        ],
    ),
    (
        Api::Llamacpp,
        &[
            r#"{"content":"Hm","tokens":[5],"stop":false,"tokens_predicted":1,"tokens_evaluated":9}"#,
            r#"{"content":"é","tokens":[6,7],"stop":false,"tokens_predicted":3,"tokens_evaluated":9}"#,
            r#"{"content":"","tokens":[],"stop":true,"stop_type":"limit","tokens_predicted":3,"tokens_evaluated":9,"timings":{"cache_n":4}}"#,
        ],
    ),
    (
        Api::OllamaChat,
        &[
            r#"{"message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}"#,
            r#"{"message":{"role":"assistant","content":"a"},"done":false}"#,
            r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":2}"#,
        ],
    ),
    (
        Api::OllamaGenerate,
        &[
            r#"{"response":"Hm","done":false}"#,
            r#"{"response":"a","done":false}"#,
            r#"{"response":"","done":true,"done_reason":"length","context":[1,2],"prompt_eval_count":9,"eval_count":2}"#,
        ],
    ),
    (
        Api::Triton,
        &[
            r#"{"model_name":"ensemble","text_output":"Hm","num_input_tokens":9,"num_output_tokens":1}"#,
            r#"{"model_name":"ensemble","text_output":"a b","num_input_tokens":9,"num_output_tokens":2,"finish_reason":"length"}"#,
        ],
    ),
];

/// The pieces of a stream: one an event, in the interface's framing.
pub(super) fn pieces(api: Api, events: &[&str]) -> Vec<String> {
    if dialect::of(api).streams_json_lines() {
        events.iter().map(|event| format!("{event}\n")).collect()
    } else {
        frames(events)
    }
}

fn whole(api: Api) -> &'static [&'static str] {
    WHOLE.iter().find(|(of, _)| *of == api).unwrap().1
}

fn read(api: Api, events: &[&str]) -> Decoded {
    dialect::of(api).decode(&exchange(&pieces(api, events)), FREE)
}

/// Prompt, cached, output and reasoning tokens.
fn counts(decoded: &Decoded) -> [Option<u32>; 4] {
    [decoded.prompt_tokens, decoded.cached_tokens, decoded.output_tokens, decoded.reasoning_tokens]
}

#[test]
fn a_whole_answer_of_each_interface_is_read() {
    let all = |n: &[u32]| n.iter().map(|n| Some(*n)).collect::<Vec<_>>();
    for (api, text, at, answered, chunk_tokens, expected, finish) in [
        (
            Api::Responses,
            "Hma",
            vec![30, 50],
            50,
            all(&[1, 1]),
            [Some(9), Some(4), Some(2), Some(1)],
            "max_output_tokens",
        ),
        (Api::Anthropic, "Hma", vec![30, 70], 70, all(&[1, 1]), [Some(9), Some(3), Some(2), None], "max_tokens"),
        (Api::Tgi, "Hma", vec![10, 20], 10, all(&[1, 1]), [Some(9), None, Some(3), None], "eos_token"),
        (Api::Sglang, "Hm a", vec![10, 20], 10, all(&[1, 2]), [Some(9), Some(4), Some(3), None], "length"),
        (Api::Llamacpp, "Hmé", vec![10, 20], 10, all(&[1, 2]), [Some(9), Some(4), Some(3), None], "limit"),
        (Api::OllamaChat, "Hma", vec![10, 20], 20, all(&[1, 1]), [Some(9), None, Some(2), None], "length"),
        (Api::OllamaGenerate, "Hma", vec![10, 20], 10, all(&[1, 1]), [Some(9), None, Some(2), None], "length"),
        (Api::Triton, "Hma b", vec![10, 20], 10, all(&[1, 2]), [Some(9), None, Some(3), None], "length"),
    ] {
        let decoded = read(api, whole(api));
        assert_eq!((decoded.outcome, &decoded.detail, decoded.doubt), (Outcome::Ok, &None, None), "{api}");
        assert_eq!((decoded.text, decoded.text_bytes), (Digest::of(text.as_bytes()), text.len() as u64), "{api}");
        assert_eq!((instants(&decoded), tokens(&decoded)), (at, chunk_tokens), "{api}");
        assert_eq!(decoded.first_answer, Some(Nanos::from_millis(answered)), "{api}");
        assert_eq!((counts(&decoded), decoded.tokens_from), (expected, TokenSource::Usage), "{api}");
        assert_eq!((decoded.finish.as_deref(), decoded.ended), (Some(finish), api != Api::Triton), "{api}");
    }
}

#[test]
fn every_interface_says_when_its_stream_was_cut_and_when_it_broke() {
    for (api, events) in WHOLE {
        let before_end =
            &events[..events.len() - if matches!(api, Api::Chat | Api::Completions | Api::Sglang) { 2 } else { 1 }];
        let cut = read(api, before_end);
        let expected = if api == Api::Triton { Outcome::Ok } else { Outcome::Truncated };
        assert_eq!(cut.outcome, expected, "{api}: {:?}", cut.detail);
        let broken = Exchange { failure: Some(Failure::Cut("reset".to_owned())), ..exchange(&pieces(api, before_end)) };
        assert_eq!(dialect::of(api).decode(&broken, FREE).outcome, Outcome::Connection, "{api}");
        let mut half = pieces(api, events).concat();
        half.truncate(half.rfind('{').unwrap() + 3);
        assert_ne!(
            dialect::of(api).decode(&exchange(&[half]), FREE).outcome,
            Outcome::Malformed,
            "{api}: half an event"
        );
        for junk in ["5", "<html>", r#"{"x":"#] {
            let mut with_junk = vec![events[0], junk];
            with_junk.extend(&events[1..]);
            assert_eq!(read(api, &with_junk).outcome, Outcome::Malformed, "{api} {junk}");
        }
        let foreign = dialect::of(api).decode(&exchange(&["<!DOCTYPE html>\n<p>login"]), FREE);
        assert_eq!(foreign.outcome, Outcome::Malformed, "{api}");
        assert_eq!(dialect::of(api).decode(&exchange::<&str>(&[]), FREE).outcome, Outcome::Empty, "{api}");
    }
}

#[test]
fn every_interface_reports_errors_inside_a_success() {
    for (api, error) in [
        (
            Api::Responses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"x","message":"boom"}}}"#,
        ),
        (Api::Responses, r#"{"type":"error","code":"x","message":"boom","param":null,"sequence_number":3}"#),
        (Api::Responses, r#"{"error":{"message":"boom"}}"#),
        (Api::Anthropic, r#"{"type":"error","error":{"type":"overloaded_error","message":"boom"}}"#),
        (Api::Tgi, r#"{"error":"boom","error_type":"generation"}"#),
        (Api::Sglang, r#"{"error":{"message":"boom"}}"#),
        (Api::Llamacpp, r#"{"error":{"code":500,"message":"boom","type":"server_error"}}"#),
        (Api::OllamaChat, r#"{"error":"boom"}"#),
        (Api::OllamaGenerate, r#"{"error":"boom"}"#),
        (Api::Triton, r#"{"error":"boom"}"#),
    ] {
        let events = [whole(api)[0], error];
        let decoded = read(api, &events);
        assert_eq!((decoded.outcome, decoded.detail.as_deref()), (Outcome::InStreamError, Some("boom")), "{api}");
        let alone = dialect::of(api).decode(&exchange(&[error]), FREE);
        assert_eq!(
            (alone.outcome, alone.detail.as_deref()),
            (Outcome::InStreamError, Some("boom")),
            "{api}: no framing"
        );
        let named = format!("event: error\ndata: {error}\n\n");
        let named = dialect::of(api).decode(&exchange(&[named]), FREE);
        let expected = if dialect::of(api).streams_json_lines() { Outcome::Malformed } else { Outcome::InStreamError };
        assert_eq!(named.outcome, expected, "{api}");
    }
    let abort = r#"{"text":"Hm","meta_info":{"finish_reason":{"type":"abort","message":"x"},"prompt_tokens":9,"completion_tokens":1}}"#;
    let decoded = read(Api::Sglang, &[abort, "[DONE]"]);
    assert_eq!(decoded.detail.as_deref(), Some("the server gave up: finish reason abort"));
}

#[test]
fn tool_calls_are_content_in_every_interface_that_has_them() {
    for (api, events) in [
        (
            Api::Responses,
            vec![
                r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}"#,
                r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#,
                r#"{"type":"response.completed","response":{"status":"completed","usage":{"output_tokens":5}}}"#,
            ],
        ),
        (
            Api::Anthropic,
            vec![
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{}}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
                r#"{"type":"message_stop"}"#,
            ],
        ),
        (
            Api::OllamaChat,
            vec![
                r#"{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},"done":false}"#,
                r#"{"message":{"content":"a"},"done":false}"#,
                r#"{"message":{"content":""},"done":true,"eval_count":5}"#,
            ],
        ),
    ] {
        let decoded = read(api, &events);
        assert_eq!((decoded.outcome, instants(&decoded)), (Outcome::Ok, vec![10, 20]), "{api}");
        assert_eq!(decoded.first_answer, Some(Nanos::from_millis(10)), "{api}");
        assert_eq!((decoded.output_tokens, tokens(&decoded)), (Some(5), vec![None; 2]), "{api}");
    }
}

#[test]
fn a_stream_without_its_end_mark_is_whole_when_all_before_the_mark_was_said() {
    let text = r#"{"choices":[{"index":0,"text":"a"}]}"#;
    let finish = r#"{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}"#;
    let usage = r#"{"choices":[],"usage":{"completion_tokens":2}}"#;
    for (events, outcome) in [
        (vec![text, finish, usage], Outcome::Ok),
        (vec![text, finish], Outcome::Truncated),
        (vec![text, usage], Outcome::Truncated),
        (vec![text, usage, finish], Outcome::Truncated),
        (vec![text, finish, usage, text], Outcome::Truncated),
    ] {
        assert_eq!(read(Api::Completions, &events).outcome, outcome, "{events:?}");
    }
    let cut = Exchange { failure: Some(Failure::Stalled), ..exchange(&frames(&[text, finish, usage])) };
    assert_eq!(dialect::of(Api::Completions).decode(&cut, FREE).outcome, Outcome::Stalled);
    assert!(!read(Api::Completions, &[text, finish, usage]).ended);
}

#[test]
fn tokens_that_chunks_list_are_theirs() {
    for api in [Api::Chat, Api::Completions] {
        let decoded = read(api, whole(api));
        let expected = if api == Api::Chat { vec![None, None] } else { vec![Some(1), Some(2)] };
        assert_eq!((tokens(&decoded), decoded.doubt), (expected, None), "{api}");
    }
    // Two choices in one event: its tokens are those of both.
    let both = r#"{"choices":[{"index":0,"text":"a","token_ids":[1]},{"index":1,"text":"b","token_ids":[2]}]}"#;
    let usage = r#"{"choices":[],"usage":{"completion_tokens":4}}"#;
    let decoded = read(Api::Completions, &[both, both, usage, "[DONE]"]);
    assert_eq!((tokens(&decoded), decoded.doubt), (vec![Some(2), Some(2)], None));
    // More in the lists than in the usage: neither is believed for single chunks.
    let usage = r#"{"choices":[],"usage":{"completion_tokens":3}}"#;
    let decoded = read(Api::Completions, &[both, both, usage, "[DONE]"]);
    assert_eq!((tokens(&decoded), decoded.doubt), (vec![None, None], Some(Doubt::FewerThanListed)));
    assert_eq!((decoded.outcome, decoded.output_tokens), (Outcome::Ok, Some(3)));
}

#[test]
fn without_usage_the_tokens_that_chunks_list_are_added_up() {
    let text = |ids: &str| format!(r#"{{"choices":[{{"index":0,"text":"a","token_ids":[{ids}]}}]}}"#);
    let decoded = read(Api::Completions, &[&text("1"), &text("2,3"), "[DONE]"]);
    assert_eq!((decoded.output_tokens, decoded.tokens_from), (Some(3), TokenSource::Chunks));
    assert_eq!(tokens(&decoded), vec![Some(1), Some(2)]);
    let decoded = read(Api::Completions, &[&text("1"), &text(""), &text("2,3"), "[DONE]"]);
    assert_eq!((decoded.output_tokens, tokens(&decoded)), (Some(3), vec![Some(1); 3]), "one untold: chunks count");
}

#[test]
fn a_limit_is_known_in_the_words_of_every_interface() {
    let forced = Wanted { output_tokens: 9, forced: true };
    for api in [Api::Responses, Api::Anthropic, Api::Sglang, Api::Llamacpp, Api::Triton] {
        let stream = exchange(&pieces(api, whole(api)));
        assert_eq!(dialect::of(api).decode(&stream, forced).outcome, Outcome::WrongLength, "{api}");
    }
    // Without a count, chunks prove nothing against a limit that was reached, or where no reason is given.
    let counted = [r#"{"text_output":"a"}"#];
    let stream = exchange(&pieces(Api::Triton, &counted));
    let decoded = dialect::of(Api::Triton).decode(&stream, forced);
    assert_eq!((decoded.outcome, decoded.tokens_from), (Outcome::Ok, TokenSource::Chunks));
    let stopped = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let text = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#;
    let stream = exchange(&frames(&[text, stopped, r#"{"type":"message_stop"}"#]));
    assert_eq!(dialect::of(Api::Anthropic).decode(&stream, forced).outcome, Outcome::WrongLength);
}

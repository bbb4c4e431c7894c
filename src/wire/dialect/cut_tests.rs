//! Streams whose response ends in order, somewhere inside of what should have come.

use super::streams_tests::{WHOLE, pieces};
use super::tests::{FREE, exchange, frames};
use crate::base::names::Api;
use crate::wire::decoded::{Outcome, Wanted};
use crate::wire::dialect;

#[test]
fn a_stream_that_ends_inside_an_event_is_never_a_whole_answer() {
    for (api, events) in WHOLE {
        let whole = pieces(api, events).concat();
        let lines = dialect::of(api).streams_json_lines();
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let (came, missing) = whole.split_at(end);
            // A last line without its end may be whole.
            let begun = came.rsplit('\n').next().unwrap();
            let inside = !begun.is_empty() && !missing.starts_with('\n');
            let decoded = dialect::of(api).decode(&exchange(&[came]), FREE);
            assert!(!inside || decoded.outcome != Outcome::Ok, "{api} after {end} bytes: ...{begun}");
            if inside && !decoded.chunks.is_empty() {
                assert_eq!(decoded.outcome, Outcome::Truncated, "{api} after {end} bytes: {:?}", decoded.detail);
            }
            assert!(lines || api != Api::Triton || !decoded.ended);
        }
        assert_eq!(dialect::of(api).decode(&exchange(&[&whole]), FREE).outcome, Outcome::Ok, "{api}");
        let unended = whole.trim_end();
        assert_eq!(
            dialect::of(api).decode(&exchange(&[unended]), FREE).outcome,
            Outcome::Ok,
            "{api}: no last line end"
        );
    }
    let comment = format!("{}: ping", pieces(Api::Triton, &[r#"{"text_output":"a"}"#]).concat());
    assert_eq!(dialect::of(Api::Triton).decode(&exchange(&[comment]), FREE).outcome, Outcome::Ok);
}

#[test]
fn a_forced_length_needs_a_reason_or_a_count_and_every_choice_its_own() {
    let forced = Wanted { output_tokens: 8, forced: true };
    let read = |events: &[&str]| dialect::of(Api::Completions).decode(&exchange(&frames(events)), forced);
    let text = |index: u32| format!(r#"{{"choices":[{{"index":{index},"text":"a"}}]}}"#);
    let usage = |tokens: u32| format!(r#"{{"choices":[],"usage":{{"completion_tokens":{tokens}}}}}"#);
    let finish = r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;
    let (first, second) = (text(0), text(1));
    assert_eq!(read(&[&first, "[DONE]"]).outcome, Outcome::WrongLength, "one chunk, no usage, no reason");
    assert_eq!(read(&[&first, finish, "[DONE]"]).outcome, Outcome::Ok, "a chunk may hold several tokens");
    assert_eq!(read(&[&first, &second, finish, &usage(8), "[DONE]"]).outcome, Outcome::WrongLength, "two of 4");
    let both = read(&[&first, &second, finish, &usage(16), "[DONE]"]);
    assert_eq!((both.outcome, both.doubt), (Outcome::Ok, None), "two of 8");
}

#[test]
fn an_error_line_of_older_servers_and_a_compressed_body_are_named() {
    let content = pieces(Api::Llamacpp, &[r#"{"content":"Hm","stop":false}"#]).concat();
    for end in ["\n\n", "\n", ""] {
        for (api, before) in [(Api::Llamacpp, content.as_str()), (Api::Chat, ""), (Api::Completions, "")] {
            let stream = format!("{before}error: {{\"code\":500,\"message\":\"slot failed\"}}{end}");
            let decoded = dialect::of(api).decode(&exchange(&[stream]), FREE);
            assert_eq!((decoded.outcome, decoded.detail.as_deref()), (Outcome::InStreamError, Some("slot failed")));
        }
    }
    for (body, name) in [
        (&[0x1f, 0x8b, 8, 0, 0, 0][..], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 4], "zstd"),
        (&[0x78, 0x9c, 0x4b, 0x4c], "deflate"),
    ] {
        for api in [Api::Chat, Api::OllamaChat] {
            let decoded = dialect::of(api).decode(&exchange(&[body]), FREE);
            assert_eq!(decoded.outcome, Outcome::Malformed, "{api} {name}");
            assert!(decoded.detail.as_ref().unwrap().contains(name), "{:?}", decoded.detail);
            assert!(decoded.hint.unwrap().contains("content-encoding"), "{:?}", decoded.hint);
        }
    }
}

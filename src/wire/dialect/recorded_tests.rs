//! Recorded streams of real servers, where they are at hand, against a table of the right answers.
//!
//! The table, `recorded.tsv`, was made by another decoder, written for it in another language from the APIs'
//! documentation: file, interface, outcome, content chunks, output tokens, their source, finish reason, bytes of the
//! text, first digits of its digest. Nothing of the streams is in it.

use serde_json::Value;

use crate::base::names::Api;
use crate::base::recorded_tests::shared;
use crate::base::units::Nanos;
use crate::wire::decoded::{Decoded, Outcome, TokenSource, Wanted};
use crate::wire::dialect;
use crate::wire::dialect::tests::frames;
use crate::wire::transport::{Exchange, Read};

const TABLE: &str = include_str!("recorded.tsv");

/// The recordings with their interfaces.
pub(super) fn recordings() -> impl Iterator<Item = (&'static str, Api)> {
    TABLE.lines().map(|row| {
        let mut cells = row.split('\t');
        (cells.next().unwrap(), Api::from_id(cells.next().unwrap()).unwrap())
    })
}

/// The body of a recording, as the server sent it or as near as the recording allows.
pub(super) fn body(file: &str, api: Api) -> Option<Vec<u8>> {
    let bytes = shared(&format!("data/streams/{file}"))?;
    if file.ends_with(".httprr") {
        return Some(recorded_exchange(&bytes));
    }
    let mut events: Vec<String> = if file.contains(".chunks.") {
        let text = String::from_utf8(bytes).unwrap();
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    } else if file.rsplit('.').next() == Some("json") {
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let data = |event: &Value| event.get("data").filter(|data| !data.is_null()).map(Value::to_string);
        match value.get("input_stream") {
            Some(stream) => stream.as_array().unwrap().iter().filter_map(data).collect(),
            None => value.as_array().unwrap().iter().map(Value::to_string).collect(),
        }
    } else {
        return Some(bytes);
    };
    // These were recorded as events, without their framing and end mark.
    if matches!(api, Api::Chat | Api::Completions) {
        events.push("[DONE]".to_owned());
    }
    Some(frames(&events.iter().map(String::as_str).collect::<Vec<_>>()).concat().into_bytes())
}

/// The response's body out of a trace that holds a request and a response, the latter in chunked coding.
fn recorded_exchange(trace: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(trace);
    let lengths = text.lines().nth(1).unwrap();
    let (request, _) = lengths.split_once(' ').unwrap();
    let start = text.lines().take(2).map(|line| line.len() + 1).sum::<usize>() + request.parse::<usize>().unwrap();
    let response = &trace[start..];
    let head = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut rest = &response[head + 4..];
    if !String::from_utf8_lossy(&response[..head]).contains("chunked") {
        return rest.to_vec();
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}

/// Decodes a body that came in pieces of this many bytes, a millisecond apart.
pub(super) fn decode(api: Api, body: &[u8], piece: usize) -> Decoded {
    let ends = (piece..body.len()).step_by(piece).chain([body.len()]);
    let reads: Vec<Read> = (1..).zip(ends).map(|(at, end)| Read { at: Nanos::from_millis(at), end }).collect();
    let exchange = Exchange {
        id: 0,
        due: Nanos::ZERO,
        sent: Nanos::ZERO,
        connect: None,
        tls: None,
        status: Some(200),
        head: None,
        body: body.to_vec(),
        reads,
        end: Nanos::from_secs(100_000),
        failure: None,
    };
    dialect::of(api).decode(&exchange, Wanted { output_tokens: u32::MAX, forced: false })
}

fn snake(outcome: Outcome) -> String {
    serde_json::to_value(outcome).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn every_recorded_stream_gives_the_answer_of_the_table() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for row in TABLE.lines() {
        let (file, rest) = row.split_once('\t').unwrap();
        let api = Api::from_id(rest.split('\t').next().unwrap()).unwrap();
        let Some(body) = body(file, api) else { continue };
        read += 1;
        for piece in [body.len(), 7] {
            let decoded = decode(api, &body, piece);
            let found = format!(
                "{file}\t{api}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                snake(decoded.outcome),
                decoded.chunks.len(),
                decoded.output_tokens.map_or("-".to_owned(), |tokens| tokens.to_string()),
                if decoded.tokens_from == TokenSource::Usage { "usage" } else { "chunks" },
                decoded.finish.as_deref().unwrap_or("-"),
                decoded.text_bytes,
                decoded.text.to_string().trim_start_matches("sha256:").chars().take(12).collect::<String>(),
            );
            if found != row {
                wrong.push(format!("expected {row}\n   found {found} {:?}", decoded.detail));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read == 0 || read == TABLE.lines().count(), "only {read} recordings of the table are at hand");
}

/// Tokens of a chunk are never more than the usage counts, and where each is told they add up.
#[test]
fn the_chunks_of_recorded_streams_hold_no_more_tokens_than_were_counted() {
    for (file, api) in recordings() {
        let Some(body) = body(file, api) else { continue };
        let decoded = decode(api, &body, body.len());
        let told: Option<u32> = decoded.chunks.iter().map(|chunk| chunk.tokens).sum();
        assert!(told.unwrap_or_default() <= decoded.output_tokens.unwrap_or_default(), "{file}");
    }
}

/// A stream that was cut anywhere before its last event ends in one class, and that is no success.
#[test]
fn a_recorded_stream_that_was_cut_is_no_success() {
    for (file, api) in recordings().filter(|(_, api)| *api != Api::Triton) {
        let Some(body) = body(file, api).filter(|body| (600..60_000).contains(&body.len())) else { continue };
        if decode(api, &body, body.len()).outcome == Outcome::Malformed {
            continue;
        }
        for cut in (1..10).map(|tenth| (body.len() * tenth).div_ceil(10)) {
            let decoded = decode(api, &body[..cut], cut);
            let whole = decoded.outcome.is_ok() || decoded.outcome == Outcome::Malformed;
            assert!(
                !whole || decoded.finish.is_some(),
                "{file} cut at {cut}: {:?} {:?}",
                decoded.outcome,
                decoded.detail
            );
        }
    }
}

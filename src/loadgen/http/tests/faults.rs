//! A server that misbehaves in every way at once: every request is accounted for in exactly one class, and nothing hangs.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::Map;

use super::{STREAM_HEAD, Server, chunk, say};
use crate::artifact::record::{Outcome, Record};
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::loadgen::codec::Codec;
use crate::loadgen::pass::pass;
use crate::loadgen::scripted::cell;
use crate::plan::request::PlannedCell;
use crate::spec::workload::Load;
use crate::wire::dialect::{self, Template};

const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"text\":\" word\",\"finish_reason\":null}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"text\":\" end\",\"finish_reason\":\"length\"}]}\n\ndata: \
                   {\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

type Fault = fn(&mut TcpStream) -> bool;

/// What the server does to a request, and the class that it ends in.
const FAULTS: [(&str, Outcome, Fault); 22] = [
    ("none", Outcome::Ok, |s| stream(s, &[EVENT, END])),
    ("reset at once", Outcome::Connection, |s| {
        set_socket_linger(&*s, Some(Duration::ZERO)).unwrap();
        false
    }),
    ("reset in the stream", Outcome::Connection, |s| {
        say(s, STREAM_HEAD);
        chunk(s, EVENT);
        thread::sleep(Duration::from_millis(30));
        set_socket_linger(&*s, Some(Duration::ZERO)).unwrap();
        false
    }),
    ("half open: never an answer", Outcome::TimedOut, |_| silence()),
    ("slow headers", Outcome::TimedOut, |s| {
        for byte in STREAM_HEAD.as_bytes() {
            thread::sleep(Duration::from_millis(50));
            if s.write_all(&[*byte]).is_err() {
                break;
            }
        }
        false
    }),
    ("stall in the stream", Outcome::TimedOut, |s| {
        say(s, STREAM_HEAD);
        chunk(s, EVENT);
        silence()
    }),
    ("truncated chunked body", Outcome::Connection, |s| {
        say(s, STREAM_HEAD);
        say(s, "ff\r\ndata: {\"choices\"");
        false
    }),
    ("no end mark", Outcome::Truncated, |s| stream(s, &[EVENT])),
    ("429", Outcome::Shed, |s| status(s, "429 Too Many Requests", "retry-after: 1\r\n")),
    ("503", Outcome::Shed, |s| status(s, "503 Service Unavailable", "")),
    ("503 with Retry-After", Outcome::Shed, |s| status(s, "503 Service Unavailable", "retry-after: 3600\r\n")),
    ("500", Outcome::HttpError, |s| status(s, "500 Internal Server Error", "")),
    ("redirect", Outcome::HttpError, |s| status(s, "307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n")),
    ("error inside a 200", Outcome::InStreamError, |s| {
        stream(s, &[EVENT, "data: {\"error\":{\"message\":\"CUDA out of memory\",\"code\":500}}\n\n"])
    }),
    ("a line without end", Outcome::Malformed, |s| {
        say(s, STREAM_HEAD);
        let block = "x".repeat(64 << 10);
        for _ in 0..200 {
            chunk(s, &block);
        }
        say(s, "0\r\n\r\n");
        true
    }),
    ("invalid UTF-8", Outcome::Malformed, |s| {
        say(s, STREAM_HEAD);
        drop(s.write_all(b"9\r\ndata: \xff\n\n\r\n0\r\n\r\n"));
        true
    }),
    ("invalid JSON", Outcome::Malformed, |s| stream(s, &[EVENT, "data: {\"choices\":[}\n\n", END])),
    ("gzip", Outcome::Malformed, |s| {
        say(s, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 10\r\n\r\n");
        drop(s.write_all(b"\x1f\x8b\x08\0\0\0\0\0\0\x03"));
        true
    }),
    ("empty", Outcome::Empty, |s| stream(s, &["data: [DONE]\n\n"])),
    ("no body", Outcome::Empty, |s| {
        say(s, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        true
    }),
    ("not HTTP", Outcome::Connection, |s| {
        say(s, "SSH-2.0-OpenSSH_9.6\r\n");
        false
    }),
    ("a head without end", Outcome::Connection, |s| {
        say(s, "HTTP/1.1 200 OK\r\n");
        for _ in 0..8_000 {
            say(
                s,
                "x-padding: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
            );
        }
        silence()
    }),
];

fn stream(s: &mut TcpStream, events: &[&str]) -> bool {
    say(s, STREAM_HEAD);
    for event in events {
        chunk(s, event);
        thread::sleep(Duration::from_millis(2));
    }
    say(s, "0\r\n\r\n");
    true
}

fn status(s: &mut TcpStream, line: &str, headers: &str) -> bool {
    say(s, &format!("HTTP/1.1 {line}\r\n{headers}content-length: 2\r\n\r\nno"));
    true
}

/// Longer than any request waits.
fn silence() -> bool {
    thread::sleep(Duration::from_secs(4));
    false
}

fn number(request: &str) -> usize {
    let id = request.lines().find_map(|line| line.strip_prefix("x-request-id: r/c/")).unwrap();
    id.trim().parse().unwrap()
}

fn measure(server: &Server, cell: &PlannedCell) -> Vec<Record> {
    let dialect = dialect::of(Api::Completions);
    let template = Template::new(&dialect, "m", &Map::new());
    let codec = Codec { dialect, template, run: "r".to_owned(), api_key: None, tokenizer: None };
    let mut records = Vec::new();
    let mut sink = |record| {
        records.push(record);
        Ok::<_, String>(())
    };
    let passed = pass(&[cell], &codec, &mut server.transport(), &mut sink, &mut |_| {}).unwrap();
    assert_eq!(passed.stop, None);
    assert_eq!(passed.cells[0].attempted, passed.cells[0].planned);
    records
}

#[test]
fn every_request_is_accounted_for_in_exactly_one_class() {
    let server = Server::start(|s, request| (FAULTS[number(request) % FAULTS.len()].2)(s));
    let requests = u32::try_from(3 * FAULTS.len()).unwrap();
    let cell = PlannedCell {
        timeout: Nanos::from_millis(1_500),
        stall_timeout: Nanos::from_secs(20),
        ..cell("c", Load::Closed { concurrency: 8 }, 0, requests)
    };
    let records = measure(&server, &cell);
    let found: BTreeMap<u32, Outcome> = records.iter().map(|record| (record.request, record.outcome)).collect();
    assert_eq!((records.len(), found.len()), (66, 66), "each once");
    for record in &records {
        let (name, outcome, _) = FAULTS[usize::try_from(record.request).unwrap() % FAULTS.len()];
        assert_eq!(record.outcome, outcome, "{name}: {:?}", record.detail);
        assert_eq!(record.detail.is_none(), outcome.is_ok(), "{name}");
        assert!(record.end.since(record.due) < Nanos::from_secs(10), "{name} ended in time");
    }
}

#[test]
fn a_stall_is_no_time_out() {
    let server = Server::start(|s, _| {
        say(s, STREAM_HEAD);
        chunk(s, EVENT);
        silence()
    });
    let cell =
        PlannedCell { stall_timeout: Nanos::from_millis(500), ..cell("c", Load::Closed { concurrency: 2 }, 0, 4) };
    let records = measure(&server, &cell);
    assert!(records.iter().all(|record| record.outcome == Outcome::Stalled && record.chunks.len() == 1));
}

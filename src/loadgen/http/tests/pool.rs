//! Connections between two requests: what is opened ahead, and what a server does to an idle one.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::Map;

use super::{ANSWERED, STREAM_HEAD, Server, answers_once, chunk, ended, outbound, say, send};
use crate::artifact::codec::write::RecordWriter;
use crate::artifact::record::Outcome;
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::loadgen::codec::Codec;
use crate::loadgen::scripted::cell;
use crate::spec::workload::Load;
use crate::wire::dialect::{self, Template};
use crate::wire::transport::{Failure, Transport as _};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Waits until the server has seen so many connections.
fn until_open(server: &Server, connections: usize) {
    for _ in 0..20_000 {
        if server.connections() >= connections {
            return;
        }
        thread::yield_now();
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("{} of {connections} connections were opened", server.connections());
}

#[test]
fn connections_are_renewed_that_would_be_too_old_and_no_others() {
    let server = Server::start(|stream, _request| {
        say(stream, OK);
        true
    });
    let mut transport = server.transport();
    transport.prepare(3);
    until_open(&server, 3);
    let carrier = Arc::clone(&transport.launcher.carrier);
    let soon = transport.now() + Nanos::from_millis(500);
    assert!(carrier.renewal(3, soon).is_empty(), "they are still good");
    let later = soon + Nanos::from_secs(10);
    let opening = carrier.renewal(2, later);
    assert!(carrier.renewal(2, later).is_empty(), "what is being opened is not opened twice");
    transport.runtime.block_on(Arc::clone(&carrier).open(opening)).unwrap();
    until_open(&server, 5);
    // Two of the old ones made room: three are there, of which the new ones are used first.
    assert_eq!(carrier.idle.lock().unwrap().len(), 3);
    assert_eq!((send(&mut transport).connect, server.connections()), (None, 5));
}

#[test]
fn a_request_that_crosses_a_close_says_that_it_was_sent_twice_and_others_do_not() {
    let resets = Server::start(|stream, _request| {
        if ANSWERED.replace(true) {
            set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
            return false;
        }
        say(stream, OK);
        true
    });
    let closes = Server::start(|stream, _request| answers_once(stream, Duration::ZERO));
    for server in [&resets, &closes] {
        let mut transport = server.transport();
        transport.prepare(1);
        assert!(!send(&mut transport).resent);
        let again = send(&mut transport);
        assert_eq!((&again.failure, again.resent, again.connect.is_some()), (&None, true, true));
    }
}

/// What a server says on a connection after its answer, and the class of the next request where it comes after that was
/// written: then it is the answer, as far as anybody can tell. A 408 announces a close, and the request is sent again.
const STRAYS: [(&str, Outcome); 3] = [
    ("HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", Outcome::Ok),
    ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstray!", Outcome::Malformed),
    ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", Outcome::Shed),
];

/// Answers with one token, then says something that nothing asked for.
fn strays(stream: &mut TcpStream, stray: &str) -> bool {
    say(stream, STREAM_HEAD);
    let event = "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\n";
    chunk(stream, event);
    chunk(stream, "data: [DONE]\n\n");
    say(stream, "0\r\n\r\n");
    thread::sleep(Duration::from_millis(2));
    stream.write_all(stray.as_bytes()).is_ok()
}

#[test]
fn bytes_from_before_a_request_end_in_one_class_and_every_record_can_be_stored() {
    let servers = [
        Server::start(|stream, _| strays(stream, STRAYS[0].0)),
        Server::start(|stream, _| strays(stream, STRAYS[1].0)),
        Server::start(|stream, _| strays(stream, STRAYS[2].0)),
    ];
    let dialect = dialect::of(Api::Completions);
    let template = Template::new(&dialect, "m", &Map::new());
    let codec = Codec { dialect, template, run: "r".to_owned(), api_key: None, tokenizer: None };
    let cell = cell("c", Load::Closed { concurrency: 1 }, 0, 60);
    for (server, (stray, late)) in servers.iter().zip(STRAYS) {
        let mut transport = server.transport();
        let mut writer = RecordWriter::new(Vec::new()).unwrap();
        for request in &cell.requests {
            // Now and then the stray bytes come before, with and after the request.
            let due = transport.now() + Nanos::from_micros(700 * u64::from(request.number % 6));
            transport.submit(outbound(7, due));
            let exchange = ended(&mut transport);
            assert!(exchange.head.is_none_or(|head| exchange.sent <= head && head <= exchange.end), "{exchange:?}");
            if let Some(Failure::Unsolicited(_)) = exchange.failure {
                assert_eq!((exchange.status, exchange.body.len()), (None, 0), "nothing of it is an answer");
            }
            let (record, _) = codec.record(&cell, request, &exchange);
            writer.write(&record).unwrap();
            let classes = [Outcome::Ok, Outcome::Malformed, Outcome::Connection, late];
            assert!(classes.contains(&record.outcome), "{stray}: {:?} {:?}", record.outcome, record.detail);
        }
    }
}

//! The HTTP transport against small scripted servers on the loopback interface.

mod faults;
mod pool;
mod ways;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::base::secret::Secret;
use crate::base::units::Nanos;
use crate::loadgen::http::{HttpError, HttpTarget, HttpTransport};
use crate::wire::transport::{Exchange, Failure, MAX_BODY, Outbound, Transport, Wake};

/// A server that answers each request by a script; it counts its connections.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// Answers one request (its head and body are given); false closes the connection.
type Script = fn(&mut TcpStream, &str) -> bool;

impl Server {
    fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, script));
            }
        });
        Self { address, connections }
    }

    fn transport(&self) -> HttpTransport {
        transport(&format!("http://{}", self.address), MAX_BODY)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, script: Script) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream) {
        if !script(&mut stream, &request) {
            return;
        }
    }
}

fn read_request(stream: &mut impl Read) -> Option<String> {
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = seen.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |n| n.parse().unwrap()) {
                return Some(seen);
            }
        }
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        seen.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
}

fn say(stream: &mut impl Write, text: &str) {
    // The client may have gone; that is part of some tests.
    drop(stream.write_all(text.as_bytes()));
}

fn chunk(stream: &mut impl Write, data: &str) {
    say(stream, &format!("{:x}\r\n{data}\r\n", data.len()));
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn transport(url: &str, max_body: usize) -> HttpTransport {
    let api_key = Some(Secret::new("sk-test"));
    let target = HttpTarget { url: url.to_owned(), api_key, ..HttpTarget::default() };
    HttpTransport::with_max_body(&target, Arc::default(), max_body).unwrap()
}

fn outbound(id: u64, due: Nanos) -> Outbound {
    Outbound {
        session: None,
        id,
        due,
        request_id: format!("r/c/{id}"),
        path: "/v1/completions",
        body: Bytes::from_static(b"{\"stream\":true}"),
        timeout: Nanos::from_secs(20),
        stall_timeout: Nanos::from_secs(20),
    }
}

fn ended(transport: &mut HttpTransport) -> Box<Exchange> {
    match transport.wait(Some(transport.now() + Nanos::from_secs(30))) {
        Wake::Ended(exchange) => exchange,
        Wake::Reached | Wake::Interrupted => panic!("it has not ended"),
    }
}

fn send(transport: &mut HttpTransport) -> Box<Exchange> {
    transport.submit(outbound(7, transport.now()));
    ended(transport)
}

#[test]
fn a_stream_is_kept_as_received_with_a_stamp_for_each_read() {
    let server = Server::start(|stream, request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/completions HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("host: 127.0.0.1:") && head.contains("authorization: Bearer sk-test"), "{head}");
        assert!(
            head.contains("x-request-id: r/c/7")
                && head.contains("user-agent: servegate/")
                && !head.contains("accept-encoding"),
            "{head}"
        );
        assert_eq!(body, "{\"stream\":true}");
        say(stream, STREAM_HEAD);
        for event in ["data: one\n\n", "data: two\n\n", "data: [DONE]\n\n"] {
            thread::sleep(Duration::from_millis(50));
            chunk(stream, event);
        }
        // Two chunks in one write are one read.
        thread::sleep(Duration::from_millis(50));
        say(stream, "1\r\n:\r\n2\r\n\n\n\r\n");
        thread::sleep(Duration::from_millis(50));
        say(stream, "0\r\n\r\n");
        true
    });
    let exchange = send(&mut server.transport());
    assert_eq!(exchange.failure, None);
    assert_eq!((exchange.id, exchange.status), (7, Some(200)));
    assert_eq!(exchange.body, b"data: one\n\ndata: two\n\ndata: [DONE]\n\n:\n\n");
    // A busy host may join reads; it never splits them.
    let ends: Vec<_> = exchange.reads.iter().map(|read| read.end).collect();
    assert!(ends.len() >= 2 && ends.iter().all(|end| [11, 22, 36, 39].contains(end)), "{ends:?}");
    assert_eq!(ends.last(), Some(&39));
    let mut instants = vec![exchange.due, exchange.sent, exchange.head.unwrap()];
    instants.extend(exchange.reads.iter().map(|read| read.at));
    instants.push(exchange.end);
    assert!(instants.is_sorted(), "{instants:?}");
    assert!(exchange.end.since(exchange.due) >= Nanos::from_millis(250), "{instants:?}");
    assert!(exchange.connect.is_some());
}

#[test]
fn a_connection_serves_the_next_request_and_one_opened_ahead_costs_no_request_its_time() {
    let server = Server::start(|stream, _request| {
        say(stream, STREAM_HEAD);
        chunk(stream, "data: x\n\n");
        say(stream, "0\r\n\r\n");
        true
    });
    let mut transport = server.transport();
    transport.prepare(2);
    for _ in 0..5 {
        assert_eq!(send(&mut transport).connect, None);
    }
    transport.prepare(2);
    assert!(server.connections() <= 2);
    // Three at once need one more.
    let due = transport.now() + Nanos::from_millis(5);
    (0..3).for_each(|id| transport.submit(outbound(id, due)));
    let three: Vec<_> = (0..3).map(|_| ended(&mut transport)).collect();
    assert!(three.iter().all(|exchange| exchange.failure.is_none() && exchange.sent >= due));
    assert!(server.connections() <= 3);
    assert!(matches!(transport.wait(None), Wake::Reached));
}

#[test]
fn a_connection_closed_while_idle_is_replaced() {
    let server = Server::start(|stream, _request| {
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        false
    });
    let mut transport = server.transport();
    for _ in 0..3 {
        let exchange = send(&mut transport);
        assert_eq!((exchange.failure, exchange.body.as_slice()), (None, b"ok".as_slice()));
        assert!(exchange.connect.is_some());
        thread::sleep(Duration::from_millis(200));
    }
}

thread_local! {
    /// Whether the connection of this server thread has answered.
    static ANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Answers the first request of a connection; at the next it waits a while and closes.
fn answers_once(stream: &mut TcpStream, wait: Duration) -> bool {
    if ANSWERED.replace(true) {
        thread::sleep(wait);
        return false;
    }
    say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    true
}

#[test]
fn a_close_that_crosses_a_request_costs_a_connection_and_not_the_request() {
    let server = Server::start(|stream, _request| answers_once(stream, Duration::ZERO));
    let mut transport = server.transport();
    transport.prepare(1);
    assert_eq!(send(&mut transport).connect, None);
    let exchange = send(&mut transport);
    assert_eq!((&exchange.failure, exchange.body.as_slice()), (&None, b"ok".as_slice()));
    assert!(exchange.connect.is_some());
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_dies_over_a_request_is_not_asked_again() {
    let used = Server::start(|stream, _request| answers_once(stream, Duration::from_millis(300)));
    let mut transport = used.transport();
    transport.prepare(1);
    assert_eq!(send(&mut transport).failure, None);
    assert!(matches!(send(&mut transport).failure, Some(Failure::Cut(_))));
    assert_eq!(used.connections(), 1);
    // A fresh connection that ends without an answer is the target's own fault, however fast it is.
    let fresh = Server::start(|_stream, _request| false);
    assert!(matches!(send(&mut fresh.transport()).failure, Some(Failure::Cut(_))));
    assert_eq!(fresh.connections(), 1);
}

#[test]
fn statuses_other_than_200_are_answers() {
    let server = Server::start(|stream, _request| {
        say(stream, "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nbusy");
        true
    });
    let exchange = send(&mut server.transport());
    assert_eq!((exchange.status, exchange.failure, exchange.body), (Some(429), None, b"busy".to_vec()));
}

#[test]
fn a_response_without_framing_ends_where_the_connection_does() {
    let server = Server::start(|stream, _request| {
        say(stream, "HTTP/1.1 200 OK\r\n\r\ndata: x\n\n");
        false
    });
    let exchange = send(&mut server.transport());
    assert_eq!((exchange.failure, exchange.body.as_slice()), (None, b"data: x\n\n".as_slice()));
}

#[test]
fn a_stream_that_breaks_keeps_what_came() {
    let server = Server::start(|stream, _request| {
        say(stream, STREAM_HEAD);
        chunk(stream, "data: x\n\n");
        false
    });
    let exchange = send(&mut server.transport());
    assert!(matches!(&exchange.failure, Some(Failure::Cut(_))), "{:?}", exchange.failure);
    assert_eq!((exchange.status, exchange.body.as_slice()), (Some(200), b"data: x\n\n".as_slice()));
    assert_eq!(exchange.reads.len(), 1);
}

#[test]
fn a_second_close_is_a_failure() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|stream, _request| {
        // The first answer keeps the connection; the second request on it gets none, nor on a fresh one.
        if SEEN.fetch_add(1, Ordering::SeqCst) > 0 {
            return false;
        }
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        true
    });
    let mut transport = server.transport();
    assert_eq!(send(&mut transport).failure, None);
    let exchange = send(&mut transport);
    assert!(matches!(&exchange.failure, Some(Failure::Cut(_))), "{:?}", exchange.failure);
    assert_eq!((SEEN.load(Ordering::SeqCst), server.connections()), (3, 2));
}

#[test]
fn silence_and_slowness_are_told_apart() {
    let server = Server::start(|stream, _request| {
        say(stream, STREAM_HEAD);
        loop {
            chunk(stream, "data: x\n\n");
            thread::sleep(Duration::from_millis(20));
            if stream.write_all(b"").is_err() {
                return false;
            }
        }
    });
    let mut transport = server.transport();
    let slow = Outbound { timeout: Nanos::from_millis(600), ..outbound(1, transport.now()) };
    transport.submit(slow);
    let exchange = ended(&mut transport);
    assert_eq!(exchange.failure, Some(Failure::TimedOut));
    assert!(!exchange.reads.is_empty() && exchange.end >= exchange.due + Nanos::from_millis(600));

    let silent = Server::start(|stream, _request| {
        say(stream, STREAM_HEAD);
        chunk(stream, "data: x\n\n");
        thread::sleep(Duration::from_secs(20));
        false
    });
    let mut transport = silent.transport();
    transport.submit(Outbound { stall_timeout: Nanos::from_millis(600), ..outbound(2, transport.now()) });
    let exchange = ended(&mut transport);
    assert_eq!((exchange.failure, exchange.status), (Some(Failure::Stalled), Some(200)));
    assert_eq!(exchange.reads.len(), 1);
}

#[test]
fn an_endless_body_is_cut_off() {
    let server = Server::start(|stream, _request| {
        say(stream, STREAM_HEAD);
        while stream.write_all(b"8\r\n12345678\r\n").is_ok() {}
        false
    });
    let mut transport = transport(&format!("http://{}", server.address), 100);
    let exchange = send(&mut transport);
    assert_eq!((exchange.failure, exchange.body.len()), (Some(Failure::TooLarge), 100));
    assert_eq!(exchange.reads.last().unwrap().end, 100);
}

#[test]
fn no_connection_and_no_tls_say_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let exchange = send(&mut transport(&format!("http://{free}"), MAX_BODY));
    assert!(matches!(&exchange.failure, Some(Failure::Connect(cause)) if cause.contains("refused")), "{exchange:?}");
    assert_eq!((exchange.status, exchange.reads.len()), (None, 0));

    // A TLS hello is no HTTP request, so the plain server answers as plain servers do.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            say(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let exchange = send(&mut transport(&format!("https://{address}"), MAX_BODY));
    assert!(matches!(&exchange.failure, Some(Failure::Tls(_))), "{exchange:?}");
}

#[test]
fn tls_works_with_a_ca_of_its_own_and_not_without() {
    // Made for this test: a CA, and a certificate for 127.0.0.1 with its key, both good for 100 years.
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loadgen/http/testdata");
    let leaf = CertificateDer::from_pem_file(testdata.join("leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(testdata.join("test-only-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            while let Some(request) = read_request(&mut stream) {
                assert!(request.starts_with("POST /base/v1/completions "), "{request}");
                say(&mut stream, STREAM_HEAD);
                chunk(&mut stream, "data: x\n\n");
                say(&mut stream, "0\r\n\r\n");
            }
        }
    });
    let target = |ca_file| HttpTarget { url: format!("https://{address}/base/"), ca_file, ..HttpTarget::default() };
    let trusted = target(Some(testdata.join("ca.pem")));
    let mut transport = HttpTransport::connect(&trusted, Arc::default()).unwrap();
    transport.prepare(1);
    for _ in 0..2 {
        let exchange = send(&mut transport);
        assert_eq!((exchange.failure, exchange.body.as_slice()), (None, b"data: x\n\n".as_slice()));
        assert_eq!((exchange.connect, exchange.reads.len()), (None, 1));
    }
    drop(transport);
    // A host without any CA certificate refuses earlier.
    if let Ok(mut transport) = HttpTransport::connect(&target(None), Arc::default()) {
        let exchange = send(&mut transport);
        assert!(
            matches!(&exchange.failure, Some(Failure::Tls(cause)) if cause.contains("certificate")),
            "{exchange:?}"
        );
    }
}

#[test]
fn abandoned_requests_are_not_reported_and_an_interrupt_is_noticed() {
    let server = Server::start(|stream, _request| {
        thread::sleep(Duration::from_millis(50));
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        true
    });
    let target = HttpTarget { url: format!("http://{}", server.address), ..HttpTarget::default() };
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut transport = HttpTransport::connect(&target, Arc::clone(&interrupt)).unwrap();
    let now = transport.now();
    transport.submit(outbound(1, now));
    transport.submit(outbound(2, now + Nanos::from_millis(30)));
    transport.abandon();
    assert!(matches!(transport.wait(None), Wake::Reached));
    transport.submit(outbound(3, transport.now()));
    assert_eq!(ended(&mut transport).id, 3);
    transport.submit(outbound(4, transport.now()));
    interrupt.store(true, Ordering::Relaxed);
    assert!(matches!(transport.wait(None), Wake::Interrupted));
}

#[test]
fn targets_that_cannot_be_used_are_refused_by_name() {
    let refuse = |url: &str| {
        let target = HttpTarget { url: url.to_owned(), ..HttpTarget::default() };
        HttpTransport::connect(&target, Arc::default()).err().unwrap().to_string()
    };
    assert!(refuse("ftp://host").contains("neither http nor https"));
    assert!(refuse("/v1").contains("names no host"));
    let secret = refuse("http://user:hunter2@host");
    assert!(secret.contains("API key") && !secret.contains("hunter2"), "{secret}");
    let target = HttpTarget {
        url: "https://127.0.0.1:1".to_owned(),
        api_key: Some(Secret::new("a\nb")),
        ca_file: Some("/nowhere/ca.pem".into()),
        ..HttpTarget::default()
    };
    assert!(matches!(HttpTransport::connect(&target, Arc::default()), Err(HttpError::CaFile { .. })));
    let target = HttpTarget { ca_file: None, ..target };
    assert!(matches!(HttpTransport::connect(&target, Arc::default()), Err(HttpError::ApiKey)));
}

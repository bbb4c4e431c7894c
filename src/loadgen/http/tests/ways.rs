//! Other ways to the server: HTTP/2 in plain text and over TLS, and a tunnel through a proxy.

use std::convert::Infallible;
use std::future::ready;
use std::io::{Read as _, Write as _, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;

use super::{Server, chunk, ended, outbound, say, send};
use crate::base::names::HttpVersion;
use crate::base::units::Nanos;
use crate::loadgen::http::{HttpTarget, HttpTransport};
use crate::wire::transport::{Exchange, Failure, Transport as _};

/// Events of 10 ms distance.
struct Events {
    left: u32,
    sleep: Pin<Box<Sleep>>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if self.sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.left -= 1;
        self.sleep = Box::pin(sleep(Duration::from_millis(10)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data: x\n\n")))))
    }
}

fn answer(request: &Request<Incoming>) -> Response<Events> {
    assert_eq!((request.version(), request.uri().path()), (Version::HTTP_2, "/v1/completions"));
    assert_eq!(request.headers()["x-request-id"], "r/c/7");
    assert!(request.uri().authority().is_some() && !request.headers().contains_key("host"));
    Response::new(Events { left: 3, sleep: Box::pin(sleep(Duration::from_millis(10))) })
}

/// A server of HTTP/2; with `goaway` it ends a connection after the first request on it.
fn http2_server(acceptor: Option<TlsAcceptor>, goaway: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let server = http2::Builder::new(TokioExecutor::new());
                    let asked = Notify::new();
                    let service = service_fn(|request| {
                        asked.notify_one();
                        ready(Ok::<_, Infallible>(answer(&request)))
                    });
                    let Some(acceptor) = acceptor else {
                        let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
                        if goaway {
                            tokio::select! {
                                _ = connection.as_mut() => return,
                                () = asked.notified() => connection.as_mut().graceful_shutdown(),
                            }
                        }
                        drop(connection.await);
                        return;
                    };
                    if let Ok(stream) = acceptor.accept(stream).await {
                        drop(server.serve_connection(TokioIo::new(stream), service).await);
                    }
                });
            }
        };
        Builder::new_current_thread().enable_all().build().unwrap().block_on(serve);
    });
    (address, connections)
}

fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loadgen/http/testdata");
    let leaf = CertificateDer::from_pem_file(testdata.join("leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(testdata.join("test-only-key.pem")).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn connect(url: String, version: HttpVersion, proxy: Option<String>) -> HttpTransport {
    let ca_file = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loadgen/http/testdata/ca.pem"));
    let target = HttpTarget { url, ca_file, version, proxy, ..HttpTarget::default() };
    HttpTransport::connect(&target, Arc::default()).unwrap()
}

/// Reads end where events of 9 bytes do, in the order of time. A busy host may join them; it never splits them.
fn in_events(exchange: &Exchange) {
    let reads = &exchange.reads;
    assert!(!reads.is_empty() && reads.iter().all(|read| read.end % 9 == 0), "{reads:?}");
    assert!(reads.is_sorted_by(|one, next| one.at < next.at && one.end < next.end), "{reads:?}");
    assert_eq!(reads.last().map(|read| read.end), Some(exchange.body.len()));
    assert!(reads.iter().all(|read| exchange.sent <= read.at && read.at <= exchange.end), "{reads:?}");
}

#[test]
fn http2_streams_like_http1_one_request_at_a_time_on_a_connection() {
    let (plain, connections) = http2_server(None, false);
    let (secure, _) = http2_server(Some(acceptor(&[b"h2"])), false);
    for url in [format!("http://{plain}"), format!("https://{secure}")] {
        let mut transport = connect(url, HttpVersion::Http2, None);
        transport.prepare(1);
        for _ in 0..2 {
            let exchange = send(&mut transport);
            assert_eq!((&exchange.failure, exchange.status, exchange.connect), (&None, Some(200), None));
            assert_eq!(exchange.body, b"data: x\n\n".repeat(3));
            in_events(&exchange);
            // The server's own pace is a lower limit.
            assert!(exchange.end.since(exchange.sent) >= Nanos::from_millis(30), "{:?}", exchange.reads);
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_without_http2_is_told_apart_and_goaway_costs_a_connection_only() {
    let (old, _) = http2_server(Some(acceptor(&[b"http/1.1"])), false);
    let failure = send(&mut connect(format!("https://{old}"), HttpVersion::Http2, None)).failure;
    assert!(matches!(failure, Some(Failure::Tls(_))), "{failure:?}");
    let (address, connections) = http2_server(None, true);
    let mut transport = connect(format!("http://{address}"), HttpVersion::Http2, None);
    for _ in 0..3 {
        assert_eq!(send(&mut transport).failure, None);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

/// A proxy that tunnels to whatever address it is asked for, or refuses.
fn proxy(refuse: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, tunnels) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&tunnels);
    thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    near.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let to = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
                if refuse {
                    say(&mut near, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
                    return;
                }
                let mut far = TcpStream::connect(to).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                say(&mut near, "HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n");
                let (mut from, mut into) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || drop(copy(&mut from, &mut into)));
                drop(copy(&mut far, &mut near));
                near.flush().unwrap();
            });
        }
    });
    (address, tunnels)
}

#[test]
fn a_proxy_is_a_longer_way_and_nothing_else() {
    let server = Server::start(|stream, _request| {
        say(stream, super::STREAM_HEAD);
        chunk(stream, "data: x\n\n");
        say(stream, "0\r\n\r\n");
        true
    });
    let (secure, _) = http2_server(Some(acceptor(&[b"h2"])), false);
    let (way, tunnels) = proxy(false);
    let mut plain = connect(format!("http://{}", server.address), HttpVersion::Http1, Some(format!("http://{way}")));
    let mut tls = connect(format!("https://{secure}"), HttpVersion::Http2, Some(format!("http://{way}")));
    for transport in [&mut plain, &mut tls] {
        let exchange = send(transport);
        assert_eq!((&exchange.failure, exchange.status), (&None, Some(200)));
    }
    assert_eq!(tunnels.load(Ordering::SeqCst), 2);
    let (way, _) = proxy(true);
    let mut refused = connect(format!("http://{}", server.address), HttpVersion::Http1, Some(format!("http://{way}")));
    let failure = send(&mut refused).failure;
    assert!(matches!(&failure, Some(Failure::Connect(cause)) if cause.contains("407")), "{failure:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_stamps_what_arrives_while_the_program_does_not_look() {
    use crate::wire::transport::StampSource;

    let server = Server::start(|stream, _request| {
        say(stream, super::STREAM_HEAD);
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(10));
            chunk(stream, "data: x\n\n");
        }
        say(stream, "0\r\n\r\n");
        true
    });
    let mut transport = server.transport();
    transport.submit(outbound(7, transport.now()));
    let exchange = ended(&mut transport);
    assert_eq!((&exchange.failure, exchange.body.len()), (&None, 45));
    in_events(&exchange);
    let report = transport.report();
    assert_eq!((report.stamps, report.unaided, report.clock_steps), (StampSource::Kernel, 0, 0));
    assert!(report.read_lag_p99.is_some());
    assert_eq!(transport.report().read_lag_p99, None, "a report is of the time since the last one");
}

#[test]
fn a_request_is_written_when_it_is_due_though_nobody_waits_for_anything() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start(|stream, _request| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        say(stream, super::STREAM_HEAD);
        chunk(stream, "data: x\n\n");
        say(stream, "0\r\n\r\n");
        true
    });
    let mut transport = server.transport();
    // Due now: the driver's thread. Due later: that of the schedule.
    for (asked, ahead) in [Nanos::ZERO, Nanos::from_millis(30)].into_iter().enumerate() {
        transport.prepare(1);
        let due = transport.now() + ahead;
        transport.submit(outbound(7, due));
        while ASKED.load(Ordering::SeqCst) == asked {
            thread::sleep(Duration::from_millis(1));
        }
        let freed = transport.now();
        let exchange = ended(&mut transport);
        assert_eq!((exchange.failure, exchange.reads.len()), (None, 1));
        assert!(due <= exchange.sent && exchange.sent < freed, "{:?} before {freed:?}", exchange.sent);
    }
}

#[tokio::test]
async fn a_read_that_fills_its_room_exactly_forgets_nothing() {
    use tokio::io::AsyncReadExt as _;

    use crate::loadgen::http::clock::Clock;
    use crate::loadgen::http::line::Tap;
    use crate::loadgen::http::stamp::Stamper;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let bytes = sent.clone();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut tap = Tap::new(stream, Arc::new(Stamper::new(Clock::start())));
    server.join().unwrap();
    let (mut seen, mut size) = (Vec::new(), 1);
    // Rooms of every size, from a byte to more than one read takes.
    loop {
        let mut room = vec![0; size];
        match tap.read(&mut room).await.unwrap() {
            0 => break,
            read => seen.extend_from_slice(&room[..read]),
        }
        size = size * 3 % 20_011 + 1;
    }
    assert!(seen == sent, "{} of {} bytes", seen.len(), sent.len());
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Some(format!("http://{free}"));
    let target = HttpTarget { url: "http://127.0.0.1:9".to_owned(), proxy, ..HttpTarget::default() };
    let exchange = send(&mut HttpTransport::connect(&target, Arc::default()).unwrap());
    let Some(Failure::Connect(cause)) = &exchange.failure else { panic!("{exchange:?}") };
    assert!(cause.starts_with(&format!("the target's proxy: {free}: ")), "{cause}");
}

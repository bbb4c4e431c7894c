//! One connection: the socket with its stamps, and hyper's connection driven inside the task of
//! the exchange that uses it. So nothing reads the socket between a body frame's read and its stamp.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::base::names::HttpVersion;
use crate::base::units::Nanos;
use crate::loadgen::http::bell::Bell;
use crate::loadgen::http::receive::{Received, Receiver};
use crate::loadgen::http::stamp::Stamper;

/// What hyper reads and writes: the socket itself, or TLS over it.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The newest instants of a connection's socket.
#[derive(Debug)]
pub(super) struct Stamps {
    stamper: Arc<Stamper>,
    read: AtomicU64,
    wrote: AtomicU64,
}

/// A stamp may be wrong by so much without anything being wrong: the wall clock is slewed, and small steps go unseen.
const STAMP_ERROR: Nanos = Nanos::from_micros(100);
/// No request byte was written yet.
const UNWRITTEN: u64 = u64::MAX;

impl Stamps {
    fn new(stamper: Arc<Stamper>) -> Self {
        let now = stamper.now();
        Self { stamper, read: AtomicU64::new(now.0), wrote: AtomicU64::new(UNWRITTEN) }
    }

    /// The one place where the arrival of bytes gets its instant. It never goes back: what was read later did not
    /// arrive earlier.
    fn received(&self, kernel: Option<i64>) {
        let stamped = self.stamper.stamp(kernel);
        self.read.fetch_max(stamped.at.0, Ordering::Relaxed);
    }

    fn handed_over(&self, at: Nanos) {
        if self.wrote.load(Ordering::Relaxed) == UNWRITTEN {
            self.wrote.store(at.0, Ordering::Relaxed);
        }
    }

    /// Forgets the last request.
    pub(super) fn arm(&self) {
        self.wrote.store(UNWRITTEN, Ordering::Relaxed);
    }

    /// When the newest bytes arrived: never before the request was written that they answer.
    pub(super) fn read(&self) -> Nanos {
        self.arrived().max(self.wrote().unwrap_or_default())
    }

    fn arrived(&self) -> Nanos {
        Nanos(self.read.load(Ordering::Relaxed))
    }

    /// Whether the newest bytes lay there before the request was written: then they are no answer to it.
    pub(super) fn is_unasked(&self) -> bool {
        self.wrote().is_none_or(|wrote| self.arrived() + STAMP_ERROR < wrote)
    }

    /// When the request's first byte was handed to the socket.
    pub(super) fn wrote(&self) -> Option<Nanos> {
        Some(self.wrote.load(Ordering::Relaxed)).filter(|at| *at != UNWRITTEN).map(Nanos)
    }
}

/// The socket, stamping what passes. It lies below TLS.
pub(super) struct Tap {
    stream: TcpStream,
    receiver: Receiver,
    stamps: Arc<Stamps>,
}

impl Tap {
    pub(super) fn new(stream: TcpStream, stamper: Arc<Stamper>) -> Self {
        Self { receiver: Receiver::of(&stream), stream, stamps: Arc::new(Stamps::new(stamper)) }
    }

    pub(super) fn stamps(&self) -> Arc<Stamps> {
        Arc::clone(&self.stamps)
    }

    fn write_with(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let at = self.stamps.stamper.now();
        let written = ready!(write(Pin::new(&mut self.stream)))?;
        if written > 0 {
            self.stamps.handed_over(at);
        }
        Poll::Ready(Ok(written))
    }
}

impl AsyncRead for Tap {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, receiver, stamps } = self.get_mut();
        let Received { bytes, kernel } = ready!(receiver.poll(stream, cx, buf))?;
        if bytes > 0 {
            stamps.received(kernel);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(|stream| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_with(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An open connection that carries one request at a time.
pub(super) struct Line {
    /// hyper's handle for requests.
    pub(super) sender: Sender,
    /// Drives the handle and the bodies it gave out.
    pub(super) driver: Driver,
    /// Instants of the socket.
    pub(super) stamps: Arc<Stamps>,
    /// How long its TLS handshake took.
    pub(super) tls: Option<Nanos>,
    /// Whether it was open without a request for a while, so that the server may have begun to close it.
    pub(super) was_idle: bool,
}

/// hyper's handle for requests, by version of HTTP.
pub(super) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn ready(&mut self) -> Result<(), hyper::Error> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }

    /// Whether the end of a body is part of the protocol, whatever the response's headers say.
    pub(super) fn frames_bodies(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// hyper's side of a connection, polled by whoever waits for it.
pub(super) struct Driver {
    /// None once it has ended.
    connection: Option<Task<Result<(), hyper::Error>>>,
    /// What an HTTP/2 connection is made of beside it.
    tasks: Vec<Task<()>>,
    spawned: Spawned,
    bell: Arc<Bell>,
    /// Rings the bell.
    waker: Waker,
}

/// Keeps what hyper would spawn, so that it runs inside the exchange's task as well.
#[derive(Clone, Default)]
struct Spawned(Arc<Mutex<Vec<Task<()>>>>);

impl Spawned {
    fn take(&self) -> Vec<Task<()>> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawned {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
    }
}

impl Line {
    /// Starts HTTP on an open socket.
    pub(super) async fn start(
        version: HttpVersion,
        io: Box<dyn Io>,
        stamps: Arc<Stamps>,
        tls: Option<Nanos>,
    ) -> Result<Self, hyper::Error> {
        let (io, spawned) = (TokioIo::new(io), Spawned::default());
        let (sender, connection): (_, Task<_>) = match version {
            HttpVersion::Http1 => {
                let (sender, connection) = http1::Builder::new().handshake(io).await?;
                (Sender::Http1(sender), Box::pin(connection))
            }
            HttpVersion::Http2 => {
                let (sender, connection) = http2::Builder::new(spawned.clone()).handshake(io).await?;
                (Sender::Http2(sender), Box::pin(connection))
            }
        };
        let bell = Arc::new(Bell::default());
        let waker = Arc::clone(&bell).into();
        let driver = Driver { connection: Some(connection), tasks: Vec::new(), spawned, bell, waker };
        Ok(Self { sender, driver, stamps, tls, was_idle: false })
    }

    /// Whether a request may be sent now. A connection between two requests is ready at once, or the
    /// server has closed it or is still busy with the last one: then it is of no use.
    pub(super) async fn is_usable(&mut self) -> bool {
        let Self { sender, driver, .. } = self;
        // The handle does not know of a close that nobody has read yet.
        driver.look().await;
        let ready = tokio::select! {
            biased;
            ready = driver.until(sender.ready()) => ready.is_ok(),
            () = async {} => false,
        };
        ready && driver.connection.is_some()
    }
}

impl Driver {
    /// Takes what lies at the socket, without waiting for more.
    async fn look(&mut self) {
        poll_fn(|cx| {
            let (bell, waker) = (Arc::clone(&self.bell), self.waker.clone());
            let nothing = || Poll::<()>::Pending;
            // Pending it is: there is nothing to wait for.
            let _looked = bell.attend(cx.waker(), nothing, || self.drive(&mut Context::from_waker(&waker)));
            Poll::Ready(())
        })
        .await;
    }

    /// Awaits something that this connection has to bring about.
    pub(super) async fn until<F: Future>(&mut self, event: F) -> F::Output {
        let mut event = std::pin::pin!(event);
        poll_fn(|cx| {
            let (bell, waker) = (Arc::clone(&self.bell), self.waker.clone());
            let event = || event.as_mut().poll(&mut Context::from_waker(&waker));
            bell.attend(cx.waker(), event, || self.drive(&mut Context::from_waker(&waker)))
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(cx).is_ready()
        {
            // Its error, if any, comes out of the event as well.
            self.connection = None;
        }
        self.tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        // A task that is new has to be polled once to be woken at all.
        loop {
            let mut fresh = self.spawned.take();
            if fresh.is_empty() {
                return;
            }
            fresh.retain_mut(|task| task.as_mut().poll(cx).is_pending());
            self.tasks.append(&mut fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::http::clock::Clock;

    #[test]
    fn bytes_from_before_a_request_are_no_answer_to_it_and_no_answer_is_stamped_before_its_request() {
        let stamps = Stamps::new(Arc::new(Stamper::new(Clock::start())));
        let at = |us| Nanos::from_micros(us);
        stamps.read.store(at(1_000).0, Ordering::Relaxed);
        stamps.arm();
        assert!(stamps.is_unasked(), "nothing was asked at all");
        stamps.handed_over(at(1_050));
        assert!(!stamps.is_unasked(), "within the error of a stamp");
        assert_eq!(stamps.read(), at(1_050));
        stamps.arm();
        stamps.handed_over(at(5_000));
        assert!(stamps.is_unasked());
        assert_eq!(stamps.read(), at(5_000));
        stamps.read.store(at(6_000).0, Ordering::Relaxed);
        assert!(!stamps.is_unasked());
        assert_eq!(stamps.read(), at(6_000));
    }
}

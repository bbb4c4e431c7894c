//! One HTTP/1.1 connection: the socket with its stamps, and hyper's connection driven inside the task of
//! the exchange that uses it. So nothing reads the socket between a body frame's read and its stamp.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::base::units::Nanos;
use crate::loadgen::http::clock::Clock;

/// What hyper reads and writes: the socket itself, or TLS over it.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The newest instants of a connection's socket.
#[derive(Debug)]
pub(super) struct Stamps {
    clock: Clock,
    read: AtomicU64,
    wrote: AtomicU64,
}

/// No request byte was written yet.
const UNWRITTEN: u64 = u64::MAX;

impl Stamps {
    fn new(clock: Clock) -> Self {
        Self { clock, read: AtomicU64::new(clock.now().0), wrote: AtomicU64::new(UNWRITTEN) }
    }

    /// The one place where the arrival of bytes gets its instant: user space, right after the read.
    fn received(&self) {
        self.read.store(self.clock.now().0, Ordering::Relaxed);
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

    /// When the newest bytes arrived.
    pub(super) fn read(&self) -> Nanos {
        Nanos(self.read.load(Ordering::Relaxed))
    }

    /// When the request's first byte was handed to the socket.
    pub(super) fn wrote(&self) -> Option<Nanos> {
        Some(self.wrote.load(Ordering::Relaxed)).filter(|at| *at != UNWRITTEN).map(Nanos)
    }
}

/// The socket, stamping what passes. It lies below TLS.
pub(super) struct Tap {
    stream: TcpStream,
    stamps: Arc<Stamps>,
}

impl Tap {
    pub(super) fn new(stream: TcpStream, clock: Clock) -> Self {
        Self { stream, stamps: Arc::new(Stamps::new(clock)) }
    }

    pub(super) fn stamps(&self) -> Arc<Stamps> {
        Arc::clone(&self.stamps)
    }

    fn write_with(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let at = self.stamps.clock.now();
        let written = ready!(write(Pin::new(&mut self.stream)))?;
        if written > 0 {
            self.stamps.handed_over(at);
        }
        Poll::Ready(Ok(written))
    }
}

impl AsyncRead for Tap {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.stamps.received();
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
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// Drives the handle and the bodies it gave out.
    pub(super) driver: Driver,
    /// Instants of the socket.
    pub(super) stamps: Arc<Stamps>,
}

/// hyper's side of a connection, polled by whoever waits for it.
pub(super) struct Driver {
    /// None once it has ended.
    connection: Option<Pin<Box<Http1>>>,
}

type Http1 = Connection<TokioIo<Box<dyn Io>>, Full<Bytes>>;

impl Line {
    /// Starts HTTP/1.1 on an open socket.
    pub(super) async fn start(io: Box<dyn Io>, stamps: Arc<Stamps>) -> Result<Self, hyper::Error> {
        let (sender, connection) = Builder::new().handshake(TokioIo::new(io)).await?;
        Ok(Self { sender, driver: Driver { connection: Some(Box::pin(connection)) }, stamps })
    }

    /// Whether a request may be sent now. A connection between two requests is ready at once, or the
    /// server has closed it or is still busy with the last one: then it is of no use.
    pub(super) async fn is_usable(&mut self) -> bool {
        let Self { sender, driver, .. } = self;
        let ready = tokio::select! {
            biased;
            ready = driver.until(sender.ready()) => ready.is_ok(),
            () = async {} => false,
        };
        ready && driver.connection.is_some()
    }
}

impl Driver {
    /// Awaits something that this connection has to bring about.
    pub(super) async fn until<F: Future>(&mut self, event: F) -> F::Output {
        let mut event = std::pin::pin!(event);
        std::future::poll_fn(|cx| {
            if let Some(connection) = &mut self.connection
                && connection.as_mut().poll(cx).is_ready()
            {
                // Its error, if any, comes out of the event as well.
                self.connection = None;
            }
            event.as_mut().poll(cx)
        })
        .await
    }
}

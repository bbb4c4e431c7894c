//! One request over one connection: sent once, stamped, read to its end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, Full};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::base::units::Nanos;
use crate::loadgen::http::clock::Clock;
use crate::loadgen::http::endpoint::Endpoint;
use crate::loadgen::http::error::failure;
use crate::loadgen::http::line::{Line, Stamps};
use crate::loadgen::http::stamp::Stamper;
use crate::wire::transport::{Exchange, Failure, Outbound, Read};

/// Room for a usual stream, so that the body rarely moves while it grows.
const USUAL_BODY: usize = 32 << 10;

/// A connection that was idle for longer is not used again: uvicorn, which serves most engines, closes
/// idle ones after 5 s, and a request that crosses such a close on its way would fail for no fault.
const IDLE_LIMIT: Nanos = Nanos::from_secs(4);
/// A connection that ends without a byte within this time of a request was being closed already.
const CLOSE_CROSSED: Nanos = Nanos::from_millis(20);
/// What a server says to an idle connection that it closes (RFC 9110, 15.5.9).
const REQUEST_TIMEOUT: u16 = 408;
/// Handshakes side by side; more only wait for the processor.
const OPENED_AT_ONCE: usize = 16;

/// What every exchange of a transport shares.
pub(super) struct Carrier {
    /// Where requests go.
    pub(super) endpoint: Endpoint,
    /// The run's clock, and what turns the kernel's stamps into its instants.
    pub(super) stamper: Arc<Stamper>,
    /// Longest response body in bytes.
    pub(super) max_body: usize,
    /// Open connections without a request.
    pub(super) idle: Mutex<Vec<Line>>,
    /// Connections that are being opened ahead.
    pub(super) opening: AtomicUsize,
}

/// A connection that is being opened ahead, counted as long as this lives.
pub(super) struct Opening(Arc<Carrier>);

impl Opening {
    fn of(carrier: &Arc<Carrier>) -> Self {
        carrier.opening.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(carrier))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.opening.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Carrier {
    /// Carries one request. It ends at the latest when its timeout has passed.
    pub(super) async fn carry(&self, request: Outbound) -> Exchange {
        let mut exchange = Exchange {
            id: request.id,
            due: request.due,
            sent: self.stamper.now(),
            connect: None,
            tls: None,
            status: None,
            head: None,
            body: Vec::new(),
            reads: Vec::new(),
            end: Nanos::ZERO,
            failure: None,
            resent: false,
        };
        match self.attempt(&request, &mut exchange).await {
            Ok(end) => exchange.end = end,
            Err(failure) => {
                exchange.end = self.stamper.now();
                exchange.failure = Some(failure);
            }
        }
        exchange
    }

    /// Sends over an idle connection or a fresh one; gives the instant of the response's last byte. Where a
    /// close of the idle connection crossed the request on its way, a fresh one carries it (some servers say 408 before
    /// they close); there is no other second try, and the time lost counts from the due instant like all time.
    async fn attempt(&self, request: &Outbound, exchange: &mut Exchange) -> Result<Nanos, Failure> {
        if let Some(mut line) = self.take_idle().await {
            match self.talk(&mut line, request, exchange).await {
                Ok(end) => {
                    self.put_idle(line).await;
                    return Ok(end);
                }
                Err(Failure::Unsolicited(REQUEST_TIMEOUT)) => {}
                Err(Failure::Cut(_)) if self.crossed(&line.stamps, exchange) => {}
                Err(failure) => return Err(failure),
            }
            exchange.resent = line.stamps.wrote().is_some();
        }
        let start = self.stamper.now();
        let deadline = self.stamper.clock().instant(request.due + request.timeout);
        let opened = timeout_at(deadline, self.endpoint.open(&self.stamper)).await;
        exchange.connect = Some(self.stamper.now().since(start));
        let mut line = opened.map_err(|_elapsed| Failure::TimedOut)??;
        exchange.tls = line.tls;
        let end = self.talk(&mut line, request, exchange).await?;
        self.put_idle(line).await;
        Ok(end)
    }

    /// Whether the server closed an idle connection just when the request was sent: no byte came back, and
    /// the close followed too fast for the request to have been worked on. Real servers do it
    /// (llama.cpp's once in ten requests); it says nothing about the deployment.
    fn crossed(&self, stamps: &Stamps, exchange: &Exchange) -> bool {
        let crossed = |wrote| self.stamper.now().since(wrote) < CLOSE_CROSSED;
        exchange.status.is_none() && stamps.wrote().is_none_or(crossed)
    }

    /// Opens connections until this many are idle; gives up at the first failure.
    pub(super) async fn prepare(self: Arc<Self>, count: usize) -> Result<(), Failure> {
        let mut usable = Vec::with_capacity(count);
        while let Some(line) = self.take_idle().await {
            usable.push(line);
        }
        let missing = count.saturating_sub(usable.len());
        self.idle().append(&mut usable);
        let opening = (0..missing).map(|_| Opening::of(&self)).collect();
        self.open(opening).await
    }

    /// The connections to open so that `count` idle ones are fit for use at the instant `by`. For each of them an idle one
    /// is dropped that is not fit any more by then, if there is one.
    pub(super) fn renewal(self: &Arc<Self>, count: usize, by: Nanos) -> Vec<Opening> {
        let is_fit = |line: &Line| by.since(line.stamps.read()) < IDLE_LIMIT;
        let mut idle = self.idle();
        let there = idle.iter().filter(|line| is_fit(line)).count();
        let missing = count.saturating_sub(there.saturating_add(self.opening.load(Ordering::Relaxed)));
        let mut to_drop = missing;
        idle.retain(|line| {
            let keep = to_drop == 0 || is_fit(line);
            to_drop = to_drop.saturating_sub(usize::from(!keep));
            keep
        });
        (0..missing).map(|_| Opening::of(self)).collect()
    }

    /// Opens connections, a few at once; gives up at the first failure.
    pub(super) async fn open(self: Arc<Self>, connections: Vec<Opening>) -> Result<(), Failure> {
        let mut tasks = JoinSet::new();
        for opening in connections {
            if tasks.len() >= OPENED_AT_ONCE
                && let Some(Ok(opened)) = tasks.join_next().await
            {
                opened?;
            }
            tasks.spawn(async move {
                let carrier = &opening.0;
                let line = carrier.endpoint.open(&carrier.stamper).await?;
                carrier.put_idle(line).await;
                Ok::<_, Failure>(())
            });
        }
        while let Some(opened) = tasks.join_next().await {
            opened.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// The idle connection used last, if there is one that the server has not closed and is not about to.
    async fn take_idle(&self) -> Option<Line> {
        loop {
            let mut line = self.idle().pop()?;
            if self.stamper.now().since(line.stamps.read()) < IDLE_LIMIT && line.is_usable().await {
                return Some(line);
            }
        }
    }

    async fn put_idle(&self, mut line: Line) {
        if line.is_usable().await {
            line.was_idle = true;
            self.idle().push(line);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn talk(&self, line: &mut Line, request: &Outbound, exchange: &mut Exchange) -> Result<Nanos, Failure> {
        let stamps = Arc::clone(&line.stamps);
        stamps.arm();
        let talked = tokio::select! {
            biased;
            talked = self.converse(line, request, exchange) => talked,
            failure = watch(&stamps, self.stamper.clock(), request) => Err(failure),
        };
        if let Some(at) = stamps.wrote() {
            exchange.sent = at;
        }
        talked
    }

    /// The conversation itself; gives the instant of the response's last byte.
    async fn converse(&self, line: &mut Line, request: &Outbound, exchange: &mut Exchange) -> Result<Nanos, Failure> {
        let Line { sender, driver, stamps, was_idle, .. } = line;
        let message = Full::new(request.body.clone());
        let message = self.endpoint.request(request, message).map_err(|error| cut(&error))?;
        let response = driver.until(sender.send(message)).await.map_err(|error| cut(&error))?;
        let status = response.status().as_u16();
        let closing = *was_idle && status == REQUEST_TIMEOUT;
        let crossed = || stamps.wrote().is_some_and(|wrote| stamps.read().since(wrote) < CLOSE_CROSSED);
        if stamps.is_unasked() || (closing && crossed()) {
            return Err(Failure::Unsolicited(status));
        }
        exchange.head = Some(stamps.read());
        exchange.status = Some(status);
        let framed = sender.frames_bodies()
            || [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| response.headers().contains_key(name));
        let mut body = response.into_body();
        while let Some(frame) = driver.until(body.frame()).await {
            let Ok(data) = frame.map_err(|error| cut(&error))?.into_data() else { continue };
            self.keep(&data, stamps.read(), exchange)?;
        }
        // Without framing the response ends where the connection is closed.
        Ok(if framed { stamps.read() } else { self.stamper.now() })
    }

    /// Appends bytes of the body; frames of one socket read are one [`Read`].
    fn keep(&self, data: &Bytes, at: Nanos, exchange: &mut Exchange) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        if exchange.body.capacity() == 0 {
            exchange.body.reserve(USUAL_BODY);
        }
        let room = self.max_body.saturating_sub(exchange.body.len());
        exchange.body.extend_from_slice(data.get(..room).unwrap_or(data));
        let end = exchange.body.len();
        match exchange.reads.last_mut().filter(|read| read.at == at) {
            Some(read) => read.end = end,
            None => exchange.reads.push(Read { at, end }),
        }
        if data.len() > room { Err(Failure::TooLarge) } else { Ok(()) }
    }
}

/// Ends when the request has taken too long or the connection was silent for too long.
async fn watch(stamps: &Stamps, clock: Clock, request: &Outbound) -> Failure {
    let deadline = request.due + request.timeout;
    let start = clock.now();
    loop {
        let active = stamps.wrote().unwrap_or(start).max(stamps.read());
        let silent = active + request.stall_timeout;
        if clock.now() >= deadline {
            return Failure::TimedOut;
        }
        if clock.now() >= silent {
            return Failure::Stalled;
        }
        sleep_until(clock.instant(silent.min(deadline))).await;
    }
}

fn cut(error: &(dyn std::error::Error + 'static)) -> Failure {
    failure(error, Failure::Cut)
}

//! One request over one connection: sent once, stamped, read to its end.

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
    /// close of the idle connection crossed the request on its way, a fresh one carries it; there is no
    /// other second try, and the time lost counts from the due instant like all time.
    async fn attempt(&self, request: &Outbound, exchange: &mut Exchange) -> Result<Nanos, Failure> {
        if let Some(mut line) = self.take_idle().await {
            match self.talk(&mut line, request, exchange).await {
                Ok(end) => {
                    self.put_idle(line).await;
                    return Ok(end);
                }
                Err(Failure::Cut(_)) if self.crossed(&line.stamps, exchange) => {}
                Err(failure) => return Err(failure),
            }
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
        let mut opening = JoinSet::new();
        for _ in 0..missing {
            if opening.len() >= OPENED_AT_ONCE
                && let Some(Ok(opened)) = opening.join_next().await
            {
                self.put_idle(opened?).await;
            }
            let carrier = Arc::clone(&self);
            opening.spawn(async move { carrier.endpoint.open(&carrier.stamper).await });
        }
        while let Some(opened) = opening.join_next().await {
            if let Ok(opened) = opened {
                self.put_idle(opened?).await;
            }
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
        let Line { sender, driver, stamps, .. } = line;
        let message = Full::new(request.body.clone());
        let message = self.endpoint.request(request.path, &request.request_id, message).map_err(|error| cut(&error))?;
        let response = driver.until(sender.send(message)).await.map_err(|error| cut(&error))?;
        exchange.head = Some(stamps.read());
        exchange.status = Some(response.status().as_u16());
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

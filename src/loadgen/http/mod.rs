//! The transport in real time: HTTP/1.1 or HTTP/2 over sockets of our own, plain or TLS.
//!
//! - Connections are opened before a cell's clock starts, and anew ahead of requests that come after silence; they are used
//!   again after a response was read to its end. A request that has to open one records how long that took.
//! - Bytes are stamped below TLS and HTTP: by the kernel when they arrive (Linux), else when the socket is read;
//!   never when a task gets to look at them.
//! - Nothing is compressed, no redirect is followed, and no proxy is used but the one that the target names: a measured
//!   request goes straight to the target, whatever the environment says.
//! - The thread that waits is the one that reads: who is told of an end, and sends the next request of a closed loop, was
//!   woken by the end itself and by nobody in between. Bytes that arrive while it does something else keep their stamp.
//! - Over HTTP/2 too a connection carries one request at a time: streams that share a connection share its reads, and
//!   then an instant says little about one of them.

mod bell;
mod clock;
mod endpoint;
mod error;
mod exchange;
mod lag;
mod line;
mod receive;
mod schedule;
mod stamp;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::base::units::Nanos;
use crate::wire::transport::{Exchange, MAX_BODY, Outbound, SelfReport, Transport, Wake};

use clock::Clock;
use endpoint::Endpoint;
pub use endpoint::HttpTarget;
pub use error::HttpError;
use exchange::Carrier;
use schedule::Schedule;
use stamp::Stamper;

/// The interrupt flag is looked at this often.
const INTERRUPT_CHECK: Duration = Duration::from_millis(50);

/// Carries requests over HTTP in real time.
pub struct HttpTransport {
    // Stopped first, so that nothing is sent while the exchanges are dropped.
    schedule: Schedule,
    launcher: Launcher,
    ended: UnboundedReceiver<(u64, Box<Exchange>)>,
    /// Requests submitted and not reported yet.
    in_flight: usize,
    interrupt: Arc<AtomicBool>,
    /// Carries the exchanges, while [`Transport::wait`] waits. More threads do not help a generator that shares its host.
    runtime: Runtime,
}

/// Starts exchanges.
#[derive(Clone)]
struct Launcher {
    handle: Handle,
    carrier: Arc<Carrier>,
    /// Rises when everything in flight is abandoned.
    epoch: Arc<watch::Sender<u64>>,
    ended: UnboundedSender<(u64, Box<Exchange>)>,
}

impl HttpTransport {
    /// Resolves the target; no connection is opened yet. The run's time starts here.
    /// `interrupt` is noticed within 100 ms of being set.
    ///
    /// # Errors
    /// See [`HttpError`]; a target that does not answer is no error here.
    pub fn connect(target: &HttpTarget, interrupt: Arc<AtomicBool>) -> Result<Self, HttpError> {
        Self::with_max_body(target, interrupt, MAX_BODY)
    }

    fn with_max_body(target: &HttpTarget, interrupt: Arc<AtomicBool>, max_body: usize) -> Result<Self, HttpError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(HttpError::Workers)?;
        let clock = Clock::start();
        let endpoint = runtime.block_on(Endpoint::new(target, clock))?;
        #[expect(clippy::disallowed_methods, reason = "it holds what was in flight, and the driver bounds that")]
        let (sender, ended) = unbounded_channel();
        let launcher = Launcher {
            handle: runtime.handle().clone(),
            carrier: Arc::new(Carrier {
                endpoint,
                stamper: Arc::new(Stamper::new(clock)),
                max_body,
                idle: Mutex::default(),
                opening: AtomicUsize::default(),
            }),
            epoch: Arc::new(watch::Sender::new(0)),
            ended: sender,
        };
        let at_due = launcher.clone();
        let schedule =
            Schedule::start(clock, move |epoch, request| at_due.launch(epoch, request)).map_err(HttpError::Workers)?;
        Ok(Self { schedule, launcher, ended, in_flight: 0, interrupt, runtime })
    }

    /// An exchange that has ended and was not abandoned, if there is one at hand.
    fn take(&mut self, arrived: Option<(u64, Box<Exchange>)>) -> Option<Wake> {
        let (epoch, exchange) = arrived?;
        if epoch != *self.launcher.epoch.borrow() {
            return None;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        Some(Wake::Ended(exchange))
    }

    /// Reads what has arrived, without waiting for more.
    fn look(&self) {
        self.runtime.block_on(async {
            // The first turn finds out which sockets have something, the second hands it to their exchanges.
            yield_now().await;
            yield_now().await;
        });
    }
}

impl Launcher {
    /// Starts a request, unless everything of its epoch was abandoned. The thread that calls, which knows that the
    /// request is due, writes it to an idle connection itself: waking the worker for it would take time.
    fn launch(&self, epoch: u64, request: Outbound) {
        let Self { carrier, ended, .. } = self;
        let (carrier, ended, mut epochs) = (Arc::clone(carrier), ended.clone(), self.epoch.subscribe());
        if *epochs.borrow_and_update() != epoch {
            return;
        }
        let mut exchange = Box::pin(async move {
            tokio::select! {
                biased;
                exchange = carrier.carry(request) => {
                    if ended.send((epoch, Box::new(exchange))).is_err() {
                        tracing::debug!("an exchange ended after its transport");
                    }
                }
                _changed = epochs.changed() => {}
            }
        });
        let _inside = self.handle.enter();
        // Whatever would wake it now finds it awake: the worker polls it at once.
        if exchange.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.handle.spawn(exchange);
        }
    }
}

async fn interrupted(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        sleep(INTERRUPT_CHECK).await;
    }
}

impl Transport for HttpTransport {
    fn now(&self) -> Nanos {
        self.launcher.carrier.stamper.now()
    }

    fn prepare(&mut self, in_flight: usize) {
        let (carrier, interrupt) = (Arc::clone(&self.launcher.carrier), &self.interrupt);
        // Which idle connections were closed meanwhile shows when their sockets are looked at.
        self.look();
        let prepared = self.runtime.block_on(async {
            tokio::select! {
                prepared = carrier.prepare(in_flight) => prepared,
                () = interrupted(interrupt) => Ok(()),
            }
        });
        if let Err(failure) = prepared {
            tracing::warn!("connections could not be opened ahead: {failure:?}");
        }
    }

    fn renew(&mut self, idle: usize, by: Nanos) {
        let carrier = &self.launcher.carrier;
        let connections = carrier.renewal(idle, by);
        if connections.is_empty() {
            return;
        }
        let opened = Arc::clone(carrier).open(connections);
        self.runtime.spawn(async move {
            if let Err(failure) = opened.await {
                tracing::warn!("connections could not be opened ahead: {failure:?}");
            }
        });
    }

    fn submit(&mut self, request: Outbound) {
        self.in_flight += 1;
        let epoch = *self.launcher.epoch.borrow();
        if request.due <= self.now() {
            self.launcher.launch(epoch, request);
        } else {
            self.schedule.add(epoch, request);
        }
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        let mut looked = false;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Wake::Interrupted;
            }
            while let Ok(arrived) = self.ended.try_recv() {
                if let Some(wake) = self.take(Some(arrived)) {
                    return wake;
                }
            }
            let left = match until {
                Some(until) => Duration::from_nanos(until.since(self.now()).0),
                None if self.in_flight == 0 => Duration::ZERO,
                None => INTERRUPT_CHECK,
            };
            if left.is_zero() {
                if looked {
                    return Wake::Reached;
                }
                self.look();
                looked = true;
                continue;
            }
            let arrived = self.runtime.block_on(async {
                // tokio's timers tick in milliseconds: the caller is told of an instant up to one of them late.
                timeout(left.min(INTERRUPT_CHECK), self.ended.recv()).await
            });
            if let Some(wake) = self.take(arrived.ok().flatten()) {
                return wake;
            }
        }
    }

    fn report(&mut self) -> SelfReport {
        let Carrier { stamper, endpoint, .. } = self.launcher.carrier.as_ref();
        SelfReport { resolved_in: Some(endpoint.resolved_in()), ..stamper.report() }
    }

    fn abandon(&mut self) {
        self.schedule.clear();
        let epoch = &self.launcher.epoch;
        epoch.send_modify(|epoch| *epoch += 1);
        self.in_flight = 0;
        // The server is to see that nobody listens any more: every exchange in flight drops its connection.
        self.runtime.block_on(async {
            while epoch.receiver_count() > 0 {
                yield_now().await;
            }
        });
    }
}

//! The seam between the load generator and whatever carries its requests: HTTP in real time, or the
//! simulated engine in virtual time. Stamp, then think: an exchange holds bytes and instants, and is
//! decoded after it has ended.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::units::Nanos;
use crate::wire::counters::Meter;

/// A request on its way out.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// Identity within the transport; comes back with the exchange.
    pub id: u64,
    /// Sent at this instant, never earlier.
    pub due: Nanos,
    /// Sent as `x-request-id`, so that the server's log can be joined.
    pub request_id: String,
    /// The session that it belongs to, where it has one: sent in the header that the target's router keeps sessions
    /// together by, where the target names one.
    pub session: Option<String>,
    /// Path and query of the URL.
    pub path: &'static str,
    /// JSON body.
    pub body: Bytes,
    /// Given up this long after `due`.
    pub timeout: Nanos,
    /// Given up when silent for this long after it was sent.
    pub stall_timeout: Nanos,
}

/// One read of the response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When the bytes arrived.
    pub at: Nanos,
    /// End of the bytes in [`Exchange::body`].
    pub end: usize,
}

/// Why an exchange ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The load generator's own system refused it: open files, ports, memory. No fault of the target.
    Client(String),
    /// No connection: refused, unreachable, name not found.
    Connect(String),
    /// The TLS handshake failed.
    Tls(String),
    /// The connection broke before or inside the response.
    Cut(String),
    /// A response with this status lay there before the request was sent: it answers nothing.
    Unsolicited(u16),
    /// The whole-request limit passed.
    TimedOut,
    /// The stream was silent for too long.
    Stalled,
    /// The response is larger than [`MAX_BODY`].
    TooLarge,
}

/// Responses beyond this many bytes are cut off: no stream of a planned request comes near it.
pub const MAX_BODY: usize = 64 << 20;

/// What came back for one request.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Identity given in [`Outbound`].
    pub id: u64,
    /// When it was due.
    pub due: Nanos,
    /// When its first byte was handed to the connection.
    pub sent: Nanos,
    /// Whether the connection had to be opened for it, and how long that took.
    pub connect: Option<Nanos>,
    /// Of this, the TLS handshake.
    pub tls: Option<Nanos>,
    /// HTTP status, when a response head arrived.
    pub status: Option<u16>,
    /// When the response head arrived.
    pub head: Option<Nanos>,
    /// The body, as received.
    pub body: Vec<u8>,
    /// Where each read of the body ended, and when it arrived.
    pub reads: Vec<Read>,
    /// When the response ended or was given up.
    pub end: Nanos,
    /// Why it ended early, when it did.
    pub failure: Option<Failure>,
    /// Whether it was sent a second time, because the connection was being closed when it was sent first.
    pub resent: bool,
}

/// Where the instants of arriving bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampSource {
    /// The kernel, when a segment arrived.
    Kernel,
    /// The program, when it read the socket: the waiting for a processor is in it.
    Program,
    /// The simulated engine's virtual time, which is exact.
    Virtual,
}

/// What a transport tells about its own faults, since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfReport {
    /// Where most instants of arriving bytes came from.
    pub stamps: StampSource,
    /// Reads that the kernel did not stamp.
    pub unaided: u64,
    /// 99th percentile of the time from the arrival of bytes to their reading; none without reads.
    pub read_lag_p99: Option<Nanos>,
    /// How often the wall clock was set.
    pub clock_steps: u64,
    /// How long the name of the host, or of its proxy, took to resolve, once for all connections.
    pub resolved_in: Option<Nanos>,
}

impl SelfReport {
    /// Of virtual time.
    pub const VIRTUAL: Self =
        Self { stamps: StampSource::Virtual, unaided: 0, read_lag_p99: None, clock_steps: 0, resolved_in: None };
}

/// Why [`Transport::wait`] returned.
#[derive(Debug)]
pub enum Wake {
    /// A request ended.
    Ended(Box<Exchange>),
    /// The instant waited for has come.
    Reached,
    /// The user wants to stop.
    Interrupted,
}

/// Carries requests. Time is the run's monotonic origin, real or virtual.
pub trait Transport {
    /// The present instant.
    fn now(&self) -> Nanos;

    /// Gets ready for this many requests in flight, before a cell's clock starts: connections are opened
    /// here, so that no measured request waits for one. What fails here shows again in the requests.
    fn prepare(&mut self, _in_flight: usize) {}

    /// Sees to it that so many connections without a request are fit for use at the instant `by`, without making anyone
    /// wait: open and not idle for too long. What fails here shows again in the requests.
    fn renew(&mut self, _idle: usize, _by: Nanos) {}

    /// Takes a request, to be sent when it is due. Never blocks, never drops.
    fn submit(&mut self, request: Outbound);

    /// Waits until a request ends, `until` comes (forever without it), or the user interrupts.
    /// With nothing in flight and no `until` it returns [`Wake::Reached`] at once.
    fn wait(&mut self, until: Option<Nanos>) -> Wake;

    /// What was noted about the transport's own faults since the last call.
    fn report(&mut self) -> SelfReport {
        SelfReport::VIRTUAL
    }

    /// Gives up every request in flight or waiting; none of them is reported.
    fn abandon(&mut self);

    /// What reads the server's counters, where something does. `loadgen::window` and `loadgen::metered` pass every
    /// call on; a new method must be passed on there too.
    fn meter(&mut self) -> Option<&mut dyn Meter> {
        None
    }
}

//! How exact the load generator is on this host: a measurement of what is known.
//!
//! The measured path is the one of a run: a plan, [`pass`], HTTP over sockets, decoding. The server is precise and in a
//! process of its own. Server and client read one monotonic clock; the server keeps the instants of its own writes and
//! hands them over after the end, so that every instant of the client can be compared with the one it is about.

mod clock;
mod differences;
pub mod server;

pub use clock::monotonic;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::artifact::record::Record;
use crate::artifact::run::ClientEvidence;
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::loadgen::codec::Codec;
use crate::loadgen::drive::Stop;
use crate::loadgen::http::{HttpError, HttpTarget, HttpTransport};
use crate::loadgen::pass::pass;
use crate::loadgen::selfcheck::clock::BareTimer;
use crate::loadgen::selfcheck::differences::Differences;
use crate::plan::build;
use crate::plan::request::PlannedCell;
use crate::spec::workload::{Cell, Class, Lengths, Load, Phase, Prompts, Workload};
use crate::wire::dialect::{self, Template};
use crate::wire::transport::Transport as _;

/// From the reading of a request to its first event.
pub const FIRST: Duration = Duration::from_millis(100);
/// Events of an answer.
const TOKENS: u32 = 64;

/// A load that is put on the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Streams at once.
    pub streams: u32,
    /// Between the events of one.
    pub gap: Duration,
}

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum SelfcheckError {
    /// The server cannot be started or talked to.
    #[error("the precise server: {0}")]
    Server(#[from] io::Error),
    /// The transport cannot be used.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The measurement ended early.
    #[error("at {streams} streams: {stop}")]
    Stopped {
        /// Streams at once.
        streams: u32,
        /// Why.
        stop: Stop,
    },
    /// A request failed, or the server's log is not of it.
    #[error("at {streams} streams: {what}")]
    Failed {
        /// Streams at once.
        streams: u32,
        /// What was seen.
        what: String,
    },
}

/// Median and 99th percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// What was found out under one load; times in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Events that the server wrote.
    pub events: u64,
    /// How much later than due requests were sent.
    pub sent: Pair,
    /// TTFT as recorded, from the due instant, beyond the server's own time from reading to writing.
    pub ttft: Pair,
    /// Instant recorded for an event after the instant before its writing.
    pub stamp: Pair,
    /// Size of the difference between a gap as recorded and as written.
    pub gap: Pair,
    /// The same for the mean gap of a request.
    pub tpot: Pair,
    /// How late the server itself was with its events.
    pub server: Pair,
    /// How late a bare timer was meanwhile.
    pub timer: Pair,
    /// Processor time of the bare timer, which shares the client's process and is not of it.
    pub timer_processor: Duration,
    /// What the client tells about itself.
    pub client: ClientEvidence,
}

/// Measures under one load. `server` starts a process that calls [`server::serve`] with [`FIRST`] and the case's gap on
/// its standard input and output. `around` sees the client work and may measure it.
///
/// # Errors
/// See [`SelfcheckError`].
pub fn measure(
    case: Case,
    mut server: Command,
    interrupt: &Arc<AtomicBool>,
    around: &mut dyn FnMut(&Child, &mut dyn FnMut()),
) -> Result<Found, SelfcheckError> {
    let streams = case.streams;
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut log = BufReader::new(server.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?);
    let mut address = String::new();
    log.read_line(&mut address)?;
    let target = HttpTarget { url: format!("http://{}", address.trim()), ..HttpTarget::default() };
    let mut transport = HttpTransport::connect(&target, Arc::clone(interrupt))?;
    let origin = origin(&transport);
    let cell = planned(streams);
    let dialect = dialect::of(Api::Completions);
    let extra = serde_json::Map::from_iter([("ignore_eos".to_owned(), true.into())]);
    let codec = Codec {
        dialect,
        template: Template::new(&dialect, "m", &extra),
        run: "selfcheck".to_owned(),
        api_key: None,
        tokenizer: None,
    };
    let mut records = Vec::new();
    let mut sink = |record: Record| {
        records.push(record);
        Ok::<(), SelfcheckError>(())
    };
    let timer = BareTimer::start();
    let mut passed = None;
    around(&server, &mut || passed = Some(pass(&[&cell], &codec, &mut transport, &mut sink, &mut |_| {})));
    let timer = timer.stop();
    drop((transport, server.stdin.take()));
    let (events, written) = written(log)?;
    server.wait()?;
    let mut passed =
        passed.ok_or_else(|| SelfcheckError::Failed { streams, what: "nothing was measured".to_owned() })??;
    if let Some(stop) = passed.stop {
        return Err(SelfcheckError::Stopped { streams, stop });
    }
    let client = passed.cells.pop().and_then(|cell| cell.client);
    let client = client.ok_or_else(|| SelfcheckError::Failed { streams, what: "no cell was measured".to_owned() })?;
    let mut differences = Differences::new(origin, case.gap);
    for record in &records {
        let failed = |what: String| SelfcheckError::Failed { streams, what };
        if !record.is_success() {
            return Err(failed(format!("request {} failed: {:?}", record.request, record.outcome)));
        }
        let planned = usize::try_from(record.request).ok().and_then(|place| cell.requests.get(place));
        let seed = planned.map(|request| request.prompt.seed & 0x7fff_ffff);
        let of_server = seed.and_then(|seed| written.get(&seed));
        let taken = of_server.and_then(|written| differences.take(record, written));
        taken.ok_or_else(|| failed(format!("the server's log does not fit request {}", record.request)))?;
    }
    Ok(differences.found(events, timer, client))
}

/// A closed loop of short answers, each slot at least four times.
fn planned(streams: u32) -> PlannedCell {
    let cell = Cell {
        name: "c".to_owned(),
        phase: Phase::Steady,
        load: Load::Closed { concurrency: streams },
        requests: streams.saturating_mul(4).clamp(10, 3_000.max(streams)),
        warmup: streams,
        trace: None,
        session: None,
        classes: vec![Class::only(Lengths::Fixed(16), Lengths::Fixed(TOKENS))],
        max_connections: None,
        timeout: Nanos::from_secs(120),
        stall_timeout: Nanos::from_secs(60),
    };
    let workload = Workload {
        name: "selfcheck".to_owned(),
        description: String::new(),
        prompts: Prompts::Text,
        caches: None,
        seed: 1,
        cells: vec![cell],
    };
    build(&workload).cells.remove(0)
}

/// The instant of the shared clock at which the transport's time began: the best of many looks.
fn origin(transport: &HttpTransport) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let look = |_| {
        let (before, now, after) = (monotonic(), transport.now().0, monotonic());
        let width = after.saturating_sub(before);
        (width, signed(before.saturating_add(width >> 1)).saturating_sub(signed(now)))
    };
    (0..1_000).map(look).min().map_or(0, |(_, origin)| origin)
}

/// What the server wrote when: by seed, the instant of the reading and those of the events.
fn written(log: impl io::BufRead) -> Result<(u64, BTreeMap<u64, Vec<u64>>), SelfcheckError> {
    let broken = |_| SelfcheckError::Server(io::ErrorKind::InvalidData.into());
    let mut lines = log.lines();
    let events = lines.next().ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)??;
    let mut written = BTreeMap::new();
    for line in lines {
        let line = line?;
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let numbers = numbers.map_err(broken)?;
        if let [seed, rest @ ..] = numbers.as_slice() {
            written.insert(*seed, rest.to_vec());
        }
    }
    Ok((events.parse().map_err(broken)?, written))
}

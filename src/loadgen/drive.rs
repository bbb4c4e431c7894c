//! Drives one cell: decides when which request is sent. Pure logic over a [`Transport`].
//!
//! A closed loop keeps its requests in flight from the first warm-up request to the end of the last
//! measured one: warm-up requests are not drained, measured ones follow through the same slots, and
//! fillers hold the load until every measured one has ended. An open loop has absolute due instants and
//! skips none.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::artifact::run::CellEvidence;
use crate::base::units::Nanos;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::workload::Load;
use crate::wire::transport::{Exchange, Failure, Outbound, Transport, Wake};

/// Open loop: a request is composed and handed over this long before it is due.
const LOOK_AHEAD: Nanos = Nanos::from_secs(1);
/// Closed loop: the first requests of the slots are this far apart ...
const RAMP_STEP: Nanos = Nanos::from_millis(10);
/// ... and all slots are filled within this time.
const RAMP_LIMIT: Nanos = Nanos::from_secs(2);
/// Closed loop: at most this many requests are composed ahead.
const COMPOSED_AHEAD: usize = 64;
/// When the first so many requests of a cell end without even a response head, the target is down.
const DOWN_AFTER: usize = 20;
/// Time beyond the sum of timeouts after which a cell is given up.
const GRACE: Nanos = Nanos::from_secs(30);
/// Open loop: connections are opened for the arrivals within a guessed time in system (Little's law) ...
const GUESSED_TIME_IN_SYSTEM: Nanos = Nanos::from_secs(4);
/// ... and at most this many.
const MOST_CONNECTIONS: usize = 256;

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// Path and query of the URL.
    pub path: &'static str,
    /// JSON body.
    pub body: Bytes,
}

/// Makes the message of a planned request.
pub type Compose<'a> = dyn Fn(&PlannedRequest) -> Message + 'a;

/// Takes a measured request that has ended; a break stops the cell.
pub type Ended<'a, 'p> = dyn FnMut(&'p PlannedRequest, Box<Exchange>) -> ControlFlow<()> + 'a;

/// Why a cell ended before its last measured request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
    /// Whoever takes the ended requests wants no more.
    #[error("the records could not be written")]
    Refused,
    /// The cell took longer than its requests' timeouts allow.
    #[error("the cell was given up after {limit}, longer than the timeouts of its requests allow")]
    Overdue {
        /// The limit.
        limit: Nanos,
    },
    /// The target answered none of the first requests.
    #[error("the target is down: none of the first {requests} requests got an answer ({cause}); check that it is up")]
    Down {
        /// Requests that ended without an answer.
        requests: usize,
        /// What the last of them saw.
        cause: String,
    },
}

/// How a cell went.
#[derive(Clone, Debug, PartialEq)]
pub struct Driven {
    /// What the cell tells about its own validity.
    pub evidence: CellEvidence,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

/// Runs one cell. Every measured request that ends is handed to `ended`, in the order in which the
/// transport reports the ends; warm-up requests and fillers are not. When it returns, nothing is in flight.
pub fn drive<'p>(
    cell: &'p PlannedCell,
    compose: &Compose<'_>,
    transport: &mut dyn Transport,
    ended: &mut Ended<'_, 'p>,
) -> Driven {
    transport.prepare(connections(cell));
    let mut state = State::new(cell, compose, transport);
    let stop = match cell.load {
        Load::Closed { concurrency } => closed(&mut state, to_usize(concurrency).max(1), ended),
        Load::Poisson { .. } | Load::Constant { .. } => open(&mut state, ended),
    };
    let evidence = state.evidence();
    transport.abandon();
    Driven { evidence, stop: stop.err() }
}

/// Keeps `slots` requests in flight until every measured one has ended.
fn closed<'p>(state: &mut State<'p, '_>, slots: usize, ended: &mut Ended<'_, 'p>) -> Result<(), Stop> {
    let ahead = slots.min(COMPOSED_AHEAD);
    let mut composed = VecDeque::with_capacity(ahead);
    for _ in 0..ahead {
        composed.extend(state.compose_next(true));
    }
    let step = RAMP_STEP.0.min(RAMP_LIMIT.0.checked_div(to_u64(slots)).unwrap_or(0));
    let start = state.transport.now();
    state.set_limit(start, slots);
    for slot in 0..slots {
        let Some(next) = composed.pop_front().or_else(|| state.compose_next(true)) else { break };
        state.submit(next, start + Nanos(step.saturating_mul(to_u64(slot))));
    }
    while !state.is_done() {
        state.check_deadline()?;
        // Prompts are composed while nothing else is to be done: a look for ended requests comes first.
        let idle = composed.len() < ahead;
        let until = if idle { state.transport.now() } else { state.deadline };
        match state.transport.wait(Some(until)) {
            Wake::Ended(exchange) => {
                let end = exchange.end;
                state.take(exchange, ended)?;
                if !state.is_done()
                    && let Some(next) = composed.pop_front().or_else(|| state.compose_next(true))
                {
                    state.submit(next, end);
                }
            }
            Wake::Reached if idle => composed.extend(state.compose_next(true)),
            Wake::Reached => {}
            Wake::Interrupted => return Err(Stop::Interrupted),
        }
    }
    Ok(())
}

/// Sends every request at its absolute instant, however many are in flight.
fn open<'p>(state: &mut State<'p, '_>, ended: &mut Ended<'_, 'p>) -> Result<(), Stop> {
    let start = state.transport.now() + LOOK_AHEAD;
    let due = |request: &PlannedRequest| start + request.due.unwrap_or_default();
    state.set_limit(start, 1);
    while !state.is_done() {
        state.check_deadline()?;
        let until = match state.planned(state.next).map(due) {
            Some(due) if due <= state.transport.now() + LOOK_AHEAD => {
                if let Some(next) = state.compose_next(false) {
                    state.submit(next, due);
                }
                continue;
            }
            Some(due) => Nanos(due.0.saturating_sub(LOOK_AHEAD.0)).min(state.deadline),
            None => state.deadline,
        };
        match state.transport.wait(Some(until)) {
            Wake::Ended(exchange) => state.take(exchange, ended)?,
            Wake::Reached => {}
            Wake::Interrupted => return Err(Stop::Interrupted),
        }
    }
    Ok(())
}

/// A message with its place in the cell's sequence: warm-up, measured, fillers.
struct Composed {
    place: usize,
    message: Message,
}

/// One cell while it runs.
struct State<'p, 't> {
    cell: &'p PlannedCell,
    compose: &'t Compose<'t>,
    transport: &'t mut dyn Transport,
    /// Place of the next request to compose.
    next: usize,
    /// Measured requests that were submitted and have not ended, with their due instants.
    outstanding: BTreeMap<u64, Nanos>,
    /// Measured requests that have ended.
    ended: usize,
    /// Requests that ended without an answer; none once there was an answer.
    unanswered: Option<usize>,
    deadline: Nanos,
    limit: Nanos,
    window_start: Option<Nanos>,
    window_end: Nanos,
}

impl<'p, 't> State<'p, 't> {
    fn new(cell: &'p PlannedCell, compose: &'t Compose<'t>, transport: &'t mut dyn Transport) -> Self {
        Self {
            cell,
            compose,
            transport,
            next: 0,
            outstanding: BTreeMap::new(),
            ended: 0,
            unanswered: Some(0),
            deadline: Nanos::MAX,
            limit: Nanos::MAX,
            window_start: None,
            window_end: Nanos::ZERO,
        }
    }

    /// The planned request at a place: warm-up, then measured.
    fn planned(&self, place: usize) -> Option<&'p PlannedRequest> {
        self.cell.warmup.get(place).or_else(|| self.measured(place))
    }

    /// The message at the next place. A closed loop has fillers after the planned requests.
    fn compose_next(&mut self, fillers: bool) -> Option<Composed> {
        let place = self.next;
        let message = match self.planned(place) {
            Some(request) => (self.compose)(request),
            None if fillers => {
                let number = place.checked_sub(self.cell.warmup.len() + self.cell.requests.len())?;
                (self.compose)(&self.cell.filler(to_u32(number))?)
            }
            None => return None,
        };
        self.next += 1;
        Some(Composed { place, message })
    }

    /// The measured request at a place.
    fn measured(&self, place: usize) -> Option<&'p PlannedRequest> {
        self.cell.requests.get(place.checked_sub(self.cell.warmup.len())?)
    }

    fn submit(&mut self, composed: Composed, due: Nanos) {
        let id = to_u64(composed.place);
        if self.measured(composed.place).is_some() {
            self.window_start.get_or_insert(due);
            self.outstanding.insert(id, due);
        }
        self.transport.submit(Outbound {
            id,
            due,
            path: composed.message.path,
            body: composed.message.body,
            timeout: self.cell.timeout,
            stall_timeout: self.cell.stall_timeout,
        });
    }

    /// Every request ends within its timeout, so a cell ends within the sum over those that wait for each
    /// other: one slot's share in a closed loop; the last arrival and its timeout in an open one.
    fn set_limit(&mut self, start: Nanos, slots: usize) {
        let PlannedCell { warmup, requests, timeout, .. } = self.cell;
        let busy = match self.cell.load {
            Load::Closed { .. } => {
                let rounds = to_u64((warmup.len() + requests.len()).div_ceil(slots)).saturating_add(1);
                RAMP_LIMIT + Nanos(timeout.0.saturating_mul(rounds))
            }
            Load::Poisson { .. } | Load::Constant { .. } => {
                *timeout + requests.iter().filter_map(|request| request.due).max().unwrap_or_default()
            }
        };
        self.limit = busy + GRACE;
        self.deadline = start + self.limit;
    }

    fn check_deadline(&self) -> Result<(), Stop> {
        if self.transport.now() < self.deadline { Ok(()) } else { Err(Stop::Overdue { limit: self.limit }) }
    }

    fn take(&mut self, exchange: Box<Exchange>, ended: &mut Ended<'_, 'p>) -> Result<(), Stop> {
        let down = self.is_down(&exchange);
        if self.outstanding.remove(&exchange.id).is_some()
            && let Some(request) = usize::try_from(exchange.id).ok().and_then(|place| self.measured(place))
        {
            self.ended += 1;
            self.window_end = self.window_end.max(exchange.end);
            if ended(request, exchange).is_break() {
                return Err(Stop::Refused);
            }
        }
        down.map_or(Ok(()), Err)
    }

    /// Whether this exchange completes the proof that the target is down.
    fn is_down(&mut self, exchange: &Exchange) -> Option<Stop> {
        let (Some(before), None, Some(cause)) = (self.unanswered, exchange.status, &exchange.failure) else {
            self.unanswered = None;
            return None;
        };
        let requests = before + 1;
        self.unanswered = Some(requests);
        let enough = DOWN_AFTER.min(self.cell.warmup.len() + self.cell.requests.len());
        (requests >= enough).then(|| Stop::Down { requests, cause: words(cause) })
    }

    fn is_done(&self) -> bool {
        self.ended >= self.cell.requests.len()
    }

    fn evidence(&self) -> CellEvidence {
        let now = self.transport.now();
        let in_flight = self.outstanding.values().filter(|due| **due <= now).count();
        let micros = |at: Nanos| at.to_stored_resolution().0.checked_div(1_000).unwrap_or(0);
        let start = self.window_start.unwrap_or(now);
        CellEvidence {
            name: self.cell.name.clone(),
            planned: to_u32(self.cell.requests.len()),
            attempted: to_u32(self.ended + in_flight),
            window_start_us: micros(start),
            window_end_us: micros(self.window_end.max(start)),
            server: None,
        }
    }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::Connect(cause) => format!("no connection: {cause}"),
        Failure::Tls(cause) => format!("no TLS: {cause}"),
        Failure::Cut(cause) => format!("connection broke: {cause}"),
        Failure::TimedOut => "no answer within the timeout".to_owned(),
        Failure::Stalled => "silent for longer than the stall timeout".to_owned(),
        Failure::TooLarge => "an answer too large to keep".to_owned(),
    }
}

/// Connections a cell should find open.
fn connections(cell: &PlannedCell) -> usize {
    match cell.load {
        Load::Closed { concurrency } => to_usize(concurrency),
        Load::Poisson { .. } | Load::Constant { .. } => {
            let arrivals = cell.warmup.iter().chain(&cell.requests).filter_map(|request| request.due);
            arrivals.filter(|due| *due <= GUESSED_TIME_IN_SYSTEM).count().clamp(1, MOST_CONNECTIONS)
        }
    }
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::scripted::{Script, Scripted, cell, compose};

    /// Drives a cell; gives the numbers of the measured requests in the order of their ends too.
    fn run(cell: &PlannedCell, transport: &mut Scripted) -> (Driven, Vec<u32>) {
        let mut ends = Vec::new();
        let driven = drive(cell, &compose, transport, &mut |request, _exchange| {
            ends.push(request.number);
            ControlFlow::Continue(())
        });
        (driven, ends)
    }

    fn bodies(transport: &Scripted) -> Vec<&str> {
        transport.log.iter().map(|(_, _, _, body)| std::str::from_utf8(body).unwrap()).collect()
    }

    /// 300, 350 or 400 ms, by identity.
    const UNEVEN: Script = |request| (Nanos::from_millis(300 + 50 * (request.id % 3)), None);

    #[test]
    fn a_closed_loop_keeps_its_requests_in_flight_from_warm_up_to_the_last_end() {
        let cell = cell("c4", Load::Closed { concurrency: 4 }, 6, 20);
        let mut transport = Scripted::new(UNEVEN);
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!(driven.stop, None);
        assert_eq!(transport.prepared, [4]);
        let mut sorted = ends.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        // Warm-up first, then the measured ones, then fillers of the measured shapes.
        let bodies = bodies(&transport);
        assert_eq!(&bodies[4..8], ["w4", "w5", "m0", "m1"]);
        assert_eq!(&bodies[24..28], ["m18", "m19", "f26", "f27"]);
        // After the ramp exactly four are in flight: each is due the instant another ended.
        let ends: Vec<_> = transport.spans.iter().map(|(_, end)| *end).collect();
        assert!(transport.log[4..].iter().all(|(at, _, due, _)| at == due && ends.contains(due)));
        assert_eq!(transport.log.len() - transport.spans.len(), transport.abandoned);
        assert_eq!(
            transport.abandoned, 3,
            "the last end is not replaced, and the others are fillers or it was the last"
        );
        let ramp: Vec<_> = transport.log[..4].iter().map(|(_, _, due, _)| due.as_ms()).collect();
        assert_eq!(ramp, [1_000.0, 1_010.0, 1_020.0, 1_030.0]);
        let evidence = CellEvidence {
            name: "c4".to_owned(),
            planned: 20,
            attempted: 20,
            window_start_us: 1_360_000,
            window_end_us: 3_420_000,
            server: None,
        };
        assert_eq!(driven.evidence, evidence);
        assert_eq!(transport.spans.last().unwrap().1, Nanos::from_micros(evidence.window_end_us));
    }

    #[test]
    fn an_open_loop_is_due_at_absolute_instants_whatever_the_target_does() {
        let cell = cell("r10", Load::Constant { rate: 10.0 }, 5, 30);
        // Each takes 5 s: up to 50 in flight.
        let mut transport = Scripted::new(|_| (Nanos::from_secs(5), None));
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!((driven.stop, ends.len()), (None, 30));
        let start = Nanos::from_secs(1) + LOOK_AHEAD;
        for (place, (at, id, due, _)) in transport.log.iter().enumerate() {
            assert_eq!((*id, *due), (to_u64(place), start + Nanos::from_millis(100 * to_u64(place))));
            assert_eq!(*at, Nanos(due.0 - LOOK_AHEAD.0), "composed and handed over ahead");
        }
        assert_eq!((transport.log.len(), transport.abandoned), (35, 0));
        assert_eq!(driven.evidence.window_start_us, 2_500_000);
        assert_eq!(driven.evidence.window_end_us, 2_500_000 + 2_900_000 + 5_000_000);
        assert_eq!(transport.prepared, [35]);
    }

    #[test]
    fn an_interrupt_keeps_what_ended_and_counts_what_was_sent() {
        let cell = cell("c2", Load::Closed { concurrency: 2 }, 0, 50);
        let mut transport = Scripted::new(|_| (Nanos::from_millis(100), None));
        transport.interrupt = Nanos::from_millis(1_550);
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!(driven.stop, Some(Stop::Interrupted));
        assert_eq!(ends, (0..10).collect::<Vec<_>>());
        assert_eq!((driven.evidence.planned, driven.evidence.attempted), (50, 12));
        assert_eq!(transport.abandoned, 2);

        let cell = cell_of_open();
        let mut transport = Scripted::new(|_| (Nanos::from_secs(5), None));
        transport.interrupt = Nanos::from_millis(2_450);
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!((driven.stop, ends.len()), (Some(Stop::Interrupted), 0));
        assert_eq!(driven.evidence.attempted, 5, "those that were handed over ahead were not sent");
    }

    fn cell_of_open() -> PlannedCell {
        cell("r10", Load::Constant { rate: 10.0 }, 0, 50)
    }

    #[test]
    fn a_target_that_never_ends_a_request_does_not_hang_the_gate() {
        for load in [Load::Closed { concurrency: 8 }, Load::Poisson { rate: 10.0 }] {
            let cell = cell("hung", load, 8, 16);
            // Even when some requests end all the time.
            let script: Script =
                |request| (if request.id == 9 { Nanos::from_secs(1_000_000) } else { Nanos::from_secs(1) }, None);
            let mut transport = Scripted::new(script);
            let (driven, ends) = run(&cell, &mut transport);
            assert!(matches!(driven.stop, Some(Stop::Overdue { .. })), "{:?}", driven.stop);
            assert_eq!((ends.len(), driven.evidence.attempted), (15, 16));
            assert!(transport.now() < Nanos::from_secs(400));
        }
    }

    #[test]
    fn a_target_that_is_down_stops_the_cell_and_one_that_answers_some_does_not() {
        let cell = cell("c4", Load::Closed { concurrency: 4 }, 10, 100);
        let mut transport = Scripted::new(|_| (Nanos::from_millis(1), Some(Failure::Connect("refused".to_owned()))));
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!(driven.stop, Some(Stop::Down { requests: 20, cause: "no connection: refused".to_owned() }));
        assert_eq!(ends.len(), 12, "two warm-up requests of the ramp were still to come; records are kept");

        let script: Script =
            |request| (Nanos::from_millis(1), (request.id != 5).then(|| Failure::Connect("refused".to_owned())));
        let (driven, ends) = run(&cell, &mut Scripted::new(script));
        assert_eq!((driven.stop, ends.len()), (None, 100));
    }

    #[test]
    fn cells_without_warm_up_or_with_few_requests_end_too() {
        for (concurrency, requests) in [(8, 3), (1, 1), (3, 0), (2, 5)] {
            let cell = cell("small", Load::Closed { concurrency }, 0, requests);
            let mut transport = Scripted::new(UNEVEN);
            let (driven, ends) = run(&cell, &mut transport);
            assert_eq!((driven.stop, ends.len()), (None, to_usize(requests)));
            assert!(transport.abandoned < to_usize(concurrency));
        }
        let (driven, _) = run(&cell("none", Load::Poisson { rate: 1.0 }, 0, 0), &mut Scripted::new(UNEVEN));
        assert_eq!((driven.stop, driven.evidence.attempted), (None, 0));
    }

    proptest::proptest! {
        #[test]
        fn a_closed_loop_never_has_more_in_flight_than_its_slots(slots in 1_u32..20, warmup in 0_u32..40, requests in 0_u32..60) {
            let cell = cell("c", Load::Closed { concurrency: slots }, warmup, requests);
            let mut transport = Scripted::new(|request| (Nanos::from_micros(1 + request.id * 7_919 % 50_000), None));
            let (driven, ends) = run(&cell, &mut transport);
            proptest::prop_assert_eq!(driven.stop, None);
            proptest::prop_assert_eq!(ends.len(), to_usize(requests));
            let mut steps: Vec<_> = transport.spans.iter().flat_map(|(due, end)| [(*end, -1), (*due, 1)]).collect();
            steps.sort_unstable();
            let mut in_flight = 0;
            for (_, step) in steps {
                in_flight += step;
                proptest::prop_assert!(in_flight <= i64::from(slots));
            }
        }
    }
}

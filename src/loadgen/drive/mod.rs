//! Drives one cell, phase after phase: decides when which request is sent. Pure logic over a [`Transport`].
//!
//! A closed loop keeps its requests in flight from the first warm-up request to the end of the last
//! measured one: warm-up requests are not drained, measured ones follow through the same slots, and
//! fillers hold the load until every measured one has ended. An open loop has absolute due instants and
//! skips none. In an idle phase each request comes after silence.
//!
//! In a cell with sessions the load counts these: a slot of a closed loop is one session's until its last answer, an open
//! loop's due instants are those of first turns. A later turn is due when the answer before it has ended and its pause
//! is over.
//!
//! Nothing is drained between phases, but before silence: a phase takes over what is in flight. An open loop
//! ends at its last due instant, and the next phase begins in that instant with whatever still waits; a closed
//! loop ends when its last measured request has.

mod pool;
#[cfg(test)]
mod pool_tests;
mod sessions;
#[cfg(test)]
mod sessions_tests;
mod state;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::artifact::run::CellEvidence;
use crate::base::units::Nanos;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::workload::Load;
use crate::wire::transport::{Exchange, Transport};

use pool::connections;
pub use pool::needed_connections;
use state::{State, to_u64, to_usize};

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
/// Time beyond the sum of timeouts after which a phase is given up.
const GRACE: Nanos = Nanos::from_secs(30);
/// Idle phase: a connection is made sure of this long before a request is due.
const CONNECTED_AHEAD: Nanos = Nanos::from_millis(300);

/// A request as it is sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// Names the request in the server's log.
    pub request_id: String,
    /// Names its session, where it has one.
    pub session: Option<String>,
    /// Path and query of the URL.
    pub path: &'static str,
    /// JSON body.
    pub body: Bytes,
}

/// Makes the message of a planned request of a cell or phase.
pub type Compose<'a> = dyn Fn(&PlannedCell, &PlannedRequest) -> Message + 'a;

/// What a cell tells while it runs.
#[derive(Debug)]
pub enum Step<'p> {
    /// A phase begins: an open loop's as soon as its first request is handed over, up to a second ahead.
    Started(&'p PlannedCell),
    /// A measured request of a phase has ended; under a later phase, maybe.
    Ended(&'p PlannedCell, &'p PlannedRequest, Box<Exchange>),
    /// A request that is not measured has ended, in a cell whose conversations go on from what the model said. Its place
    /// is that among warm-up, measured requests and fillers.
    Answered(&'p PlannedCell, usize, Box<Exchange>),
}

/// Takes the steps of a cell; a break stops it.
pub type Watch<'a, 'p> = dyn FnMut(Step<'p>) -> ControlFlow<()> + 'a;

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
    /// What the phases that were begun tell about their own validity.
    pub evidence: Vec<CellEvidence>,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

/// Runs one cell, the phases of its time line in order. Every measured request that ends is handed to `watch`, in
/// the order in which the transport reports the ends; warm-up requests and fillers are not. When it returns,
/// nothing is in flight.
pub fn drive<'p>(
    line: &[&'p PlannedCell],
    compose: &Compose<'_>,
    transport: &mut dyn Transport,
    watch: &mut Watch<'_, 'p>,
) -> Driven {
    transport.prepare(line.iter().map(|phase| connections(phase)).max().unwrap_or(0));
    let mut state = State::new(line, compose, transport, watch);
    let stop = phases(&mut state, line);
    let stop = state.hand_over().and(stop);
    let evidence = state.evidence();
    transport.abandon();
    Driven { evidence, stop: stop.err() }
}

fn phases<'p>(state: &mut State<'p, '_>, line: &[&'p PlannedCell]) -> Result<(), Stop> {
    for phase in line {
        state.begin(phase)?;
        if phase.talk.is_some() {
            sessions::drive(state, phase)?;
            continue;
        }
        match phase.load {
            Load::Closed { concurrency } => closed(state, to_usize(concurrency).max(1))?,
            Load::Idle { pause } => idle(state, pause)?,
            Load::Poisson { .. }
            | Load::Constant { .. }
            | Load::Gamma { .. }
            | Load::Ramp { .. }
            | Load::Bursts { .. }
            | Load::OnOff { .. }
            | Load::Trace => open(state)?,
        }
    }
    while state.is_measuring() {
        state.wait(None)?;
    }
    Ok(())
}

/// Keeps `slots` requests in flight until every measured one has ended.
fn closed(state: &mut State<'_, '_>, slots: usize) -> Result<(), Stop> {
    let ahead = slots.min(COMPOSED_AHEAD);
    let mut composed = VecDeque::with_capacity(ahead);
    for _ in 0..ahead {
        composed.extend(state.compose_next(true));
    }
    state.prepare_again(slots);
    state.reach_border()?;
    let step = RAMP_STEP.0.min(RAMP_LIMIT.0.checked_div(to_u64(slots)).unwrap_or(0));
    let start = state.now();
    state.set_limit(start, slots);
    for slot in 0..slots.saturating_sub(state.in_flight()) {
        let Some(next) = composed.pop_front().or_else(|| state.compose_next(true)) else { break };
        state.submit(next, start + Nanos(step.saturating_mul(to_u64(slot))));
    }
    while !state.phase_is_done() {
        // Prompts are composed while nothing else is to be done: a look for ended requests comes first.
        let idle = composed.len() < ahead;
        match state.wait(idle.then(|| state.now()))? {
            Some(end) => {
                if !state.phase_is_done()
                    && state.in_flight() < slots
                    && let Some(next) = composed.pop_front().or_else(|| state.compose_next(true))
                {
                    state.submit(next, end.at);
                }
            }
            None if idle => composed.extend(state.compose_next(true)),
            None => {}
        }
    }
    Ok(())
}

/// Sends every request at its absolute instant, however many are in flight. At a connection cap a request waits
/// for its turn and keeps its instant: latency counts from there.
fn open(state: &mut State<'_, '_>) -> Result<(), Stop> {
    let start = state.border();
    state.set_limit(start, 1);
    let mut held = false;
    while let Some(due) = state.next_due() {
        let due = start + due;
        let has_room = state.has_room();
        if has_room && due <= state.now() + LOOK_AHEAD {
            if let Some(next) = state.compose_next(false) {
                if held && next.is_measured() {
                    state.note_wait(due);
                }
                state.submit(next, due);
            }
            held = false;
            continue;
        }
        held |= !has_room;
        state.renew(start);
        state.wait(has_room.then(|| Nanos(due.0.saturating_sub(LOOK_AHEAD.0))))?;
    }
    state.renew(start);
    state.set_border(start);
    Ok(())
}

/// Sends one request at a time, each after `pause` without any in flight.
fn idle(state: &mut State<'_, '_>, pause: Nanos) -> Result<(), Stop> {
    state.reach_border()?;
    state.set_limit(state.now(), 1);
    loop {
        while state.in_flight() > 0 {
            state.wait(None)?;
        }
        let due = state.now() + pause;
        let Some(next) = state.compose_next(false) else { return Ok(()) };
        // A connection that was idle for long is not used again: what the server does after a pause is asked, not
        // what a handshake costs.
        let ahead = due.since(CONNECTED_AHEAD);
        while state.now() < ahead {
            state.wait(Some(ahead))?;
        }
        state.prepare(1);
        state.submit(next, due);
    }
}

//! One cell while it runs: what is in flight, and what each phase has to show.

use std::collections::BTreeMap;

use crate::artifact::run::{CellEvidence, ConnectionCap};
use crate::base::units::Nanos;
use crate::loadgen::drive::pool::{GUESSED_TIME_IN_SYSTEM, idle_needed};
use crate::loadgen::drive::{Compose, DOWN_AFTER, GRACE, LOOK_AHEAD, Message, RAMP_LIMIT, Step, Stop, Watch};
use crate::loadgen::place::Place;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::workload::Load;
use crate::wire::transport::{Exchange, Failure, Outbound, Transport, Wake};

/// A message on its way to the transport; the measured request that it is, if it is one.
pub(super) struct Composed<'p> {
    id: u64,
    measured: Option<&'p PlannedRequest>,
    message: Message,
}

impl Composed<'_> {
    pub(super) const fn is_measured(&self) -> bool {
        self.measured.is_some()
    }
}

/// A request has ended.
pub(super) struct End {
    /// Its place in its phase.
    pub(super) place: usize,
    /// When.
    pub(super) at: Nanos,
}

/// A measured request in flight.
struct Flight<'p> {
    /// Its phase, as an index.
    phase: usize,
    request: &'p PlannedRequest,
    due: Nanos,
}

/// What a phase has to show.
struct Shown<'p> {
    phase: &'p PlannedCell,
    /// Measured requests that have ended.
    ended: usize,
    window_start: Option<Nanos>,
    window_end: Nanos,
    connections: Option<ConnectionCap>,
}

/// One cell while it runs.
pub(super) struct State<'p, 't> {
    compose: &'t Compose<'t>,
    transport: &'t mut dyn Transport,
    watch: &'t mut Watch<'t, 'p>,
    /// The phases that were begun; the last one runs.
    shown: Vec<Shown<'p>>,
    /// Place of the next request in its phase: warm-up, measured, fillers.
    place: usize,
    /// Everything that was submitted and has not ended: the measured requests among it are known.
    in_flight: BTreeMap<u64, Option<Flight<'p>>>,
    /// How many of them are measured.
    measuring: usize,
    /// A request that has ended and was not handed to `watch` yet: the next request of its slot goes first. None for the
    /// request where it is not measured, and its answer is asked for.
    ended: Option<(usize, Option<&'p PlannedRequest>, Box<Exchange>)>,
    /// Planned requests of the whole cell.
    planned: usize,
    /// Requests that ended without an answer; none once there was an answer.
    unanswered: Option<usize>,
    /// The instant in which the next phase begins, where the one before it says so.
    border: Option<Nanos>,
    /// How long a request takes once it is sent: a running mean, each of weight 1/8; none before the first end.
    time_in_system: Option<Nanos>,
    deadline: Nanos,
    limit: Nanos,
}

impl<'p, 't> State<'p, 't> {
    pub(super) fn new(
        line: &[&'p PlannedCell],
        compose: &'t Compose<'t>,
        transport: &'t mut dyn Transport,
        watch: &'t mut Watch<'t, 'p>,
    ) -> Self {
        Self {
            compose,
            transport,
            watch,
            shown: Vec::with_capacity(line.len()),
            place: 0,
            in_flight: BTreeMap::new(),
            measuring: 0,
            ended: None,
            planned: line.iter().map(|phase| phase.warmup.len() + phase.requests.len()).sum(),
            unanswered: Some(0),
            border: None,
            time_in_system: None,
            deadline: Nanos::MAX,
            limit: Nanos::MAX,
        }
    }

    pub(super) fn begin(&mut self, phase: &'p PlannedCell) -> Result<(), Stop> {
        self.hand_over()?;
        let connections = phase.max_connections.map(ConnectionCap::of);
        self.shown.push(Shown { phase, ended: 0, window_start: None, window_end: Nanos::ZERO, connections });
        self.place = 0;
        if (self.watch)(Step::Started(phase)).is_break() { Err(Stop::Refused) } else { Ok(()) }
    }

    /// The phase that runs.
    fn phase(&self) -> Option<&'p PlannedCell> {
        self.shown.last().map(|shown| shown.phase)
    }

    pub(super) fn now(&self) -> Nanos {
        self.transport.now()
    }

    /// Opens connections until so many are there without a request.
    pub(super) fn prepare(&mut self, idle: usize) {
        self.transport.prepare(idle);
    }

    /// Opens connections for `slots` requests in flight in a phase that is not the first: the pool may have aged.
    pub(super) fn prepare_again(&mut self, slots: usize) {
        let idle = slots.saturating_sub(self.in_flight.len());
        match self.border {
            _ if idle == 0 || self.shown.len() < 2 => {}
            Some(border) => self.transport.renew(idle, border),
            None => self.transport.prepare(idle),
        }
    }

    /// Keeps connections ready for the requests of an open loop that were handed over ahead, when it started at `start`.
    pub(super) fn renew(&mut self, start: Nanos) {
        let Some(phase) = self.phase() else { return };
        let time = self.time_in_system.unwrap_or(GUESSED_TIME_IN_SYSTEM);
        let since = self.now().0.checked_sub(start.0).map(Nanos);
        if let Some((idle, last_due)) = idle_needed(phase, self.place, since, self.in_flight.len(), time) {
            self.transport.renew(idle, start + last_due);
        }
    }

    /// Keeps so many connections without a request fit for use at an instant.
    pub(super) fn renew_by(&mut self, idle: usize, by: Nanos) {
        self.transport.renew(idle, by);
    }

    /// The instant in which an open loop starts: where the one before it ended, or now; the first requests of a
    /// cell are handed over ahead like all others.
    pub(super) fn border(&mut self) -> Nanos {
        let now = self.now();
        self.border.take().unwrap_or(if self.shown.len() > 1 { now } else { now + LOOK_AHEAD })
    }

    /// An open loop that started at `start` ends at its last due instant.
    pub(super) fn set_border(&mut self, start: Nanos) {
        self.border = Some(start + self.last_due());
    }

    /// Waits until the phase before has ended, where that is still to come.
    pub(super) fn reach_border(&mut self) -> Result<(), Stop> {
        if let Some(border) = self.border.take() {
            while self.now() < border {
                self.wait(Some(border))?;
            }
        }
        Ok(())
    }

    fn last_due(&self) -> Nanos {
        let planned = self.phase().into_iter().flat_map(|phase| phase.warmup.iter().chain(&phase.requests));
        planned.filter_map(|request| request.due).max().unwrap_or_default()
    }

    /// The measured request at a place.
    fn measured(&self, place: usize) -> Option<&'p PlannedRequest> {
        let phase = self.phase()?;
        phase.requests.get(place.checked_sub(phase.warmup.len())?)
    }

    /// The planned request at a place: warm-up, then measured.
    fn planned(&self, place: usize) -> Option<&'p PlannedRequest> {
        self.phase()?.warmup.get(place).or_else(|| self.measured(place))
    }

    /// When the next planned request is due, from the start of its phase; none when all were taken.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.planned(self.place).map(|request| request.due.unwrap_or_default())
    }

    /// The message at the next place. A closed loop has fillers after the planned requests.
    pub(super) fn compose_next(&mut self, fillers: bool) -> Option<Composed<'p>> {
        if !fillers && self.planned(self.place).is_none() {
            return None;
        }
        let composed = self.compose(self.place)?;
        self.place += 1;
        Some(composed)
    }

    /// The message at a place: warm-up, measured, fillers.
    pub(super) fn compose(&self, place: usize) -> Option<Composed<'p>> {
        let phase = self.phase()?;
        let message = if let Some(request) = self.planned(place) {
            (self.compose)(phase, request)
        } else {
            let number = place.checked_sub(phase.warmup.len() + phase.requests.len())?;
            (self.compose)(phase, &phase.filler(to_u32(number))?)
        };
        let id = Place { phase: self.shown.len().saturating_sub(1), place }.id();
        Some(Composed { id, measured: self.measured(place), message })
    }

    pub(super) fn submit(&mut self, composed: Composed<'p>, due: Nanos) {
        let Composed { id, measured, message } = composed;
        let phase = self.shown.len().saturating_sub(1);
        let Some(shown) = self.shown.last_mut() else { return };
        if measured.is_some() {
            // Ends are reported in the order in which they are read: a slot that was free earlier may be filled later.
            shown.window_start = Some(shown.window_start.map_or(due, |start| start.min(due)));
            self.measuring += 1;
        }
        self.in_flight.insert(id, measured.map(|request| Flight { phase, request, due }));
        let PlannedCell { timeout, stall_timeout, .. } = *shown.phase;
        let Message { request_id, session, path, body } = message;
        self.transport.submit(Outbound { id, due, request_id, session, path, body, timeout, stall_timeout });
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether the phase's connection cap leaves room for a request. What was handed over ahead takes a place: it
    /// is due earlier than whatever comes after it.
    pub(super) fn has_room(&self) -> bool {
        let cap = self.phase().and_then(|phase| phase.max_connections);
        cap.is_none_or(|cap| self.in_flight.len() < to_usize(cap))
    }

    /// Notes a measured request that is handed over after it was due, because there was no room.
    pub(super) fn note_wait(&mut self, due: Nanos) {
        let wait = micros(self.now().since(due));
        if let Some(connections) = self.shown.last_mut().and_then(|shown| shown.connections.as_mut())
            && wait > 0
        {
            connections.waited += 1;
            connections.total_wait_us = connections.total_wait_us.saturating_add(wait);
            connections.longest_wait_us = connections.longest_wait_us.max(wait);
        }
    }

    /// Every request ends within its timeout, so a phase ends within the sum over those that wait for each
    /// other: one slot's share in a closed loop; the last arrival and its timeout in an open one.
    pub(super) fn set_limit(&mut self, start: Nanos, slots: usize) {
        let Some(PlannedCell { load, warmup, requests, timeout, talk, .. }) = self.phase() else { return };
        let rounds = to_u64((warmup.len() + requests.len()).div_ceil(slots)).saturating_add(1);
        let times = |time: Nanos| Nanos(time.0.saturating_mul(rounds));
        let turns = warmup.iter().chain(requests).filter_map(|request| request.turn);
        let pause = turns.map(|turn| turn.pause).max().unwrap_or_default();
        let busy = match *load {
            // In the worst case one session after the other holds the last slot.
            _ if talk.is_some() => {
                self.last_due() + Nanos((*timeout + pause).0.saturating_mul(to_u64(warmup.len() + requests.len())))
            }
            Load::Closed { .. } => RAMP_LIMIT + times(*timeout),
            Load::Idle { pause } => times(*timeout + pause),
            Load::Poisson { .. }
            | Load::Constant { .. }
            | Load::Gamma { .. }
            | Load::Ramp { .. }
            | Load::Bursts { .. }
            | Load::OnOff { .. }
            | Load::Trace => *timeout + self.last_due(),
        };
        self.limit = busy + GRACE;
        self.deadline = start + self.limit;
    }

    /// Waits until a request ends, or until `until`, at most to the deadline.
    pub(super) fn wait(&mut self, until: Option<Nanos>) -> Result<Option<End>, Stop> {
        self.hand_over()?;
        if self.now() >= self.deadline {
            return Err(Stop::Overdue { limit: self.limit });
        }
        match self.transport.wait(Some(until.unwrap_or(self.deadline).min(self.deadline))) {
            Wake::Ended(exchange) => {
                let end = End { place: Place::of(exchange.id).place, at: exchange.end };
                self.take(exchange)?;
                Ok(Some(end))
            }
            Wake::Reached => Ok(None),
            Wake::Interrupted => Err(Stop::Interrupted),
        }
    }

    fn take(&mut self, exchange: Box<Exchange>) -> Result<(), Stop> {
        let down = self.is_down(&exchange);
        let took = exchange.end.since(exchange.sent);
        let mean = self.time_in_system.map_or(took.0, |mean| mean.0.saturating_mul(7).saturating_add(took.0) >> 3);
        self.time_in_system = Some(Nanos(mean));
        if let Some(Flight { phase, request, .. }) = self.in_flight.remove(&exchange.id).flatten() {
            if let Some(shown) = self.shown.get_mut(phase) {
                self.measuring = self.measuring.saturating_sub(1);
                shown.ended += 1;
                shown.window_end = shown.window_end.max(exchange.end);
                self.ended = Some((phase, Some(request), exchange));
            }
        } else {
            let phase = Place::of(exchange.id).phase;
            let talk = self.shown.get(phase).and_then(|shown| shown.phase.talk);
            self.ended = talk.filter(|talk| talk.goes_on_from_answers()).map(|_talk| (phase, None, exchange));
        }
        down.map_or(Ok(()), Err)
    }

    /// Hands over the request that ended last, where it is still here.
    pub(super) fn hand_over(&mut self) -> Result<(), Stop> {
        let Some((phase, request, exchange)) = self.ended.take() else { return Ok(()) };
        let Some(phase) = self.shown.get(phase).map(|shown| shown.phase) else { return Ok(()) };
        let step = match request {
            Some(request) => Step::Ended(phase, request, exchange),
            None => Step::Answered(phase, Place::of(exchange.id).place, exchange),
        };
        if (self.watch)(step).is_break() { Err(Stop::Refused) } else { Ok(()) }
    }

    /// Whether this exchange completes the proof that the target is down.
    fn is_down(&mut self, exchange: &Exchange) -> Option<Stop> {
        if matches!(exchange.failure, Some(Failure::Client(_))) {
            // What this host refused says nothing about the target.
            return None;
        }
        let (Some(before), None, Some(cause)) = (self.unanswered, exchange.status, &exchange.failure) else {
            self.unanswered = None;
            return None;
        };
        let requests = before + 1;
        self.unanswered = Some(requests);
        (requests >= DOWN_AFTER.min(self.planned)).then(|| Stop::Down { requests, cause: words(cause) })
    }

    /// Whether every measured request of the phase has ended.
    pub(super) fn phase_is_done(&self) -> bool {
        self.shown.last().is_none_or(|shown| shown.ended >= shown.phase.requests.len())
    }

    /// Whether a measured request of any phase is in flight.
    pub(super) const fn is_measuring(&self) -> bool {
        self.measuring > 0
    }

    pub(super) fn evidence(&self) -> Vec<CellEvidence> {
        let now = self.now();
        let of_phase = |(index, shown): (usize, &Shown<'_>)| {
            let flights = self.in_flight.values().flatten();
            let in_flight = flights.filter(|flight| flight.phase == index && flight.due <= now).count();
            let start = shown.window_start.unwrap_or(now);
            CellEvidence {
                attempted: to_u32(shown.ended + in_flight),
                window_start_us: micros(start),
                window_end_us: micros(shown.window_end.max(start)),
                connections: shown.connections,
                ..CellEvidence::planned(&shown.phase.name, to_u32(shown.phase.requests.len()))
            }
        };
        self.shown.iter().enumerate().map(of_phase).collect()
    }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::Client(cause) => format!("this host refused: {cause}"),
        Failure::Connect(cause) => format!("no connection: {cause}"),
        Failure::Tls(cause) => format!("no TLS: {cause}"),
        Failure::Cut(cause) => format!("connection broke: {cause}"),
        Failure::Unsolicited(status) => format!("an answer (HTTP {status}) that nothing asked for"),
        Failure::TimedOut => "no answer within the timeout".to_owned(),
        Failure::Stalled => "silent for longer than the stall timeout".to_owned(),
        Failure::TooLarge => "an answer too large to keep".to_owned(),
    }
}

fn micros(at: Nanos) -> u64 {
    at.to_stored_resolution().0.checked_div(1_000).unwrap_or(0)
}

pub(super) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(super) fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

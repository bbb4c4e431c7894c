//! Reads the server's counters at the borders of a cell: when the first measured request of a phase is due, when the
//! first request of the next phase is, and when the last measured request has ended, with the load still on. It stands
//! between the driver and the transport, so that the driver knows nothing of it, and it never makes a measured request
//! wait: a reading is only begun at its border, and everything that takes time comes after the last end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::artifact::server::{Caused, ServerEvidence};
use crate::base::units::Nanos;
use crate::loadgen::place::Place;
use crate::plan::request::PlannedCell;
use crate::wire::counters::{Meter, Reading};
use crate::wire::transport::{Outbound, SelfReport, Transport, Wake};

/// A border to come.
struct Ahead {
    at: Nanos,
    /// Whether the window of a phase begins there. The one before ends there in any case.
    opens: bool,
}

/// A border that has come.
struct Border {
    /// When its reading was begun.
    at: Nanos,
    /// The reading's number.
    reading: u64,
    /// The requests that the server had then.
    present: BTreeSet<u64>,
}

/// What a window leaves behind.
pub(super) struct Seen {
    /// What the server counted in each phase, or why that is not known; nothing when nobody was asked, or the cell ended
    /// early.
    pub(super) servers: Vec<Result<ServerEvidence, String>>,
    /// Output tokens asked for by requests that were still in flight: an engine may count them later.
    pub(super) left_tokens: u64,
}

/// A transport whose counters are read at the borders of one cell, all its phases. A request's identity is its
/// [`Place`].
pub(super) struct Window<'a> {
    transport: &'a mut dyn Transport,
    line: &'a [&'a PlannedCell],
    /// Output tokens of the cell before that the server may still count.
    before_tokens: u64,
    ahead: VecDeque<Ahead>,
    borders: Vec<Border>,
    /// For each phase that has begun the border where it did, as an index. It ends at the next one.
    opened: Vec<usize>,
    /// Measured requests of all phases that have not ended.
    to_end: usize,
    /// From when on the server may know of each request that was submitted, in the order of submission.
    sent: Vec<(Nanos, u64)>,
    /// The same of those that have not ended.
    in_flight: BTreeMap<u64, Nanos>,
    servers: Vec<Result<ServerEvidence, String>>,
    left_tokens: u64,
}

impl<'a> Window<'a> {
    /// The window of a cell's time line; `left_tokens` are those of the cell before it.
    pub(super) fn new(transport: &'a mut dyn Transport, line: &'a [&'a PlannedCell], left_tokens: u64) -> Self {
        // A warm-up gives the server time to forget what the cell before left.
        let is_warmed = line.first().is_some_and(|phase| !phase.warmup.is_empty());
        Self {
            transport,
            line,
            before_tokens: if is_warmed { 0 } else { left_tokens },
            ahead: VecDeque::new(),
            borders: Vec::new(),
            opened: Vec::new(),
            to_end: line.iter().map(|phase| phase.requests.len()).sum(),
            sent: Vec::new(),
            in_flight: BTreeMap::new(),
            servers: Vec::new(),
            left_tokens: 0,
        }
    }

    /// Ends the window.
    pub(super) fn finish(self) -> Seen {
        Seen { servers: self.servers, left_tokens: self.left_tokens }
    }

    /// The phase of a measured request, as an index.
    fn measured(&self, id: u64) -> Option<usize> {
        let Place { phase, place } = Place::of(id);
        let PlannedCell { warmup, requests, .. } = self.line.get(phase)?;
        (warmup.len()..warmup.len() + requests.len()).contains(&place).then_some(phase)
    }

    /// Output tokens that a request asks for.
    fn tokens(&self, id: u64) -> u64 {
        let Place { phase, place } = Place::of(id);
        let request = self.line.get(phase).and_then(|phase| phase.at(place));
        request.map_or(0, |request| request.output_tokens.into())
    }

    /// Notes the border that comes with a request that is due at `at`, if one does.
    fn look_ahead(&mut self, id: u64, at: Nanos) {
        let Place { phase, place } = Place::of(id);
        let opens = self.line.get(phase).is_some_and(|phase| place == phase.warmup.len());
        if opens || (place == 0 && phase > 0) {
            self.ahead.push_back(Ahead { at, opens });
        }
    }

    /// Begins the reading of every border that has come.
    fn cross(&mut self) {
        while let Some(Ahead { opens, .. }) = self.ahead.pop_front_if(|border| border.at <= self.transport.now()) {
            if opens {
                self.opened.push(self.borders.len());
            }
            self.mark();
        }
    }

    /// A border is now.
    fn mark(&mut self) {
        let at = self.transport.now();
        let Some(meter) = self.transport.meter() else { return };
        let reading = meter.begin();
        let present = self.in_flight.iter().filter(|(_, from)| **from <= at).map(|(id, _)| *id).collect();
        self.borders.push(Border { at, reading, present });
    }

    /// The last measured request has ended.
    fn close(&mut self) {
        self.cross();
        self.mark();
        let Some(meter) = self.transport.meter() else { return };
        let readings: Vec<_> = self.borders.iter().map(|border| meter.reading(border.reading)).collect();
        self.servers = (0..self.line.len()).map(|phase| self.server(phase, &readings)).collect();
    }

    /// What the server counted in a phase.
    fn server(&self, phase: usize, readings: &[Result<Reading, String>]) -> Result<ServerEvidence, String> {
        let missing = || "the phase did not begin".to_owned();
        let opened = *self.opened.get(phase).ok_or_else(missing)?;
        let ([first, last], [open, close]) =
            (readings.get(opened..opened + 2).zip(self.borders.get(opened..opened + 2)))
                .and_then(|(readings, borders)| Some((readings.as_array()?, borders.as_array()?)))
                .ok_or_else(missing)?;
        let (first, last) = (first.clone()?, last.clone()?);
        let caused = self.caused(phase, (open, close), last.took);
        ServerEvidence::between(&first, &last, caused).map_err(|error| error.to_string())
    }

    /// What servegate caused between two borders; the reading of the second took so long.
    fn caused(&self, phase: usize, (open, close): (&Border, &Border), took: Nanos) -> Caused {
        let is_own = |id: &u64| self.measured(*id) == Some(phase);
        let sum = |ids: &mut dyn Iterator<Item = u64>| ids.map(|id| self.tokens(id)).sum::<u64>();
        let meanwhile = self.sent.iter().filter(|(from, _)| (open.at..close.at + took).contains(from));
        let others: BTreeSet<u64> =
            open.present.iter().copied().chain(meanwhile.map(|(_, id)| *id)).filter(|id| !is_own(id)).collect();
        let before = if phase == 0 { self.before_tokens } else { 0 };
        let asked = self.line.get(phase).into_iter().flat_map(|phase| &phase.requests);
        Caused {
            asked_tokens: asked.map(|request| u64::from(request.output_tokens)).sum(),
            others_tokens: before + sum(&mut others.into_iter()),
            left_tokens: sum(&mut close.present.iter().copied().filter(is_own)),
        }
    }

    fn take(&mut self, id: u64) {
        self.in_flight.remove(&id);
        if self.measured(id).is_some() {
            self.to_end = self.to_end.saturating_sub(1);
            if self.to_end == 0 {
                self.close();
            }
        }
    }
}

impl Transport for Window<'_> {
    fn now(&self) -> Nanos {
        self.transport.now()
    }

    fn prepare(&mut self, in_flight: usize) {
        self.transport.prepare(in_flight);
    }

    fn renew(&mut self, idle: usize, by: Nanos) {
        self.transport.renew(idle, by);
    }

    fn submit(&mut self, request: Outbound) {
        let (id, due) = (request.id, request.due);
        self.transport.submit(request);
        let from = due.max(self.transport.now());
        self.sent.push((from, id));
        self.in_flight.insert(id, from);
        self.look_ahead(id, due);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        loop {
            self.cross();
            let border = self.ahead.front().map(|border| border.at);
            let border = border.filter(|border| until.is_none_or(|until| *border < until));
            let wake = self.transport.wait(border.or(until));
            match wake {
                Wake::Reached if border.is_some() => {}
                Wake::Ended(exchange) => {
                    self.take(exchange.id);
                    return Wake::Ended(exchange);
                }
                Wake::Reached | Wake::Interrupted => return wake,
            }
        }
    }

    fn abandon(&mut self) {
        self.left_tokens = self.in_flight.keys().map(|id| self.tokens(*id)).sum();
        self.transport.abandon();
    }

    fn report(&mut self) -> SelfReport {
        self.transport.report()
    }

    fn meter(&mut self) -> Option<&mut dyn Meter> {
        self.transport.meter()
    }
}

//! Reads the server's counters at the borders of a cell's measured window: when the first measured request is due, and
//! when the last one has ended, with the load still on. It stands between the driver and the transport, so that the
//! driver knows nothing of it, and it never makes a measured request wait: the first reading is only begun, and
//! everything that takes time comes after the last end.

use std::collections::BTreeMap;

use crate::artifact::server::{Caused, ServerEvidence};
use crate::base::units::Nanos;
use crate::plan::request::PlannedCell;
use crate::wire::counters::{Meter, Reading};
use crate::wire::transport::{Outbound, SelfReport, Transport, Wake};

/// Where the cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No measured request was submitted.
    Before,
    /// The first one is due then.
    Opens(Nanos),
    /// The first reading has begun.
    Open,
    /// The last measured request has ended.
    Closed,
}

/// What a window leaves behind.
pub(super) struct Seen {
    /// What the server counted, or why that is not known; none when nobody was asked, or the cell ended early.
    pub(super) server: Option<Result<ServerEvidence, String>>,
    /// Output tokens asked for by requests that were still in flight: an engine may count them later.
    pub(super) left_tokens: u64,
}

/// A transport whose counters are read at the borders of one cell's window. A request's identity is its place in the
/// cell: warm-up, measured, fillers.
pub(super) struct Window<'a> {
    transport: &'a mut dyn Transport,
    cell: &'a PlannedCell,
    phase: Phase,
    /// Measured requests that have ended.
    ended: usize,
    /// Output tokens of the requests in flight, by identity.
    in_flight: BTreeMap<u64, u64>,
    caused: Caused,
    server: Option<Result<ServerEvidence, String>>,
    left_tokens: u64,
}

impl<'a> Window<'a> {
    /// The window of `cell`; `left_tokens` are those of the cell before it.
    pub(super) fn new(transport: &'a mut dyn Transport, cell: &'a PlannedCell, left_tokens: u64) -> Self {
        let asked_tokens = cell.requests.iter().map(|request| u64::from(request.output_tokens)).sum();
        // A warm-up gives the server time to forget what the cell before left.
        let others_tokens = if cell.warmup.is_empty() { left_tokens } else { 0 };
        Self {
            transport,
            cell,
            phase: Phase::Before,
            ended: 0,
            in_flight: BTreeMap::new(),
            caused: Caused { asked_tokens, others_tokens },
            server: None,
            left_tokens: 0,
        }
    }

    /// Ends the window.
    pub(super) fn finish(self) -> Seen {
        Seen { server: self.server, left_tokens: self.left_tokens }
    }

    fn is_measured(&self, id: u64) -> bool {
        let (warmup, measured) = (self.cell.warmup.len(), self.cell.requests.len());
        usize::try_from(id).is_ok_and(|place| (warmup..warmup + measured).contains(&place))
    }

    /// Output tokens that the request in this place asks for.
    fn tokens(&self, id: u64) -> u64 {
        let PlannedCell { warmup, requests, .. } = self.cell;
        let Ok(place) = usize::try_from(id) else { return 0 };
        let planned = warmup.iter().chain(requests).nth(place).map(|request| request.output_tokens);
        let filler = || self.cell.filler(u32::try_from(place - warmup.len() - requests.len()).ok()?);
        let tokens = planned.or_else(|| Some(filler()?.output_tokens));
        tokens.map_or(0, u64::from)
    }

    fn open(&mut self) {
        self.phase = Phase::Open;
        let others = self.in_flight.iter().filter(|(id, _)| !self.is_measured(**id)).map(|(_, tokens)| tokens);
        self.caused.others_tokens += others.sum::<u64>();
        if let Some(meter) = self.transport.meter() {
            meter.begin();
        }
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        let caused = self.caused;
        self.server = self.transport.meter().map(|meter| {
            let (first, last) = both(meter)?;
            ServerEvidence::between(&first, &last, caused).map_err(|error| error.to_string())
        });
    }

    fn take(&mut self, id: u64) {
        self.in_flight.remove(&id);
        if self.is_measured(id) {
            self.ended += 1;
            if self.ended == self.cell.requests.len() && self.phase == Phase::Open {
                self.close();
            }
        }
    }
}

fn both(meter: &mut dyn Meter) -> Result<(Reading, Reading), String> {
    let first = meter.reading()?;
    meter.begin();
    Ok((first, meter.reading()?))
}

impl Transport for Window<'_> {
    fn now(&self) -> Nanos {
        self.transport.now()
    }

    fn prepare(&mut self, in_flight: usize) {
        self.transport.prepare(in_flight);
    }

    fn submit(&mut self, request: Outbound) {
        let (id, due) = (request.id, request.due);
        self.transport.submit(request);
        let tokens = self.tokens(id);
        self.in_flight.insert(id, tokens);
        if self.is_measured(id) {
            if self.phase == Phase::Before {
                self.phase = Phase::Opens(due);
            }
        } else if self.phase == Phase::Open {
            self.caused.others_tokens += tokens;
        }
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        loop {
            let wake = match self.phase {
                Phase::Opens(at) if at <= self.transport.now() => {
                    self.open();
                    continue;
                }
                Phase::Opens(at) if until.is_none_or(|until| at < until) => self.transport.wait(Some(at)),
                Phase::Before | Phase::Opens(_) | Phase::Open | Phase::Closed => {
                    let wake = self.transport.wait(until);
                    if let Wake::Ended(exchange) = &wake {
                        self.take(exchange.id);
                    }
                    return wake;
                }
            };
            match wake {
                Wake::Reached => self.open(),
                Wake::Ended(exchange) => {
                    self.take(exchange.id);
                    return Wake::Ended(exchange);
                }
                Wake::Interrupted => return Wake::Interrupted,
            }
        }
    }

    fn abandon(&mut self) {
        self.left_tokens = self.in_flight.values().sum();
        self.transport.abandon();
    }

    fn report(&mut self) -> SelfReport {
        self.transport.report()
    }

    fn meter(&mut self) -> Option<&mut dyn Meter> {
        self.transport.meter()
    }
}

//! A transport for tests, in virtual time: each request takes what a script says.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::base::units::Nanos;
use crate::loadgen::drive::Message;
use crate::plan::request::{Form, PlannedCell, PlannedRequest, PromptRecipe};
use crate::spec::workload::{Load, Phase};
use crate::wire::transport::{Exchange, Failure, Outbound, Read, Transport, Wake};

/// What becomes of a request: how long after its sending it ends, and how it fails.
pub(super) type Script = fn(&Outbound) -> (Nanos, Option<Failure>);

/// Requests end when the script says, in virtual time.
pub(super) struct Scripted {
    script: Script,
    /// Which requests were sent twice.
    pub(super) resends: fn(u64) -> bool,
    now: Nanos,
    /// By end, then identity: due instant, failure.
    in_flight: BTreeMap<(Nanos, u64), (Nanos, Option<Failure>)>,
    /// Interrupts from this instant on.
    pub(super) interrupt: Nanos,
    /// Every submitted request: instant of the submission, identity, due instant, body.
    pub(super) log: Vec<(Nanos, u64, Nanos, Bytes)>,
    /// Due and end of everything that ended.
    pub(super) spans: Vec<(Nanos, Nanos)>,
    /// Connections asked for, in order.
    pub(super) prepared: Vec<usize>,
    /// Connections asked for while a cell runs: when, how many without a request, and by when.
    pub(super) renewed: Vec<(Nanos, usize, Nanos)>,
    /// Requests in flight when everything was abandoned.
    pub(super) abandoned: usize,
}

impl Scripted {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            resends: |_| false,
            now: Nanos::from_secs(1),
            in_flight: BTreeMap::new(),
            interrupt: Nanos::MAX,
            log: Vec::new(),
            spans: Vec::new(),
            prepared: Vec::new(),
            renewed: Vec::new(),
            abandoned: 0,
        }
    }
}

impl Transport for Scripted {
    fn now(&self) -> Nanos {
        self.now
    }

    fn prepare(&mut self, in_flight: usize) {
        self.prepared.push(in_flight);
    }

    fn renew(&mut self, idle: usize, by: Nanos) {
        self.renewed.push((self.now, idle, by));
    }

    fn submit(&mut self, request: Outbound) {
        let (duration, failure) = (self.script)(&request);
        let end = request.due.max(self.now) + duration;
        self.log.push((self.now, request.id, request.due, request.body));
        assert!(self.in_flight.insert((end, request.id), (request.due, failure)).is_none());
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        let first = self.in_flight.first_key_value().map_or(Nanos::MAX, |((end, _), _)| *end);
        let limit = until.unwrap_or(Nanos::MAX);
        if self.interrupt <= first.min(limit) {
            self.now = self.now.max(self.interrupt);
            return Wake::Interrupted;
        }
        if first > limit || first == Nanos::MAX {
            self.now = self.now.max(until.unwrap_or(self.now));
            return Wake::Reached;
        }
        let ((end, id), (due, failure)) = self.in_flight.pop_first().unwrap();
        self.now = self.now.max(end);
        self.spans.push((due, end));
        let (status, body) = if failure.is_none() { (Some(200), b"data".to_vec()) } else { (None, Vec::new()) };
        let reads = if body.is_empty() { Vec::new() } else { vec![Read { at: end, end: body.len() }] };
        let head = status.map(|_| end);
        Wake::Ended(Box::new(Exchange {
            id,
            due,
            sent: due,
            connect: None,
            tls: None,
            status,
            head,
            body,
            reads,
            end,
            failure,
            resent: (self.resends)(id),
        }))
    }

    fn abandon(&mut self) {
        self.abandoned += self.in_flight.len();
        self.in_flight.clear();
    }
}

/// A cell with numbered requests; open loops have one arrival every 100 ms, warm-up first.
pub(super) fn cell(name: &str, load: Load, warmup: u32, requests: u32) -> PlannedCell {
    let list = |count: u32, seed: u64, first: u32| {
        (0..count)
            .map(|number| PlannedRequest {
                number,
                class: None,
                prompt: PromptRecipe { seed, words: number, prefix: Vec::new(), form: Form::Words },
                output_tokens: 8,
                due: load.is_open().then(|| Nanos::from_millis(100 * u64::from(first + number))),
                turn: None,
            })
            .collect()
    };
    PlannedCell {
        name: name.to_owned(),
        phase: Phase::Steady,
        load,
        warmup: list(warmup, 0, 0),
        requests: list(requests, 1, warmup),
        talk: None,
        max_connections: None,
        timeout: Nanos::from_secs(60),
        stall_timeout: Nanos::from_secs(30),
    }
}

/// The body tells which request it is: `w3` for a warm-up, `m3` for a measured one, `f30` for a filler.
pub(super) fn compose(_: &PlannedCell, request: &PlannedRequest) -> Message {
    let kind = ["w", "m"].get(usize::try_from(request.prompt.seed).unwrap_or(usize::MAX)).unwrap_or(&"f");
    let name = format!("{kind}{}", request.number);
    Message { request_id: name.clone(), session: None, path: "/", body: Bytes::from(name) }
}

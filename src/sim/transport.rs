//! The simulated server as a [`Transport`] in virtual time: no socket, no clock, no thread. Exchanges
//! hold the bytes a real server would have sent, with the instants at which they would have arrived.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::units::Nanos;
use crate::sim::Deployment;
use crate::sim::ask::{self, Refusal};
use crate::sim::counters::Counted;
use crate::sim::engine::{Engine, Event, Gauges, Outcome, Request};
use crate::sim::fault::Dealer;
use crate::sim::profile::Profile;
use crate::sim::voice::{Next, Speech};
use crate::wire::counters::Meter;
use crate::wire::transport::{Exchange, Failure, MAX_BODY, Outbound, Read, Transport, Wake};

/// A simulated deployment, reached without a network.
pub struct SimTransport {
    engine: Engine,
    profile: Profile,
    /// When the response head is back: after the API process has read the request.
    head_after: Nanos,
    faults: Dealer,
    interrupt: Arc<AtomicBool>,
    now: Nanos,
    numbers: u64,
    flights: BTreeMap<u64, Flight>,
    /// No flight is given up before this instant.
    no_deadline_before: Nanos,
    /// Exchanges whose end is known, by that instant and in order.
    ended: BTreeMap<(Nanos, u64), Box<Exchange>>,
    events: Vec<Event>,
    counted: Counted,
}

struct Flight {
    exchange: Box<Exchange>,
    prompt_tokens: u32,
    speech: Speech,
    timeout_at: Nanos,
    stall_timeout: Nanos,
    last_activity: Nanos,
}

impl Flight {
    fn deadline(&self) -> (Nanos, Failure) {
        let stalled = self.last_activity + self.stall_timeout;
        if stalled < self.timeout_at { (stalled, Failure::Stalled) } else { (self.timeout_at, Failure::TimedOut) }
    }

    fn close(mut self, at: Nanos, failure: Option<Failure>) -> Box<Exchange> {
        self.exchange.end = at;
        self.exchange.failure = failure;
        self.exchange
    }

    /// Takes a token into the body.
    fn hear(&mut self, at: Nanos, (last, cached): (bool, Option<u32>)) -> Next {
        let before = self.exchange.body.len();
        self.speech.cached(cached);
        let next = self.speech.token(last, &mut self.exchange.body);
        if next == Next::Flood {
            while self.exchange.body.len() < MAX_BODY {
                self.speech.flood(&mut self.exchange.body);
            }
            self.exchange.body.truncate(MAX_BODY);
        }
        let end = self.exchange.body.len();
        if end > before {
            self.exchange.reads.push(Read { at, end });
            self.exchange.head.get_or_insert(at);
            self.exchange.status = Some(200);
            self.last_activity = at;
        }
        next
    }
}

impl SimTransport {
    /// One boot of the deployment. `wait` returns [`Wake::Interrupted`] while `interrupt` is true.
    pub fn new(deployment: &Deployment, interrupt: Arc<AtomicBool>) -> Self {
        let profile = &deployment.profile;
        Self {
            engine: Engine::new(deployment),
            profile: profile.clone(),
            head_after: Nanos::from_ms(profile.frontend_ms),
            faults: Dealer::new(&deployment.faults, deployment.noise.boot.unwrap_or_default()),
            interrupt,
            now: Nanos::ZERO,
            numbers: 0,
            flights: BTreeMap::new(),
            no_deadline_before: Nanos::MAX,
            ended: BTreeMap::new(),
            events: Vec::new(),
            counted: Counted::new(profile.block_tokens),
        }
    }

    /// The engine's state at the present instant.
    pub fn gauges(&self) -> Gauges {
        self.engine.gauges()
    }

    fn end(&mut self, number: u64, exchange: Box<Exchange>) {
        self.ended.insert((exchange.end, number), exchange);
    }

    fn refuse(&mut self, number: u64, mut exchange: Box<Exchange>, at: Nanos, refusal: Refusal) {
        exchange.status = Some(refusal.status);
        exchange.head = Some(at);
        exchange.reads = vec![Read { at, end: refusal.body.len() }];
        exchange.body = refusal.body;
        exchange.end = at;
        self.end(number, exchange);
    }

    /// Moves the engine to its next event.
    fn step(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.engine.advance(&mut events);
        for event in events.drain(..) {
            self.take(event);
        }
        self.events = events;
    }

    fn take(&mut self, event: Event) {
        let Some(flight) = self.flights.get_mut(&event.id) else { return };
        if let Outcome::Token { index, .. } = event.outcome {
            self.counted.token(index, flight.prompt_tokens);
        }
        let (deadline, failure) = flight.deadline();
        if event.at > deadline {
            self.give_up(event.id, deadline, failure);
            return;
        }
        let (last, cached) = match event.outcome {
            Outcome::Token { last, cached, .. } => (last, cached),
            Outcome::Rejected => {
                if let Some(flight) = self.flights.remove(&event.id) {
                    let refusal = flight.speech.too_long();
                    self.refuse(event.id, flight.exchange, event.at, refusal);
                }
                return;
            }
        };
        let failure = match flight.hear(event.at, (last, cached)) {
            Next::More => return,
            Next::Silent => {
                self.engine.cancel(event.id);
                return;
            }
            Next::Done => None,
            Next::Cut => Some(Failure::Cut("the simulated server broke the connection".to_owned())),
            Next::Flood => Some(Failure::TooLarge),
        };
        self.conclude(event.id, event.at, failure, last);
    }

    fn give_up(&mut self, number: u64, at: Nanos, failure: Failure) {
        self.conclude(number, at, Some(failure), false);
    }

    /// Hands a flight over as an exchange; the engine forgets the request unless it has finished it.
    fn conclude(&mut self, number: u64, at: Nanos, failure: Option<Failure>, engine_done: bool) {
        if let Some(flight) = self.flights.remove(&number) {
            let exchange = flight.close(at, failure);
            self.end(number, exchange);
        }
        if !engine_done {
            self.engine.cancel(number);
        }
    }

    /// Gives up every flight whose deadline is now, and finds the next deadline.
    fn enforce_deadlines(&mut self) {
        let late = |(number, flight): (&u64, &Flight)| {
            let (at, failure) = flight.deadline();
            (at <= self.now).then_some((*number, at, failure))
        };
        let late: Vec<_> = self.flights.iter().filter_map(late).collect();
        for (number, at, failure) in late {
            self.give_up(number, at, failure);
        }
        let deadlines = self.flights.values().map(|flight| flight.deadline().0);
        self.no_deadline_before = deadlines.min().unwrap_or(Nanos::MAX);
    }
}

impl Transport for SimTransport {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, request: Outbound) {
        let number = self.numbers;
        self.numbers += 1;
        let sent = request.due.max(self.now);
        let head_at = sent + self.head_after;
        let mut exchange = Box::new(Exchange {
            id: request.id,
            due: request.due,
            sent,
            connect: None,
            tls: None,
            status: None,
            head: None,
            body: Vec::new(),
            reads: Vec::new(),
            end: sent,
            failure: None,
            resent: false,
        });
        let fault = self.faults.deal();
        let mut ask = match ask::read(request.path, &request.body, &self.profile) {
            Ok(ask) => ask,
            Err(refusal) => return self.refuse(number, exchange, head_at, refusal),
        };
        let blocks = std::mem::take(&mut ask.blocks);
        self.engine.submit(
            sent,
            Request { id: number, prompt_tokens: ask.prompt_tokens, output_tokens: ask.output_tokens, blocks },
        );
        let tokens = usize::try_from(ask.output_tokens.min(8_192)).unwrap_or_default();
        let prompt_tokens = ask.prompt_tokens;
        let speech = Speech::new(number, self.profile.model, ask, fault);
        exchange.body.reserve(speech.size_hint());
        exchange.reads.reserve(if speech.is_stream() { tokens } else { 1 });
        let flight = Flight {
            exchange,
            prompt_tokens,
            speech,
            timeout_at: request.due + request.timeout,
            stall_timeout: request.stall_timeout,
            last_activity: sent,
        };
        self.no_deadline_before = self.no_deadline_before.min(flight.deadline().0);
        self.flights.insert(number, flight);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Wake::Interrupted;
            }
            let ended = self.ended.first_key_value().map(|((at, _), _)| *at);
            let deadline = (!self.flights.is_empty()).then_some(self.no_deadline_before);
            let engine = self.engine.next_event_time().filter(|_| !self.flights.is_empty());
            let next = [ended, deadline, engine].into_iter().flatten().min();
            let Some(next) = next.filter(|next| until.is_none_or(|until| *next <= until)) else {
                self.now = self.now.max(until.unwrap_or(self.now));
                return Wake::Reached;
            };
            self.now = self.now.max(next);
            if ended == Some(next) {
                if let Some((_, exchange)) = self.ended.pop_first() {
                    return Wake::Ended(exchange);
                }
            } else if deadline == Some(next) {
                self.enforce_deadlines();
            } else {
                self.step();
            }
        }
    }

    fn abandon(&mut self) {
        for number in std::mem::take(&mut self.flights).into_keys() {
            self.engine.cancel(number);
        }
        self.ended.clear();
        self.no_deadline_before = Nanos::MAX;
    }

    fn meter(&mut self) -> Option<&mut dyn Meter> {
        self.counted.gauges = self.engine.gauges();
        Some(&mut self.counted)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::sim::fault::{Fault, Share};
    use crate::sim::noise::Noise;

    fn outbound(id: u64, due_ms: u64, tokens: u32) -> Outbound {
        let body = format!(
            r#"{{"model":"llama-3.1-8b","messages":[{{"role":"user","content":"{}"}}],"max_tokens":{tokens},
            "stream":true,"stream_options":{{"include_usage":true}},"ignore_eos":true}}"#,
            "word ".repeat(504)
        );
        Outbound {
            id,
            due: Nanos::from_millis(due_ms),
            request_id: String::new(),
            path: "/v1/chat/completions",
            body: Bytes::from(body),
            timeout: Nanos::from_secs(60),
            stall_timeout: Nanos::from_secs(5),
        }
    }

    fn transport(noise: Noise, faults: &[Share]) -> SimTransport {
        let deployment = Deployment { faults: faults.to_vec(), ..Deployment::new(Profile::h100_8b(), noise) };
        SimTransport::new(&deployment, Arc::new(AtomicBool::new(false)))
    }

    fn all(transport: &mut SimTransport) -> Vec<Exchange> {
        std::iter::from_fn(|| match transport.wait(None) {
            Wake::Ended(exchange) => Some(*exchange),
            Wake::Reached | Wake::Interrupted => None,
        })
        .collect()
    }

    fn one(fault: Option<Fault>, change: impl FnOnce(&mut Outbound)) -> Exchange {
        let shares: Vec<Share> = fault.map(|fault| Share { fault, share: 1.0 }).into_iter().collect();
        let mut transport = transport(Noise::OFF, &shares);
        let mut request = outbound(1, 1_000, 128);
        change(&mut request);
        transport.submit(request);
        let mut exchanges = all(&mut transport);
        assert_eq!(exchanges.len(), 1);
        assert_eq!(transport.gauges().running + transport.gauges().waiting, 0);
        exchanges.remove(0)
    }

    #[test]
    fn an_exchange_holds_the_stream_with_its_instants() {
        let exchange = one(None, |_| {});
        assert_eq!((exchange.id, exchange.status, exchange.failure), (1, Some(200), None));
        assert_eq!((exchange.due, exchange.sent), (Nanos::from_secs(1), Nanos::from_secs(1)));
        assert_eq!(exchange.reads.len(), 128);
        assert!(exchange.reads.windows(2).all(|pair| pair[0].at < pair[1].at && pair[0].end < pair[1].end));
        assert_eq!(exchange.reads.last().map(|read| (read.at, read.end)), Some((exchange.end, exchange.body.len())));
        // 4.1 ms of API, 13.3 ms of step, 46 us of flush.
        let ttft = exchange.reads[0].at.since(exchange.due).as_ms();
        assert!((17.3..17.7).contains(&ttft), "{ttft}");
        assert!(exchange.body.ends_with(b"data: [DONE]\n\n"));
        let usage = br#""usage":{"prompt_tokens":512,"total_tokens":640,"completion_tokens":128}"#;
        assert!(exchange.body.windows(usage.len()).any(|window| window == usage));
    }

    #[test]
    fn the_same_seeds_give_the_same_bytes_at_the_same_instants() {
        let run = |noise| {
            let mut transport = transport(noise, &[Share { fault: Fault::CutStream, share: 0.2 }]);
            (0..40).for_each(|id| transport.submit(outbound(id, id * 7, 20)));
            all(&mut transport).into_iter().map(|it| (it.id, it.body, it.reads, it.failure)).collect::<Vec<_>>()
        };
        let first = run(Noise::seeded(1, 2));
        assert_eq!(first.len(), 40);
        assert_eq!(first, run(Noise::seeded(1, 2)));
        assert_ne!(first, run(Noise::seeded(1, 3)));
        assert_ne!(first, run(Noise::seeded(2, 2)));
    }

    #[test]
    fn faults_end_as_a_client_would_see_them() {
        let failed = |fault| one(Some(fault), |_| {}).failure;
        assert!(matches!(failed(Fault::CutStream), Some(Failure::Cut(_))));
        assert_eq!(failed(Fault::EndlessBody), Some(Failure::TooLarge));
        assert_eq!(failed(Fault::NoUsage), None);
        assert_eq!(failed(Fault::ErrorInStream), None);
        let stalled = one(Some(Fault::StalledStream), |_| {});
        assert_eq!(stalled.failure, Some(Failure::Stalled));
        assert_eq!(stalled.end.since(stalled.reads[63].at), Nanos::from_secs(5));
        assert_eq!(stalled.reads.len(), 64);
        let empty = one(Some(Fault::ZeroTokens), |_| {});
        assert_eq!((empty.status, empty.reads.len(), empty.failure), (Some(200), 1, None));
    }

    #[test]
    fn limits_of_the_client_hold_to_the_nanosecond() {
        let late = one(None, |request| request.timeout = Nanos::from_millis(100));
        assert_eq!((late.failure, late.end), (Some(Failure::TimedOut), Nanos::from_millis(1_100)));
        assert!(late.reads.last().is_some_and(|read| read.at <= late.end));
        let silent = one(None, |request| request.stall_timeout = Nanos::from_millis(10));
        assert_eq!((silent.failure, silent.end), (Some(Failure::Stalled), Nanos::from_millis(1_010)));
        assert_eq!((silent.status, silent.reads.len()), (None, 0));
    }

    #[test]
    fn refusals_are_exchanges_too() {
        let unknown = one(None, |request| request.body = Bytes::from_static(br#"{"model":"x","messages":[]}"#));
        assert_eq!((unknown.status, unknown.failure), (Some(404), None));
        let long = one(None, |request| {
            request.body =
                Bytes::from_static(br#"{"messages":[{"content":"a"}],"max_tokens":131072,"ignore_eos":true}"#);
        });
        assert_eq!(long.status, Some(400));
        assert!(long.body.starts_with(b"{\"error\":{\"message\":\"9 prompt tokens and 131072 output tokens"));
    }

    #[test]
    fn waiting_stops_at_its_instant_and_at_an_interrupt() {
        let interrupt = Arc::new(AtomicBool::new(false));
        let deployment = Deployment::new(Profile::h100_8b(), Noise::OFF);
        let mut transport = SimTransport::new(&deployment, Arc::clone(&interrupt));
        assert!(matches!(transport.wait(None), Wake::Reached));
        assert!(matches!(transport.wait(Some(Nanos::from_millis(7))), Wake::Reached));
        assert_eq!(transport.now(), Nanos::from_millis(7));
        transport.submit(outbound(1, 10, 128));
        assert!(matches!(transport.wait(Some(Nanos::from_millis(50))), Wake::Reached));
        assert_eq!((transport.now(), transport.gauges().running), (Nanos::from_millis(50), 1));
        interrupt.store(true, Ordering::Relaxed);
        assert!(matches!(transport.wait(None), Wake::Interrupted));
        interrupt.store(false, Ordering::Relaxed);
        transport.abandon();
        assert!(matches!(transport.wait(None), Wake::Reached));
        transport.submit(outbound(2, 0, 3));
        assert!(matches!(transport.wait(None), Wake::Ended(exchange) if exchange.id == 2 && exchange.reads.len() == 3));
    }
}

//! The engine in real time: one thread owns it, sleeps until its next event, and tells each request's
//! task about its tokens at the instants the model gives, so that delays never add up.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::base::units::Nanos;
use crate::sim::Deployment;
use crate::sim::engine::{Engine, Event, Outcome, Request};
use crate::sim::server::metrics::{Finished, Meter};

/// The last stretch before an event is spun through: a sleeping thread wakes some 50 us late.
const SPIN: Nanos = Nanos::from_micros(120);

/// What the engine says to a request's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// One more token; `last` when it completes the answer.
    Token { last: bool, cached: Option<u32> },
    /// The request can never run.
    Rejected,
}

enum Command {
    Submit { at: Nanos, request: Request, by_length: bool, signals: mpsc::Sender<Signal> },
    Cancel(u64),
    ResetPrefixCache,
}

/// The way to the engine's thread, which ends when the last handle is gone.
#[derive(Clone)]
pub(super) struct Handle {
    // Not bounded by the channel but by the clients: each request sends two commands.
    commands: Sender<Command>,
    origin: Instant,
    meter: Arc<Mutex<Meter>>,
}

/// A request in the engine. It is cancelled when this is dropped.
pub(super) struct Ticket {
    id: u64,
    commands: Sender<Command>,
    pub(super) signals: mpsc::Receiver<Signal>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Without an engine there is nothing to cancel.
        drop(self.commands.send(Command::Cancel(self.id)));
    }
}

impl Handle {
    /// Boots the deployment on a thread of its own.
    pub(super) fn boot(deployment: &Deployment) -> io::Result<Self> {
        let engine = Engine::new(deployment);
        let (commands, inbox) = channel();
        let meter = Arc::new(Mutex::new(Meter::new(engine.gauges())));
        let origin = Instant::now();
        let pacer = Pacer {
            engine,
            origin,
            inbox,
            meter: Arc::clone(&meter),
            live: BTreeMap::new(),
            outbox: VecDeque::new(),
            events: Vec::new(),
        };
        thread::Builder::new().name("sim-engine".to_owned()).spawn(move || pacer.run())?;
        Ok(Self { commands, origin, meter })
    }

    /// Lets a request arrive now.
    pub(super) fn submit(&self, request: Request, by_length: bool) -> Ticket {
        // Room for every token: the engine never waits for a client.
        let room = usize::try_from(request.output_tokens).unwrap_or_default().max(1);
        let (sender, signals) = mpsc::channel(room);
        let (at, id) = (since(self.origin), request.id);
        drop(self.commands.send(Command::Submit { at, request, by_length, signals: sender }));
        Ticket { id, commands: self.commands.clone(), signals }
    }

    /// Empties the prefix cache.
    pub(super) fn reset_prefix_cache(&self) {
        drop(self.commands.send(Command::ResetPrefixCache));
    }

    pub(super) fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since(origin: Instant) -> Nanos {
    Nanos(origin.elapsed().as_nanos().try_into().unwrap_or(u64::MAX))
}

struct Live {
    signals: mpsc::Sender<Signal>,
    arrived: Nanos,
    prompt_tokens: u32,
    by_length: bool,
    last_token: Option<Nanos>,
}

struct Pacer {
    engine: Engine,
    origin: Instant,
    inbox: Receiver<Command>,
    meter: Arc<Mutex<Meter>>,
    live: BTreeMap<u64, Live>,
    /// Events whose instant is yet to come. A step's events share one, so this is in order but for
    /// rejections, which may wait for it.
    outbox: VecDeque<Event>,
    events: Vec<Event>,
}

impl Pacer {
    fn run(mut self) {
        loop {
            let now = since(self.origin);
            if self.outbox.front().is_some_and(|event| event.at <= now) {
                self.deliver(now);
                continue;
            }
            if self.engine.next_event_time().is_some_and(|at| at <= now) {
                self.engine.advance(&mut self.events);
                self.outbox.extend(self.events.drain(..));
                continue;
            }
            match self.receive(now) {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The next command, or a time-out no later than the next event.
    fn receive(&self, now: Nanos) -> Result<Command, RecvTimeoutError> {
        let event = self.outbox.front().map(|event| event.at);
        let Some(next) = [event, self.engine.next_event_time()].into_iter().flatten().min() else {
            return self.inbox.recv().map_err(|_closed| RecvTimeoutError::Disconnected);
        };
        let left = next.since(now);
        if left > SPIN {
            return self.inbox.recv_timeout(Duration::from_nanos(left.since(SPIN).0));
        }
        std::hint::spin_loop();
        self.inbox.try_recv().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit { at, request, by_length, signals } => {
                let (id, prompt_tokens) = (request.id, request.prompt_tokens);
                self.live.insert(id, Live { signals, arrived: at, prompt_tokens, by_length, last_token: None });
                self.engine.submit(at, request);
            }
            Command::ResetPrefixCache => self.engine.reset_prefix_cache(),
            Command::Cancel(id) => {
                if let Some(live) = self.live.remove(&id) {
                    self.engine.cancel(id);
                    let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
                    meter.finished(Finished::Abort, since(self.origin).since(live.arrived));
                    meter.gauges = self.engine.gauges();
                }
            }
        }
    }

    fn deliver(&mut self, now: Nanos) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(event) = self.outbox.pop_front_if(|event| event.at <= now) {
            let Some(live) = self.live.get_mut(&event.id) else { continue };
            let (signal, ends) = match event.outcome {
                Outcome::Rejected => (Signal::Rejected, true),
                Outcome::Token { last, cached, .. } => {
                    match live.last_token.replace(event.at) {
                        None => meter.first_token(event.at.since(live.arrived), live.prompt_tokens),
                        Some(before) => meter.further_token(event.at.since(before)),
                    }
                    if last {
                        let how = if live.by_length { Finished::Length } else { Finished::Stop };
                        meter.finished(how, event.at.since(live.arrived));
                    }
                    (Signal::Token { last, cached }, last)
                }
            };
            if live.signals.try_send(signal).is_err() {
                // The client is gone; its ticket's command is on the way.
                self.engine.cancel(event.id);
            }
            if ends {
                self.live.remove(&event.id);
            }
        }
        meter.gauges = self.engine.gauges();
    }
}

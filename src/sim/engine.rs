//! The engine as a discrete-event simulation: requests go in with their instants, events come out with
//! theirs, and time moves only when the caller advances it.

use std::collections::{BTreeMap, VecDeque};

use crate::base::units::Nanos;
use crate::sim::Deployment;
use crate::sim::cost;
use crate::sim::noise::Factors;
use crate::sim::prefix::Lookups;
use crate::sim::profile::Profile;
use crate::sim::scheduler::{Produced, Scheduler, Sequence};

/// A request to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller, unique among the requests in flight.
    pub id: u64,
    /// Length of the prompt; at least 1.
    pub prompt_tokens: u32,
    /// Length of the answer; at least 1.
    pub output_tokens: u32,
    /// The whole blocks of the prompt, for an engine with a prefix cache; may be empty.
    pub blocks: Vec<u64>,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A token of the answer.
    Token {
        /// Its number, from 0.
        index: u32,
        /// Whether the answer is complete: nothing more is said of this request.
        last: bool,
        /// Tokens of the prompt that the prefix cache had; none without one.
        cached: Option<u32>,
    },
    /// Longer than the model's context or the whole cache: nothing more is said of this request.
    Rejected,
}

/// Something that leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it is on the wire: a little later than the end of the step that caused it.
    pub at: Nanos,
    /// Whom it concerns.
    pub id: u64,
    /// What happened.
    pub outcome: Outcome,
}

/// The state that a server's metrics page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests in the batch.
    pub running: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Cache blocks in use.
    pub used_blocks: u32,
    /// All cache blocks.
    pub total_blocks: u32,
    /// Preemptions since the boot.
    pub preemptions: u64,
    /// What was looked up in the prefix cache since the boot; none without one.
    pub prefixes: Option<Lookups>,
}

/// One boot of a simulated engine.
pub struct Engine {
    profile: Profile,
    factors: Factors,
    scheduler: Scheduler,
    now: Nanos,
    /// Requests that have not arrived, by instant and order of submission.
    arriving: BTreeMap<(Nanos, u64), Request>,
    submitted: u64,
    /// Requests in the API process, by the instant the scheduler sees them. The process is serial, so
    /// these instants rise.
    preparing: VecDeque<(Nanos, Request)>,
    frontend_free: Nanos,
    step_end: Option<Nanos>,
}

impl Engine {
    /// A fresh boot. Faults are not the engine's business and are ignored.
    pub fn new(deployment: &Deployment) -> Self {
        let profile = deployment.profile.clone();
        Self {
            factors: Factors::new(&profile, deployment.noise),
            scheduler: Scheduler::new(&profile),
            profile,
            now: Nanos::ZERO,
            arriving: BTreeMap::new(),
            submitted: 0,
            preparing: VecDeque::new(),
            frontend_free: Nanos::ZERO,
            step_end: None,
        }
    }

    /// Lets a request arrive at an instant; one in the past counts as now.
    pub fn submit(&mut self, at: Nanos, request: Request) {
        self.arriving.insert((at.max(self.now), self.submitted), request);
        self.submitted += 1;
    }

    /// Forgets a request: no event of it is reported from now on.
    pub fn cancel(&mut self, id: u64) {
        self.arriving.retain(|_, request| request.id != id);
        self.preparing.retain(|(_, request)| request.id != id);
        self.scheduler.cancel(id);
    }

    /// Empties the prefix cache.
    pub fn reset_prefix_cache(&mut self) {
        self.scheduler.prefixes().reset();
    }

    /// When something happens next; none when the engine is idle.
    pub fn next_event_time(&self) -> Option<Nanos> {
        let arrival = self.arriving.first_key_value().map(|((at, _), _)| *at);
        let ready = self.preparing.front().map(|(at, _)| *at);
        [arrival, ready, self.step_end].into_iter().flatten().min()
    }

    /// Moves to the next instant at which something happens and appends what leaves the engine.
    /// At equal instants requests arrive before a step ends. Without anything to do it does nothing.
    pub fn advance(&mut self, events: &mut Vec<Event>) {
        let Some(now) = self.next_event_time() else { return };
        self.now = now;
        if let Some(arrival) = self.arriving.first_entry().filter(|entry| entry.key().0 == now) {
            let request = arrival.remove();
            self.prepare(request);
        } else if let Some((_, Request { id, prompt_tokens, output_tokens, blocks })) =
            self.preparing.pop_front_if(|(at, _)| *at == now)
        {
            let sequence = Sequence::new(id, prompt_tokens, output_tokens, blocks);
            if !self.scheduler.enqueue(sequence) {
                events.push(Event { at: now, id, outcome: Outcome::Rejected });
            } else if self.step_end.is_none() {
                self.begin_step();
            }
        } else {
            let at = now + Nanos::from_ms(self.profile.flush_us * 1e-3);
            self.scheduler.complete(|Produced { id, index, last, cached }| {
                events.push(Event { at, id, outcome: Outcome::Token { index, last, cached } });
            });
            self.begin_step();
        }
    }

    /// The API process takes requests one at a time.
    fn prepare(&mut self, request: Request) {
        let serial = self.profile.frontend_ms + self.profile.tokenise_us * 1e-3 * f64::from(request.prompt_tokens);
        self.frontend_free = self.frontend_free.max(self.now) + Nanos::from_ms(serial);
        self.preparing.push_back((self.frontend_free + Nanos::from_ms(self.profile.api_ms), request));
    }

    fn begin_step(&mut self) {
        let work = self.scheduler.schedule();
        self.step_end = (work.tokens > 0).then(|| {
            let ms = cost::step_ms(&self.profile, &work) * self.factors.next();
            // A step takes time, or zero coefficients would stop the clock.
            self.now + Nanos::from_ms(ms).max(Nanos(1))
        });
    }

    /// The present state.
    pub fn gauges(&self) -> Gauges {
        let pool = self.scheduler.pool();
        Gauges {
            running: self.scheduler.running(),
            waiting: self.scheduler.waiting(),
            used_blocks: pool.used(),
            total_blocks: pool.capacity(),
            preemptions: self.scheduler.preemptions(),
            prefixes: self.scheduler.lookups(),
        }
    }
}

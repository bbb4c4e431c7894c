//! Drives a cell with sessions: first turns by the load, later ones after the answers they wait for.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::units::Nanos;
use crate::loadgen::drive::state::{Composed, End, State, to_u64, to_usize};
use crate::loadgen::drive::{COMPOSED_AHEAD, LOOK_AHEAD, RAMP_LIMIT, RAMP_STEP, Stop};
use crate::plan::request::PlannedCell;
use crate::spec::workload::Load;

/// Keeps the load of sessions until every measured request has ended.
pub(super) fn drive<'p>(state: &mut State<'p, '_>, phase: &'p PlannedCell) -> Result<(), Stop> {
    let slots = if let Load::Closed { concurrency } = phase.load { Some(to_usize(concurrency).max(1)) } else { None };
    let start = if slots.is_some() { state.now() } else { state.border() };
    state.set_limit(start, 1);
    let mut talks = Talks::new(phase, start);
    if let Some(slots) = slots {
        let step = RAMP_STEP.0.min(RAMP_LIMIT.0.checked_div(to_u64(slots)).unwrap_or(0));
        (0..slots).for_each(|slot| talks.begin(Some(start + Nanos(step.saturating_mul(to_u64(slot))))));
    }
    while !state.phase_is_done() {
        if slots.is_none() {
            talks.arrive(state.now() + LOOK_AHEAD);
        }
        if talks.submit(state)? {
            continue;
        }
        // Prompts are composed while nothing else is to be done: a look for ended requests comes first.
        let idle = talks.to_compose();
        let until = match idle {
            Some(_) => Some(state.now()),
            None => talks.wake(slots.is_none()).filter(|_| state.has_room()),
        };
        match (state.wait(until)?, idle) {
            (Some(end), _) => talks.ended(&end, slots.is_some()),
            (None, Some(place)) => talks.compose(place, state)?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// The sessions of a phase as places: warm-up, measured, and measured over again.
struct Sessions {
    /// Places of the requests that wait for the one at a place.
    after: BTreeMap<usize, Vec<usize>>,
    /// Of each planned session the places that wait for none, with their due instants, and how many requests it has.
    planned: Vec<Begin>,
    /// The pause before each planned request.
    pauses: Vec<Nanos>,
    /// How many of the planned sessions are the warm-up's.
    warmup: usize,
    /// Requests of the warm-up, and measured ones.
    requests: (usize, usize),
    /// From the first measured session's arrival to that of the first that repeats it.
    period: Nanos,
}

/// How a session begins.
struct Begin {
    places: Vec<usize>,
    due: Nanos,
    requests: usize,
}

impl Sessions {
    fn of(phase: &PlannedCell) -> Self {
        let requests = (phase.warmup.len(), phase.requests.len());
        // Numbers count measured requests first, places the warm-up.
        let place = |number: u32| {
            let number = to_usize(number);
            number.checked_sub(requests.1).unwrap_or_else(|| number.saturating_add(requests.0))
        };
        let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut planned: Vec<(u32, Begin)> = Vec::new();
        let (mut warmup, mut pauses) = (0, Vec::with_capacity(requests.0.saturating_add(requests.1)));
        for (at, request) in phase.warmup.iter().chain(&phase.requests).enumerate() {
            pauses.push(request.turn.map(|turn| turn.pause).unwrap_or_default());
            let Some(turn) = request.turn else { continue };
            if planned.last().is_none_or(|(session, _)| *session != turn.session) {
                let due = request.due.unwrap_or_default();
                planned.push((turn.session, Begin { places: Vec::new(), due, requests: 0 }));
                warmup += usize::from(at < requests.0);
            }
            let Some((_, begin)) = planned.last_mut() else { continue };
            begin.requests += 1;
            match turn.after {
                Some(before) => after.entry(place(before)).or_default().push(at),
                None => begin.places.push(at),
            }
        }
        let planned: Vec<Begin> = planned.into_iter().map(|(_, begin)| begin).collect();
        let dues = || planned.iter().skip(warmup).map(|begin| begin.due.0);
        let span = dues().max().unwrap_or(0).saturating_sub(dues().min().unwrap_or(0));
        // One mean gap more than from the first to the last.
        let gaps = to_u64(dues().count().saturating_sub(1));
        let period = Nanos(span.saturating_add(span.checked_div(gaps).unwrap_or(1_000_000_000)));
        Self { after, planned, pauses, warmup, requests, period }
    }

    /// The places at which the `index`-th session begins, when it is due, and how many requests it has; measured ones come
    /// over again after all planned ones.
    fn begin(&self, index: usize) -> Option<(Vec<usize>, Nanos, usize)> {
        let (round, index) = match index.checked_sub(self.planned.len()) {
            None => (0, index),
            Some(more) => {
                let measured = self.planned.len().checked_sub(self.warmup).filter(|measured| *measured > 0)?;
                let (round, rest) = (more.checked_div(measured)?, more.checked_rem(measured)?);
                (round.saturating_add(1), self.warmup.saturating_add(rest))
            }
        };
        let Begin { places, due, requests } = self.planned.get(index)?;
        let shift = round.saturating_mul(self.requests.1);
        let places = places.iter().map(|place| place.saturating_add(shift)).collect();
        Some((places, Nanos(due.0.saturating_add(self.period.0.saturating_mul(to_u64(round)))), *requests))
    }

    /// The planned place with the shape of a place, and how far the two are apart.
    fn shape(&self, place: usize) -> (usize, usize) {
        let (warmup, measured) = self.requests;
        let round = place.checked_sub(warmup).and_then(|at| at.checked_div(measured)).unwrap_or(0);
        let shift = round.saturating_mul(measured);
        (place.saturating_sub(shift), shift)
    }

    /// The places that wait for the one at this place, and for how long after its end.
    fn after(&self, place: usize) -> impl Iterator<Item = (usize, Nanos)> {
        let (shape, shift) = self.shape(place);
        let pause = |place: &usize| self.pauses.get(*place).copied().unwrap_or_default();
        let waiting = self.after.get(&shape).into_iter().flatten();
        waiting.map(move |place| (place.saturating_add(shift), pause(place)))
    }
}

/// The sessions under way.
struct Talks<'p> {
    phase: &'p PlannedCell,
    sessions: Sessions,
    start: Nanos,
    /// The next session to begin.
    next: usize,
    /// How many requests of each session under way have not ended, by the first of its places.
    open: BTreeMap<usize, usize>,
    /// Requests whose due instants are known, and that were not handed over yet.
    due: BTreeSet<(Nanos, usize)>,
    /// Requests handed over ahead of their due instants.
    handed_over: BTreeSet<(Nanos, usize)>,
    /// Requests that can be composed before they are due.
    to_compose: BTreeSet<usize>,
    composed: BTreeMap<usize, Composed<'p>>,
    /// Whether the first request that is due waits for room.
    held: bool,
}

impl<'p> Talks<'p> {
    fn new(phase: &'p PlannedCell, start: Nanos) -> Self {
        Self {
            phase,
            sessions: Sessions::of(phase),
            start,
            next: 0,
            open: BTreeMap::new(),
            due: BTreeSet::new(),
            handed_over: BTreeSet::new(),
            to_compose: BTreeSet::new(),
            composed: BTreeMap::new(),
            held: false,
        }
    }

    /// Begins the next session, at an instant or when it is due.
    fn begin(&mut self, at: Option<Nanos>) {
        let Some((places, due, requests)) = self.sessions.begin(self.next) else { return };
        self.next += 1;
        let due = at.unwrap_or(self.start + due);
        self.open.extend(places.first().map(|first| (*first, requests)));
        self.due.extend(places.into_iter().map(|place| (due, place)));
        if let Some((places, ..)) = self.sessions.begin(self.next) {
            self.to_compose.extend(places);
        }
    }

    /// Begins the sessions that arrive up to an instant.
    fn arrive(&mut self, until: Nanos) {
        while self.sessions.begin(self.next).is_some_and(|(_, due, _)| self.start + due <= until) {
            self.begin(None);
        }
    }

    /// Hands over the first request that is due soon; whether there was one, and room for it.
    fn submit(&mut self, state: &mut State<'p, '_>) -> Result<bool, Stop> {
        let now = state.now();
        let Some((due, place)) = self.due.first().copied().filter(|(due, _)| *due <= now + LOOK_AHEAD) else {
            return Ok(false);
        };
        if !state.has_room() {
            self.held = true;
            return Ok(false);
        }
        self.due.remove(&(due, place));
        self.to_compose.remove(&place);
        if !self.composed.contains_key(&place) {
            self.compose(place, state)?;
        }
        let Some(composed) = self.composed.remove(&place) else { return Ok(true) };
        if std::mem::take(&mut self.held) && composed.is_measured() {
            state.note_wait(due);
        }
        if due > now {
            // A connection that was idle for a pause may be one that the server closes.
            self.handed_over = self.handed_over.split_off(&(now, 0));
            self.handed_over.insert((due, place));
            state.renew_by(self.handed_over.len(), due);
        }
        state.submit(composed, due);
        if self.phase.talk.is_some_and(|talk| !talk.goes_on_from_answers()) {
            self.to_compose.extend(self.sessions.after(place).map(|(place, _)| place));
        }
        Ok(true)
    }

    /// What may be composed ahead.
    fn to_compose(&self) -> Option<usize> {
        self.to_compose.first().copied().filter(|_| self.composed.len() < COMPOSED_AHEAD)
    }

    fn compose(&mut self, place: usize, state: &mut State<'p, '_>) -> Result<(), Stop> {
        // What the model said last may be part of the prompt.
        state.hand_over()?;
        self.to_compose.remove(&place);
        self.composed.extend(state.compose(place).map(|composed| (place, composed)));
        Ok(())
    }

    /// When there is something to hand over again.
    fn wake(&self, arriving: bool) -> Option<Nanos> {
        let due = self.due.first().map(|(due, _)| *due);
        let arrival = || Some(self.start + self.sessions.begin(self.next)?.1);
        let next = due.into_iter().chain(if arriving { arrival() } else { None }).min()?;
        Some(Nanos(next.0.saturating_sub(LOOK_AHEAD.0)))
    }

    /// A request has ended: what waits for it is due after its pause; in a closed loop the next session begins where this
    /// one is over.
    fn ended(&mut self, end: &End, closed: bool) {
        for (place, pause) in self.sessions.after(end.place) {
            self.due.insert((end.at + pause, place));
            self.to_compose.extend(Some(place).filter(|place| !self.composed.contains_key(place)));
        }
        let Some((first, left)) = self.open.range_mut(..=end.place).next_back() else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            let first = *first;
            self.open.remove(&first);
            if closed {
                self.begin(Some(end.at));
            }
        }
    }
}

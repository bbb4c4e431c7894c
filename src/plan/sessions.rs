//! Draws the sessions of a cell. A session's turns, lengths, pauses and branches are drawn one session after the other,
//! from streams of the cell, so that more sessions leave the earlier ones as they were.

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::plan::arrivals;
use crate::plan::builder::Shape;
use crate::plan::lengths::Draws;
use crate::plan::request::{Form, PlannedRequest};
use crate::plan::talk::{Talk, Turn};
use crate::spec::session::{Pause, Session};
use crate::spec::workload::{Cell, Load, Workload};

/// What the conversations of a cell are.
pub(super) fn talk(cell: &Cell, session: &Session) -> Talk {
    Talk {
        has_system: cell.classes.iter().any(|class| class.shared_prefix.is_some()),
        tool_calls: session.tools.as_ref().map_or(0, |tools| tools.calls),
        answers: session.answers,
    }
}

/// The warm-up and the measured requests of a cell with sessions: the sessions one after the other, each with its
/// requests in an order in which what a request waits for comes before it. The last session is cut where the requests are
/// as many as were asked for.
pub(super) fn requests(cell: &Cell, session: &Session, workload: &Workload) -> [Vec<PlannedRequest>; 2] {
    let total = cell.warmup.saturating_add(cell.requests);
    // A session has at least one request: more arrivals are never needed.
    let mut due =
        arrivals::due(cell.load, total, &mut Stream::named(workload.seed, &format!("arrivals/{}", cell.name))).into_iter();
    let mut draw = |kind: &str, first: u32, sessions: u32, wanted: u32, slots: u32| {
        let mut drawn = Drawn::new(cell, session, workload, kind);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        while drawn.planned.len() < wanted {
            let (number, done) = (u32::try_from(drawn.planned.len()).unwrap_or(u32::MAX), drawn.sessions);
            let part = (done < slots).then_some((done.saturating_add(1), slots));
            let place = Place { number: first.saturating_add(number), session: sessions.saturating_add(done) };
            drawn.session(place, due.next().flatten(), part);
        }
        drawn.planned.truncate(wanted);
        (drawn.planned, drawn.sessions)
    };
    let slots = if let Load::Closed { concurrency } = cell.load { concurrency } else { 0 };
    // The warm-up comes first, and takes the first arrivals; its numbers follow those of the measured requests.
    let (mut warmup, _) = draw("warmup-", cell.requests, 0, cell.warmup, slots);
    let (measured, sessions) = draw("", 0, 0, cell.requests, 0);
    for turn in warmup.iter_mut().filter_map(|request| request.turn.as_mut()) {
        turn.session = turn.session.saturating_add(sessions);
    }
    [warmup, measured]
}

/// Where a session begins.
#[derive(Clone, Copy)]
struct Place {
    /// Number of its first request.
    number: u32,
    /// Its own number.
    session: u32,
}

/// The sessions drawn so far.
struct Drawn<'a> {
    session: &'a Session,
    shape: Option<Shape<'a>>,
    turns: Draws<'a>,
    turn_tokens: Draws<'a>,
    think: Draws<'a>,
    tool: Option<(Draws<'a>, Draws<'a>)>,
    planned: Vec<PlannedRequest>,
    sessions: u32,
}

impl<'a> Drawn<'a> {
    /// `kind` sets the warm-up's streams apart from the measured requests'.
    fn new(cell: &'a Cell, session: &'a Session, workload: &Workload, kind: &str) -> Self {
        let stream = |purpose: &str| Stream::named(workload.seed, &format!("{kind}{purpose}/{}", cell.name));
        let shape = |class| Shape::new(&cell.name, class, (workload.seed, kind), Form::of(workload.prompts, class));
        let pauses = |Pause(pauses): &'a Pause, purpose: &str| Draws::new(pauses, stream(purpose));
        Self {
            session,
            shape: cell.classes.first().map(shape),
            turns: Draws::new(&session.turns, stream("turns")),
            turn_tokens: Draws::new(&session.turn_tokens, stream("turn-lengths")),
            think: pauses(&session.think, "think"),
            tool: session
                .tools
                .as_ref()
                .map(|tools| (Draws::new(&tools.tokens, stream("tool-lengths")), pauses(&tools.time, "tool-times"))),
            planned: Vec::new(),
            sessions: 0,
        }
    }

    /// Draws a session. With a `part` it was under way already: of its turns the last ones are left, that share of them.
    fn session(&mut self, place: Place, due: Option<Nanos>, part: Option<(u32, u32)>) {
        self.sessions = self.sessions.saturating_add(1);
        let tree = self.tree();
        let turns = tree.iter().filter_map(|request| request.turn).map(|turn| turn.turn).max().unwrap_or_default();
        let skipped = part.map_or(0, |(share, of)| turns.saturating_sub(share_of(turns, share, of)));
        let is_left = |request: &PlannedRequest| request.turn.is_some_and(|turn| turn.turn > skipped);
        let gone = u32::try_from(tree.iter().take_while(|request| !is_left(request)).count()).unwrap_or(u32::MAX);
        let number = |number: u32| number.checked_sub(gone).map(|number| number.saturating_add(place.number));
        for request in tree.into_iter().filter(is_left) {
            let turn = request.turn.map(|turn| {
                let after = turn.after.and_then(number);
                let pause = if after.is_some() { turn.pause } else { Nanos::ZERO };
                Turn { session: place.session, after, pause, ..turn }
            });
            let due = due.filter(|_| turn.is_some_and(|turn| turn.after.is_none()));
            let number = number(request.number).unwrap_or(place.number);
            self.planned.push(PlannedRequest { number, turn, due, ..request });
        }
    }

    /// A whole session, turn by turn, its requests numbered from 0.
    fn tree(&mut self) -> Vec<PlannedRequest> {
        let turns = self.turns.next();
        let Some(shape) = &mut self.shape else { return Vec::new() };
        let mut first = shape.request(0, None);
        first.turn = Some(Turn { session: 0, turn: 1, after: None, pause: Nanos::ZERO });
        let mut ends = vec![first];
        let mut tree = Vec::new();
        for turn in 2..=turns {
            let branching = self.session.branches.filter(|branches| branches.after.saturating_add(1) == turn);
            let copies = branching.map_or(1, |branches| branches.count);
            let before = std::mem::take(&mut ends);
            let mut number = u32::try_from(tree.len().saturating_add(before.len())).unwrap_or(u32::MAX);
            for end in &before {
                for _ in 0..copies {
                    if let Some(request) = self.next(end, turn, number) {
                        number = number.saturating_add(1);
                        ends.push(request);
                    }
                }
            }
            tree.extend(before);
        }
        tree.extend(ends);
        tree
    }

    /// The turn after a request; none where the context would be too long.
    fn next(&mut self, before: &PlannedRequest, turn: u32, number: u32) -> Option<PlannedRequest> {
        let (tokens, pause) = match &mut self.tool {
            Some((tokens, time)) if self.session.is_tool(turn) => (tokens.next(), time.next()),
            _ => (self.turn_tokens.next(), self.think.next()),
        };
        let pause = Nanos::from_millis(u64::from(pause));
        let turn = Turn { turn, after: Some(before.number), pause, ..before.turn? };
        let request = PlannedRequest { number, turn: Some(turn), ..self.shape.as_mut()?.continued(before, tokens) };
        (request.prompt.words.saturating_add(request.output_tokens) <= self.session.max_context).then_some(request)
    }
}

/// How many of `turns` are left in the `share`-th of so many slots, at least one.
fn share_of(turns: u32, share: u32, of: u32) -> u32 {
    let left = u64::from(turns).saturating_mul(u64::from(share)).div_ceil(u64::from(of.max(1)));
    u32::try_from(left).unwrap_or(turns).max(1)
}

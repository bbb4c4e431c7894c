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
        arrivals::due(cell.load, total, &mut Stream::named(workload.seed, &format!("arrivals/{}", cell.name)))
            .into_iter();
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
            self.planned.push(PlannedRequest { number, due, turn, ..request });
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::base::said::Speaker;
    use crate::plan::request::{PlannedCell, PromptRecipe};
    use crate::plan::{build, prompt};
    use crate::spec::read_workload;
    use crate::spec::session::Answers;

    fn workload(keys: &str) -> Workload {
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - name: c\n    output_tokens: {{uniform: {{min: 15, max: 25}}}}\n{keys}"
        );
        read_workload("w.yaml", &text).unwrap_or_else(|faults| panic!("{text}{faults:?}")).value
    }

    fn planned(keys: &str) -> PlannedCell {
        build(&workload(keys)).cells.remove(0)
    }

    const CHAT: &str = "    prompt_tokens: {uniform: {min: 80, max: 120}}\n    requests: 200\n    concurrency: 4
    shared_prefix: {groups: 2, tokens: 40}
    session:
      turns: {uniform: {min: 2, max: 8}}
      turn_tokens: {uniform: {min: 20, max: 40}}
      think: {log_normal: {median: 2s, sigma: 0.5, min: 500ms, max: 10s}}
";

    /// Words of the texts of a prompt, part by part.
    fn words(prompt: &PromptRecipe) -> Vec<String> {
        prompt.apart().map(|part| prompt::text(&part)).collect()
    }

    #[test]
    fn each_turn_begins_with_the_whole_turn_before_it_and_its_answer() {
        let cell = planned(CHAT);
        let mut by_number: BTreeMap<u32, &PlannedRequest> = BTreeMap::new();
        let mut pauses = Vec::new();
        for request in cell.requests.iter().chain(&cell.warmup) {
            let turn = request.turn.unwrap();
            if let Some(after) = turn.after {
                let before = by_number[&after];
                assert_eq!((before.turn.unwrap().session, before.turn.unwrap().turn + 1), (turn.session, turn.turn));
                let (earlier, all) = (words(&before.prompt), words(&request.prompt));
                assert_eq!(all[..earlier.len()], earlier);
                assert_eq!(all.len(), earlier.len() + 2);
                let count = |text: &String| u32::try_from(text.split(' ').count()).unwrap();
                assert_eq!(count(&all[earlier.len()]), before.output_tokens);
                assert!((20..=40).contains(&count(&all[earlier.len() + 1])));
                assert_eq!(request.prompt.words, all.iter().map(count).sum::<u32>());
                pauses.push(turn.pause.as_secs());
            }
            assert!(by_number.insert(request.number, request).is_none());
        }
        assert_eq!(
            by_number.keys().copied().collect::<Vec<_>>(),
            (0..200 + u32::try_from(cell.warmup.len()).unwrap()).collect::<Vec<_>>()
        );
        pauses.sort_unstable_by(f64::total_cmp);
        let median = pauses[pauses.len() >> 1];
        assert!((1.6..2.5).contains(&median) && pauses[0] >= 0.5 && pauses[pauses.len() - 1] <= 10.0, "{median}");
        // Sessions share one of two system prompts, and nothing else.
        let firsts: BTreeSet<String> = cell.requests.iter().map(|it| words(&it.prompt).remove(0)).collect();
        assert_eq!(firsts.len(), 2);
        let questions: BTreeSet<(u32, String)> =
            cell.requests.iter().map(|it| (it.turn.unwrap().session, words(&it.prompt).remove(1))).collect();
        let sessions: BTreeSet<u32> = cell.requests.iter().map(|it| it.turn.unwrap().session).collect();
        assert_eq!(questions.len(), sessions.len());
        assert_eq!(questions.iter().map(|(_, text)| text).collect::<BTreeSet<_>>().len(), sessions.len());
    }

    #[test]
    fn fillers_are_the_measured_sessions_over_again_with_new_words() {
        let cell = planned(CHAT);
        let planned = u32::try_from(cell.requests.len() + cell.warmup.len()).unwrap();
        let fillers: Vec<PlannedRequest> = (0..500).map(|n| cell.filler(n).unwrap()).collect();
        let known: BTreeSet<u32> =
            cell.requests.iter().chain(&cell.warmup).map(|it| it.turn.unwrap().session).collect();
        for (n, filler) in fillers.iter().enumerate() {
            assert_eq!(filler.number, planned + u32::try_from(n).unwrap());
            let (turn, shape) = (filler.turn.unwrap(), &cell.requests[n % 200]);
            assert_eq!((turn.turn, turn.pause), (shape.turn.unwrap().turn, shape.turn.unwrap().pause));
            assert!(!known.contains(&turn.session));
            if let Some(after) = turn.after {
                let before = &fillers[usize::try_from(after - planned).unwrap()];
                assert_eq!(before.turn.unwrap().session, turn.session);
                let (earlier, all) = (words(&before.prompt), words(&filler.prompt));
                assert_eq!(all[..earlier.len()], earlier);
            }
            assert_eq!(words(&filler.prompt)[0], words(&shape.prompt)[0], "the system prompt stays");
            assert_ne!(words(&filler.prompt)[1], words(&shape.prompt)[1]);
        }
        let rounds: BTreeSet<u32> = fillers.iter().map(|it| it.turn.unwrap().session).collect();
        let measured: BTreeSet<u32> = cell.requests.iter().map(|it| it.turn.unwrap().session).collect();
        assert!(rounds.len() > 2 * measured.len(), "each round has sessions of its own");
    }

    #[test]
    fn an_agents_context_grows_from_2k_to_64k() {
        let cell = planned(
            "    prompt_tokens: 2000\n    requests: 100\n    warmup: 0\n    rate: 1/s\n    session:\n      turns: 21
      turn_tokens: 400\n      tools: {calls: 20, tokens: {uniform: {min: 2900, max: 3300}}, time: 700ms}\n      max_context: 65536\n",
        );
        let first: Vec<&PlannedRequest> = cell.requests.iter().filter(|it| it.turn.unwrap().session == 0).collect();
        let lengths: Vec<u32> = first.iter().map(|request| request.prompt.words).collect();
        assert_eq!((lengths.len(), lengths[0]), (21, 2_000));
        assert!(lengths.is_sorted() && (62_000..=65_536).contains(&lengths[20]), "{lengths:?}");
        assert!(first.iter().skip(1).all(|it| it.turn.unwrap().pause == Nanos::from_millis(700)));
        let talk = cell.talk.unwrap();
        let said = talk.messages(first[2], prompt::text, |_turn| None);
        let by: Vec<Speaker> = said.iter().map(|said| said.by).collect();
        assert_eq!(by, [Speaker::User, Speaker::Call, Speaker::Tool, Speaker::Call, Speaker::Tool]);
        let given = talk.messages(first[2], prompt::text, |turn| (turn == 2).then(|| "what it said".to_owned()));
        assert_eq!((&given[3].text, &given[1]), (&"what it said".to_owned(), &said[1]));
    }

    #[test]
    fn the_user_speaks_again_after_so_many_tools() {
        let talk = Talk { has_system: true, tool_calls: 2, answers: Answers::Fixed };
        let said: Vec<&str> = (0..12).map(|place| talk.speaker(place).id()).collect();
        assert_eq!(
            said,
            ["system", "user", "call", "tool", "call", "tool", "assistant", "user", "call", "tool", "call", "tool"]
        );
    }

    #[test]
    fn a_session_ends_before_its_context_is_too_long() {
        let keys = "    prompt_tokens: 100\n    requests: 40\n    rate: 1/s\n    session: {turns: 50, turn_tokens: 100, max_context: 600}\n";
        let cell = planned(keys);
        let longest = cell.requests.iter().map(|it| it.prompt.words + it.output_tokens).max().unwrap();
        assert!((480..=600).contains(&longest), "{longest}");
        let turns = cell.requests.iter().map(|it| it.turn.unwrap().turn).max().unwrap();
        assert!((5..=6).contains(&turns), "{turns}");
    }

    #[test]
    fn the_fingerprint_sees_what_a_session_is() {
        let base =
            "    prompt_tokens: 100\n    requests: 40\n    concurrency: 2\n    session: {turns: 4, turn_tokens: 20";
        let of = |more: &str| build(&workload(&format!("{base}{more}}}\n"))).fingerprint.to_string();
        let all = [
            "",
            ", think: 1s",
            ", think: 2s",
            ", answers: model",
            ", tools: {calls: 1, tokens: 20}",
            ", tools: {calls: 3, tokens: 20}",
            ", branches: {after: 2, count: 2}",
            ", branches: {after: 3, count: 2}",
            ", max_context: 160",
        ];
        let seen: BTreeSet<String> = all.iter().map(|more| of(more)).collect();
        assert_eq!(seen.len(), all.len());
        // A change of this digest makes every stored baseline of sessions incomparable: raise the version of `/talk`.
        insta::assert_snapshot!(of(""), @"sha256:72b7af33f151a94421b3ab706107ab4bbc1edddf6d25d04264a6e2bacb0fec75");
    }

    proptest! {
        #[test]
        fn more_requests_leave_the_earlier_sessions_as_they_were(few in 1_u32..60, more in 1_u32..60, seed: u64) {
            let of = |requests: u32| {
                let keys = format!("    prompt_tokens: 100\n    requests: {requests}\n    warmup: 7\n    rate: 2/s\n    session: {{turns: {{uniform: {{min: 1, max: 5}}}}, turn_tokens: 9, branches: {{after: 2, count: 2}}}}\n");
                build(&Workload { seed, ..workload(&keys) }).cells.remove(0)
            };
            let (one, other) = (of(few), of(few + more));
            prop_assert_eq!(&one.requests[..], &other.requests[..one.requests.len()]);
            prop_assert!(one.requests.iter().all(|it| it.turn.unwrap().after.is_none_or(|after| after < it.number)));
            let dues: Vec<_> = other.requests.iter().filter(|it| it.turn.unwrap().after.is_none()).map(|it| it.due).collect();
            prop_assert!(dues.is_sorted() && dues.iter().all(Option::is_some));
        }
    }
}

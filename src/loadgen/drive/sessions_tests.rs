//! Sessions driven in virtual time.

use std::collections::BTreeMap;

use super::*;
use crate::loadgen::place::Place;
use crate::loadgen::scripted::{Scripted, compose};
use crate::plan::build;
use crate::spec;
use crate::wire::transport::Failure;

/// The cell of a workload with these keys.
fn planned(keys: &str) -> PlannedCell {
    let text = format!(
        "servegate: 1\nkind: workload\nname: w\ncells:\n  - name: c\n    prompt_tokens: 100\n    output_tokens: 20\n{keys}"
    );
    let workload = spec::read_workload("w.yaml", &text).unwrap_or_else(|faults| panic!("{faults:?}")).value;
    build(&workload).cells.remove(0)
}

/// What became of every request: its due instant and its end, by place. Each takes 300 ms and more.
fn driven(cell: &PlannedCell) -> (BTreeMap<usize, (Nanos, Nanos)>, Vec<u32>, Scripted) {
    let mut transport = Scripted::new(|request| (Nanos::from_millis(300 + request.id * 7 % 90), None));
    let mut ended = Vec::new();
    let end = drive(&[cell], &compose, &mut transport, &mut |step| {
        if let Step::Ended(_, request, _) = step {
            ended.push(request.number);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(end.stop, None);
    let took = |id: u64| Nanos::from_millis(300 + id * 7 % 90);
    let spans =
        transport.log.iter().map(|(at, id, due, _)| (Place::of(*id).place, (*due, (*due).max(*at) + took(*id))));
    (spans.collect(), ended, transport)
}

#[test]
fn a_turn_is_due_when_its_pause_after_the_answer_is_over_and_never_earlier() {
    for load in ["concurrency: 3", "rate: 2/s"] {
        let cell = planned(&format!(
            "    {load}\n    requests: 60\n    session:\n      turns: {{uniform: {{min: 2, max: 6}}}}\n      turn_tokens: 30\n      think: {{uniform: {{min: 100ms, max: 4s}}}}\n"
        ));
        let (spans, mut ended, _) = driven(&cell);
        ended.sort_unstable();
        assert_eq!(ended, (0..60).collect::<Vec<_>>(), "every measured request ended once");
        let warmup = cell.warmup.len();
        let mut later = 0;
        for (place, request) in cell.warmup.iter().chain(&cell.requests).enumerate() {
            let turn = request.turn.unwrap();
            let Some(after) = turn.after else { continue };
            let before = usize::try_from(after).unwrap();
            let before = if before < 60 { before + warmup } else { before - 60 };
            let ((due, _), (_, end)) = (spans[&place], spans[&before]);
            assert_eq!(due, end + turn.pause, "{load}: {place} after {before}");
            later += 1;
        }
        assert!(later > 40);
    }
}

#[test]
fn a_slot_is_one_sessions_until_its_last_answer() {
    let cell =
        planned("    concurrency: 4\n    requests: 100\n    session: {turns: 5, turn_tokens: 30, think: 500ms}\n");
    let (spans, ..) = driven(&cell);
    // Sessions under way: from the first due instant to the last end.
    let mut sessions: BTreeMap<u32, (Nanos, Nanos)> = BTreeMap::new();
    for (place, (due, end)) in &spans {
        let session = cell.at(*place).unwrap().turn.unwrap().session;
        let span = sessions.entry(session).or_insert((*due, *end));
        *span = (span.0.min(*due), span.1.max(*end));
    }
    let at = |now: Nanos| sessions.values().filter(|(from, to)| *from <= now && now < *to).count();
    let last = cell.requests.iter().enumerate().map(|(at, _)| spans[&(at + cell.warmup.len())].1).max().unwrap();
    for step in 20..200 {
        let now = Nanos::from_millis(1_000 + step * 100);
        if now < last {
            assert!((3..=4).contains(&at(now)), "{} sessions at {now}", at(now));
        }
    }
    // They are out of step: the first sessions have other numbers of turns left.
    let begun: Vec<usize> = (0..4)
        .map(|slot| {
            let number =
                cell.warmup.iter().filter_map(|request| request.turn).map(|turn| turn.session).min().unwrap() + slot;
            cell.warmup.iter().filter(|request| request.turn.unwrap().session == number).count()
        })
        .collect();
    assert_eq!(begun, [2, 3, 4, 5]);
}

#[test]
fn branches_go_on_at_once_and_their_session_ends_with_the_last_of_them() {
    let cell = planned(
        "    concurrency: 1\n    requests: 14\n    warmup: 0\n    session: {turns: 4, turn_tokens: 30, branches: {after: 2, count: 3}}\n",
    );
    let (spans, ..) = driven(&cell);
    let turns: Vec<(u32, u32)> =
        cell.requests.iter().map(|it| (it.turn.unwrap().session, it.turn.unwrap().turn)).collect();
    assert_eq!(turns[..9], [(0, 1), (0, 2), (0, 3), (0, 3), (0, 3), (0, 4), (0, 4), (0, 4), (1, 1)]);
    let end = spans[&1].1;
    assert_eq!([spans[&2].0, spans[&3].0, spans[&4].0], [end; 3]);
    let last = [5, 6, 7].map(|place| spans[&place].1).into_iter().max().unwrap();
    assert_eq!(spans[&8].0, last);
}

#[test]
fn sessions_of_an_open_loop_arrive_whatever_the_others_do_and_go_on_arriving_until_the_last_answer() {
    let cell = planned(
        "    rate: 1/s\n    arrivals: constant\n    warmup: 6\n    requests: 30\n    session: {turns: 3, turn_tokens: 30, think: 5s}\n",
    );
    let (spans, _, transport) = driven(&cell);
    let start = Nanos::from_secs(2);
    let firsts: Vec<f64> = spans
        .iter()
        .filter(|(place, _)| cell.at(**place).unwrap().turn.unwrap().turn == 1)
        .map(|(_, (due, _))| due.since(start).as_secs())
        .collect();
    let every_second: Vec<f64> = (0..u32::try_from(firsts.len()).unwrap()).map(f64::from).collect();
    assert_eq!(firsts, every_second);
    // 12 planned sessions, the last of them over after two pauses: ten more came meanwhile.
    assert!((20..=24).contains(&firsts.len()), "{}", firsts.len());
    assert!(!transport.renewed.is_empty(), "connections are made sure of before a turn");
}

#[test]
fn a_failed_turn_does_not_end_its_session() {
    let cell = planned("    concurrency: 2\n    requests: 40\n    session: {turns: 4, turn_tokens: 30, think: 1s}\n");
    let mut transport = Scripted::new(|request| {
        (Nanos::from_millis(100), (request.id % 3 == 0).then(|| Failure::Cut("gone".to_owned())))
    });
    let mut ended = 0;
    let end = drive(&[&cell], &compose, &mut transport, &mut |step| {
        ended += i32::from(matches!(step, Step::Ended(..)));
        ControlFlow::Continue(())
    });
    assert_eq!((end.stop, ended), (None, 40));
    assert_eq!(end.evidence[0].attempted, 40);
}

#[test]
fn prompts_that_can_be_made_before_their_turn_are() {
    let cell = |answers: &str| {
        planned(&format!(
            "    concurrency: 2\n    requests: 40\n    session: {{turns: 4, turn_tokens: 30, think: 100ms, answers: {answers}}}\n"
        ))
    };
    for (answers, ahead) in [("fixed", true), ("model", false)] {
        let cell = cell(answers);
        let mut transport = Scripted::new(|_| (Nanos::from_millis(100), None));
        let composed = std::cell::RefCell::new(Vec::new());
        let ends = std::cell::RefCell::new(Vec::new());
        drive(
            &[&cell],
            &|phase, request| {
                composed.borrow_mut().push((request.number, ends.borrow().clone()));
                compose(phase, request)
            },
            &mut transport,
            &mut |step| {
                match step {
                    Step::Ended(_, request, _) => ends.borrow_mut().push(request.number),
                    Step::Answered(phase, place, _) => ends.borrow_mut().push(phase.at(place).unwrap().number),
                    Step::Started(_) => {}
                }
                ControlFlow::Continue(())
            },
        );
        let mut early = 0;
        for (number, ended) in composed.borrow().iter() {
            let Some(request) = cell.requests.iter().find(|request| request.number == *number) else { continue };
            early += usize::from(request.turn.unwrap().after.is_some_and(|after| !ended.contains(&after)));
        }
        assert_eq!(early > 20, ahead, "{answers}: {early} of 30 later turns");
        if !ahead {
            assert_eq!(early, 0);
        }
    }
}

//! What holds after every step, and what each is for.

use proptest::prelude::*;

use crate::base::units::Nanos;
use crate::trace::faults::Faults;
use crate::trace::request::{Request, Requests, Traffic};
use crate::trace::steps::{Recording, Scaling, scaling};
use crate::trace::{Format, Reading, normal, shape};

fn requests(rows: Vec<Request>) -> Requests {
    let classes = vec!["chat".to_owned(), "code".to_owned()];
    Requests { source: Format::Bailian, arrivals: true, block_tokens: Some(16), classes, rows }
}

/// Lone requests of ten tokens at these seconds.
fn lone(seconds: &[u64]) -> Requests {
    let at = |second: &u64| Request {
        at: Nanos::from_secs(*second),
        prompt_tokens: 10,
        output_tokens: Some(1),
        ..Request::default()
    };
    requests(seconds.iter().map(at).collect())
}

fn seconds(recording: &Recording) -> Vec<u64> {
    recording.requests().rows.iter().map(|row| row.at.0.div_euclid(1_000_000_000)).collect()
}

/// Traces with sessions, blocks, classes and ticks: at most 40 requests within 60 s.
fn traces() -> impl Strategy<Value = Requests> {
    let row = (0_u64..20, 1_u32..50, prop::option::of(1_u32..9), prop::option::of((0_u32..5, any::<bool>())), 0_u16..2);
    (prop::collection::vec((row, prop::collection::vec(0_u64..9, 0..4)), 1..40)).prop_map(|drawn| {
        let mut rows: Vec<Request> = Vec::new();
        let mut drawn = drawn;
        drawn.sort_by_key(|((at, ..), _)| *at);
        for ((tick, prompt_tokens, output_tokens, session, class), blocks) in drawn {
            let number = session.map(|(session, _)| session);
            let last = rows.iter().rposition(|row| row.session.is_some() && row.session == number);
            let parent =
                last.filter(|_| session.is_some_and(|(_, linked)| linked)).map(|place| u32::try_from(place).unwrap());
            let at = Nanos::from_secs(3 * tick);
            rows.push(Request {
                at,
                prompt_tokens,
                output_tokens,
                session: number,
                turn: None,
                parent,
                class: Some(class),
                blocks,
            });
        }
        // Where requests continue others, a reader gives each a session.
        if rows.iter().any(|row| row.parent.is_some()) {
            for (row, fresh) in rows.iter_mut().zip(100..) {
                row.session.get_or_insert(fresh);
            }
        }
        let first = rows[0].at;
        for row in &mut rows {
            row.at = row.at.since(first);
        }
        requests(rows)
    })
}

/// What must hold for a recording, and for the file that is written of it.
fn check(recording: &Recording) -> Result<(), TestCaseError> {
    let rows = &recording.requests().rows;
    prop_assert!(rows.is_sorted_by_key(|row| row.at));
    prop_assert!(rows.iter().all(|row| row.at < recording.length()));
    for (place, row) in rows.iter().enumerate() {
        let parent = row.parent.map(|parent| &rows[..place][usize::try_from(parent).unwrap()]);
        prop_assert!(parent.is_none_or(|parent| parent.session == row.session));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let requests = recording.clone().into_requests();
    let traffic = Traffic::Requests(requests.clone());
    let reading = Reading { format: Format::Bailian, why: String::new(), traffic, faults: Faults::default() };
    let again = normal::read("t", &normal::write(&reading).unwrap()).unwrap();
    let turned =
        |requests: Requests| requests.rows.into_iter().map(|row| Request { turn: None, ..row }).collect::<Vec<_>>();
    prop_assert_eq!((&again.classes, again.block_tokens), (&requests.classes, requests.block_tokens));
    prop_assert_eq!(turned(again), turned(requests));
    Ok(())
}

proptest! {
    #[test]
    fn every_step_keeps_order_parents_and_numbers(
        trace in traces(),
        from in 0_u64..30,
        until in prop::option::of(0_u64..60),
        share in 0.0..1.0_f64,
        copies in 1_u32..5,
        seed: u64,
        most in 0_usize..60,
    ) {
        let whole = Recording::of(trace.clone());
        check(&whole)?;
        let part = whole.clone().window(Nanos::from_secs(from), until.map(Nanos::from_secs));
        check(&part)?;
        let inside = |row: &&Request| row.at >= Nanos::from_secs(from) && until.is_none_or(|end| row.at < Nanos::from_secs(end));
        prop_assert_eq!(part.requests().rows.len(), trace.rows.iter().filter(inside).count());

        let mut spread = whole.clone();
        spread.spread(seed);
        check(&spread)?;
        let lengths = |recording: &Recording| recording.requests().rows.iter().map(|row| row.prompt_tokens).collect::<Vec<_>>();
        prop_assert_eq!(lengths(&spread), lengths(&whole), "the order is kept");
        for (row, before) in spread.requests().rows.iter().zip(&trace.rows) {
            prop_assert!(row.at >= before.at && row.at.since(before.at) < Nanos::from_secs(60));
        }

        let thin = spread.clone().thin(share, seed);
        check(&thin)?;
        for session in 0..5 {
            let of = |one: &Recording| one.requests().rows.iter().filter(|row| row.session == Some(session)).count();
            prop_assert!(of(&thin) == 0 || of(&thin) == of(&spread), "sessions stay whole");
        }

        let many = spread.clone().superpose(copies, seed).unwrap();
        check(&many)?;
        prop_assert_eq!(many.requests().rows.len(), usize::try_from(copies).unwrap() * trace.rows.len());
        prop_assert_eq!(many.length(), whole.length());
        let hits = |one: &Recording| shape::sharing(&one.clone().into_requests());
        let (one, all) = (hits(&spread), hits(&many));
        let copies = u64::from(copies);
        prop_assert_eq!((all.blocks, all.different), (copies * one.blocks, copies * one.different), "copies share no block");

        let first = many.first(most);
        check(&first)?;
        prop_assert_eq!(first.requests().rows.len(), most.min(usize::try_from(copies).unwrap() * trace.rows.len()));
    }
}

#[test]
fn a_trace_stands_for_as_many_gaps_as_it_has_requests() {
    let trace = Recording::of(lone(&[0, 1, 2, 6]));
    assert_eq!((trace.length(), trace.rate()), (Nanos::from_secs(8), 0.5));
    let part = trace.clone().window(Nanos::from_secs(1), Some(Nanos::from_secs(6)));
    assert_eq!((seconds(&part), part.length()), (vec![0, 1], Nanos::from_secs(5)));
    assert_eq!(seconds(&trace.clone().window(Nanos::from_secs(2), None)), [0, 4]);
    let first = trace.first(2);
    assert_eq!((seconds(&first), first.length()), (vec![0, 1], Nanos::from_secs(2)));
}

#[test]
fn who_continues_what_is_gone_continues_what_that_continued() {
    let mut trace = lone(&[0, 1, 2, 3]);
    for (place, row) in trace.rows.iter_mut().enumerate() {
        (row.session, row.parent) = (Some(0), place.checked_sub(1).map(|parent| u32::try_from(parent).unwrap()));
    }
    trace.rows[1].prompt_tokens = 99;
    let parents = |one: &Recording| one.requests().rows.iter().map(|row| row.parent).collect::<Vec<_>>();
    let whole = Recording::of(trace);
    let without = whole.clone().keep(|row| row.prompt_tokens < 99);
    assert_eq!((parents(&without), without.severed()), (vec![None, Some(0), Some(1)], 0));
    let late = whole.window(Nanos::from_secs(1), None);
    assert_eq!((parents(&late), late.severed()), (vec![None, Some(0), Some(1)], 1));
}

#[test]
fn thinning_leaves_the_share_that_it_was_asked_for() {
    let trace = Recording::of(lone(&(0..10_000).collect::<Vec<_>>()));
    for share in [0.0, 0.1, 0.5, 1.0] {
        let left = trace.clone().thin(share, 5);
        let left = f64::from(u32::try_from(left.requests().rows.len()).unwrap());
        // Four standard errors.
        assert!((left - 10_000.0 * share).abs() <= 4.0 * (10_000.0 * share * (1.0 - share)).sqrt(), "{share}: {left}");
    }
    assert_eq!(trace.clone().thin(0.5, 5), trace.clone().thin(0.5, 5));
    assert_ne!(trace.clone().thin(0.5, 5), trace.thin(0.5, 6));
}

#[test]
fn copies_are_moved_and_come_in_at_the_begin() {
    let trace = Recording::of(lone(&[0, 10, 20, 90]));
    let copies = trace.superpose(3, 1).unwrap();
    let first = [0.0, 10.0, 20.0, 90.0];
    let mut left = copies.requests().rows.iter().map(|row| row.at.as_secs()).collect::<Vec<_>>();
    left.retain(|at| !first.iter().any(|known| (known - at).abs() < 1e-9));
    assert_eq!(left.len(), 8);
    // Around the circle the distances of each copy are those of the trace: two copies have four of ten seconds.
    let close = |one: f64, other: f64, far: f64| ((other - one).rem_euclid(120.0) - far).abs() < 1e-6;
    let tens = left.iter().flat_map(|one| left.iter().map(move |other| (one, other)));
    assert_eq!(tens.filter(|(one, other)| close(**one, **other, 10.0)).count(), 4);
}

#[test]
fn the_way_to_a_rate_is_the_shortest() {
    let way = |copies, share| Some(Scaling { copies, share });
    assert_eq!(scaling(4.0, 4.0), way(1, None));
    assert_eq!(scaling(4.0, 1.0), way(1, Some(0.25)));
    assert_eq!(scaling(4.0, 12.0), way(3, None));
    assert_eq!(scaling(4.0, 10.0), way(3, Some(2.5 / 3.0)));
    assert_eq!([scaling(0.0, 1.0), scaling(1e-9, 1e9)], [None, None]);
}

#[test]
fn ticks_are_spread_and_silence_stays() {
    let mut trace = Recording::of(lone(&[0, 0, 0, 3, 3, 6, 30, 30, 33]));
    assert_eq!(trace.spread(1), 7);
    let at = seconds(&trace);
    assert!(at[..3].iter().all(|at| *at < 3) && at[3..5].iter().all(|at| (3..6).contains(at)), "{at:?}");
    assert_eq!(at[5], 6, "who is alone stays");
    assert!(at[6..8].iter().all(|at| (30..33).contains(at)) && at[8] == 33, "{at:?}");
    assert_eq!(shape::ticks(trace.requests()).repeated, 0);
    let mut long = Recording::of(lone(&[0, 3, 6, 6, 6, 60]));
    long.spread(1);
    assert!(seconds(&long)[2..5].iter().all(|at| (6..9).contains(at)), "not into the silence behind");
    let mut instant = Recording::of(lone(&[0, 0, 0]));
    instant.spread(1);
    assert_eq!(seconds(&instant), [0, 0, 0]);
}

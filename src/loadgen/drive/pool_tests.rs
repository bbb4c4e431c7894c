//! Which connections the driver asks for, in virtual time.

use super::pool::MOST_CONNECTIONS;
use super::tests::{UNEVEN, run, run_line};
use super::*;
use crate::loadgen::scripted::{Scripted, cell};

/// A cell of an open loop whose measured requests are due at these instants, in ms.
fn due_at(instants: &[u64], cap: Option<u32>) -> PlannedCell {
    let requests = u32::try_from(instants.len()).unwrap();
    let mut cell = PlannedCell { max_connections: cap, ..cell("c", Load::Constant { rate: 1.0 }, 0, requests) };
    for (request, at) in cell.requests.iter_mut().zip(instants) {
        request.due = Some(Nanos::from_millis(*at));
    }
    cell
}

#[test]
fn connections_are_renewed_ahead_of_arrivals_after_silence() {
    // Bursts of 50 every 6 s.
    let bursts: Vec<u64> = (0..4).flat_map(|burst| vec![6_000 * burst; 50]).collect();
    let mut transport = Scripted::new(|_| (Nanos::from_millis(40), None));
    run(&due_at(&bursts, None), &mut transport);
    let start = transport.log[0].2;
    for burst in 1..4 {
        let due = start + Nanos::from_secs(6 * burst);
        let ahead = transport.renewed.iter().filter(|(now, idle, by)| *by == due && *idle == 50 && *now < due).count();
        assert!(ahead > 0, "burst {burst}: {:?}", transport.renewed);
    }
    // A request every 5 s.
    let mut transport = Scripted::new(|_| (Nanos::from_millis(40), None));
    run(&due_at(&[0, 5_000, 10_000, 15_000], None), &mut transport);
    let start = transport.log[0].2;
    for at in [5, 10, 15] {
        assert!(transport.renewed.iter().any(|(_, idle, by)| (*idle, *by) == (1, start + Nanos::from_secs(at))));
    }
}

#[test]
fn no_more_connections_are_renewed_than_requests_are_to_be_sent_nor_than_the_cap_leaves() {
    let steady: Vec<u64> = (0..400).map(|n| n * 20).collect();
    let bursts: Vec<u64> = (0..4).flat_map(|burst| vec![6_000 * burst; 300]).collect();
    for (instants, cap) in [(&steady, None), (&bursts, None), (&bursts, Some(30)), (&steady, Some(2))] {
        let mut transport = Scripted::new(UNEVEN);
        run(&due_at(instants, cap), &mut transport);
        for (now, idle, by) in &transport.renewed {
            let to_send = transport.log.iter().filter(|(at, _, due, _)| at <= now && due > now).count();
            let active = transport.spans.iter().filter(|(due, end)| due <= now && end > now).count();
            assert!(*idle <= to_send.min(MOST_CONNECTIONS) && *by <= *now + LOOK_AHEAD + LOOK_AHEAD);
            assert!(cap.is_none_or(|cap| idle + active <= to_usize(cap)), "{idle} + {active} of {cap:?}");
        }
    }
    // A steady load finds the connections of the requests that have ended: 50/s of 0.35 s are 18 in flight.
    let mut transport = Scripted::new(UNEVEN);
    run(&due_at(&steady, None), &mut transport);
    let settled = transport.renewed.iter().filter(|(now, ..)| *now > Nanos::from_secs(5));
    assert!(settled.map(|(_, idle, _)| *idle).max().unwrap_or(0) <= 3, "{:?}", transport.renewed);
}

#[test]
fn a_closed_phase_after_another_finds_its_connections_open() {
    let steady = due_at(&[0, 100, 200], None);
    let burst = PlannedCell { name: "c/burst".to_owned(), ..cell("c", Load::Closed { concurrency: 32 }, 0, 64) };
    let mut transport = Scripted::new(UNEVEN);
    run_line(&[&steady, &burst], &mut transport);
    assert_eq!(transport.prepared, [32], "ahead of the cell");
    let border = transport.log[0].2 + Nanos::from_millis(200);
    assert!(transport.renewed.iter().any(|(now, idle, by)| *idle >= 29 && *by == border && *now < border));
    // An open phase that begins with a burst, and a closed one after a closed one.
    let open = PlannedCell { name: "c/burst".to_owned(), ..due_at(&[0; 50], None) };
    let mut transport = Scripted::new(UNEVEN);
    run_line(&[&steady, &open], &mut transport);
    let border = transport.log[0].2 + Nanos::from_millis(200);
    assert!(transport.renewed.iter().any(|(_, idle, by)| *idle >= 47 && *by == border), "{:?}", transport.renewed);
    let mut transport = Scripted::new(UNEVEN);
    let before = cell("c", Load::Closed { concurrency: 2 }, 0, 8);
    run_line(&[&before, &burst], &mut transport);
    assert_eq!(transport.prepared.len(), 2);
    assert!(transport.prepared[1] >= 30, "{:?}", transport.prepared);
}

#[test]
fn connections_that_are_sure_to_be_needed_are_counted_for_every_load() {
    let of = |load, cap, requests| {
        let cell = PlannedCell { max_connections: cap, ..cell("c", load, 5, requests) };
        needed_connections(&cell)
    };
    assert_eq!(of(Load::Closed { concurrency: 300 }, None, 500), 300);
    assert_eq!(of(Load::Constant { rate: 10.0 }, Some(3_000), 5_000), 3_000);
    assert_eq!(of(Load::Constant { rate: 10.0 }, Some(3_000), 100), 105, "no more than there are requests");
    assert_eq!(of(Load::Constant { rate: 10.0 }, None, 5_000), 41, "what is opened ahead");
    assert_eq!(of(Load::Idle { pause: Nanos::from_secs(1) }, None, 100), 1);
}

//! What the driver does, in virtual time.

use super::*;
use crate::artifact::run::ConnectionCap;
use crate::loadgen::scripted::{Script, Scripted, cell, compose};
use crate::plan::build;
use crate::spec::workload::{Burst, Cell, Class, Lengths, Phase, Prompts, Workload};
use crate::wire::transport::{Failure, Outbound, Wake};

/// Drives a cell; gives the numbers of the measured requests in the order of their ends too.
pub(super) fn run(cell: &PlannedCell, transport: &mut Scripted) -> (Driven, Vec<u32>) {
    let (driven, ends) = run_line(&[cell], transport);
    (driven, ends.into_iter().map(|(_, number)| number).collect())
}

/// The same of a time line, with the name of each request's phase.
pub(super) fn run_line<'p>(line: &[&'p PlannedCell], transport: &mut Scripted) -> (Driven, Vec<(&'p str, u32)>) {
    let mut ends = Vec::new();
    let driven = drive(line, &compose, transport, &mut |step| {
        if let Step::Ended(phase, request, _exchange) = step {
            ends.push((phase.name.as_str(), request.number));
        }
        ControlFlow::Continue(())
    });
    (driven, ends)
}

/// The evidence of the only phase.
fn only(evidence: &[CellEvidence]) -> &CellEvidence {
    assert_eq!(evidence.len(), 1);
    &evidence[0]
}

fn bodies(transport: &Scripted) -> Vec<&str> {
    transport.log.iter().map(|(_, _, _, body)| std::str::from_utf8(body).unwrap()).collect()
}

/// 300, 350 or 400 ms, by identity.
pub(super) const UNEVEN: Script = |request| (Nanos::from_millis(300 + 50 * (request.id % 3)), None);

#[test]
fn what_this_host_refuses_never_makes_the_target_down() {
    for load in [Load::Closed { concurrency: 4 }, Load::Constant { rate: 10.0 }] {
        let cell = cell("c", load, 0, 40);
        let mut transport =
            Scripted::new(|_| (Nanos::from_millis(1), Some(Failure::Client("Too many open files".to_owned()))));
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!((driven.stop, ends.len()), (None, 40));
    }
}

#[test]
fn a_closed_loop_keeps_its_requests_in_flight_from_warm_up_to_the_last_end() {
    let cell = cell("c4", Load::Closed { concurrency: 4 }, 6, 20);
    let mut transport = Scripted::new(UNEVEN);
    let (driven, ends) = run(&cell, &mut transport);
    assert_eq!(driven.stop, None);
    assert_eq!(transport.prepared, [4]);
    let mut sorted = ends.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    // Warm-up first, then the measured ones, then fillers of the measured shapes.
    let bodies = bodies(&transport);
    assert_eq!(&bodies[4..8], ["w4", "w5", "m0", "m1"]);
    assert_eq!(&bodies[24..28], ["m18", "m19", "f26", "f27"]);
    // After the ramp exactly four are in flight: each is due the instant another ended.
    let ends: Vec<_> = transport.spans.iter().map(|(_, end)| *end).collect();
    assert!(transport.log[4..].iter().all(|(at, _, due, _)| at == due && ends.contains(due)));
    assert_eq!(transport.log.len() - transport.spans.len(), transport.abandoned);
    assert_eq!(transport.abandoned, 3, "the last end is not replaced, and the others are fillers or it was the last");
    let ramp: Vec<_> = transport.log[..4].iter().map(|(_, _, due, _)| due.as_ms()).collect();
    assert_eq!(ramp, [1_000.0, 1_010.0, 1_020.0, 1_030.0]);
    let evidence = CellEvidence {
        attempted: 20,
        window_start_us: 1_360_000,
        window_end_us: 3_420_000,
        ..CellEvidence::planned("c4", 20)
    };
    assert_eq!(only(&driven.evidence), &evidence);
    assert_eq!(transport.spans.last().unwrap().1, Nanos::from_micros(evidence.window_end_us));
}

#[test]
fn an_open_loop_is_due_at_absolute_instants_whatever_the_target_does() {
    let cell = cell("r10", Load::Constant { rate: 10.0 }, 5, 30);
    // Each takes 5 s: up to 50 in flight.
    let mut transport = Scripted::new(|_| (Nanos::from_secs(5), None));
    let (driven, ends) = run(&cell, &mut transport);
    assert_eq!((driven.stop, ends.len()), (None, 30));
    let start = Nanos::from_secs(1) + LOOK_AHEAD;
    for (place, (at, id, due, _)) in transport.log.iter().enumerate() {
        assert_eq!((*id, *due), (to_u64(place), start + Nanos::from_millis(100 * to_u64(place))));
        assert_eq!(*at, Nanos(due.0 - LOOK_AHEAD.0), "composed and handed over ahead");
    }
    assert_eq!((transport.log.len(), transport.abandoned), (35, 0));
    assert_eq!(only(&driven.evidence).window_start_us, 2_500_000);
    assert_eq!(only(&driven.evidence).window_end_us, 2_500_000 + 2_900_000 + 5_000_000);
    assert_eq!(transport.prepared, [35]);
}

#[test]
fn an_interrupt_keeps_what_ended_and_counts_what_was_sent() {
    let cell = cell("c2", Load::Closed { concurrency: 2 }, 0, 50);
    let mut transport = Scripted::new(|_| (Nanos::from_millis(100), None));
    transport.interrupt = Nanos::from_millis(1_550);
    let (driven, ends) = run(&cell, &mut transport);
    assert_eq!(driven.stop, Some(Stop::Interrupted));
    assert_eq!(ends, (0..10).collect::<Vec<_>>());
    assert_eq!((only(&driven.evidence).planned, only(&driven.evidence).attempted), (50, 12));
    assert_eq!(transport.abandoned, 2);

    let cell = cell_of_open();
    let mut transport = Scripted::new(|_| (Nanos::from_secs(5), None));
    transport.interrupt = Nanos::from_millis(2_450);
    let (driven, ends) = run(&cell, &mut transport);
    assert_eq!((driven.stop, ends.len()), (Some(Stop::Interrupted), 0));
    assert_eq!(only(&driven.evidence).attempted, 5, "those that were handed over ahead were not sent");
}

fn cell_of_open() -> PlannedCell {
    cell("r10", Load::Constant { rate: 10.0 }, 0, 50)
}

#[test]
fn a_target_that_never_ends_a_request_does_not_hang_the_gate() {
    for load in [Load::Closed { concurrency: 8 }, Load::Poisson { rate: 10.0 }] {
        let cell = cell("hung", load, 8, 16);
        // Even when some requests end all the time.
        let script: Script =
            |request| (if request.id == 9 { Nanos::from_secs(1_000_000) } else { Nanos::from_secs(1) }, None);
        let mut transport = Scripted::new(script);
        let (driven, ends) = run(&cell, &mut transport);
        assert!(matches!(driven.stop, Some(Stop::Overdue { .. })), "{:?}", driven.stop);
        assert_eq!((ends.len(), only(&driven.evidence).attempted), (15, 16));
        assert!(transport.now() < Nanos::from_secs(400));
    }
}

#[test]
fn a_target_that_is_down_stops_the_cell_and_one_that_answers_some_does_not() {
    let cell = cell("c4", Load::Closed { concurrency: 4 }, 10, 100);
    let mut transport = Scripted::new(|_| (Nanos::from_millis(1), Some(Failure::Connect("refused".to_owned()))));
    let (driven, ends) = run(&cell, &mut transport);
    assert_eq!(driven.stop, Some(Stop::Down { requests: 20, cause: "no connection: refused".to_owned() }));
    assert_eq!(ends.len(), 12, "two warm-up requests of the ramp were still to come; records are kept");

    let script: Script =
        |request| (Nanos::from_millis(1), (request.id != 5).then(|| Failure::Connect("refused".to_owned())));
    let (driven, ends) = run(&cell, &mut Scripted::new(script));
    assert_eq!((driven.stop, ends.len()), (None, 100));
}

#[test]
fn cells_without_warm_up_or_with_few_requests_end_too() {
    for (concurrency, requests) in [(8, 3), (1, 1), (3, 0), (2, 5)] {
        let cell = cell("small", Load::Closed { concurrency }, 0, requests);
        let mut transport = Scripted::new(UNEVEN);
        let (driven, ends) = run(&cell, &mut transport);
        assert_eq!((driven.stop, ends.len()), (None, to_usize(requests)));
        assert!(transport.abandoned < to_usize(concurrency));
    }
    let (driven, _) = run(&cell("none", Load::Poisson { rate: 1.0 }, 0, 0), &mut Scripted::new(UNEVEN));
    assert_eq!((driven.stop, only(&driven.evidence).attempted), (None, 0));
}

/// The phases of a cell called `c` in virtual time.
fn line(phases: &[(Phase, Load, u32, u32)]) -> Vec<PlannedCell> {
    let phase = |&(phase, load, warmup, requests): &(Phase, Load, u32, u32)| PlannedCell {
        phase,
        ..cell(&phase.of("c"), load, warmup, requests)
    };
    phases.iter().map(phase).collect()
}

#[test]
fn a_burst_follows_a_closed_loop_at_once_and_recovery_begins_when_the_burst_is_over() {
    let closed = Load::Closed { concurrency: 4 };
    let line = line(&[
        (Phase::Cold, closed, 0, 4),
        (Phase::Steady, closed, 4, 12),
        (Phase::Burst, Load::Poisson { rate: 10.0 }, 0, 20),
        (Phase::Recovery, closed, 0, 12),
    ]);
    let mut transport = Scripted::new(UNEVEN);
    let (driven, ends) = run_line(&line.iter().collect::<Vec<_>>(), &mut transport);
    assert_eq!(driven.stop, None);
    let counts = |name: &str| ends.iter().filter(|(phase, _)| *phase == name).count();
    assert_eq!(["c/cold", "c", "c/burst", "c/recovery"].map(counts), [4, 12, 20, 12]);
    for evidence in &driven.evidence {
        assert_eq!(evidence.planned, evidence.attempted);
    }
    let [cold, steady, burst, recovery] = &driven.evidence[..] else { panic!("{:?}", driven.evidence) };
    // No gap and no drain: the burst's first instant is the end of the steady phase, and its requests overlap with
    // the recovery's, which begin at the burst's last instant.
    assert!(cold.window_end_us < steady.window_start_us);
    assert_eq!(burst.window_start_us, steady.window_end_us);
    assert!(recovery.window_start_us >= burst.window_start_us + 1_900_000);
    assert!(recovery.window_start_us < burst.window_end_us);
    // What the burst left behind counts: never more than four once the recovery sends.
    let sends: Vec<_> =
        transport.log.iter().filter(|(_, _, due, _)| due.0 >= recovery.window_start_us * 1_000).collect();
    for (_, _, due, _) in sends.iter().skip(1) {
        let in_flight = transport.spans.iter().filter(|(from, to)| from <= due && to > due).count();
        assert!(in_flight <= 4, "{in_flight} at {due}");
    }
}

#[test]
fn open_phases_share_one_clock_and_a_backlog_is_left_to_the_next() {
    let rate = |rate| Load::Constant { rate };
    let line = line(&[
        (Phase::Steady, rate(10.0), 2, 10),
        (Phase::Burst, rate(40.0), 0, 8),
        (Phase::Recovery, rate(10.0), 0, 10),
    ]);
    let mut transport = Scripted::new(|_| (Nanos::from_secs(5), None));
    let (driven, ends) = run_line(&line.iter().collect::<Vec<_>>(), &mut transport);
    assert_eq!((driven.stop, ends.len()), (None, 28));
    // The scripted arrivals come every 100 ms: 12 of them, then 8 from the last on, then 10 from there.
    let start = Nanos::from_secs(1) + LOOK_AHEAD;
    let due: Vec<_> = transport.log.iter().map(|(_, _, due, _)| due.since(start).as_ms()).collect();
    let expected = (0..12).chain(11..19).chain(18..28).map(|tick| 100.0 * f64::from(tick)).collect::<Vec<_>>();
    assert_eq!(due, expected);
    assert!(transport.log.iter().all(|(at, _, due, _)| *at == Nanos(due.0 - LOOK_AHEAD.0)), "handed over ahead");
}

#[test]
fn each_request_of_an_idle_phase_comes_after_silence() {
    let pause = Nanos::from_secs(7);
    let line =
        line(&[(Phase::Steady, Load::Closed { concurrency: 3 }, 3, 9), (Phase::Idle, Load::Idle { pause }, 0, 5)]);
    let mut transport = Scripted::new(UNEVEN);
    let (driven, ends) = run_line(&line.iter().collect::<Vec<_>>(), &mut transport);
    assert_eq!((driven.stop, ends.len(), transport.abandoned), (None, 14, 0));
    assert_eq!(transport.prepared, [3, 1, 1, 1, 1, 1], "a connection is at hand when a request is due");
    let idle = &transport.log[transport.log.len() - 5..];
    for (_, _, due, _) in idle {
        let before = transport.spans.iter().map(|(_, end)| *end).filter(|end| end <= due).max().unwrap();
        assert_eq!(*due, before + pause);
        assert!(transport.spans.iter().all(|(from, to)| from >= due || to < due), "silence");
    }
}

#[test]
fn at_a_connection_cap_requests_wait_keep_their_instants_and_are_counted() {
    // Ten a second that take one second each, and five connections.
    let capped = PlannedCell { max_connections: Some(5), ..cell("r10", Load::Constant { rate: 10.0 }, 2, 30) };
    let mut transport = Scripted::new(|_| (Nanos::from_secs(1), None));
    let (driven, ends) = run(&capped, &mut transport);
    assert_eq!((driven.stop, ends), (None, (0..30).collect::<Vec<_>>()));
    let start = Nanos::from_secs(1) + LOOK_AHEAD;
    let mut waits = Vec::new();
    for (place, (at, _, due, _)) in transport.log.iter().enumerate() {
        assert_eq!(*due, start + Nanos::from_millis(100 * to_u64(place)), "no instant is moved");
        if place >= 2 {
            waits.push(at.since(*due).0.div_euclid(1_000));
        }
    }
    // Every second the five connections take five requests: 500 ms more of a wait for each round.
    let waited = u32::try_from(waits.iter().filter(|wait| **wait > 0).count()).unwrap();
    let expected = ConnectionCap {
        most: 5,
        waited,
        total_wait_us: waits.iter().sum(),
        longest_wait_us: waits.iter().copied().max().unwrap(),
    };
    assert_eq!((waited, expected.longest_wait_us), (27, 3_000_000));
    assert_eq!(only(&driven.evidence).connections, Some(expected));

    // A cap that is never reached changes nothing.
    let roomy = PlannedCell { max_connections: Some(50), ..capped.clone() };
    let free = PlannedCell { max_connections: None, ..capped };
    let [mut one, mut other] = [(), ()].map(|()| Scripted::new(|_| (Nanos::from_secs(1), None)));
    let (driven, _) = run(&roomy, &mut one);
    assert_eq!(only(&driven.evidence).connections, Some(ConnectionCap::of(50)));
    assert_eq!(only(&run(&free, &mut other).0.evidence).connections, None);
    assert_eq!(one.log, other.log);
}

#[test]
fn every_process_is_sent_as_it_is_planned_whatever_the_target_does() {
    let burst = Burst::Requests(40);
    for load in [
        Load::Gamma { rate: 30.0, burstiness: 0.2 },
        Load::Ramp { from: 5.0, to: 80.0, over: Nanos::from_secs(5) },
        Load::Bursts { rate: 10.0, every: Nanos::from_secs(2), burst },
        Load::OnOff { rate: 50.0, on: Nanos::from_secs(1), off: Nanos::from_secs(3) },
    ] {
        let cell = Cell {
            name: "open".to_owned(),
            phase: Phase::Steady,
            load,
            requests: 300,
            warmup: 20,
            trace: None,
            session: None,
            classes: vec![Class::only(Lengths::Fixed(16), Lengths::Fixed(8))],
            max_connections: None,
            timeout: Nanos::from_secs(60),
            stall_timeout: Nanos::from_secs(30),
        };
        let workload = Workload {
            name: "w".to_owned(),
            description: String::new(),
            prompts: Prompts::Text,
            caches: None,
            seed: 3,
            cells: vec![cell],
        };
        let plan = build(&workload);
        let planned = &plan.cells[0];
        let mut transport =
            Scripted::new(|request| (Nanos::from_millis(500 + 9_000 * u64::from(request.id % 7 == 0)), None));
        let (driven, ends) = run(planned, &mut transport);
        assert_eq!((driven.stop, ends.len()), (None, 300));
        let start = Nanos::from_secs(1) + LOOK_AHEAD;
        let due: Vec<_> = transport.log.iter().map(|(_, _, due, _)| due.since(start)).collect();
        let expected: Vec<_> = planned.warmup.iter().chain(&planned.requests).map(|r| r.due.unwrap()).collect();
        assert_eq!(due, expected, "{load:?}");
        assert!(transport.log.iter().all(|(at, _, due, _)| at <= due), "none is handed over late");
    }
}

proptest::proptest! {
    #[test]
    fn a_closed_loop_never_has_more_in_flight_than_its_slots(slots in 1_u32..20, warmup in 0_u32..40, requests in 0_u32..60) {
        let cell = cell("c", Load::Closed { concurrency: slots }, warmup, requests);
        let mut transport = Scripted::new(|request| (Nanos::from_micros(1 + request.id * 7_919 % 50_000), None));
        let (driven, ends) = run(&cell, &mut transport);
        proptest::prop_assert_eq!(driven.stop, None);
        proptest::prop_assert_eq!(ends.len(), to_usize(requests));
        let mut steps: Vec<_> = transport.spans.iter().flat_map(|(due, end)| [(*end, -1), (*due, 1)]).collect();
        steps.sort_unstable();
        let mut in_flight = 0;
        for (_, step) in steps {
            in_flight += step;
            proptest::prop_assert!(in_flight <= i64::from(slots));
        }
    }
}

/// Tells of two ends in the wrong order, as a transport does whose connections are read in turn.
struct Swapped {
    inner: Scripted,
    held: Option<Box<Exchange>>,
}

impl Transport for Swapped {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn prepare(&mut self, in_flight: usize) {
        self.inner.prepare(in_flight);
    }

    fn submit(&mut self, request: Outbound) {
        self.inner.submit(request);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        if let Some(held) = self.held.take() {
            return Wake::Ended(held);
        }
        match self.inner.wait(until) {
            Wake::Ended(first) => match self.inner.wait(Some(first.end + Nanos::from_millis(60))) {
                Wake::Ended(second) => {
                    self.held = Some(first);
                    Wake::Ended(second)
                }
                Wake::Reached | Wake::Interrupted => Wake::Ended(first),
            },
            other @ (Wake::Reached | Wake::Interrupted) => other,
        }
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }
}

#[test]
fn the_window_begins_with_the_earliest_due_instant_in_whatever_order_ends_are_told() {
    for warmup in 1..8 {
        let cell = cell("c4", Load::Closed { concurrency: 4 }, warmup, 20);
        let mut transport = Swapped { inner: Scripted::new(UNEVEN), held: None };
        let mut dues = Vec::new();
        let driven = drive(&[&cell], &compose, &mut transport, &mut |step| {
            if let Step::Ended(_, _, exchange) = step {
                dues.push(exchange.due.0.div_euclid(1_000));
            }
            ControlFlow::Continue(())
        });
        assert_eq!(Some(only(&driven.evidence).window_start_us), dues.into_iter().min(), "{warmup}");
    }
}

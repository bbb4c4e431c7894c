//! One pass over all cells of a plan. Requests are driven on the caller's thread; a second thread turns
//! what came back into records, so that decoding never delays a request while its queue has room.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Instant;

use crate::artifact::record::Record;
use crate::artifact::run::{CellEvidence, ClientEvidence};
use crate::base::units::Nanos;
use crate::loadgen::answers::Answers;
use crate::loadgen::budget::{Budget, Share};
use crate::loadgen::codec::Codec;
use crate::loadgen::drive::{Driven, Step, Stop, drive};
use crate::loadgen::event::Event;
use crate::loadgen::host::Look;
use crate::loadgen::window::Window;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::plan::talk::Talk;
use crate::wire::transport::{Exchange, SelfReport, StampSource, Transport};

/// Exchanges that wait to be decoded; beyond it the load generator waits and says so.
const QUEUE: usize = 64;
/// Bytes of them beyond the first: one alone may be as large as a transport lets it be.
const QUEUED_BYTES: usize = 64 << 20;

/// Takes the records.
pub type Sink<'a, E> = dyn FnMut(Record) -> Result<(), E> + Send + 'a;

/// Takes the records with the text of each answer (its first [`KEPT`](crate::wire::decoded::KEPT) bytes).
pub type TextSink<'a, E> = dyn FnMut(Record, String) -> Result<(), E> + Send + 'a;

/// How a pass went.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The cells and phases that were started, in the order of the visit.
    pub cells: Vec<CellEvidence>,
    /// Why it ended early, if it did: the last of `cells` is then incomplete.
    pub stop: Option<Stop>,
}

/// Visits `cells` in this order; the phases of a cell, which follow each other, are one time line. Each measured request
/// that ended becomes a record and goes to `sink`, in the order of the ends; also when the pass ends early, for whatever
/// reason but a failing sink.
///
/// # Errors
/// The sink's error. The pass stops at once; what the sink took before is the sink's to keep.
pub fn pass<E: Send>(
    cells: &[&PlannedCell],
    codec: &Codec,
    transport: &mut dyn Transport,
    sink: &mut Sink<'_, E>,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Passed, E> {
    pass_with_texts(cells, codec, transport, &mut |record, _text| sink(record), events)
}

/// As [`pass`], for a sink that wants to know what the answers say.
///
/// # Errors
/// The sink's error, as with [`pass`].
pub fn pass_with_texts<E: Send>(
    cells: &[&PlannedCell],
    codec: &Codec,
    transport: &mut dyn Transport,
    sink: &mut TextSink<'_, E>,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Passed, E> {
    let budget = Budget::new(QUEUED_BYTES);
    thread::scope(|scope| {
        let (sender, arrivals) = sync_channel(QUEUE);
        let queue = Queue { sender, budget: &budget };
        let decoder = scope.spawn(move || write_records(&arrivals, codec, sink));
        let mut passed = Passed { cells: Vec::new(), stop: None };
        let mut left_tokens = 0;
        for line in cells.chunk_by(|one, next| one.is_with(next)) {
            let mut window = Window::new(transport, line, left_tokens);
            let mut visited = visit(line, codec, &mut window, &queue, events);
            let seen = window.finish();
            left_tokens = seen.left_tokens;
            for (evidence, server) in visited.driven.evidence.iter_mut().zip(seen.servers) {
                let unread = |cause: &String| events(Event::CountersUnread { cell: &evidence.name, cause });
                evidence.server = server.inspect_err(unread).ok();
            }
            for evidence in &visited.driven.evidence {
                let blocked = visited.blocked.get(&evidence.name).copied().unwrap_or_default();
                events(Event::CellEnded { evidence, blocked });
            }
            let driven = visited.driven;
            passed.cells.extend(driven.evidence);
            passed.stop = driven.stop;
            if passed.stop.is_some() {
                break;
            }
        }
        drop(queue);
        match decoder.join() {
            Ok(written) => written.map(|()| passed),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// A measured request that has ended, on its way to the decoder.
struct Arrival<'p> {
    cell: &'p PlannedCell,
    request: &'p PlannedRequest,
    exchange: Box<Exchange>,
    /// What it takes of the queue's bytes until it is decoded.
    _share: Share<'p>,
}

fn write_records<E>(arrivals: &Receiver<Arrival<'_>>, codec: &Codec, sink: &mut TextSink<'_, E>) -> Result<(), E> {
    arrivals.iter().try_for_each(|Arrival { cell, request, exchange, .. }| {
        let (record, text) = codec.record(cell, request, &exchange);
        sink(record, text)
    })
}

/// The way to the decoder, bounded in exchanges and in bytes.
struct Queue<'p> {
    sender: SyncSender<Arrival<'p>>,
    budget: &'p Budget,
}

impl<'p> Queue<'p> {
    /// Hands over, and adds the time it had to wait; breaks when the decoder has stopped.
    fn send(
        &self,
        cell: &'p PlannedCell,
        request: &'p PlannedRequest,
        exchange: Box<Exchange>,
        blocked: &mut Nanos,
    ) -> ControlFlow<()> {
        let bytes = exchange.body.capacity().saturating_add(size_of_val(exchange.reads.as_slice()));
        let start = Instant::now();
        let (share, at_once) = match self.budget.try_take(bytes) {
            Some(share) => (share, true),
            None => (self.budget.take(bytes), false),
        };
        let arrival = Arrival { cell, request, exchange, _share: share };
        let (sent, at_once) = match self.sender.try_send(arrival) {
            Ok(()) => (true, at_once),
            Err(TrySendError::Disconnected(_)) => (false, at_once),
            Err(TrySendError::Full(arrival)) => (self.sender.send(arrival).is_ok(), false),
        };
        if !at_once {
            *blocked = *blocked + Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// What was seen of a phase.
#[derive(Default)]
struct Seen {
    ended: u32,
    failed: u32,
    resent: u32,
    blocked: Nanos,
}

/// Drives one cell, all its phases.
fn visit<'p>(
    line: &[&'p PlannedCell],
    codec: &Codec,
    transport: &mut dyn Transport,
    queue: &Queue<'p>,
    events: &mut dyn FnMut(Event<'_>),
) -> Visited {
    let planned = |phase: &PlannedCell| u32::try_from(phase.requests.len()).unwrap_or(u32::MAX);
    let mut phases: BTreeMap<&str, Seen> = BTreeMap::new();
    // What was noted before, between two cells, is not this cell's.
    transport.report();
    let before = Look::now();
    let answers = RefCell::new(Answers::default());
    let compose = |phase: &PlannedCell, request: &PlannedRequest| {
        codec.message(phase, request, |turn| answers.borrow().at(request, turn))
    };
    let note = |request: &PlannedRequest, exchange: &Exchange| {
        answers.borrow_mut().note(request, codec.answer(exchange));
    };
    let mut driven = drive(line, &compose, transport, &mut |step| match step {
        Step::Answered(phase, place, exchange) => {
            if let Some(request) = phase.at(place) {
                note(&request, &exchange);
            }
            ControlFlow::Continue(())
        }
        Step::Started(phase) => {
            events(Event::CellStarted { cell: &phase.name, planned: planned(phase) });
            ControlFlow::Continue(())
        }
        Step::Ended(phase, request, exchange) => {
            if phase.talk.is_some_and(Talk::goes_on_from_answers) {
                note(request, &exchange);
            }
            let seen = phases.entry(&phase.name).or_default();
            seen.ended += 1;
            seen.failed += u32::from(!is_answered(&exchange));
            seen.resent += u32::from(exchange.resent);
            let Seen { ended, failed, .. } = *seen;
            events(Event::Progress { cell: &phase.name, ended, planned: planned(phase), failed });
            queue.send(phase, request, exchange, &mut seen.blocked)
        }
    });
    let client = client(transport.report(), before);
    for evidence in &mut driven.evidence {
        evidence.client = Some(client.clone());
        evidence.resent = phases.get(evidence.name.as_str()).map_or(0, |seen| seen.resent);
    }
    let blocked = phases.into_iter().map(|(name, seen)| (name.to_owned(), seen.blocked)).collect();
    Visited { driven, blocked }
}

/// What the load generator tells about itself. Virtual time has no host.
fn client(report: SelfReport, before: Option<Look>) -> ClientEvidence {
    let micros = |time: Nanos| time.to_stored_resolution().0.div_euclid(1_000);
    let host = || Look::now()?.since(before?);
    ClientEvidence {
        stamps: report.stamps,
        unaided_reads: report.unaided,
        read_lag_p99_us: report.read_lag_p99.map(micros),
        clock_steps: report.clock_steps,
        resolve_us: report.resolved_in.map(micros),
        host: if report.stamps == StampSource::Virtual { None } else { host() },
    }
}

/// How a cell went, and how long the load generator stood waiting in each of its phases.
struct Visited {
    driven: Driven,
    blocked: BTreeMap<String, Nanos>,
}

fn is_answered(exchange: &Exchange) -> bool {
    exchange.failure.is_none() && exchange.status.is_some_and(|status| (200..300).contains(&status))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::base::names::Api;
    use crate::loadgen::scripted::{Scripted, cell};
    use crate::spec::workload::Load;
    use crate::wire::dialect::{self, Template};
    use crate::wire::transport::Failure;

    fn codec() -> Codec {
        let dialect = dialect::of(Api::Completions);
        let template = Template::new(&dialect, "m", &serde_json::Map::new());
        Codec { dialect, template, run: "r".to_owned(), api_key: None, tokenizer: None }
    }

    fn cells() -> [PlannedCell; 2] {
        [cell("c4", Load::Closed { concurrency: 4 }, 4, 100), cell("r10", Load::Constant { rate: 10.0 }, 2, 20)]
    }

    #[test]
    fn every_measured_request_becomes_a_record_in_the_order_of_the_ends() {
        let [c4, r10] = &cells();
        let mut transport = Scripted::new(|request| (Nanos::from_millis(50 + request.id % 7), None));
        let (mut records, mut lines) = (Vec::new(), Vec::new());
        let passed = pass(
            &[r10, c4],
            &codec(),
            &mut transport,
            &mut |record| {
                records.push(record);
                Ok::<_, String>(())
            },
            &mut |event| match event {
                Event::CellStarted { cell, planned } => lines.push(format!("start {cell} {planned}")),
                Event::Progress { ended, planned, failed, .. } if ended == planned => {
                    lines.push(format!("ended {ended} failed {failed}"));
                }
                Event::Progress { .. } | Event::CountersUnread { .. } => {}
                Event::CellEnded { evidence, .. } => lines.push(format!("end {}", evidence.name)),
            },
        )
        .unwrap();
        assert_eq!(passed.stop, None);
        let names: Vec<_> = passed.cells.iter().map(|evidence| evidence.name.as_str()).collect();
        assert_eq!(names, ["r10", "c4"]);
        assert_eq!(
            lines,
            ["start r10 20", "ended 20 failed 0", "end r10", "start c4 100", "ended 100 failed 0", "end c4"]
        );
        assert!(records[..20].iter().all(|record| record.cell == "r10"));
        assert_eq!(records.len(), 120);
        assert!(records.is_sorted_by_key(|record| record.end));
    }

    #[test]
    fn a_failing_sink_stops_the_pass_and_keeps_what_it_took() {
        let [c4, _] = &cells();
        let written = Mutex::new(0);
        let mut transport = Scripted::new(|_| (Nanos::from_millis(50), None));
        let error = pass(
            &[c4, c4, c4, c4],
            &codec(),
            &mut transport,
            &mut |_record| {
                let mut written = written.lock().unwrap();
                if *written == 7 {
                    return Err("disk full");
                }
                *written += 1;
                Ok(())
            },
            &mut |_event| {},
        );
        assert_eq!((error, *written.lock().unwrap()), (Err("disk full"), 7));
        assert!(transport.log.len() < 400, "it stopped");
    }

    #[test]
    fn second_sends_are_counted_for_each_phase() {
        let [c4, r10] = &cells();
        let mut transport = Scripted::new(|_| (Nanos::from_millis(50), None));
        transport.resends = |id| id % 2 == 0;
        let mut sink = |_record| Ok::<_, String>(());
        let passed = pass(&[r10, c4], &codec(), &mut transport, &mut sink, &mut |_| {}).unwrap();
        let counts: Vec<_> = passed.cells.iter().map(|evidence| evidence.resent).collect();
        assert_eq!(counts, [10, 50], "of 20 and of 100 measured ones");
    }

    #[test]
    fn a_target_that_is_down_ends_the_pass_with_its_records() {
        let [c4, r10] = &cells();
        let mut transport = Scripted::new(|_| (Nanos::from_millis(1), Some(Failure::Connect("refused".to_owned()))));
        let mut records = 0;
        let passed = pass(
            &[c4, r10],
            &codec(),
            &mut transport,
            &mut |_record| {
                records += 1;
                Ok::<_, String>(())
            },
            &mut |_event| {},
        )
        .unwrap();
        assert!(matches!(passed.stop, Some(Stop::Down { requests: 20, .. })));
        assert_eq!((passed.cells.len(), records), (1, 18));
    }
}

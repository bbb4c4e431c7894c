//! How much of the load that was offered was really on the server, from the records of a run. A slot of a closed loop is
//! occupied from the end of the request before it to its own, but the server works only between the sending and the
//! last content. What a response takes to end, and what the client takes to send, is load that is missing.

use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::artifact::validity::{SEND_LAG_CEILING_MS, share};
use crate::base::units::Nanos;
use crate::plan::request::PlannedCell;
use crate::spec::workload::Load;

/// Below this share of the offered load a run says so, and sides whose shares are further apart are under different loads.
pub const LEAST_LOAD: f64 = 0.9;
/// So much of a request's time may always be missing, in seconds: as late as every request may be sent.
pub const LOAD_FLOOR: f64 = 1e-3;

/// Where the time of the slots went, in seconds, added up over the successes. A failed request has no last content,
/// and the error rate is about it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slots {
    /// From the sending to the last content.
    pub served: f64,
    /// From the last content to the end of the response.
    pub held: f64,
    /// Opening connections.
    pub connecting: f64,
    /// From the due instant to the sending, without connecting.
    pub late: f64,
    /// Requests that these are the sums of.
    pub requests: f64,
}

impl Slots {
    /// Of the measured requests of a cell. None where no number of requests is kept in flight: open loops without a
    /// connection cap that was reached, and one request at a time after silence.
    pub fn of(run: &Run, cell: &PlannedCell) -> Option<Self> {
        let is_closed = matches!(cell.load, Load::Closed { .. });
        let is_capped = cell.load.is_open() && waited(run, cell) > 0;
        if !is_closed && !is_capped {
            return None;
        }
        let successes = records(run, cell).filter(|record| record.is_success());
        let slots = successes.fold(Self::default(), |sum, record| sum.plus(Self::one(record, is_closed)));
        (slots.total() > 0.0).then_some(slots)
    }

    /// What waits for a connection of an open loop occupies none.
    fn one(record: &Record, is_closed: bool) -> Self {
        let last = record.last_content().unwrap_or(record.sent);
        let before = if is_closed { record.sent.since(record.due) } else { Nanos::ZERO };
        let connecting = record.connect.unwrap_or_default().min(before);
        Self {
            served: last.since(record.sent).as_secs(),
            held: record.end.since(last).as_secs(),
            connecting: connecting.as_secs(),
            late: before.since(connecting).as_secs(),
            requests: 1.0,
        }
    }

    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            served: self.served + other.served,
            held: self.held + other.held,
            connecting: self.connecting + other.connecting,
            late: self.late + other.late,
            requests: self.requests + other.requests,
        }
    }

    /// All the time.
    pub fn total(&self) -> f64 {
        self.served + self.held + self.connecting + self.late
    }

    /// The share of the time in which the server had the request: times the number of slots it is the mean number of
    /// requests that were being served (Little 1961).
    pub fn share(&self) -> f64 {
        self.served / self.total()
    }

    /// What is missing of a request's time on average, in seconds.
    pub fn missing(&self) -> f64 {
        (self.total() - self.served) / self.requests.max(1.0)
    }

    /// Whether so much of the load is missing that it is to be named.
    pub fn is_low(&self) -> bool {
        self.share() < LEAST_LOAD && self.missing() > LOAD_FLOOR
    }
}

/// Measured requests of an open loop that were sent before its schedule had ended (or as late after it as every request
/// may be), and all that have a record. None for other loads.
pub fn sent_in_schedule(run: &Run, cell: &PlannedCell) -> Option<(usize, usize)> {
    if !cell.load.is_open() {
        return None;
    }
    let schedule_end = records(run, cell).map(|record| record.due).max()? + Nanos::from_ms(SEND_LAG_CEILING_MS);
    let in_time = records(run, cell).filter(|record| record.sent <= schedule_end).count();
    Some((in_time, records(run, cell).count()))
}

/// Measured requests that waited for a connection of the cap.
pub fn waited(run: &Run, cell: &PlannedCell) -> u32 {
    let evidence = run.manifest.cells.iter().find(|evidence| evidence.name == cell.name);
    evidence.and_then(|evidence| evidence.connections).map_or(0, |connections| connections.waited)
}

/// The most measured requests of a cell that were in flight in one instant.
pub fn most_in_flight(run: &Run, cell: &str) -> usize {
    let records = run.records.iter().filter(|record| record.cell == cell);
    // In one instant an end comes before a beginning: a slot is used again.
    let mut changes: Vec<(Nanos, bool)> = records.flat_map(|one| [(one.sent, true), (one.end, false)]).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, begins) in changes {
        now = if begins { now.saturating_add(1) } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// Whether a share of the offered load is one that is to be named.
pub fn is_low(part: usize, whole: usize) -> bool {
    share(part, whole) < LEAST_LOAD
}

fn records<'r>(run: &'r Run, cell: &PlannedCell) -> impl Iterator<Item = &'r Record> {
    run.records.iter().filter(move |record| record.cell == cell.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::manifest::tests::manifest_of;
    use crate::artifact::codec::samples::{refused, streamed};
    use crate::artifact::run::ConnectionCap;
    use crate::spec::workload::Phase;

    fn cell(load: Load) -> PlannedCell {
        PlannedCell {
            phase: Phase::Steady,
            talk: None,
            max_connections: None,
            name: "c8".to_owned(),
            load,
            requests: vec![],
            warmup: vec![],
            timeout: Nanos::from_secs(30),
            stall_timeout: Nanos::from_secs(10),
        }
    }

    /// Requests of 80 ms one after the other, changed each.
    fn run(change: impl Fn(Record) -> Record) -> Run {
        let records: Vec<Record> = (0..20).map(|n| change(streamed(n, u64::from(n) * 100, 40, 10, 5))).collect();
        Run { manifest: manifest_of(&records), records }
    }

    const CLOSED: Load = Load::Closed { concurrency: 8 };

    #[test]
    fn a_slot_that_waits_for_the_end_of_a_response_or_for_the_client_is_not_serving() {
        let share = |run: &Run| Slots::of(run, &cell(CLOSED)).unwrap().share();
        assert!((share(&run(|one| one)) - 1.0).abs() < 0.02, "{}", share(&run(|one| one)));
        let held = run(|one| Record { end: one.end + Nanos::from_millis(320), ..one });
        let slots = Slots::of(&held, &cell(CLOSED)).unwrap();
        assert!((slots.share() - 0.2).abs() < 0.01 && slots.held > 0.79 * slots.total(), "{slots:?}");
        let later = |one: &Record| one.sent + Nanos::from_millis(20);
        let late = run(|one| Record { sent: later(&one), ..one });
        let slots = Slots::of(&late, &cell(CLOSED)).unwrap();
        assert!((slots.share() - 0.75).abs() < 0.01 && slots.connecting.abs() < 1e-9, "{slots:?}");
        assert!(slots.is_low() && !Slots::of(&run(|one| one), &cell(CLOSED)).unwrap().is_low());
        // A tenth of a millisecond is no load, however short the answers are.
        let short = Slots { served: 0.01, held: 0.002, requests: 20.0, ..Slots::default() };
        assert!(short.share() < LEAST_LOAD && !short.is_low());
        let connecting = run(|one| Record { sent: later(&one), connect: Some(Nanos::from_millis(19)), ..one });
        let slots = Slots::of(&connecting, &cell(CLOSED)).unwrap();
        assert!((slots.connecting - 0.38).abs() < 1e-9 && slots.late < 0.021, "{slots:?}");
    }

    #[test]
    fn failures_say_nothing_and_open_loops_only_where_their_cap_was_reached() {
        let failed = run(|one| refused(one.request, 1));
        assert_eq!(Slots::of(&failed, &cell(CLOSED)), None);
        let open = cell(Load::Constant { rate: 10.0 });
        let mut held = run(|one| Record { end: one.end + Nanos::from_millis(80), ..one });
        assert_eq!(Slots::of(&held, &open), None);
        assert_eq!(Slots::of(&held, &cell(Load::Idle { pause: Nanos::from_secs(1) })), None);
        held.manifest.cells[0].connections = Some(ConnectionCap { waited: 1, ..ConnectionCap::of(4) });
        assert!((Slots::of(&held, &open).unwrap().share() - 0.5).abs() < 0.01);
    }

    #[test]
    fn an_open_loop_is_whole_when_its_requests_are_sent_before_the_schedule_ends() {
        let open = cell(Load::Constant { rate: 10.0 });
        assert_eq!(sent_in_schedule(&run(|one| one), &open), Some((20, 20)));
        assert_eq!(sent_in_schedule(&run(|one| one), &cell(CLOSED)), None);
        // Twice as long as planned: half of them after the last due instant.
        let slow = run(|one| Record { sent: one.due + one.due, end: one.due + one.end, chunks: vec![], ..one });
        assert_eq!(sent_in_schedule(&slow, &open), Some((10, 20)));
        assert!(is_low(17, 20) && !is_low(18, 20));
    }

    #[test]
    fn requests_in_flight_are_counted_in_the_worst_instant() {
        assert_eq!(most_in_flight(&run(|one| one), "c8"), 1);
        assert_eq!(most_in_flight(&run(|one| Record { end: one.due + Nanos::from_millis(100), ..one }), "c8"), 1);
        assert_eq!(most_in_flight(&run(|one| Record { end: one.due + Nanos::from_millis(301), ..one }), "c8"), 4);
        assert_eq!(most_in_flight(&run(|one| one), "c9"), 0);
    }
}

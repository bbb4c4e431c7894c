//! How many connections the requests of a phase need, and when.

use std::collections::BTreeMap;

use crate::base::units::Nanos;
use crate::loadgen::drive::state::to_usize;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::workload::Load;

/// Open loop: connections are opened for the arrivals within a guessed time in system (Little's law) ...
pub(super) const GUESSED_TIME_IN_SYSTEM: Nanos = Nanos::from_secs(4);
/// ... and at most this many.
pub(super) const MOST_CONNECTIONS: usize = 256;

/// Connections that a phase is sure to need at once: those of a closed loop, and those that an open one may open, where
/// it says so. What an open loop without a cap needs, nobody knows before.
pub fn needed_connections(phase: &PlannedCell) -> usize {
    let planned = phase.warmup.len().saturating_add(phase.requests.len());
    let capped = phase.max_connections.filter(|_| phase.load.is_open()).map(|cap| to_usize(cap).min(planned));
    capped.unwrap_or_default().max(connections(phase))
}

/// Connections a phase should find open.
pub(super) fn connections(phase: &PlannedCell) -> usize {
    match phase.load {
        Load::Closed { concurrency } => to_usize(concurrency).saturating_mul(branches(phase)),
        Load::Idle { .. } => 1,
        Load::Poisson { .. }
        | Load::Constant { .. }
        | Load::Gamma { .. }
        | Load::Ramp { .. }
        | Load::Bursts { .. }
        | Load::OnOff { .. }
        | Load::Trace => {
            let arrivals = phase.warmup.iter().chain(&phase.requests).filter_map(|request| request.due);
            let arrivals = arrivals.filter(|due| *due <= GUESSED_TIME_IN_SYSTEM).count();
            let cap = phase.max_connections.map_or(MOST_CONNECTIONS, to_usize);
            arrivals.clamp(1, cap.min(MOST_CONNECTIONS))
        }
    }
}

/// The most requests that a session has in flight at once: those of its branches.
fn branches(phase: &PlannedCell) -> usize {
    let turns = phase.requests.iter().filter_map(|request| request.turn);
    let mut at_once: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    turns.for_each(|turn| *at_once.entry((turn.session, turn.turn)).or_default() += 1);
    at_once.into_values().max().unwrap_or(1)
}

/// For the requests of an open loop that are to be sent: how many connections without a request they need, and the last due
/// instant among them, from the start of the phase; none when they need none. `handed_over` counts those that the
/// transport has, sent or not; `since` is the time since the start, none before it; `time` is how long a request takes.
///
/// As many as are in flight at once when the last of them is due (Little's law), less those in flight now, which have
/// theirs; at most one for each that is to be sent.
pub(super) fn idle_needed(
    phase: &PlannedCell,
    handed_over: usize,
    since: Option<Nanos>,
    in_flight: usize,
    time: Nanos,
) -> Option<(usize, Nanos)> {
    let due_by = |at: Nanos| {
        let count = |requests: &[PlannedRequest]| requests.partition_point(|it| it.due.unwrap_or_default() <= at);
        count(&phase.warmup).saturating_add(count(&phase.requests))
    };
    let last_due = phase.warmup.iter().chain(&phase.requests).nth(handed_over.checked_sub(1)?)?.due?;
    let to_send = handed_over.saturating_sub(since.map_or(0, due_by));
    let active = in_flight.saturating_sub(to_send);
    let ended = last_due.0.checked_sub(time.0).map_or(0, |before| due_by(Nanos(before)));
    let idle = handed_over.saturating_sub(ended).saturating_sub(active).min(to_send).min(MOST_CONNECTIONS);
    (idle > 0).then_some((idle, last_due))
}

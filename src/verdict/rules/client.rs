//! The load generator kept its own schedule, on a host that let it.

use crate::artifact::load::most_in_flight;
use crate::artifact::run::{ClientEvidence, HostEvidence, Run};
use crate::artifact::validity::CellValidity;
use crate::base::names::Side;
use crate::base::units::Nanos;
use crate::base::words::apart;
use crate::compare::evidence::name;
use crate::plan::request::PlannedCell;
use crate::verdict::rules::{Fault, Seen, by_cell};
use crate::wire::transport::StampSource;

/// The largest share of the host's processor time that its hypervisor may take for others.
const MOST_STEAL: f64 = 0.1;
/// Beyond this share of its processor time a host has none to spare.
const MOST_BUSY: f64 = 0.95;
/// Beyond this time from the arrival of bytes to their reading two events of a usual stream come in one read, in ms.
const MOST_READ_LAG_MS: f64 = 20.0;
/// One read in so many may lack the kernel's stamp.
const UNAIDED_IN: u64 = 100;

pub(super) fn saturated(_: &Run, validity: &CellValidity) -> Option<Fault> {
    let [late, allowed] = apart([validity.send_lag_p99_ms.unwrap_or(f64::NAN), validity.send_lag_limit_ms], 1);
    (!validity.kept_schedule()).then(|| Fault {
        code: "client-saturated",
        seen: format!("sent requests {late} ms late (p99) where {allowed} ms are allowed"),
        fix: "give the load generator more CPU or less load",
    })
}

/// The hypervisor left the host its processors.
pub(super) fn stolen(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let steal = client(run, validity)?.host?.steal;
    let [lost, allowed] = apart([100.0 * steal, 100.0 * MOST_STEAL], 0);
    (steal > MOST_STEAL).then(|| Fault {
        code: "host-stolen",
        seen: format!("ran on a host that lost {lost} % of its processor time to others where {allowed} % are allowed"),
        fix: "measure from a host of its own, or at a quieter time",
    })
}

/// A busy host delays the program's own stamps. Those of the kernel it cannot delay: there it is a note.
pub(super) fn host_saturated(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let client = client(run, validity)?;
    let HostEvidence { busy, .. } = client.host.filter(|host| host.busy > MOST_BUSY)?;
    let [busy, allowed] = apart([100.0 * busy, 100.0 * MOST_BUSY], 0);
    (client.stamps != StampSource::Kernel).then(|| Fault {
        code: "host-saturated",
        seen: format!(
            "ran on a host that was busy for {busy} % of its processor time where {allowed} % are allowed without stamps of \
             the kernel"
        ),
        fix: "keep other work away from the host, or give it more processors",
    })
}

/// Reads keep up with what arrives.
pub(super) fn reads_late(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let lag = read_lag_ms(client(run, validity)?)?;
    let [late, allowed] = apart([lag, MOST_READ_LAG_MS], 1);
    (lag > MOST_READ_LAG_MS).then(|| Fault {
        code: "client-saturated",
        seen: format!(
            "read what had arrived {late} ms late (p99) where {allowed} ms are allowed: events share instants"
        ),
        fix: "give the load generator more CPU or less load",
    })
}

/// No more requests were in flight than the host was exact with, where that is known.
pub(super) fn untrusted(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let trusted = run.manifest.trusted_streams?;
    let most = most_in_flight(run, &validity.cell);
    (most > usize::try_from(trusted).unwrap_or(usize::MAX)).then(|| Fault {
        code: "load-untrusted",
        seen: format!("had {most} requests in flight at once, and its host is exact with {trusted} by `servegate selfcheck`"),
        fix: "lower the load or `max_connections`, or measure from a host with more processors to spare; where more was \
              never tried, `servegate selfcheck --streams N` tries it",
    })
}

fn read_lag_ms(client: &ClientEvidence) -> Option<f64> {
    client.read_lag_p99_us.map(|us| Nanos::from_micros(us).as_ms())
}

/// What the host tells that does not keep a run from counting: one sentence a kind, side and cell, about the run that
/// shows it most.
pub(super) fn notes(seen: &[Seen<'_>]) -> Vec<String> {
    let mut notes = vec![];
    for (cell, seen) in by_cell(seen) {
        for side in Side::ALL {
            let counting = seen.iter().filter(|seen| seen.side == *side && seen.fault.is_none());
            let counting: Vec<&Seen<'_>> = counting.collect();
            notes.extend(busy(cell, &counting));
            notes.extend(late_reads(cell, &counting));
        }
    }
    notes
}

/// The run in which `of` is largest, with that value.
fn most<'s, 'a>(
    seen: &[&'s Seen<'a>],
    of: impl Fn(&ClientEvidence, &CellValidity) -> Option<f64>,
) -> Option<(&'s Seen<'a>, f64)> {
    let value = |seen: &Seen<'_>| {
        let validity = seen.validity.as_ref()?;
        of(client(seen.run, validity)?, validity)
    };
    let values = seen.iter().filter_map(|seen| Some((*seen, value(seen)?)));
    values.max_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn busy(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let (worst, busy) = most(seen, |client, _| client.host.map(|host| host.busy))?;
    (busy > MOST_BUSY).then(|| {
        format!(
            "host-busy: the load generator's host was busy for {:.0} % of its processor time in {} at {}: the kernel's \
             stamps and the sending held, but whatever else runs there, a server too, was slowed",
            100.0 * busy,
            name(worst.side, worst.run),
            cell.name
        )
    })
}

/// The line is that of the send lag: what is read late is followed late in a closed loop.
fn late_reads(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let late = |client: &ClientEvidence, validity: &CellValidity| {
        read_lag_ms(client).filter(|lag| *lag > validity.send_lag_limit_ms)
    };
    let (worst, lag) = most(seen, late)?;
    Some(format!(
        "reads-late: what had arrived was read {lag:.1} ms late (p99) in {} at {}: its instants are the kernel's, but events \
         that arrive within that time share one; give the load generator more CPU",
        name(worst.side, worst.run),
        cell.name
    ))
}

/// Instants are of one kind: where the kernel stamps, nearly every read has its stamp.
pub(super) fn unstamped(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let ClientEvidence { stamps, unaided_reads, clock_steps, .. } = client(run, validity)?;
    let records = run.records.iter().filter(|record| record.cell == validity.cell);
    let reads: u64 = records.map(|record| u64::from(record.reads)).sum();
    let many = *stamps == StampSource::Kernel && unaided_reads.saturating_mul(UNAIDED_IN) > reads;
    many.then(|| Fault {
        code: "clock-fault",
        seen: format!(
            "has {unaided_reads} reads without a stamp of the kernel among {reads} (the wall clock was set {clock_steps} times)"
        ),
        fix: "keep the host's wall clock from being set while it measures",
    })
}

fn client<'a>(run: &'a Run, validity: &CellValidity) -> Option<&'a ClientEvidence> {
    run.manifest.cells.iter().find(|cell| cell.name == validity.cell)?.client.as_ref()
}

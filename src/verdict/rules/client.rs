//! The load generator kept its own schedule, on a host that let it.

use crate::artifact::run::{ClientEvidence, Run};
use crate::artifact::validity::CellValidity;
use crate::base::words::apart;
use crate::verdict::rules::Fault;
use crate::wire::transport::StampSource;

/// The largest share of the host's processor time that its hypervisor may take for others.
const MOST_STEAL: f64 = 0.1;
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

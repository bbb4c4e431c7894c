//! A run went through the whole plan.

use crate::artifact::run::Run;
use crate::plan::request::PlannedCell;
use crate::verdict::rules::Fault;

/// The share of the planned requests, in per cent, that must have been sent.
const ATTEMPTED_PERCENT: u64 = 98;

/// The run reached its end.
pub(super) fn interrupted(run: &Run, _: &PlannedCell) -> Option<Fault> {
    (!run.manifest.complete).then(|| Fault {
        code: "run-incomplete",
        seen: "was interrupted".to_owned(),
        fix: "measure it again to its end",
    })
}

/// Nearly all requests of the cell were sent, and each left its record.
pub(super) fn attempted(run: &Run, cell: &PlannedCell) -> Option<Fault> {
    let evidence = run.manifest.cells.iter().find(|evidence| evidence.name == cell.name);
    let (planned, attempted) = evidence.map_or((0, 0), |evidence| (evidence.planned, evidence.attempted));
    let records = run.records.iter().filter(|record| record.cell == cell.name).count();
    let recorded = u64::try_from(records).unwrap_or(u64::MAX).min(u64::from(attempted));
    let enough = planned > 0 && recorded * 100 >= u64::from(planned) * ATTEMPTED_PERCENT;
    (!enough).then(|| Fault {
        code: "run-incomplete",
        seen: format!("has {recorded} of {planned} planned requests"),
        fix: "measure it again to its end",
    })
}

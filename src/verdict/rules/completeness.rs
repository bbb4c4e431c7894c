//! A run went through the whole plan.

use crate::artifact::run::Run;
use crate::artifact::validity::CellValidity;
use crate::verdict::rules::Fault;

/// The run reached its end.
pub(super) fn interrupted(run: &Run, _: &CellValidity) -> Option<Fault> {
    (!run.manifest.complete).then(|| fault("was interrupted".to_owned()))
}

/// Nearly all requests of the cell were sent, and each left its record.
pub(super) fn attempted(_: &Run, validity: &CellValidity) -> Option<Fault> {
    let CellValidity { planned, attempted, .. } = validity;
    (!validity.is_whole()).then(|| fault(format!("has {attempted} of {planned} planned requests")))
}

/// The fault of a run that never came to the cell.
pub(super) fn absent() -> Fault {
    fault("never came to this cell".to_owned())
}

fn fault(seen: String) -> Fault {
    Fault { code: "run-incomplete", seen, fix: "measure it again to its end, or continue its session with `--resume`" }
}

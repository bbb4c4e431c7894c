//! The load generator kept its own schedule: a lag of its own would be counted as the deployment's latency.

use crate::artifact::run::Run;
use crate::artifact::validity::CellValidity;
use crate::verdict::rules::Fault;

pub(super) fn saturated(_: &Run, validity: &CellValidity) -> Option<Fault> {
    (!validity.kept_schedule()).then(|| Fault {
        code: "client-saturated",
        seen: format!(
            "sent requests {:.1} ms late (p99) where {:.1} ms are allowed",
            validity.send_lag_p99_ms.unwrap_or(f64::NAN),
            validity.send_lag_limit_ms
        ),
        fix: "give the load generator more CPU or less load",
    })
}

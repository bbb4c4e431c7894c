//! The load generator's own system gave every request what it needed.

use crate::artifact::record::Outcome;
use crate::artifact::run::Run;
use crate::artifact::validity::CellValidity;
use crate::verdict::rules::Fault;

/// Not one request was refused by the load generator's own host: what it refuses is no failure of the target, and the
/// load was not the planned one.
pub(super) fn refused(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let count = validity.outcomes.get(&Outcome::ClientFault)?;
    let mut records = run.records.iter().filter(|record| record.cell == validity.cell);
    let first = records.find(|record| record.outcome == Outcome::ClientFault)?;
    let detail = first.detail.as_deref().unwrap_or("no detail was kept");
    Some(Fault {
        code: "client-fault",
        seen: format!("could not send {count} of {} requests for lack of room here ({detail})", validity.attempted),
        fix: "raise the limit of open files (`ulimit -n`), widen net.ipv4.ip_local_port_range, or lower the load",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::manifest::tests::manifest_of;
    use crate::artifact::codec::samples::{refused as shed, streamed};
    use crate::base::units::Nanos;

    #[test]
    fn one_request_that_this_host_refused_keeps_the_run_from_counting() {
        let of = |outcome| {
            let mut records: Vec<_> = (0..99).map(|n| streamed(n, u64::from(n) * 10, 40, 10, 5)).collect();
            let mut failed = shed(99, 990);
            (failed.outcome, failed.detail) = (outcome, Some("Too many open files".to_owned()));
            records.push(failed);
            let run = Run { manifest: manifest_of(&records), records };
            refused(&run, &CellValidity::of(&run, "c8", Nanos::from_secs(10)).unwrap())
        };
        let fault = of(Outcome::ClientFault).unwrap();
        assert_eq!(fault.code, "client-fault");
        assert!(fault.seen.contains("1 of 100 requests") && fault.seen.contains("open files"), "{}", fault.seen);
        assert!(fault.fix.contains("ulimit -n"));
        assert_eq!(of(Outcome::Connection), None);
    }
}

//! A run that does not count takes its numbers with it, and may not take a broken deployment with it.

use crate::base::names::Side;
use crate::compare::evidence::name;
use crate::stats::error_rate::Count;
use crate::stats::fisher::more_failures;
use crate::verdict::judgement::Finding;
use crate::verdict::rules::{Screening, Seen, error};

/// The level at which failures in a run that does not count are more than those of the baseline.
const ALPHA: f64 = 0.05;

/// No run of the candidate that is left out met a restart of its server, or failed more often than the baseline does.
pub(super) fn hidden(screening: &Screening<'_>) -> Vec<Finding> {
    let in_cell = |seen: &[Seen<'_>]| {
        let reference = seen.iter().filter(|seen| seen.side != Side::Candidate && seen.fault.is_none()).map(failures);
        let reference = reference.fold(Count::NONE, Count::plus);
        let left_out = seen.iter().filter(|seen| seen.side == Side::Candidate && seen.fault.is_some());
        left_out.flat_map(|seen| [crashed(seen), failed(seen, reference)]).flatten().collect::<Vec<_>>()
    };
    screening.cells().flat_map(|(_, seen)| in_cell(seen)).collect()
}

fn failures(seen: &Seen<'_>) -> Count {
    seen.validity.as_ref().map_or(Count::NONE, |validity| validity.failures)
}

fn crashed(seen: &Seen<'_>) -> Option<Finding> {
    let restarted = seen.validity.as_ref()?.server?.restarted;
    restarted.then(|| {
        let (run, cell) = (name(seen.side, seen.run), &seen.cell.name);
        let message = format!(
            "the server of {run} started anew inside {cell}: a deployment that ends may not lose the run in which it did; see \
             in its log why, and measure again"
        );
        error("server-restarted", Some(cell), message)
    })
}

fn failed(seen: &Seen<'_>, reference: Count) -> Option<Finding> {
    let found = failures(seen);
    (more_failures(reference, found).get() <= ALPHA).then(|| {
        let (run, cell) = (name(seen.side, seen.run), &seen.cell.name);
        let why = seen.fault.as_ref().map(|fault| fault.seen.as_str()).unwrap_or_default();
        let message = format!(
            "{run} does not count at {cell} (it {why}), and {} of its {} requests failed, where {} of {} did in the baseline: \
             what failed may be why; see the failures, and measure again",
            found.failed, found.attempted, reference.failed, reference.attempted
        );
        error("failures-left-out", Some(cell), message)
    })
}

#[cfg(test)]
mod tests {
    use crate::artifact::record::Outcome;
    use crate::base::names::{Metric, Statistic};
    use crate::base::units::Nanos;
    use crate::compare::synthetic::policy::in_all_cells;
    use crate::compare::synthetic::{Shape, Sides};
    use crate::verdict::case::Case;
    use crate::verdict::judge::judge;
    use crate::verdict::judgement::Verdict;

    /// Verdict and codes when this happens to one of the candidate's five runs in `c1`: sent late, with so many failures.
    fn judged(late: u64, failures: u32) -> (Verdict, Vec<&'static str>) {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for record in sides.candidate[1].records.iter_mut().filter(|record| record.cell == "c1") {
            record.sent = record.due + Nanos::from_millis(late);
            if record.request < failures {
                (record.outcome, record.chunks) = (Outcome::Connection, Vec::new());
            }
        }
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
        (found.verdict, found.findings.iter().map(|finding| finding.code).collect())
    }

    #[test]
    fn a_run_that_is_left_out_does_not_take_its_failures_with_it() {
        assert_eq!(judged(20, 0), (Verdict::Pass, vec![]), "one late run of five is bad luck");
        assert_eq!(judged(20, 15), (Verdict::Error, vec!["failures-left-out"]));
        assert_eq!(judged(0, 15), (Verdict::Warn, vec!["more-failures"]), "what counts is for the error rate to judge");
    }
}

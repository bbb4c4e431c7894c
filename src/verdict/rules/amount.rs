//! There is something to judge, and enough of it counts.

use std::collections::BTreeSet;

use crate::base::names::Side;
use crate::compare::evidence::name;
use crate::spec::policy::Check;
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::{Screening, Seen, error};

/// The candidate was measured.
pub(super) fn candidate_data(screening: &Screening<'_>) -> Vec<Finding> {
    if !screening.case.evidence.candidate.is_empty() {
        return vec![];
    }
    let message = "there is no run of the candidate: see why the target could not be measured, and measure again";
    vec![error("no-candidate-data", None, message.to_owned())]
}

/// Every check's cell is a cell of the workload.
pub(super) fn cells_exist(screening: &Screening<'_>) -> Vec<Finding> {
    let (plan, policy) = (screening.case.evidence.plan, screening.case.policy);
    let known: BTreeSet<&str> = plan.cells.iter().map(|cell| cell.name.as_str()).collect();
    let asked: BTreeSet<&str> = policy.checks.iter().flat_map(Check::cells).collect();
    let message = |cell: &str| {
        format!("the workload `{}` has no cell `{cell}`: name one of its cells in the check", plan.workload)
    };
    asked.difference(&known).map(|cell| error("cell-unknown", Some(cell), message(cell))).collect()
}

/// At most a third of a side's runs may be left out, of controls beside a stored baseline half. More is no longer bad
/// luck with some runs.
pub(super) fn faulty_runs(screening: &Screening<'_>) -> Vec<Finding> {
    let judge = |seen: &[Seen<'_>], side: Side| {
        let of_side = || seen.iter().filter(|seen| seen.side == side);
        let (all, faulty) = (of_side().count(), of_side().filter(|seen| seen.fault.is_some()).count());
        let (first, fault) = of_side().find_map(|seen| Some((seen, seen.fault.as_ref()?)))?;
        // With a stored baseline a control is not the only one of its side.
        let most = if side == Side::Control && screening.case.evidence.baseline.is_some() { 2 } else { 3 };
        (most * faulty > all).then(|| Finding {
            verdict: if side == Side::Baseline { Verdict::NotComparable } else { Verdict::Error },
            code: fault.code,
            cell: Some(first.cell.name.clone()),
            message: format!(
                "{faulty} of {all} {side} runs do not count at {}; {} {}: {}",
                first.cell.name,
                name(side, first.run),
                fault.seen,
                fault.fix
            ),
        })
    };
    screening.cells().flat_map(|(_, seen)| Side::ALL.iter().filter_map(move |side| judge(seen, *side))).collect()
}

//! There is something to judge, and enough of it counts.

use std::collections::BTreeSet;

use crate::artifact::run::Run;
use crate::base::names::Side;
use crate::compare::evidence::name;
use crate::plan::request::PlannedCell;
use crate::verdict::judge::Case;
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::{error, fault};

/// The candidate was measured.
pub(super) fn candidate_data(case: &Case<'_>) -> Vec<Finding> {
    if !case.evidence.candidate.is_empty() {
        return vec![];
    }
    let message = "there is no run of the candidate: see why the target could not be measured, and measure again";
    vec![error("no-candidate-data", None, message.to_owned())]
}

/// Every check's cell is a cell of the workload.
pub(super) fn cells_exist(case: &Case<'_>) -> Vec<Finding> {
    let known: BTreeSet<&str> = case.evidence.plan.cells.iter().map(|cell| cell.name.as_str()).collect();
    let asked: BTreeSet<&str> = case.policy.checks.iter().map(|check| check.cell.as_str()).collect();
    let missing = asked.difference(&known);
    let message = |cell: &&str| {
        format!("the workload `{}` has no cell `{cell}`: name one of its cells in the check", case.evidence.plan.workload)
    };
    missing.map(|cell| error("cell-unknown", Some(cell), message(cell))).collect()
}

/// At most a third of a side's runs may be left out. More is no longer bad luck with some runs.
pub(super) fn faulty_runs(case: &Case<'_>) -> Vec<Finding> {
    let judge = |cell: &PlannedCell, side: Side| {
        let runs = case.evidence.runs(side);
        let faults: Vec<_> = runs.iter().filter_map(|run| Some((run, fault(run, cell)?))).collect();
        let (run, fault) = faults.first()?;
        (3 * faults.len() > runs.len()).then(|| Finding {
            verdict: if side == Side::Baseline { Verdict::NotComparable } else { Verdict::Error },
            code: fault.code,
            cell: Some(cell.name.clone()),
            message: format!(
                "{} of {} {side} runs do not count at {}; {} {}: {}",
                faults.len(),
                runs.len(),
                cell.name,
                name(side, run),
                fault.seen,
                fault.fix
            ),
        })
    };
    judged_cells(case).flat_map(|cell| Side::ALL.iter().filter_map(move |side| judge(cell, *side))).collect()
}

/// The runs that do not count in a cell, one sentence each.
pub(in crate::verdict) fn left_out(case: &Case<'_>) -> Vec<String> {
    let sentence = |cell: &PlannedCell, side: Side, run: &Run| {
        let fault = fault(run, cell)?;
        Some(format!("{} does not count at {}: it {}", name(side, run), cell.name, fault.seen))
    };
    let in_cell = |cell| case.evidence.all().filter_map(move |(side, run)| sentence(cell, side, run));
    judged_cells(case).flat_map(in_cell).collect()
}

/// The cells of the workload that have a check.
pub(super) fn judged_cells<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a PlannedCell> {
    let checks = &case.policy.checks;
    case.evidence.plan.cells.iter().filter(|cell| checks.iter().any(|check| check.cell == cell.name))
}

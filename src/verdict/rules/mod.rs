//! What must hold before anything is judged. One file per rule and one line in a table: a run rule looks at one run
//! in one cell, a measurement rule at the whole case.

mod amount;
mod applies;
mod client;
mod completeness;
mod records;
mod steady;

use crate::artifact::run::Run;
use crate::compare::rules::mismatches;
use crate::plan::request::PlannedCell;
use crate::verdict::judge::Case;
use crate::verdict::judgement::{Finding, Verdict};

pub(super) use crate::verdict::rules::applies::does_not_apply;

/// Why a run does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: &'static str,
    /// What was seen in the run.
    seen: String,
    /// What to do.
    fix: &'static str,
}

type RunRule = fn(&Run, &PlannedCell) -> Option<Fault>;

/// What a run must fulfil to count in a cell. The first that it breaks is reported.
const RUN_RULES: &[RunRule] =
    &[completeness::interrupted, completeness::attempted, records::impossible, client::saturated];

type MeasurementRule = fn(&Case<'_>) -> Vec<Finding>;

/// What the measurement must fulfil, in the order in which people should read what is wrong.
const MEASUREMENT_RULES: &[MeasurementRule] =
    &[amount::candidate_data, applies::unknown, amount::cells_exist, comparable, amount::faulty_runs, steady::steady];

/// Everything that keeps the case, or a cell of it, from being judged.
pub(super) fn findings(case: &Case<'_>) -> Vec<Finding> {
    MEASUREMENT_RULES.iter().flat_map(|rule| rule(case)).collect()
}

/// The first rule that a run breaks in a cell; `None` when it counts.
pub(super) fn fault(run: &Run, cell: &PlannedCell) -> Option<Fault> {
    RUN_RULES.iter().find_map(|rule| rule(run, cell))
}

/// The runs that were left out of a cell, one sentence each.
pub(super) use crate::verdict::rules::amount::left_out;

fn comparable(case: &Case<'_>) -> Vec<Finding> {
    let finding = |found: crate::compare::rules::Mismatch| Finding {
        verdict: Verdict::NotComparable,
        code: found.code,
        cell: found.cell,
        message: found.message,
    };
    mismatches(&case.evidence, case.policy).into_iter().map(finding).collect()
}

fn error(code: &'static str, cell: Option<&str>, message: String) -> Finding {
    Finding { verdict: Verdict::Error, code, cell: cell.map(str::to_owned), message }
}

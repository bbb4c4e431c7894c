//! What must hold before anything is judged. One file per rule and one line in a table: a run rule looks at one run
//! in one cell, a measurement rule at the whole case.

mod amount;
mod applies;
mod client;
mod client_fault;
mod comparable;
mod completeness;
mod garbage;
mod hidden;
mod load;
mod records;
mod resent;
mod server;
mod steady;
mod tokens;

use std::ptr;

use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::Run;
use crate::artifact::validity::{CellValidity, failures};
use crate::base::names::Side;
use crate::base::units::Nanos;
use crate::compare::evidence::name;
use crate::plan::request::{Plan, PlannedCell};
use crate::spec::policy::Check;
use crate::stats::error_rate::Count;
use crate::verdict::case::Case;
use crate::verdict::judgement::{Finding, Verdict};

pub(super) use crate::verdict::rules::applies::does_not_apply;
pub(super) use crate::verdict::rules::resent::notes as resent_notes;
pub(super) use crate::verdict::rules::tokens::notes as token_notes;

/// Why a run does not count in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: &'static str,
    /// What was seen in the run.
    pub(super) seen: String,
    /// What to do.
    pub(super) fix: &'static str,
}

type RunRule = fn(&Run, &CellValidity) -> Option<Fault>;

/// What a run must fulfil to count in a cell. The first that it breaks is reported.
const RUN_RULES: &[RunRule] = &[
    completeness::interrupted,
    client_fault::refused,
    completeness::attempted,
    records::contradictory,
    records::out_of_order,
    tokens::contradicted,
    tokens::length_not_forced,
    client::saturated,
    client::stolen,
    client::unstamped,
    client::host_saturated,
    client::reads_late,
    client::untrusted,
    server::restarted,
    server::foreign_traffic,
];

type MeasurementRule = fn(&Screening<'_>) -> Vec<Finding>;

/// What the measurement must fulfil, in the order in which people should read what is wrong.
const MEASUREMENT_RULES: &[MeasurementRule] = &[
    amount::candidate_data,
    applies::unknown,
    amount::cells_exist,
    comparable::comparable,
    amount::faulty_runs,
    hidden::hidden,
    garbage::malformed,
    resent::resent,
    steady::steady,
];

/// Everything that keeps the case, or a cell of it, from being judged.
pub(super) fn findings(screening: &Screening<'_>) -> Vec<Finding> {
    MEASUREMENT_RULES.iter().flat_map(|rule| rule(screening)).collect()
}

/// A case with what its runs tell about themselves.
pub(super) struct Screening<'a> {
    pub(super) case: Case<'a>,
    /// Every compared run in every cell with a check, cell by cell.
    pub(super) seen: Vec<Seen<'a>>,
}

/// A run in a cell.
pub(super) struct Seen<'a> {
    side: Side,
    run: &'a Run,
    cell: &'a PlannedCell,
    pub(super) validity: Option<CellValidity>,
    fault: Option<Fault>,
}

impl<'a> Screening<'a> {
    /// Looks at every compared run in every cell with a check.
    pub(super) fn of(case: &Case<'a>) -> Self {
        let checks = &case.policy.checks;
        let has_check = |cell: &&PlannedCell| checks.iter().any(|check| check.cells().any(|name| name == cell.name));
        let evidence = case.evidence;
        let in_cell = |cell: &'a PlannedCell| {
            evidence.all().map(move |(side, run)| {
                let (validity, fault) = look(run, &cell.name, Some(cell));
                Seen { side, run, cell, validity, fault }
            })
        };
        Self { case: *case, seen: evidence.plan.cells.iter().filter(has_check).flat_map(in_cell).collect() }
    }

    /// Whether a run counts in a cell. A run of an earlier release was not looked at yet.
    pub(super) fn counts(&self, run: &Run, cell: &PlannedCell) -> bool {
        let seen = self.seen.iter().find(|seen| ptr::eq(seen.run, run) && seen.cell.name == cell.name);
        seen.map_or_else(|| look(run, &cell.name, Some(cell)).1.is_none(), |seen| seen.fault.is_none())
    }

    /// The failed requests of what a check is about, of the runs that count there on the sides that belong.
    pub(super) fn failures(&self, check: &Check, belongs: fn(Side) -> bool) -> Count {
        let counting = |seen: &&Seen<'a>| seen.cell.name == check.cell && belongs(seen.side) && seen.fault.is_none();
        let failures = self.seen.iter().filter(counting).map(|seen| match seen.cell.numbers(&check.slice) {
            None => seen.validity.as_ref().map_or(Count::NONE, |validity| validity.failures),
            Some(numbers) => failures(CellData::of(seen.run, &seen.cell.name).part(&numbers).records()),
        });
        failures.fold(Count::NONE, Count::plus)
    }

    /// The runs that do not count, one sentence each.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        self.seen.iter().filter_map(|Seen { side, run, cell, fault, .. }| {
            Some(format!("{} does not count at {}: it {}", name(*side, run), cell.name, fault.as_ref()?.seen))
        })
    }

    /// The cells with a check, each with what was seen in it.
    fn cells(&self) -> impl Iterator<Item = (&'a PlannedCell, &[Seen<'a>])> {
        by_cell(&self.seen)
    }
}

/// Runs cell by cell.
fn by_cell<'s, 'a>(seen: &'s [Seen<'a>]) -> impl Iterator<Item = (&'a PlannedCell, &'s [Seen<'a>])> {
    seen.chunk_by(|one, next| ptr::eq(one.cell, next.cell)).filter_map(|seen| Some((seen.first()?.cell, seen)))
}

/// What runs tell about themselves that does not keep them from counting.
pub(super) fn own_notes(seen: &[Seen<'_>]) -> Vec<String> {
    [client::notes, load::notes, server::notes].iter().flat_map(|notes| notes(seen)).collect()
}

/// The same of one run by itself, in the cells of its plan.
pub(super) fn notes_of(run: &Run, plan: &Plan) -> Vec<String> {
    let seen = plan.cells.iter().map(|cell| {
        let (validity, fault) = look(run, &cell.name, Some(cell));
        Seen { side: run.manifest.side, run, cell, validity, fault }
    });
    own_notes(&seen.collect::<Vec<_>>())
}

/// What a run tells about a cell, and the first rule that it breaks there. Without the plan of the cell it is not known
/// what the caches may answer for.
fn look(run: &Run, cell: &str, planned: Option<&PlannedCell>) -> (Option<CellValidity>, Option<Fault>) {
    // The time-out bounds drifts, which are judged over all runs of a side and by no rule of one run.
    let validity = CellValidity::of(run, cell, planned.map_or(Nanos::MAX, |cell| cell.timeout));
    let broken = |validity: &CellValidity| {
        let fault = RUN_RULES.iter().find_map(|rule| rule(run, validity));
        fault.or_else(|| server::caches_warm(run, planned?, validity))
    };
    let fault = validity.as_ref().map_or_else(|| Some(completeness::absent()), broken);
    (validity, fault)
}

/// The first rule that a run breaks in a cell; none when it counts there.
pub(super) fn fault(run: &Run, cell: &str, planned: Option<&PlannedCell>) -> Option<Fault> {
    look(run, cell, planned).1
}

fn error(code: &'static str, cell: Option<&str>, message: String) -> Finding {
    Finding { verdict: Verdict::Error, code, cell: cell.map(str::to_owned), message }
}

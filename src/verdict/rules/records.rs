//! Records that contradict themselves are few.

use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::plan::request::PlannedCell;
use crate::verdict::rules::Fault;

/// The share of impossible records, one in this many, that a run survives.
const ONE_IN: usize = 1_000;

/// Nearly every record can be true: its instants are in order, and a success has an answer.
pub(super) fn impossible(run: &Run, cell: &PlannedCell) -> Option<Fault> {
    let records = || run.records.iter().filter(|record| record.cell == cell.name);
    let impossible = records().filter(|record| !possible(record)).count();
    (impossible * ONE_IN > records().count()).then(|| Fault {
        code: "records-invalid",
        seen: format!("has {impossible} records that contradict themselves"),
        fix: "report it with the run: a clock or the load generator is at fault",
    })
}

fn possible(record: &Record) -> bool {
    let answered = !record.outcome.is_ok() || !record.chunks.is_empty();
    let first = record.chunks.first().map_or(record.end, |chunk| chunk.at);
    let last = record.chunks.last().map_or(record.sent, |chunk| chunk.at);
    answered
        && record.due <= record.sent
        && record.sent <= first
        && last <= record.end
        && record.chunks.is_sorted_by_key(|chunk| chunk.at)
}

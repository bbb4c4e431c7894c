//! Records can be true.

use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::artifact::validity::CellValidity;
use crate::verdict::rules::Fault;

/// Records that claim a success without an answer are few.
pub(super) fn contradictory(_: &Run, validity: &CellValidity) -> Option<Fault> {
    (!validity.is_consistent()).then(|| Fault {
        code: "records-invalid",
        seen: format!("has {} successes without content or tokens", validity.invalid),
        fix: "see what the server sends in place of an answer",
    })
}

/// The instants of every record are in the order in which they must have happened.
pub(super) fn out_of_order(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let broken = run.records.iter().filter(|record| record.cell == validity.cell && !in_order(record)).count();
    (broken > 0).then(|| Fault {
        code: "clock-fault",
        seen: format!("has {broken} records whose instants are not in order"),
        fix: "report it with the run: its clock or its file is broken",
    })
}

fn in_order(record: &Record) -> bool {
    let first = record.chunks.first().map_or(record.end, |chunk| chunk.at);
    let last = record.chunks.last().map_or(record.sent, |chunk| chunk.at);
    let chunks = record.chunks.is_sorted_by_key(|chunk| chunk.at);
    chunks && record.due <= record.sent && record.sent <= first && last <= record.end
}

//! A trace as its distributions: a workload whose requests are like those of the trace, without any row of it.
//!
//! The way of a fit: `windows` chooses the operating points, `arrivals`, `table` and `prefix` estimate what each is like,
//! `written` makes the text of the workload, and `likeness` holds the trace against the plan of that text, read back. Whatever is
//! said about how good a fit is comes from that plan and never from an estimate. `sessions` describes conversations.

mod arrivals;
mod kinds;
mod likeness;
mod prefix;
mod sessions;
mod table;
#[cfg(test)]
mod tests;
mod windows;
mod written;

use crate::base::units::Nanos;
use crate::fit::likeness::Sample;
use crate::plan::build;
use crate::spec::read_workload;
use crate::trace::request::{Request, Requests};
use crate::trace::shape::reuse;

pub use arrivals::Arrivals;
pub use kinds::{Kind, UNKNOWN_OUTPUT};
pub use likeness::{Distance, Likeness, Measured};
pub use sessions::Sessions;
pub use windows::{LEAST, Window};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the workload.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// The length of a window that becomes a cell.
    pub window: Nanos,
    /// Most cells.
    pub cells: usize,
    /// Most measured requests of a cell.
    pub requests: u32,
}

/// A workload, and how like the trace it is.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The file.
    pub text: String,
    /// Its cells.
    pub cells: Vec<Fitted>,
    /// Conversations, which no cell has; none where the trace names none.
    pub sessions: Option<Sessions>,
}

/// A cell that was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The part of the trace that it describes.
    pub window: Window,
    /// How its requests arrive; none in a closed loop, for a trace without instants.
    pub arrivals: Option<Arrivals>,
    /// What its requests look like: one kind, or several that are classes of the cell.
    pub kinds: Vec<Kind>,
    /// Requests of the window whose answer has an unknown length.
    pub untold: usize,
    /// Warm-up and measured requests of the cell.
    pub planned: (u32, u32),
    /// The window beside the plan of the written workload.
    pub likeness: Likeness,
}

/// A trace cannot be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Too few for a distribution.
    #[error("{has} requests do not show how lengths and gaps are distributed, and a cell needs {LEAST}")]
    TooFew {
        /// How many there are.
        has: usize,
    },
    /// No time passes.
    #[error("all requests come at one instant, which is no rate")]
    AtOnce,
    /// Beyond what a cell may have.
    #[error("a rate of {rate} per s is outside what a cell may have: 0.001 to 10000")]
    Rate {
        /// With its digits.
        rate: String,
    },
    /// A bug: the file that was made is not right.
    #[error("the workload that was fitted is not right, which is a bug of servegate: {0}")]
    Written(String),
}

/// Fits a workload to the requests of a trace and compares its plan with them.
///
/// Blocks and instants are those of a trace as it is read: numbered by first appearance, and counted from the first request.
///
/// # Errors
/// The trace has too few requests, or a rate that no cell has.
pub fn fit(trace: &Requests, options: &Options) -> Result<Fit, Unfit> {
    let reuse = reuse(trace);
    let windows = windows::choose(trace, options)?;
    let most_rows = table::rows_of_a_cell(windows.len());
    let mut drafts = Vec::new();
    for window in windows {
        let rows = trace.rows.get(window.rows.clone()).unwrap_or_default();
        let known = reuse.get(window.rows.clone()).unwrap_or_default();
        let arrivals = if trace.arrivals { Some(Arrivals::of(rows, window.until.since(window.from))?) } else { None };
        let planned = planned(rows.len(), options.requests);
        let kinds = kinds::of(trace, (rows, known), planned, most_rows);
        drafts.push(written::Draft { window, arrivals, kinds, planned, untold: untold(rows) });
    }
    let text = written::workload(trace, options, &drafts);
    let workload = read_workload("fitted", &text).map_err(|findings| {
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Unfit::Written(said.join("; "))
    })?;
    let plan = build(&workload.value);
    let mut cells = Vec::new();
    for (draft, cell) in drafts.into_iter().zip(&plan.cells) {
        let written::Draft { window, arrivals, kinds, planned, untold } = draft;
        let likeness = Likeness::of(&Sample::of_trace(trace, &reuse, &window), &Sample::of_plan(cell));
        cells.push(Fitted { window, arrivals, kinds, untold, planned, likeness });
    }
    Ok(Fit { text, cells, sessions: Sessions::of(trace) })
}

fn untold(rows: &[Request]) -> usize {
    rows.iter().filter(|row| row.output_tokens.is_none()).count()
}

/// Warm-up and measured requests for a window of so many: together as many, but no more than asked for.
fn planned(rows: usize, most: u32) -> (u32, u32) {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    let requests = rows.saturating_sub(WARMUP).clamp(FEWEST, most.max(FEWEST));
    (WARMUP, requests)
}

/// Warm-up requests of a cell.
const WARMUP: u32 = 20;
/// Measured requests that a cell has at least, so that it has a median that can be judged.
const FEWEST: u32 = 20;

#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
fn real(count: usize) -> f64 {
    count as f64
}

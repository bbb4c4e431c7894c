//! Failed requests of stored runs, cell by cell: a baseline with failures hides those of a candidate.

use std::collections::BTreeMap;
use std::fmt;

use crate::artifact::failures::Failures;
use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::base::words::count;
use crate::report::escape;

/// A larger share of failed requests is worth a warning.
const WORTH_A_WARNING: f64 = 0.01;

/// What failed in one cell over several runs.
pub(crate) struct FailedShare {
    cell: String,
    requests: u64,
    failures: Failures,
}

/// The cells of the runs, in the order of their names.
pub(crate) fn by_cell(runs: &[Run]) -> Vec<FailedShare> {
    let mut cells: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in runs.iter().flat_map(|run| &run.records) {
        cells.entry(&record.cell).or_default().push(record);
    }
    let share = |(cell, records): (&str, Vec<&Record>)| FailedShare {
        cell: cell.to_owned(),
        requests: u64::try_from(records.len()).unwrap_or(u64::MAX),
        failures: Failures::of(records),
    };
    cells.into_iter().map(share).collect()
}

impl FailedShare {
    fn failed(&self) -> u64 {
        self.failures.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether more than one request in a hundred failed.
    pub(crate) fn is_large(&self) -> bool {
        self.share() > WORTH_A_WARNING
    }

    #[expect(clippy::cast_precision_loss, reason = "runs have far fewer than 2^53 requests")]
    fn share(&self) -> f64 {
        self.failed() as f64 / self.requests.max(1) as f64
    }
}

impl fmt::Display for FailedShare {
    /// `c2: 10.0 % of 60 requests (6 http_error; the first: HTTP 500)`, for a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cell, requests) = (escape::terminal(&self.cell), count(self.requests, "request"));
        write!(f, "{cell}: {:.1} % of {requests}", 100.0 * self.share())?;
        if self.failures.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", escape::terminal(&self.failures.to_string()))
    }
}

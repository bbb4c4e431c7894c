//! What a run measured, a line per cell: for `measure`, which judges nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;

use serde::Serialize;

use crate::artifact::failures::Failures;
use crate::artifact::metrics::Question;
use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::Run;
use crate::artifact::validity::{CellValidity, share};
use crate::base::names::{Metric, Statistic};
use crate::plan::hit_rate::{BLOCK_TOKENS, HitRate};
use crate::plan::request::{Plan, PlannedCell};
use crate::spec::slice::Slice;
use crate::verdict::counting::Uncounted;

/// One cell of one run, or a class of it. Times in ms; a number is `null` when the cell does not have it, or when too many
/// requests failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Number in its session, from 1.
    run: u32,
    /// The cell, or a class of it: `mixed:chat`.
    cell: String,
    requests: usize,
    failed_share: Option<f64>,
    /// What failed, by outcome.
    failures: BTreeMap<String, u64>,
    /// What was seen of the first failure.
    failure_detail: Option<String>,
    ttft_p50_ms: Option<f64>,
    ttft_p90_ms: Option<f64>,
    tpot_p50_ms: Option<f64>,
    itl_p99_ms: Option<f64>,
    e2e_p50_ms: Option<f64>,
    throughput_tokens_per_s: Option<f64>,
    /// The share of the prompt tokens that came from the prefix cache, as the answers say.
    cache_hit_rate: Option<f64>,
    /// The share that the plan repeats.
    expected_cache_hit_rate: f64,
    /// How late the load generator sent, and what is allowed.
    send_lag_p99_ms: Option<f64>,
    send_lag_limit_ms: Option<f64>,
    /// Requests that were sent a second time, because the server was closing the connection.
    resent: usize,
    /// Why the run does not count in this cell; `null` where it does.
    does_not_count: Option<String>,
}

/// The rows of a run, in plan order, each cell before its classes. `faults` are where it does not count.
pub(crate) fn rows(run: &Run, plan: &Plan, faults: &[Uncounted]) -> Vec<Row> {
    let row = |(cell, slice): (&PlannedCell, Slice)| {
        let data = CellData::of(run, &cell.name);
        let mut data = match cell.numbers(&slice) {
            Some(numbers) => data.part(&numbers),
            None => data,
        };
        let failures = Failures::of(data.records().iter().copied());
        let requests = data.records().len();
        let mut ask = |metric, statistic| {
            let question = Question { metric, statistic, limits: &[], timeout: cell.timeout };
            data.summary(&question).ok().map(|summary| summary.value).filter(|value| value.is_finite())
        };
        // What the load generator did concerns the cell.
        let validity = CellValidity::of(run, &cell.name, cell.timeout).filter(|_| slice.is_whole());
        let fault = faults.iter().find(|fault| fault.cells.contains(&cell.name));
        Row {
            run: run.manifest.sequence.saturating_add(1),
            cell: slice.of(&cell.name),
            requests,
            failed_share: ask(Metric::ErrorRate, Statistic::Value),
            failures: failures.counts,
            failure_detail: failures.first,
            ttft_p50_ms: ask(Metric::Ttft, Statistic::P50),
            ttft_p90_ms: ask(Metric::Ttft, Statistic::P90),
            tpot_p50_ms: ask(Metric::Tpot, Statistic::P50),
            itl_p99_ms: ask(Metric::Itl, Statistic::P99),
            e2e_p50_ms: ask(Metric::E2e, Statistic::P50),
            throughput_tokens_per_s: ask(Metric::Throughput, Statistic::Value),
            cache_hit_rate: ask(Metric::CacheHitRate, Statistic::Value),
            expected_cache_hit_rate: HitRate::expected(cell, &slice, block_tokens(run, cell)).share(),
            send_lag_p99_ms: validity.as_ref().and_then(|validity| validity.send_lag_p99_ms),
            send_lag_limit_ms: validity.as_ref().map(|validity| validity.send_lag_limit_ms),
            resent: validity.as_ref().map_or(0, |validity| validity.resent),
            does_not_count: fault.map(|fault| format!("{}; {}", fault.seen, fault.fix)),
        }
    };
    let parts = |cell: &'_ PlannedCell| {
        let class = |class: &str| Slice { class: Some(class.to_owned()), context: None };
        iter::once(Slice::default()).chain(cell.classes().into_iter().map(class)).collect::<Vec<_>>()
    };
    plan.cells.iter().flat_map(|cell| parts(cell).into_iter().map(move |slice| (cell, slice))).map(row).collect()
}

/// Tokens of a cache block, as the server told, else as most engines have.
fn block_tokens(run: &Run, cell: &PlannedCell) -> u32 {
    let evidence = run.manifest.cells.iter().find(|evidence| evidence.name == cell.name);
    evidence.and_then(|evidence| evidence.server?.block_tokens).unwrap_or(BLOCK_TOKENS)
}

/// What came from the prefix cache in each class of the cells of a run that repeat something, beside what is expected.
pub(crate) fn hits(rows: &[Row]) -> Vec<String> {
    let repeats = |row: &Row| row.expected_cache_hit_rate > 0.0;
    let told = |row: &Row| {
        let (cell, _) = row.cell.split_once(':')?;
        let is_about_it = |other: &Row| other.run == row.run && other.cell == cell && repeats(other);
        let (hits, expected) = (100.0 * row.cache_hit_rate?, 100.0 * row.expected_cache_hit_rate);
        rows.iter().any(is_about_it).then(|| {
            format!(
                "run {} at {}: {hits:.1} % of the prompt tokens came from the prefix cache; the plan repeats {expected:.1} %",
                row.run, row.cell
            )
        })
    };
    rows.iter().filter_map(told).collect()
}

impl Row {
    /// What a reader must know beside the numbers of a row.
    pub(crate) fn note(&self) -> Option<String> {
        let Self { run, cell, requests, resent, .. } = self;
        (*resent > 0).then(|| {
            let percent = 100.0 * share(*resent, *requests);
            format!(
                "note: run {run} sent {resent} of {requests} requests ({percent:.0} %) at {cell} a second time: the server \
                 was closing the connection that it had kept open; clients that send a request only once see an error"
            )
        })
    }
}

/// The rows as a table of 80 columns, more where a name with its phase needs them. `lag p99` is how late the load
/// generator itself sent.
pub(crate) fn render(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.cell.chars().count()).max().unwrap_or(0).clamp(10, 24);
    let mut text =
        format!("run  {:<width$}  reqs failed TTFT p50 TTFT p90 TPOT p50  e2e p50   tok/s lag p99\n", "cell");
    for row in rows {
        let failed = row.failed_share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        let cell: String = row.cell.chars().take(width).collect();
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            text,
            "{:>3}  {cell:<width$} {:>5} {failed:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}",
            row.run,
            row.requests,
            number(row.ttft_p50_ms),
            number(row.ttft_p90_ms),
            number(row.tpot_p50_ms),
            number(row.e2e_p50_ms),
            number(row.throughput_tokens_per_s),
            number(row.send_lag_p99_ms),
        );
    }
    text
}

/// A number in at most seven characters, as far as whole numbers go.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 1_000.0 => format!("{value:.2}"),
        Some(value) if value < 10_000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_80_columns() {
        let large = Some(123_456.789);
        let row = |value| Row {
            run: 100,
            cell: "ten-letter".to_owned(),
            requests: 50_000,
            failed_share: Some(1.0),
            failures: BTreeMap::new(),
            failure_detail: None,
            ttft_p50_ms: value,
            ttft_p90_ms: value,
            tpot_p50_ms: value,
            itl_p99_ms: value,
            e2e_p50_ms: value,
            throughput_tokens_per_s: value,
            cache_hit_rate: value,
            expected_cache_hit_rate: 0.0,
            send_lag_p99_ms: value,
            send_lag_limit_ms: Some(1.0),
            resent: 3,
            does_not_count: None,
        };
        let text = render(&[row(large), row(None), row(Some(999.994)), row(Some(9_999.94))]);
        assert!(text.lines().all(|line| line.chars().count() == 80), "{text}");
        let note = Row { resent: 12, requests: 50, ..row(None) }.note().unwrap();
        assert!(note.contains("12 of 50 requests (24 %) at ten-letter"), "{note}");
        assert_eq!(Row { resent: 0, ..row(None) }.note(), None);
    }
}

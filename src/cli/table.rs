//! What a run measured, a line per cell: for `measure`, which judges nothing.

use std::fmt::Write as _;

use serde::Serialize;

use crate::artifact::metrics::Question;
use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::Run;
use crate::base::names::{Metric, Statistic};
use crate::base::units::Nanos;
use crate::plan::request::{Plan, PlannedCell};

/// One cell of one run. Times in ms; a number is absent when the cell does not have it, or when too many
/// requests failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Number in its session, from 1.
    run: u32,
    cell: String,
    requests: usize,
    failed_share: Option<f64>,
    ttft_p50_ms: Option<f64>,
    ttft_p90_ms: Option<f64>,
    tpot_p50_ms: Option<f64>,
    itl_p99_ms: Option<f64>,
    e2e_p50_ms: Option<f64>,
    throughput_tokens_per_s: Option<f64>,
    send_lag_p99_ms: Option<f64>,
}

/// The rows of a run, in plan order.
pub(crate) fn rows(run: &Run, plan: &Plan) -> Vec<Row> {
    let row = |cell: &PlannedCell| {
        let mut data = CellData::of(run, &cell.name);
        let mut ask = |metric, statistic| {
            let question = Question { metric, statistic, limits: &[], timeout: cell.timeout };
            data.summary(&question).ok().map(|summary| summary.value).filter(|value| value.is_finite())
        };
        let mut row = Row {
            run: run.manifest.sequence.saturating_add(1),
            cell: cell.name.clone(),
            requests: 0,
            failed_share: ask(Metric::ErrorRate, Statistic::Value),
            ttft_p50_ms: ask(Metric::Ttft, Statistic::P50),
            ttft_p90_ms: ask(Metric::Ttft, Statistic::P90),
            tpot_p50_ms: ask(Metric::Tpot, Statistic::P50),
            itl_p99_ms: ask(Metric::Itl, Statistic::P99),
            e2e_p50_ms: ask(Metric::E2e, Statistic::P50),
            throughput_tokens_per_s: ask(Metric::Throughput, Statistic::Value),
            send_lag_p99_ms: None,
        };
        let mut lags: Vec<Nanos> = data.records().iter().map(|record| record.sent.since(record.due)).collect();
        lags.sort_unstable();
        row.requests = lags.len();
        let last_percent = lags.len().div_ceil(100);
        row.send_lag_p99_ms = lags.get(lags.len().saturating_sub(last_percent.max(1))).map(|lag| lag.as_ms());
        row
    };
    plan.cells.iter().map(row).collect()
}

/// The rows as a table of 80 columns, more where a name with its phase needs them.
pub(crate) fn render(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.cell.chars().count()).max().unwrap_or(0).clamp(10, 24);
    let mut text =
        format!("run  {:<width$} requests failed  TTFT p50  TTFT p90  TPOT p50   e2e p50  tokens/s\n", "cell");
    for row in rows {
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let failed = row.failed_share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        let cell: String = row.cell.chars().take(width).collect();
        let throughput = row.throughput_tokens_per_s.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            text,
            "{:>3}  {cell:<width$} {:>8} {failed:>6} {:>9} {:>9} {:>9} {:>9} {throughput:>9}",
            row.run,
            row.requests,
            ms(row.ttft_p50_ms),
            ms(row.ttft_p90_ms),
            ms(row.tpot_p50_ms),
            ms(row.e2e_p50_ms),
        );
    }
    text
}

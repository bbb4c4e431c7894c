//! One number per run and check. INTERIM

use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::base::names::{Direction, Metric, Scale, Statistic};
use crate::base::units::Nanos;
use crate::spec::policy::Check;
use crate::stats::error_rate::Count;
use crate::stats::quantile::{quantile, tail05};

/// A run's number in one check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// `y`: the logarithm of the summary, larger is worse, `+inf` among failed requests.
    pub(super) y: f64,
    /// How many values the summary is made from.
    pub(super) values: usize,
}

pub(crate) fn series(run: &Run, cell: &str, metric: Metric) -> Vec<f64> {
    let mut records: Vec<&Record> = run.records.iter().filter(|r| r.cell == cell).collect();
    records.sort_by_key(|r| r.request);
    records.iter().filter_map(|r| value(r, metric)).collect()
}

fn value(r: &Record, metric: Metric) -> Option<f64> {
    if !r.outcome.is_ok() {
        return Some(f64::INFINITY);
    }
    let (first, last) = (r.first_content()?, r.last_content()?);
    match metric {
        Metric::Ttft => Some(first.since(r.due).as_ms()),
        Metric::E2e => Some(last.since(r.due).as_ms()),
        Metric::Tpot => Some(last.since(first).as_ms() / f64::from(r.output_tokens?.checked_sub(1)?)),
        _ => None,
    }
}

pub(super) fn read(run: &Run, check: &Check, timeout: Nanos) -> Option<Reading> {
    let evidence = run.manifest.cells.iter().find(|c| c.name == check.cell)?;
    if check.metric.scale() == Scale::PerRun {
        let ok = || run.records.iter().filter(|r| r.cell == check.cell && r.outcome.is_ok());
        let tokens: f64 = ok().filter_map(|r| r.output_tokens).map(f64::from).sum();
        let n = ok().count();
        let v = match check.metric {
            Metric::OutputTokens if n > 0 => tokens / n as f64,
            Metric::Throughput => tokens / ((evidence.window_end_us - evidence.window_start_us) as f64 / 1e6),
            _ => return None,
        };
        let y = if check.metric.direction() == Direction::HigherIsBetter { -v.ln() } else { v.ln() };
        return Some(Reading { y, values: n.max(1) });
    }
    let mut values = if check.metric == Metric::Itl {
        let mut v = vec![];
        for r in run.records.iter().filter(|r| r.cell == check.cell) {
            for w in r.chunks.windows(2) {
                v.push(w[1].at.since(w[0].at).as_ms());
            }
        }
        v
    } else {
        series(run, &check.cell, check.metric)
    };
    let n = values.len();
    let y = match check.statistic {
        Statistic::Tail05 => tail05(&mut values, timeout.as_ms())?,
        s => quantile(&mut values, s.level()?)?.ln(),
    };
    Some(Reading { y, values: n })
}
/// The `y` that stands for a run among failed requests: the time-out as a latency, or one token or request per
/// time-out as a rate.
pub(super) fn censored(metric: Metric, timeout: Nanos) -> f64 {
    match metric.scale() {
        Scale::PerRun => timeout.as_secs().ln(),
        Scale::PerRequest | Scale::PerGap | Scale::Proportion => timeout.as_ms().ln(),
    }
}
pub(super) fn count(run: &Run, cell: &str) -> Count {
    let here = || run.records.iter().filter(|r| r.cell == cell);
    Count { failed: here().filter(|r| !r.outcome.is_ok()).count() as u64, attempted: here().count() as u64 }
}

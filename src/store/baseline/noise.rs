//! How far the runs of a release scatter, per cell and metric: section 4.1 of the decision rule, for people who
//! read a baseline. A decision computes it again from the runs, with its policy's assumptions.

use serde::{Deserialize, Serialize};

use crate::artifact::metrics::Question;
use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::Run;
use crate::base::names::{Metric, Scale, Statistic};
use crate::base::units::Nanos;
use crate::compare::effect::session_prior;
use crate::stats::history::{SessionPrior, noise};
use crate::stats::quantile::quantile;

/// The noise of one metric in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseEntry {
    /// The cell.
    pub cell: String,
    /// What is measured.
    pub metric: Metric,
    /// How a run's values become one number.
    pub statistic: Statistic,
    /// Median over the release's runs, in the metric's unit; none among failed requests.
    pub median: Option<f64>,
    /// Standard deviation of the logarithm between runs of a session (0.01 is 1 %); none without a session of two.
    pub run_sd: Option<f64>,
    /// Degrees of freedom with which it would count in a later decision.
    pub run_df: f64,
    /// Standard deviation of the logarithm between sessions.
    pub session_sd: f64,
    /// Degrees of freedom of it, those of the assumption among them.
    pub session_df: f64,
    /// Whether it is an assumption, because no release was measured in two sessions.
    pub session_assumed: bool,
}

/// A release's runs by session.
pub(super) type Sessions<'r> = Vec<Vec<&'r Run>>;

/// The noise of every cell of the last of `releases` (oldest first).
pub(super) fn entries(releases: &[Sessions<'_>]) -> Vec<NoiseEntry> {
    let Some(latest) = releases.last() else { return Vec::new() };
    let mut cells: Vec<&str> =
        latest.iter().flatten().flat_map(|run| &run.manifest.cells).map(|cell| cell.name.as_str()).collect();
    cells.sort_unstable();
    cells.dedup();
    cells.into_iter().flat_map(|cell| of_cell(releases, cell)).collect()
}

fn of_cell(releases: &[Sessions<'_>], cell: &str) -> Vec<NoiseEntry> {
    let mut data: Vec<Vec<Vec<CellData<'_>>>> = releases
        .iter()
        .map(|sessions| sessions.iter().map(|runs| runs.iter().map(|run| CellData::of(run, cell)).collect()).collect())
        .collect();
    let mut entries = Vec::new();
    for metric in Metric::ALL.iter().copied() {
        for statistic in shown(metric).iter().copied() {
            // Quantiles and run values only: none of them needs the cell's time-out.
            let question = Question { metric, statistic, limits: &[], timeout: Nanos::MAX };
            let mut value = |run: &mut CellData<'_>| run.summary(&question).ok().map(|summary| summary.value);
            let values: Vec<Vec<Vec<f64>>> = data
                .iter_mut()
                .map(|sessions| {
                    sessions.iter_mut().map(|runs| runs.iter_mut().filter_map(&mut value).collect()).collect()
                })
                .collect();
            entries.extend(entry(cell, &question, &values));
        }
    }
    entries
}

/// The statistics whose noise is shown. Goodput depends on limits that only a policy knows, and so does the scale of what needs a
/// floor; shares have their own test, and what is refused is no number of every run.
const fn shown(metric: Metric) -> &'static [Statistic] {
    match (metric, metric.scale()) {
        (Metric::Goodput | Metric::TtftSlope | Metric::TimeToRecover, _)
        | (_, Scale::Proportion | Scale::PerRefusal) => &[],
        (_, Scale::PerRequest) => &[Statistic::P50, Statistic::P95],
        (_, Scale::PerGap) => &[Statistic::P99],
        (_, Scale::PerRun) => &[Statistic::Value],
    }
}

fn entry(cell: &str, question: &Question<'_>, values: &[Vec<Vec<f64>>]) -> Option<NoiseEntry> {
    let mut latest: Vec<f64> = values.last()?.iter().flatten().copied().collect();
    let median = quantile(&mut latest, 0.5)?;
    // The sign of a logarithm does not change how far it scatters.
    let logs: Vec<Vec<Vec<f64>>> = values
        .iter()
        .map(|sessions| sessions.iter().map(|runs| runs.iter().map(|value| value.ln()).collect()).collect())
        .collect();
    let found = noise(&logs, &[], session_prior(question.metric, SessionPrior::default()));
    Some(NoiseEntry {
        cell: cell.to_owned(),
        metric: question.metric,
        statistic: question.statistic,
        median: median.is_finite().then(|| rounded(median)),
        run_sd: (found.run.df > 0.0).then(|| rounded(found.run.variance.sqrt())),
        run_df: rounded(found.run.df),
        session_sd: rounded(found.session.variance.sqrt()),
        session_df: rounded(found.session.df),
        session_assumed: found.session.assumed,
    })
}

/// Five decimals: enough for people, and short in a diff.
fn rounded(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

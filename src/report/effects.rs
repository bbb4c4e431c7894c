//! One metric in all its cells, side by side: where a change is worse at one load and better at another,
//! the table shows it, and shows that a mean over the loads would have hidden it.

use std::collections::BTreeMap;

use crate::base::names::{Direction, Metric, Statistic};
use crate::report::format;
use crate::verdict::judgement::{Effect, Judgement};

/// Effects of one metric and statistic by workload and cell.
type Cells<'a> = BTreeMap<(&'a str, &'a str), Effect>;

/// What an interval shows about the direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The whole interval is on the good side of zero.
    Better,
    /// The whole interval is on the bad side of zero.
    Worse,
    /// Above zero, for a metric that has no good side.
    More,
    /// Below zero, for a metric that has no good side.
    Fewer,
    /// Zero is inside the interval.
    Undecided,
}

impl Mark {
    /// The text form.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::More => "more",
            Self::Fewer => "fewer",
            Self::Undecided => "undecided",
        }
    }

    fn of(metric: Metric, effect: Effect) -> Self {
        match (metric.direction(), effect.low > 0.0, effect.high < 0.0) {
            (Direction::LowerIsBetter, true, _) | (Direction::HigherIsBetter, _, true) => Self::Worse,
            (Direction::LowerIsBetter, _, true) | (Direction::HigherIsBetter, true, _) => Self::Better,
            (Direction::TwoSided, true, _) => Self::More,
            (Direction::TwoSided, _, true) => Self::Fewer,
            (_, false, false) => Self::Undecided,
        }
    }
}

/// Effects of all policies: a row for each metric and statistic that has an effect in several cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// The cells in the order of the policies, which is by load.
    pub columns: Vec<Column>,
    /// Metrics in the order of the reports.
    pub rows: Vec<Row>,
}

/// A cell of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the workload.
    pub workload: String,
    /// Name of the cell.
    pub cell: String,
    /// What heads the column: the cell, with its workload where two workloads have a cell of that name.
    pub label: String,
}

/// A metric and statistic in every cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is measured.
    pub metric: Metric,
    /// How a run's values become one number.
    pub statistic: Statistic,
    /// One for each column; none where there is no effect.
    pub cells: Vec<Option<(Effect, Mark)>>,
    /// The mean over the cells (geometric for ratios, arithmetic for differences): **never used for a
    /// verdict**, shown to make plain what it would have hidden. NaN when a change is not finite.
    pub mean: f64,
    /// What to say when the interval of one cell shows the opposite of another's.
    pub flip: Option<String>,
}

impl Row {
    /// `tpot.p50`.
    pub fn name(&self) -> String {
        self.metric.with(self.statistic)
    }
}

impl Effects {
    /// The table of this judgement. Where two policies judge the same effect, it stands once.
    pub fn of(judgement: &Judgement) -> Self {
        let mut columns: Vec<(&str, &str)> = Vec::new();
        let mut rows: BTreeMap<(Metric, Statistic), Cells<'_>> = BTreeMap::new();
        for policy in &judgement.policies {
            for check in &policy.checks {
                let Some(effect) = check.effect else { continue };
                let column = (policy.workload.as_str(), check.cell.as_str());
                rows.entry((check.metric, check.statistic)).or_default().entry(column).or_insert(effect);
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        // A row in which nothing is shown to have moved has no sign to flip.
        let moved =
            |metric, cells: &Cells<'_>| cells.values().any(|effect| Mark::of(metric, *effect) != Mark::Undecided);
        rows.retain(|(metric, _), cells| cells.len() > 1 && moved(*metric, cells));
        columns.retain(|column| rows.values().any(|cells| cells.contains_key(column)));
        let columns = labelled(&columns);
        let rows = rows.into_iter().map(|((metric, statistic), cells)| row(metric, statistic, &cells, &columns));
        Self { rows: rows.collect(), columns }
    }

    /// The sentence of every row whose sign flips, with the row's name in front.
    pub fn flips(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|row| Some(format!("{}: {}", row.name(), row.flip.as_ref()?)))
    }
}

fn labelled(columns: &[(&str, &str)]) -> Vec<Column> {
    let label = |workload: &str, cell: &str| {
        let twice = columns.iter().filter(|(_, other)| *other == cell).count() > 1;
        if twice { format!("{workload}/{cell}") } else { cell.to_owned() }
    };
    let column = |&(workload, cell): &(&str, &str)| Column {
        workload: workload.to_owned(),
        cell: cell.to_owned(),
        label: label(workload, cell),
    };
    columns.iter().map(column).collect()
}

fn row(metric: Metric, statistic: Statistic, cells: &Cells<'_>, columns: &[Column]) -> Row {
    let cells: Vec<_> = columns
        .iter()
        .map(|column| {
            let effect = *cells.get(&(column.workload.as_str(), column.cell.as_str()))?;
            Some((effect, Mark::of(metric, effect)))
        })
        .collect();
    let mean = mean(metric, cells.iter().flatten().map(|(effect, _)| effect.change));
    let at = |mark: Mark| -> Option<String> {
        let labels: Vec<&str> = columns
            .iter()
            .zip(&cells)
            .filter(|(_, cell)| cell.is_some_and(|(_, own)| own == mark))
            .map(|(column, _)| column.label.as_str())
            .collect();
        (!labels.is_empty()).then(|| format!("{} at {}", mark.id(), labels.join(", ")))
    };
    let opposite = at(Mark::Worse).zip(at(Mark::Better)).or_else(|| at(Mark::More).zip(at(Mark::Fewer)));
    let flip = opposite.map(|(one, other)| {
        let undecided = at(Mark::Undecided).map(|text| format!("; {text}")).unwrap_or_default();
        let mean = format::change(metric, mean);
        format!(
            "sign flip: {one}; {other}{undecided}; the mean over cells would be {mean} (never used for the verdict)"
        )
    });
    Row { metric, statistic, cells, mean, flip }
}

fn mean(metric: Metric, changes: impl Iterator<Item = f64>) -> f64 {
    let share = metric.is_difference();
    let (sum, n) = changes.fold((0.0, 0.0), |(sum, n), x| (sum + if share { x } else { x.ln_1p() }, n + 1.0));
    let mean: f64 = if share { sum / n } else { (sum / n).exp_m1() };
    if mean.is_finite() { mean } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_sign_flip_is_named_with_the_mean_that_would_hide_it() {
        let effects = Effects::of(&fixture::rich());
        let labels: Vec<_> = effects.columns.iter().map(|column| column.label.as_str()).collect();
        assert_eq!(labels, ["c1", "c8", "c64", "c256"]);
        let tpot = effects.rows.iter().find(|row| row.metric == Metric::Tpot).unwrap();
        assert_eq!(
            tpot.flip.as_deref(),
            Some(
                "sign flip: worse at c1, c8; better at c64, c256; the mean over cells would be -0.4 % \
                 (never used for the verdict)"
            )
        );
        assert!(effects.rows.iter().all(|row| row.metric != Metric::Ttft), "nothing moved, so nothing is shown");
        assert!(effects.rows.iter().all(|row| row.metric != Metric::ErrorRate), "one cell makes no row");
    }

    #[test]
    fn marks_follow_the_metric_s_direction_and_undefined_is_undecided() {
        let effect = |low, high| Effect { baseline: 1.0, candidate: 1.0, change: 0.0, low, high };
        assert_eq!(Mark::of(Metric::Tpot, effect(0.01, 0.02)), Mark::Worse);
        assert_eq!(Mark::of(Metric::Throughput, effect(0.01, 0.02)), Mark::Better);
        assert_eq!(Mark::of(Metric::Throughput, effect(-0.02, -0.01)), Mark::Worse);
        assert_eq!(Mark::of(Metric::OutputTokens, effect(-0.02, -0.01)), Mark::Fewer);
        assert_eq!(Mark::of(Metric::Tpot, effect(-0.01, 0.02)), Mark::Undecided);
        assert_eq!(Mark::of(Metric::Tpot, effect(f64::NAN, f64::NAN)), Mark::Undecided);
        assert!(mean(Metric::Tpot, [0.1, f64::NAN].into_iter()).is_nan());
    }

    #[test]
    fn cells_of_one_name_in_two_workloads_are_told_apart() {
        let mut judgement = fixture::rich();
        for check in &mut judgement.policies[1].checks {
            check.cell = "c64".to_owned();
        }
        let labels: Vec<_> = Effects::of(&judgement).columns.into_iter().map(|column| column.label).collect();
        assert_eq!(labels, ["c1", "c8", "chat-steady/c64", "offline/c64"]);
    }
}

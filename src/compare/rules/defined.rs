//! Answers have what a check measures on both sides alike. A quantile is over the answers that define its metric, so
//! answers that stop defining it would leave the number in silence.

use std::collections::BTreeSet;

use crate::artifact::metrics::is_defined;
use crate::base::names::Metric;
use crate::base::words::apart;
use crate::compare::evidence::Evidence;
use crate::compare::rules::Mismatch;
use crate::compare::rules::workload::per_cell;
use crate::spec::policy::Policy;
use crate::spec::slice::Slice;

/// The largest difference of the share of answers that define a metric.
const TOLERANCE: f64 = 0.05;

/// The same share of the answers defines each metric in what has a check of it.
pub(super) fn same_answers(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    let checked: BTreeSet<(Metric, &str, &Slice)> =
        policy.checks.iter().flat_map(|check| check.cells().map(|cell| (check.metric, cell, &check.slice))).collect();
    checked.into_iter().flat_map(|(metric, cell, slice)| of_metric(evidence, metric, (cell, slice))).collect()
}

fn of_metric(evidence: &Evidence<'_>, metric: Metric, (checked, slice): (&str, &Slice)) -> Vec<Mismatch> {
    let cell = evidence.plan.cells.iter().find(|cell| cell.name == checked);
    let part = cell.and_then(|cell| cell.numbers(slice));
    per_cell(
        evidence,
        |record| {
            let belongs = part.as_ref().is_none_or(|part| part.contains(&record.request));
            let counts = record.cell == checked && belongs && record.is_success();
            let defined = if counts { is_defined(metric, record)? } else { return None };
            Some([f64::from(u8::from(defined)), 1.0])
        },
        |cell, baseline, candidate| {
            let [before, now] = apart([100.0 * baseline, 100.0 * candidate], 0);
            // Where no answer defines it the check has no value, and says so itself.
            let some = baseline > 0.0 && candidate > 0.0;
            let here = slice.of(cell);
            (some && (candidate - baseline).abs() > TOLERANCE).then(|| Mismatch {
                code: "values-missing",
                cell: Some(cell.to_owned()),
                message: format!(
                    "{before} % of the answers define {metric} in the baseline and {now} % in the candidate at {here}: the \
                     others came in one chunk, at one instant or without token counts, and a number over the rest would \
                     hide them; see what holds answers back between the engine and the client"
                ),
            })
        },
    )
}

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

/// The largest difference of the share of answers that define a metric.
const TOLERANCE: f64 = 0.05;

/// The same share of the answers defines each metric that has a check.
pub(super) fn same_answers(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    let metrics: BTreeSet<Metric> = policy.checks.iter().map(|check| check.metric).collect();
    metrics.into_iter().flat_map(|metric| of_metric(evidence, policy, metric)).collect()
}

fn of_metric(evidence: &Evidence<'_>, policy: &Policy, metric: Metric) -> Vec<Mismatch> {
    per_cell(
        evidence,
        |record| {
            let defined = f64::from(u8::from(is_defined(metric, record)?));
            record.is_success().then_some([defined, 1.0])
        },
        |cell, baseline, candidate| {
            let checked = policy.checks.iter().any(|check| check.metric == metric && check.cell == cell);
            let [before, now] = apart([100.0 * baseline, 100.0 * candidate], 0);
            // Where no answer defines it the check has no value, and says so itself.
            let some = baseline > 0.0 && candidate > 0.0;
            (checked && some && (candidate - baseline).abs() > TOLERANCE).then(|| Mismatch {
                code: "values-missing",
                cell: Some(cell.to_owned()),
                message: format!(
                    "{before} % of the answers define {metric} in the baseline and {now} % in the candidate at {cell}: the \
                     others came in one chunk, at one instant or without token counts, and a number over the rest would \
                     hide them; see what holds answers back between the engine and the client"
                ),
            })
        },
    )
}

//! A metric means the same in every run.

use std::collections::BTreeSet;

use crate::artifact::run::FORMAT;
use crate::base::names::Metric;
use crate::compare::evidence::{Evidence, name};
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

/// The version of servegate may differ: it is the definitions that give the numbers their meaning.
pub(super) fn same_definitions(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    let newer = evidence.all().find(|(_, run)| run.manifest.format > FORMAT).map(|(side, run)| {
        let format = run.manifest.format;
        let message = format!("{} has format {format}, newer than {FORMAT}: use a newer servegate", name(side, run));
        whole("format-newer", message)
    });
    let metrics: BTreeSet<Metric> = policy.checks.iter().map(|check| check.metric).collect();
    let differs = |metric: &Metric| {
        let mut ids = evidence.all().map(|(_, run)| run.manifest.definitions.get(metric.id()));
        let first = ids.next()?;
        let other = ids.find(|id| *id != first)?;
        let show = |id: Option<&String>| id.map_or("none", String::as_str).chars().take(32).collect::<String>();
        let message = format!(
            "the runs define {metric} differently (`{}` and `{}`): measure both sides with the same servegate",
            show(first).escape_default(),
            show(other).escape_default()
        );
        Some(whole("definition-differs", message))
    };
    newer.into_iter().chain(metrics.iter().filter_map(differs)).collect()
}

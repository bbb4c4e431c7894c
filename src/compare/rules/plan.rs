//! Every run followed the same plan.

use crate::compare::evidence::{Evidence, name};
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

pub(super) fn same_plan(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let plan = evidence.plan;
    let other =
        evidence.all().find(|(_, run)| run.manifest.plan != plan.fingerprint || run.manifest.workload != plan.workload);
    let message = |(side, run)| {
        format!(
            "{} followed another plan ({}) than this workload makes ({}): different requests cannot show a difference of \
             the deployment; measure again, or rebase the baseline if the workload was meant to change",
            name(side, run),
            run.manifest.plan.short(),
            plan.fingerprint.short()
        )
    };
    other.map(message).map(|message| whole("plan-differs", message)).into_iter().collect()
}

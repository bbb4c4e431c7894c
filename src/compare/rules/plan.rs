//! Every run followed the same plan, the whole of it.

use crate::artifact::run::Run;
use crate::base::names::Side;
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

/// A manifest that plans fewer requests than the plan could leave out those that went badly.
pub(super) fn whole_plan(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let plan = evidence.plan;
    let cut = |(side, run): (Side, &Run)| {
        let other = run.manifest.cells.iter().find_map(|seen| {
            let cell = plan.cells.iter().find(|cell| cell.name == seen.name)?;
            let planned = u32::try_from(cell.requests.len()).unwrap_or(u32::MAX);
            (seen.planned != planned).then_some((seen, planned))
        })?;
        let (seen, planned) = other;
        let message = format!(
            "{} says that {} requests were planned at {}, and the plan has {planned}: its manifest was changed; restore it \
             from its source or measure again",
            name(side, run),
            seen.planned,
            seen.name
        );
        Some(Mismatch { code: "plan-cut", cell: Some(seen.name.clone()), message })
    };
    // Under another plan the numbers are another plan's.
    let followed = evidence.all().filter(|(_, run)| run.manifest.plan == plan.fingerprint);
    followed.filter_map(cut).collect()
}

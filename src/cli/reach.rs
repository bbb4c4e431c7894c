//! Checks that can never pass, as findings at their places in the policy.

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::error::Finding;
use crate::cli::suite::{LoadedPolicy, Suite};
use crate::plan::request::PlannedCell;
use crate::spec::policy::{Check, Margin, Policy};
use crate::verdict::reach::{BASELINE_RUNS, Unplanned, planned, requests_needed, unplanned};

/// The findings of a policy. `servegate check` refuses the files for them; a gate, which may be given more runs or have
/// more of a baseline, only says them.
pub(crate) fn hopeless(suite: &Suite, loaded: &LoadedPolicy, severity: Severity) -> Vec<Finding> {
    let policy = &loaded.policy;
    let of = |check: &Check| {
        let cell = suite.plan.cells.iter().find(|cell| cell.name == check.cell)?;
        let unplanned = unplanned(check, &suite.plan).map(|found| no_number(check, found, severity));
        unplanned.or_else(|| out_of_reach(policy, check, (cell, severity)))
    };
    let found = policy.checks.iter().filter_map(of);
    found.map(|diagnostic| Finding { diagnostic, text: loaded.source.text.clone() }).collect()
}

fn no_number(check: &Check, found: Unplanned, severity: Severity) -> Diagnostic {
    let Unplanned { message, help } = found;
    let (place, key) = (check.place.clone(), "checks".to_owned());
    Diagnostic { code: "too-few-requests", severity, place, key, message, help: help.to_owned() }
}

fn out_of_reach(policy: &Policy, check: &Check, (cell, severity): (&PlannedCell, Severity)) -> Option<Diagnostic> {
    let requests = planned(check, cell);
    let needed = requests_needed(policy, check, requests)?;
    let (id, runs) = (check.id(), policy.runs);
    let points = match check.margin {
        Margin::Points(points) | Margin::Relative { ratio: points, .. } | Margin::Within(points) => points,
    };
    let message = format!(
        "`{id}` is required and can never pass: {runs} runs of {requests} requests without a single failure \
             do not show that at most {} pp more fail",
        100.0 * points
    );
    // A part of the cell has more when the cell has.
    let all = u64::try_from(cell.requests.len()).unwrap_or(u64::MAX);
    let needed = u64::from(needed).saturating_mul(all).div_ceil(u64::from(requests.max(1)));
    let help = format!(
        "raise the cell's `requests` to {needed} (with a baseline of {BASELINE_RUNS} runs), widen the margin, or \
             write `role: guard`"
    );
    let (place, key) = (check.place.clone(), "checks".to_owned());
    Some(Diagnostic { code: "margin-out-of-reach", severity, place, key, message, help })
}

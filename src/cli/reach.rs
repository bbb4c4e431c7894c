//! Checks that can never pass, as findings at their places in the policy.

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::error::Finding;
use crate::cli::suite::{LoadedPolicy, Suite};
use crate::spec::policy::{Check, Margin};
use crate::verdict::reach::{BASELINE_RUNS, planned, requests_needed, unplanned};

/// The findings of a policy. `servegate check` refuses the files for them; a gate, which may be given more runs or have
/// more of a baseline, only says them.
pub(crate) fn hopeless(suite: &Suite, loaded: &LoadedPolicy, severity: Severity) -> Vec<Finding> {
    let mut findings = Vec::new();
    let policy = &loaded.policy;
    let mut found = |check: &Check, code, message, help| {
        let (place, key) = (check.place.clone(), "checks".to_owned());
        let diagnostic = Diagnostic { code, severity, place, key, message, help };
        findings.push(Finding { diagnostic, text: loaded.source.text.clone() });
    };
    for check in &policy.checks {
        let Some(cell) = suite.plan.cells.iter().find(|cell| cell.name == check.cell) else { continue };
        if let Some((message, help)) = unplanned(check, cell) {
            found(check, "too-few-requests", message, help);
            continue;
        }
        let requests = planned(check, cell);
        let Some(needed) = requests_needed(policy, check, requests) else { continue };
        let (id, runs) = (check.id(), policy.runs);
        let points = match check.margin {
            Margin::Points(points) | Margin::Relative { ratio: points, .. } | Margin::Within(points) => points,
        };
        let message = format!(
            "`{id}` is required and can never pass: {runs} runs of {requests} requests without a single failure \
                 do not show that at most {} pp more fail",
            100.0 * points
        );
        // Of a part of a cell there are more when the cell has more.
        let times = |count: u32| {
            let all = u64::try_from(cell.requests.len()).unwrap_or(u64::MAX);
            (u64::from(count) * all).div_ceil(u64::from(requests.max(1)))
        };
        let help = format!(
            "raise the cell's `requests` to {} (with a baseline of {BASELINE_RUNS} runs), widen the margin, or \
                 write `role: guard`",
            times(needed)
        );
        found(check, "margin-out-of-reach", message, help);
    }
    findings
}

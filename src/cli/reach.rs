//! Checks that can never pass, as findings at their places in the policy.

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::error::Finding;
use crate::cli::suite::{LoadedPolicy, Suite};
use crate::spec::policy::Margin;
use crate::verdict::reach::{BASELINE_RUNS, requests_needed};

/// The findings of a policy. `servegate check` refuses the files for them; a gate, which may be given more runs or have
/// more of a baseline, only says them.
pub(crate) fn hopeless(suite: &Suite, loaded: &LoadedPolicy, severity: Severity) -> Vec<Finding> {
    let mut findings = Vec::new();
    let policy = &loaded.policy;
    for check in &policy.checks {
        let Some(cell) = suite.workload.cells.iter().find(|cell| cell.name == check.cell) else { continue };
        let Some(needed) = requests_needed(policy, check, cell.requests) else { continue };
        let (id, runs, requests) = (check.id(), policy.runs, cell.requests);
        let points = match check.margin {
            Margin::Points(points) | Margin::Relative { ratio: points, .. } | Margin::Within(points) => points,
        };
        let message = format!(
            "`{id}` is required and can never pass: {runs} runs of {requests} requests without a single failure \
                 do not show that at most {} pp more fail",
            100.0 * points
        );
        let help = format!(
            "raise the cell's `requests` to {needed} (with a baseline of {BASELINE_RUNS} runs), widen the margin, or \
                 write `role: guard`"
        );
        let (place, key) = (check.place.clone(), "checks".to_owned());
        let diagnostic = Diagnostic { code: "margin-out-of-reach", severity, place, key, message, help };
        findings.push(Finding { diagnostic, text: loaded.source.text.clone() });
    }
    findings
}

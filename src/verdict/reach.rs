//! Whether a check can ever be shown: what a policy asks for against what its workload plans, before anything is
//! measured.

use crate::artifact::metrics::time_to_recover;
use crate::artifact::metrics::ttft_slope::{LEAST_REQUESTS, LEAST_SPREAD, spread};
use crate::base::names::{Metric, Role, Scale};
use crate::plan::request::{Plan, PlannedCell, PlannedRequest};
use crate::spec::policy::{Check, Margin, Policy};
use crate::stats::error_rate::{Count, Counts, error_rates};

/// The stored baseline that is counted on: three sessions of two runs.
pub const BASELINE_RUNS: u32 = 6;
/// More requests than a cell may have.
const TOO_MANY: u32 = 1_000_001;

/// How many requests a run needs before a required check of the error rate can pass when nothing fails on either side:
/// none when the `planned` ones are enough, and for every other check, whose noise nobody knows beforehand. The number
/// is past the largest that a cell may have when no number is enough.
pub fn requests_needed(policy: &Policy, check: &Check, planned: u32) -> Option<u32> {
    let Margin::Points(margin) = check.margin else { return None };
    if check.metric != Metric::ErrorRate || check.role != Role::Required || passes(policy, margin, planned) {
        return None;
    }
    // More requests never hurt: the answer lies above the planned ones.
    let (mut few, mut enough) = (planned, TOO_MANY);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if passes(policy, margin, middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    Some(enough)
}

/// How many requests of a run a check is about.
pub fn planned(check: &Check, cell: &PlannedCell) -> u32 {
    let all = cell.requests.len();
    let count = cell.numbers(&check.slice).map_or(all, |numbers| numbers.len());
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Why a check can never have a number that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplanned {
    /// What the plan lacks.
    pub message: String,
    /// What to do.
    pub help: &'static str,
}

/// What keeps a check from ever having a number that decides: too few requests with a length in its range, too few to see a
/// recovery, or prompts too much alike for a slope. Other requests are counted where the policy is read.
pub fn unplanned(check: &Check, plan: &Plan) -> Option<Unplanned> {
    let cells = check.cells().filter_map(|name| plan.cells.iter().find(|cell| cell.name == name));
    cells.into_iter().find_map(|cell| unplanned_in(check, cell))
}

fn unplanned_in(check: &Check, cell: &PlannedCell) -> Option<Unplanned> {
    let (slope, recovery) = (check.metric == Metric::TtftSlope, check.metric == Metric::TimeToRecover);
    if check.slice.context.is_none() && check.slice.turn.is_none() && !slope && !recovery {
        return None;
    }
    let floor = match (slope, recovery, cell.name == check.cell) {
        (true, ..) => LEAST_REQUESTS,
        (_, true, true) => time_to_recover::LEAST_REQUESTS,
        (_, true, false) => time_to_recover::LEAST_STEADY,
        (false, false, _) => check.statistic.floor(),
    };
    let (id, numbers) = (check.id(), cell.numbers(&check.slice));
    let part = || {
        let belongs = |request: &&PlannedRequest| numbers.as_ref().is_none_or(|all| all.contains(&request.number));
        cell.requests.iter().filter(belongs)
    };
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let (values, what) = match check.metric.scale() {
        Scale::PerGap => (part().map(|it| count(it.output_tokens.saturating_sub(1))).sum(), "token gaps"),
        Scale::PerRequest | Scale::PerRefusal | Scale::PerRun | Scale::Proportion => (part().count(), "requests"),
    };
    // An advisory number may be uncertain; one of nothing is a slip.
    let needed = if check.role == Role::Advisory && !recovery { 1 } else { floor };
    if values < needed {
        let message = format!(
            "`{id}` needs {needed} {what} in a run to decide anything, and the plan of `{}` has {values} of them",
            cell.name
        );
        let help = "raise the `requests` there, take another range or a lower quantile, or write `role: advisory`";
        return Some(Unplanned { message, help });
    }
    let spread = spread(part().map(|request| request.prompt.words).collect());
    (slope && spread < LEAST_SPREAD).then(|| {
        let message = format!(
            "`{id}` needs prompts that differ in length by {LEAST_SPREAD} tokens from their 10th to their 90th percentile, \
             and those of the plan differ by {spread}"
        );
        Unplanned { message, help: "give the cell a wider distribution of `prompt_tokens`" }
    })
}

/// Whether runs of so many requests each, none of them failed, show the rate inside the margin.
fn passes(policy: &Policy, margin: f64, requests: u32) -> bool {
    let side =
        |runs: u32| -> Vec<Count> { (0..runs).map(|_| Count { failed: 0, attempted: requests.into() }).collect() };
    let (baseline, candidate) = (side(BASELINE_RUNS.saturating_add(policy.controls)), side(policy.runs));
    let counts = Counts { baseline: &baseline, candidate: &candidate, history: &[] };
    let alpha = policy.decision.alpha_pass;
    error_rates(&counts, margin, alpha).is_some_and(|rates| rates.p_pass.get() <= alpha)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{read_policy, read_workload};

    fn policy(requests: u32, runs: u32, check: &str) -> (Policy, u32) {
        let workload = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c1, concurrency: 1, requests: {requests}, \
             prompt_tokens: 8, output_tokens: 8}}\n"
        );
        let policy = format!(
            "servegate: 1\nkind: policy\nname: p\nworkload: w.yaml\nruns: {runs}\nchecks:\n  \
             - {{metric: error_rate, {check}}}\n  - {{metric: throughput, at_most: 5%}}\n"
        );
        let workload = read_workload("w.yaml", &workload).unwrap().value;
        (read_policy("p.yaml", &policy).bind(&workload).unwrap().value, requests)
    }

    fn needed(requests: u32, runs: u32, check: &str) -> Option<u32> {
        let (policy, requests) = policy(requests, runs, check);
        requests_needed(&policy, &policy.checks[0], requests)
    }

    #[test]
    fn a_margin_that_no_candidate_can_be_shown_inside_names_the_requests_it_needs() {
        let required = "at_most: 1pp, role: required";
        let least = needed(20, 3, required).unwrap();
        assert!((100..150).contains(&least), "{least}");
        assert_eq!(needed(least, 3, required), None);
        assert_eq!(needed(least - 1, 3, required), Some(least));
        assert!(needed(20, 5, required).unwrap() < least, "more runs need fewer requests each");
        for fine in ["at_most: 1pp, role: guard", "at_most: 10pp, role: required"] {
            assert_eq!(needed(20, 3, fine), None, "{fine}");
        }
    }
}

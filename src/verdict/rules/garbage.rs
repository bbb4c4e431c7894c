//! No deployment may send garbage: streams that are not of the dialect, beyond what the baseline does, fail the gate
//! whatever the numbers say. Other failures go by the error-rate check.

use crate::artifact::record::Outcome;
use crate::base::names::Side;
use crate::stats::error_rate::Count;
use crate::stats::fisher::more_failures;
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::{Screening, Seen};
use crate::verdict::words;

/// One false alarm in a hundred gates at most: a broken invariant ends a release without a margin to discuss.
const ALPHA: f64 = 0.01;

/// Malformed streams are no more frequent than in the baseline and its controls, over all cells with a check.
pub(super) fn malformed(screening: &Screening<'_>) -> Vec<Finding> {
    let count = |belongs: fn(Side) -> bool| {
        let seen = screening.seen.iter().filter(|seen| belongs(seen.side)).filter_map(|seen| seen.validity.as_ref());
        seen.map(|validity| validity.ended(Outcome::Malformed)).fold(Count::NONE, Count::plus)
    };
    let (baseline, candidate) = (count(|side| side != Side::Candidate), count(|side| side == Side::Candidate));
    let p = more_failures(baseline, candidate).get();
    if p > ALPHA {
        return vec![];
    }
    let message = format!(
        "{} of {} answers of the candidate are not valid streams, and {} of {} of the baseline ({}): {}; repair the \
         engine or its gateway, no margin allows this",
        candidate.failed,
        candidate.attempted,
        baseline.failed,
        baseline.attempted,
        words::p(p),
        first_detail(screening)
    );
    vec![Finding { verdict: Verdict::Fail, code: "malformed-streams", cell: None, message }]
}

/// What the first malformed answer of the candidate looked like.
fn first_detail(screening: &Screening<'_>) -> String {
    let mut runs = screening.seen.iter().filter(|seen| seen.side == Side::Candidate);
    let first = runs.find_map(|Seen { run, cell, .. }| {
        run.records.iter().find(|record| record.cell == cell.name && record.outcome == Outcome::Malformed)
    });
    let detail = first.and_then(|record| record.detail.as_deref()).unwrap_or("no detail was kept");
    format!("the first one: {detail}")
}

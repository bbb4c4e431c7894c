//! What is judged: the checks of the policy, and two that every cell gets.

use std::collections::BTreeSet;

use crate::base::names::{Metric, Role, Statistic};
use crate::spec::policy::{Check, Margin, Policy};
use crate::spec::slice::Slice;

/// The error rate may rise by this share (one point) where the policy does not say.
const ERRORS: f64 = 0.01;
/// Answers may become shorter or longer by this share where the policy does not say.
const LENGTH: f64 = 0.03;

/// A check under judgement.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) check: Check,
    /// Not of the policy: added so that no change looks fast by failing or by answering less.
    pub(super) implied: bool,
    /// Why a guard is only advisory here.
    pub(super) demoted: Option<String>,
}

impl Subject {
    /// Takes from it what it may do to the gate.
    pub(super) fn demote(&mut self, why: String) {
        self.check.role = Role::Advisory;
        self.demoted = Some(why);
    }

    /// Whether its verdict can reach the gate.
    pub(super) fn may_block(&self) -> bool {
        self.check.role != Role::Advisory
    }
}

/// The policy's checks in their order, then for each cell with a check that may block, and for each part of one, the
/// guards on error rate and output length that the policy does not have itself. The whole cell has them for its parts, too: no
/// part looks fast because another fails, and no phase because the one that it is read against does.
pub(super) fn subjects(policy: &Policy) -> Vec<Subject> {
    let own = policy.checks.iter().map(|check| Subject { check: check.clone(), implied: false, demoted: None });
    let mut subjects: Vec<Subject> = own.collect();
    let blocking = policy.checks.iter().filter(|check| check.role != Role::Advisory);
    let whole = Slice::default();
    let parts: BTreeSet<(&str, &Slice)> =
        blocking.flat_map(|check| check.cells().flat_map(|cell| [(cell, &whole), (cell, &check.slice)])).collect();
    for (cell, slice) in parts {
        for (metric, margin) in
            [(Metric::ErrorRate, Margin::Points(ERRORS)), (Metric::OutputTokens, Margin::Within(LENGTH))]
        {
            let has = |check: &Check| {
                check.cell == cell && check.slice == *slice && check.metric == metric && check.against.is_none()
            };
            if policy.checks.iter().any(has) {
                continue;
            }
            let check = Check {
                metric,
                statistic: Statistic::Value,
                cell: cell.to_owned(),
                slice: slice.clone(),
                against: None,
                reference: None,
                margin,
                warn_at: None,
                objective: None,
                role: Role::Guard,
                limits: vec![],
                place: policy.place.clone(),
            };
            subjects.push(Subject { check, implied: true, demoted: None });
        }
    }
    subjects
}

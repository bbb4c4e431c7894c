//! The gate's family of tests and Holm's correction over it.

use crate::stats::holm::holm;
use crate::stats::p_value::PValue;
use crate::verdict::states::State;
use crate::verdict::subjects::Subject;

/// A check's evidence to fail after Holm's correction, and the number of tests that it was for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corrected {
    pub(super) p_fail: PValue,
    pub(super) p_objective: Option<PValue>,
    pub(super) family: usize,
}

impl Corrected {
    /// Of a check without tests.
    pub(super) const NONE: Self = Self { p_fail: PValue::ONE, p_objective: None, family: 1 };
}

/// Corrects over all tests that may block: each check's margin and each objective is one. An advisory check is not
/// part of the family; its p-values stand as they are.
pub(super) fn correct(subjects: &[Subject], states: &[State]) -> Vec<Corrected> {
    let tests = |(subject, state): (&Subject, &State)| match state {
        State::Tried(tried) if subject.may_block() => [Some(tried.trial.p_fail), tried.trial.p_objective],
        State::Tried(_) | State::Blocked { .. } => [None, None],
    };
    let family: Vec<PValue> = subjects.iter().zip(states).flat_map(tests).flatten().collect();
    let mut adjusted = holm(&family).into_iter();
    let mut next = |test: Option<PValue>| test.and_then(|_| adjusted.next());
    let mut correct = |(subject, state): (&Subject, &State)| match state {
        State::Tried(tried) if subject.may_block() => Corrected {
            p_fail: next(Some(tried.trial.p_fail)).unwrap_or(PValue::ONE),
            p_objective: next(tried.trial.p_objective),
            family: family.len(),
        },
        State::Tried(tried) => {
            Corrected { p_fail: tried.trial.p_fail, p_objective: tried.trial.p_objective, family: 1 }
        }
        State::Blocked { .. } => Corrected::NONE,
    };
    subjects.iter().zip(states).map(&mut correct).collect()
}

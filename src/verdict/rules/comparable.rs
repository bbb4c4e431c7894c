//! The sides may be compared.

use crate::compare::rules::{Mismatch, mismatches};
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::Screening;

/// What the comparison objects to.
pub(super) fn comparable(screening: &Screening<'_>) -> Vec<Finding> {
    let finding = |Mismatch { code, cell, message }| Finding { verdict: Verdict::NotComparable, code, cell, message };
    mismatches(&screening.case.evidence, screening.case.policy).into_iter().map(finding).collect()
}

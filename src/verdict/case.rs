//! What one policy is judged by.

use crate::compare::evidence::Evidence;
use crate::spec::policy::Policy;

/// A policy and what was measured for it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The runs under its workload's plan. Policies that share a workload share them.
    pub evidence: Evidence<'a>,
}

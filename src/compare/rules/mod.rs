//! When two sides may not be compared. One file per rule and one line in the table: a rule sees the
//! evidence and the policy and returns what it objects to.

mod age;
mod caches;
mod conditions;
mod defined;
mod definitions;
mod identity;
mod plan;
mod tokens;
mod transport;
mod workload;

#[cfg(test)]
mod tests;

use crate::compare::evidence::Evidence;
use crate::spec::policy::Policy;

/// A reason why the sides, or one cell of them, may not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Stable, kebab-case.
    pub code: &'static str,
    /// The cell; none when it concerns everything.
    pub cell: Option<String>,
    /// What was seen, why it matters, what to do.
    pub message: String,
}

type Rule = fn(&Evidence<'_>, &Policy) -> Vec<Mismatch>;

/// Every rule, in the order in which people should read what they say.
const RULES: &[Rule] = &[
    age::missing_or_expired,
    identity::duplicates,
    identity::releases,
    identity::sessions,
    identity::order,
    plan::same_plan,
    plan::whole_plan,
    definitions::same_definitions,
    transport::same_transport,
    caches::same_caches,
    conditions::alike_within_a_side,
    conditions::equal_but_for_the_treatment,
    workload::same_prompts,
    workload::prompts_known,
    workload::same_cache_hits,
    defined::same_answers,
    tokens::same_source,
    tokens::same_tokenizer,
    tokens::same_counts,
    tokens::same_chunks,
];

/// All that forbids a comparison; empty when the sides are comparable.
pub fn mismatches(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    RULES.iter().flat_map(|rule| rule(evidence, policy)).collect()
}

fn whole(code: &'static str, message: String) -> Mismatch {
    Mismatch { code, cell: None, message }
}

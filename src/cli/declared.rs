//! Conditions that both sides declare, compared before anything is measured: where they may not differ, the answer is
//! known.

use std::collections::BTreeMap;

use crate::base::names::Condition;
use crate::cli::error::CliError;
use crate::cli::suite::Suite;
use crate::compare::conditions::difference;
use crate::spec::policy::Policy;

/// Declared values by condition.
type Declared = BTreeMap<Condition, String>;

/// Refuses sides that no measurement makes comparable under a policy.
pub(crate) fn check(suite: &Suite, baseline: &Declared, candidate: &Declared) -> Result<(), CliError> {
    for policy in suite.policies.iter().map(|loaded| &loaded.policy).filter(|policy| applies(policy, candidate)) {
        let differs = |condition: &Condition| {
            let values = [baseline.get(condition)?, candidate.get(condition)?].map(|value| Some(value.clone()));
            difference(*condition, values, &policy.treatment).filter(|difference| !difference.allowed)
        };
        if let Some(fix) = Condition::ALL.iter().find_map(|condition| differs(condition)?.fix()) {
            let message = format!("both sides are declared, and policy `{}` cannot compare them: {fix}", policy.name);
            return Err(CliError::conditions_differ(message));
        }
    }
    Ok(())
}

/// Whether the policy is known to apply: what is not declared is known only when it was measured.
fn applies(policy: &Policy, candidate: &Declared) -> bool {
    policy.when.iter().all(|(condition, value)| candidate.get(condition) == Some(value))
}

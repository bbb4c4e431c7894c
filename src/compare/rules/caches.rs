//! The caches of the server answered for the runs of both sides alike.

use crate::artifact::run::Run;
use crate::base::names::CacheMode;
use crate::compare::evidence::{Evidence, name};
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

/// Every run was kept from what earlier runs had left in the caches in the same way, or none was.
pub(super) fn same_caches(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let mut runs = evidence.all();
    let Some((first_side, first)) = runs.next() else { return vec![] };
    let other = runs.find(|(_, run)| run.manifest.caches != first.manifest.caches);
    let message = |(side, run): (_, &Run)| {
        format!(
            "the server's caches were {} for {} and {} for {}: what earlier runs left may have answered for one of them; \
             measure both sides of this workload again with one mode of `caches`, and rebase the baseline where it is the \
             other",
            shown(first),
            name(first_side, first),
            shown(run),
            name(side, run)
        )
    };
    other.map(message).map(|message| whole("caches-differ", message)).into_iter().collect()
}

fn shown(run: &Run) -> &'static str {
    match run.manifest.caches {
        Some(CacheMode::Reset) => "reset",
        Some(CacheMode::Salted) => "busted by salted prompts",
        None => "left as they were",
    }
}

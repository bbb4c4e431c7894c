//! Judging a measurement against the active baseline before it may become one, or a part of it.

use crate::base::digest::Digest;
use crate::base::names::Side;
use crate::cli::error::CliError;
use crate::cli::gate::{ExitPolicyArg, context, decide};
use crate::cli::gathered::Gathered;
use crate::cli::suite::Suite;
use crate::report::escape;
use crate::report::json;
use crate::report::view::View;
use crate::store::baseline::Baselines;
use crate::store::baseline::request::Approval;
use crate::store::bundle::Part;
use crate::store::runs::StoredRun;
use crate::verdict::judgement::Verdict;

/// What the gate says about a measurement that is to enter the baselines.
pub(crate) struct Judged {
    /// For the store.
    pub(crate) approval: Approval,
    /// Why it is not a pass, for people; empty where it is one.
    pub(crate) why: Vec<String>,
}

/// Judges these runs, controls among them, against the active baseline of the suite's workload; none without one.
pub(crate) fn judge(store: &Baselines, suite: &Suite, runs: &[StoredRun]) -> Result<Option<Judged>, CliError> {
    let Some(mut gathered) = Gathered::active(store, &suite.workload.name)? else { return Ok(None) };
    for run in runs {
        let part = if run.manifest.side == Side::Control { Part::Control } else { Part::Candidate };
        gathered.read(part, std::slice::from_ref(&run.path))?;
    }
    let suites = [(suite.clone(), gathered)];
    let judgement = decide(&suites, None);
    let context = context(ExitPolicyArg::Strict, Vec::new(), &suites);
    let view = View::new(&judgement, &context);
    let bytes = json::render(&view).map_err(|error| CliError::failed(error.to_string()))?;
    let mut why = Vec::new();
    if judgement.verdict > Verdict::Warn {
        why.push(view.headline.clone());
        why.extend(judgement.policies.iter().map(|policy| escape::one_line(&policy.sentence)));
    }
    Ok(Some(Judged { approval: Approval { verdict: judgement.verdict, judgement: Digest::of(&bytes) }, why }))
}

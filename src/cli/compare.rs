//! `servegate compare`: judge stored runs, offline and deterministic.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::names::Side;
use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::folders;
use crate::cli::gate::{ExitPolicyArg, Outputs, decide, forget};
use crate::cli::gathered::{Gathered, Reference};
use crate::cli::steps::{Folders, rebase};
use crate::cli::suite::Suite;
use crate::cli::terminal::Terminal;
use crate::store::bundle::Part;
use crate::store::runs::StoredRun;
use crate::store::runs::find::find;

/// Judge stored runs, without measuring
///
/// Example: servegate compare --policy gate-policies/chat.yaml --baseline runs/v1.4.2 --candidate runs/v1.5.0
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Policies to judge by
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,

    /// Run folders of the baseline, or folders of run folders
    #[arg(long, required = true, num_args = 1.., value_name = "RUN")]
    baseline: Vec<PathBuf>,

    /// Run folders of the candidate, or folders of run folders; controls among them are recognised
    #[arg(long, required = true, num_args = 1.., value_name = "RUN")]
    candidate: Vec<PathBuf>,

    /// Folder of the reports [default: that of servegate.yaml, else servegate-out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Config file [default: servegate.yaml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

/// Judges.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let config = files::config(args.config.as_deref()).inspect_err(|_| forget(args.out.as_deref()))?;
    let out = folders::out(args.out.as_deref(), &config);
    let store = folders::store(None, &config);
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    let _lock = outputs.prepare()?;
    let suites = files::suites(&args.policy, terminal)?;
    let (baseline, candidate) = (runs(&args.baseline)?, runs(&args.candidate)?);
    nothing_is_mixed_in(&suites, &baseline)?;
    nothing_is_mixed_in(&suites, &candidate)?;
    let mut gathered = Vec::new();
    for suite in suites {
        let mut evidence = Gathered::default();
        for stored in baseline.iter().filter(|stored| stored.manifest.workload == suite.workload.name) {
            let release = stored.manifest.release.clone();
            evidence.reference.get_or_insert(Reference { release, age_days: 0 });
            evidence.read(Part::Baseline, std::slice::from_ref(&stored.path))?;
        }
        for stored in candidate.iter().filter(|stored| stored.manifest.workload == suite.workload.name) {
            let part = if stored.manifest.side == Side::Control { Part::Control } else { Part::Candidate };
            evidence.read(part, std::slice::from_ref(&stored.path))?;
        }
        evidence.rebase = candidate_release(&evidence).map(|release| {
            let folders = Folders { runs: &args.candidate, store: &store, config: &config };
            rebase(release, &folders)
        });
        gathered.push((suite, evidence));
    }
    let judgement = decide(&gathered, None);
    outputs.publish(&gathered, &judgement, None, terminal)
}

/// The release under judgement; none where there is no run of it.
fn candidate_release(evidence: &Gathered) -> Option<&str> {
    evidence.part(Part::Candidate).first().map(|run| run.manifest.release.as_str())
}

/// The runs of these paths, in the order in which they were measured.
pub(crate) fn runs(paths: &[PathBuf]) -> Result<Vec<StoredRun>, CliError> {
    find(paths).map_err(|error| CliError::failed(error.to_string()))
}

/// Refuses a side with runs that no policy judges beside runs that one does: whoever named them wanted them judged.
fn nothing_is_mixed_in(suites: &[Suite], runs: &[StoredRun]) -> Result<(), CliError> {
    let judged = |run: &&StoredRun| suites.iter().any(|suite| suite.workload.name == run.manifest.workload);
    match runs.iter().find(|run| !judged(run)) {
        Some(stray) if runs.iter().any(|run| judged(&run)) => {
            let error = CliError::failed(format!(
                "the runs are of several workloads ({}), and no policy given judges `{}`, such as {}",
                workloads(runs),
                stray.manifest.workload,
                stray.path.display()
            ));
            Err(error.hint("name only runs of the workloads that the policies judge, or a policy for each workload"))
        }
        _ => Ok(()),
    }
}

/// `chat: 6 runs, offline-batch: 5 runs`.
pub(crate) fn workloads(runs: &[StoredRun]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(&run.manifest.workload).or_default() += 1;
    }
    let texts: Vec<String> = counts.iter().map(|(name, runs)| format!("{name}: {}", count(*runs, "run"))).collect();
    texts.join(", ")
}

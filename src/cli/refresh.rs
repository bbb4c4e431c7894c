//! `servegate baseline refresh`: the measurement of an approved release becomes the baseline, or a part of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::artifact::run::Run;
use crate::base::names::Side;
use crate::base::words::count;
use crate::cli::approval::{Judged, judge};
use crate::cli::baseline::warn_of_unapproved;
use crate::cli::compare::{runs, workloads};
use crate::cli::error::{CliError, Exit};
use crate::cli::failures;
use crate::cli::files;
use crate::cli::session::now;
use crate::cli::terminal::Terminal;
use crate::store::baseline::refusal::Refusal;
use crate::store::baseline::request::{Mode, Refresh, Refreshed};
use crate::store::baseline::{BaselineError, Baselines};
use crate::store::runs::{StoredRun, read_run};
use crate::verdict::judgement::Verdict;

/// Make the measurement of an approved release the baseline
///
/// Example: servegate baseline refresh --release v1.5.0 --approved-by "Ada Lovelace" --runs runs/v1.5.0 --policy gate-policies/chat.yaml
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The approved release
    #[arg(long, value_name = "TAG")]
    release: String,

    /// Who approved it
    #[arg(long, value_name = "WHO")]
    approved_by: String,

    /// Run folders of the measurement, or folders with them, up to four folders deep
    #[arg(long, required = true, num_args = 1.., value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Policies to judge the measurement by against the active baseline; it enters only if it passes (with
    /// --add-session also if it is inconclusive)
    #[arg(long, num_args = 1.., value_name = "FILE", required_unless_present_any = ["initial", "rebase"])]
    policy: Vec<PathBuf>,

    /// The first baseline of its workload
    #[arg(long, conflicts_with_all = ["add_session", "rebase"])]
    initial: bool,

    /// A further session of the active release
    #[arg(long, conflicts_with = "rebase")]
    add_session: bool,

    /// A new start: identity changed (driver, hardware, workload), or a regression is accepted
    #[arg(long, value_name = "REASON")]
    rebase: Option<String>,
}

/// Judges where it must be, and stores.
pub(crate) fn run(store: &Baselines, args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let found = runs(&args.runs)?;
    let workload = only_workload(&found)?;
    warn_of_unapproved(store, workload, terminal)?;
    let judged = judged(store, args, workload, &found, terminal)?;
    // Controls that were measured in between are not the release.
    let of_release = found.iter().filter(|run| run.manifest.side != Side::Control);
    let folders: Vec<PathBuf> = of_release.map(|run| run.path.clone()).collect();
    let refreshed = store.refresh(&Refresh {
        workload,
        release: &args.release,
        approved_by: &args.approved_by,
        at: &now(),
        mode: mode(args),
        runs: &folders,
        verdict: judged.as_ref().map(|judged| judged.approval),
    });
    if matches!(refreshed, Ok(_) | Err(BaselineError::Refused(Refusal::Verdict { .. }))) {
        for line in judged.iter().flat_map(|judged| &judged.why) {
            terminal.say(line);
        }
    }
    let accepted = refreshed.is_ok() && judged.is_some_and(|judged| judged.approval.verdict == Verdict::Inconclusive);
    if accepted {
        terminal.say(
            "an inconclusive session is expected here and accepted: it is of the release that is active already, and nothing shows \
             it worse",
        );
    }
    let Refreshed { digest, sessions, runs, .. } = refreshed.map_err(|error| CliError::failed(error.to_string()))?;
    let (sessions, runs) = (count(sessions, "session"), count(runs, "run"));
    terminal.say(&format!("{workload}: release {} is the active baseline: {sessions}, {runs}, {digest}", args.release));
    say_failures(&folders, terminal)?;
    if terminal.json() {
        terminal.data_json(&BTreeMap::from([(workload, digest)]))?;
    }
    Ok(Exit::Success)
}

/// Says the share of failed requests of what entered: the gate allows a candidate as many.
fn say_failures(folders: &[PathBuf], terminal: &mut Terminal) -> Result<(), CliError> {
    let read = |folder: &PathBuf| read_run(folder).map_err(|error| CliError::failed(error.to_string()));
    let runs: Vec<Run> = folders.iter().map(read).collect::<Result<_, _>>()?;
    for failed in failures::by_cell(&runs) {
        if failed.is_large() {
            terminal.warn(&format!(
                "warning: requests of the new baseline failed at {failed}: as many may fail in a candidate without being \
                 shown worse; measure again once they do not"
            ));
        } else {
            terminal.say(&format!("failed requests at {failed}"));
        }
    }
    Ok(())
}

/// The workload of the runs. One at a time: a refresh that is refused half-way would leave half a decision.
fn only_workload(runs: &[StoredRun]) -> Result<&str, CliError> {
    let first = runs.first().map(|run| run.manifest.workload.as_str());
    let first = first.ok_or_else(|| CliError::usage("no runs were given; name the run folders of the measurement"))?;
    if runs.iter().all(|run| run.manifest.workload == first) {
        return Ok(first);
    }
    let error = CliError::usage(format!("the runs are of several workloads ({})", workloads(runs)));
    Err(error.hint("name the runs of one workload, and give the command once for each"))
}

fn mode(args: &Args) -> Mode {
    match (&args.rebase, args.initial, args.add_session) {
        (Some(reason), ..) => Mode::Rebase(reason.clone()),
        (None, true, _) => Mode::Initial,
        (None, false, true) => Mode::AddSession,
        (None, false, false) => Mode::Next,
    }
}

/// Judges the measurement against the active baseline, when policies are given and there is one.
fn judged(
    store: &Baselines,
    args: &Args,
    workload: &str,
    runs: &[StoredRun],
    terminal: &mut Terminal,
) -> Result<Option<Judged>, CliError> {
    if args.policy.is_empty() {
        return Ok(None);
    }
    let suites = files::suites(&args.policy, terminal)?;
    let Some(suite) = suites.into_iter().find(|suite| suite.workload.name == workload) else {
        let error = CliError::usage(format!("no policy given with --policy judges the workload `{workload}`"));
        return Err(error.hint("name a policy whose `workload` is the one that was measured"));
    };
    judge(store, &suite, runs)
}

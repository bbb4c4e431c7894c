//! `servegate run`: measure, compare with the active baseline, judge, report, exit.

use std::path::PathBuf;

use crate::cli::candidate::{CandidateSession, Stage};
use crate::cli::deployment::Live;
use crate::cli::error::{CliError, Exit};
use crate::cli::files::{self, Suite};
use crate::cli::gate::{ExitPolicyArg, Gathered, OUT, Outputs, decide};
use crate::cli::lock::check_folders;
use crate::cli::session::{check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::target::TargetArgs;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::store::baseline::Baselines;

/// Measure a target, compare it with the active baseline, and decide
///
/// Example: servegate run --policy gate-policies/chat.yaml --target staging --release v1.5.0-rc1
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Policies to judge by; those that share a workload share its measurement
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,

    /// Release (or change) under judgement
    #[arg(long, default_value = "candidate")]
    release: String,

    /// Candidate runs, instead of what the policies ask for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,

    /// Runs of the baseline image in between, instead of what the policies ask for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    controls: Option<u32>,

    /// Name of the session [default: made from the time]
    #[arg(long)]
    session: Option<String>,

    /// Folder of the baselines [default: baselines]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Folder of the reports [default: servegate-out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

/// The gate.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let config = args.target.config()?;
    let session = args.session.clone().unwrap_or_else(new_name);
    check_names(&session, &args.release)?;
    let store =
        args.store.clone().or(config.baselines.clone().map(PathBuf::from)).unwrap_or_else(|| "baselines".into());
    let out = args.out.clone().or(config.out.clone().map(PathBuf::from)).unwrap_or_else(|| OUT.into());
    check_folders(&out, &store)?;
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    // First of all: whatever goes wrong from here on, an old report cannot be taken for this one.
    let _lock = outputs.prepare()?;
    let target = args.target.target(&config)?;
    let suites = files::suites(&args.policy, terminal)?;
    suites.iter().try_for_each(|suite| trust::admit(&suite.plan))?;
    let store = Baselines::at(store);
    let interrupt = Interrupt::listen()?;

    // All baselines first: a missing one is no reason to load a deployment for half an hour.
    let (mut gathered, mut trouble) = (Vec::new(), None);
    for suite in suites {
        let baseline = Gathered::active(&store, &suite.workload.name)?;
        if baseline.is_none() {
            trouble.get_or_insert_with(|| missing_baseline(&suite));
        }
        gathered.push((suite, Gathered { candidate: Some(args.release.clone()), ..baseline.unwrap_or_default() }));
    }
    for (suite, gathered) in &mut gathered {
        if trouble.is_some() {
            break;
        }
        let candidate = CandidateSession {
            name: &session,
            release: &args.release,
            runs: args.runs.unwrap_or_else(|| suite.runs()),
            controls: args.controls.unwrap_or_else(|| suite.controls()),
            out: outputs.runs(&suite.workload.name),
        };
        trouble = match Live::new(target.clone(), gathered.declared(), interrupt.clone()) {
            Ok(mut live) => {
                let mut stage = Stage { deployment: &mut live, interrupt: &interrupt, terminal };
                candidate.measure(suite, gathered, &mut stage)?
            }
            Err(error) => Some(error),
        };
    }
    finish(&outputs, &gathered, trouble, &interrupt, terminal)
}

fn missing_baseline(suite: &Suite) -> CliError {
    let name = &suite.workload.name;
    CliError::not_comparable(format!("there is no baseline of the workload `{name}`, so nothing was measured"))
        .hint(format!("measure an approved release: servegate measure --workload {} --target NAME --release TAG --out runs", suite.source.name))
        .hint("and make it the first baseline: servegate baseline refresh --initial --release TAG --approved-by WHO --runs runs")
}

/// Judges and reports. An interrupted session is kept and not judged.
pub(crate) fn finish(
    outputs: &Outputs<'_>,
    gathered: &[(Suite, Gathered)],
    trouble: Option<CliError>,
    interrupt: &Interrupt,
    terminal: &mut Terminal,
) -> Result<Exit, CliError> {
    match trouble {
        Some(error) if interrupt.exit().is_some() => Err(error),
        trouble => {
            let judgement = decide(gathered, trouble.as_ref());
            let exit = outputs.publish(gathered, &judgement, trouble.as_ref(), terminal)?;
            if let Some(error) = trouble {
                terminal.error(&error);
            }
            Ok(exit)
        }
    }
}

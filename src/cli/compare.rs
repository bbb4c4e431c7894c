//! `servegate compare`: judge stored runs, offline and deterministic.

use std::fs;
use std::path::{Path, PathBuf};

use crate::artifact::run::Manifest;
use crate::base::names::Side;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::gate::{ExitPolicyArg, Gathered, OUT, Outputs, Reference, decide};
use crate::cli::terminal::Terminal;
use crate::store::bundle::Part;
use crate::store::runs::{MANIFEST, RunError, read_run};

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

    /// Folder of the reports
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

/// Judges.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let outputs = Outputs { out: &args.out, exit_policy: args.exit_policy };
    let _lock = outputs.prepare()?;
    let suites = files::suites(&args.policy, terminal)?;
    let (baseline, candidate) = (run_folders(&args.baseline)?, run_folders(&args.candidate)?);
    let mut gathered = Vec::new();
    for suite in suites {
        let mut evidence = Gathered::default();
        for folder in &baseline {
            let run = open(folder)?;
            if run.workload == suite.workload.name {
                evidence.reference.get_or_insert(Reference { release: run.release, age_days: 0 });
                evidence.read(Part::Baseline, std::slice::from_ref(folder))?;
            }
        }
        for folder in &candidate {
            let run = open(folder)?;
            if run.workload == suite.workload.name {
                let part = if run.side == Side::Control { Part::Control } else { Part::Candidate };
                evidence.read(part, std::slice::from_ref(folder))?;
            }
        }
        gathered.push((suite, evidence));
    }
    let judgement = decide(&gathered, None);
    outputs.publish(&gathered, &judgement, None, terminal)
}

fn open(folder: &Path) -> Result<Manifest, CliError> {
    read_run(folder).map(|run| run.manifest).map_err(|error| CliError::failed(error.to_string()))
}

/// Run folders: those named, and those directly inside folders that are no runs, in order of their names. What a
/// killed measurement left is refused when it is named, or when nothing else is there.
pub(crate) fn run_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut folders = Vec::new();
    for path in paths {
        if path.join(MANIFEST).exists() {
            folders.push(path.clone());
            continue;
        }
        if is_partial(path) {
            return Err(half_written(path));
        }
        let failed =
            |error: std::io::Error| CliError::failed(format!("cannot read the folder {}: {error}", path.display()));
        let (mut inside, mut partial) = (Vec::new(), None);
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if is_partial(&entry) {
                partial = Some(entry);
            } else if entry.join(MANIFEST).exists() {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            if let Some(partial) = partial {
                return Err(half_written(&partial));
            }
            let error = CliError::failed(format!("{} is no run and holds none", path.display()));
            return Err(error.hint("a run is a folder with manifest.json and records.jsonl.zst"));
        }
        inside.sort();
        folders.extend(inside);
    }
    Ok(folders)
}

fn is_partial(folder: &Path) -> bool {
    folder.extension().is_some_and(|extension| extension == "partial")
}

fn half_written(folder: &Path) -> CliError {
    CliError::failed(RunError::HalfWritten { path: folder.to_owned() }.to_string())
}

//! `servegate measure`: measure only; the runs can be judged or refreshed into a baseline later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use crate::artifact::conditions::Conditions;
use crate::artifact::failures::Failures;
use crate::base::names::Side;
use crate::base::words::count;
use crate::cli::deployment::Live;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::resume::Resumed;
use crate::cli::session::{Measured, Session, check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::table;
use crate::cli::target::TargetArgs;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::report::escape;
use crate::store::files::check_writable;
use crate::store::runs::find::find;
use crate::store::runs::{StoredRun, read_run};
use crate::verdict::counting::{Uncounted, noted, uncounted};

/// Measure a target and keep the runs
///
/// Example: servegate measure --workload gate-policies/workloads/chat.yaml --target staging --release v1.4.2 --out runs/v1.4.2
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,

    #[command(flatten)]
    target: TargetArgs,

    /// Release that is measured
    #[arg(long, default_value = "unnamed")]
    release: String,

    /// Which side the restart command is to start (its `SERVEGATE_SIDE`)
    #[arg(long, value_enum, default_value_t)]
    side: SideArg,

    /// Runs; each is a fresh boot where the target has a restart command
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,

    /// Name of the session [default: made from the time]
    #[arg(long)]
    session: Option<String>,

    /// Folder that gets one folder per run
    #[arg(long, value_name = "DIR", required_unless_present = "resume")]
    out: Option<PathBuf>,

    /// Continue the session in this folder, which was interrupted or killed: only its missing runs are measured
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,

    /// Keep what the answers say, in a file beside the records of each run
    #[arg(long)]
    keep_text: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum SideArg {
    #[default]
    Baseline,
    Candidate,
}

/// Measures and shows what was measured.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let target = args.target.target(&args.target.config()?)?;
    let resumed = args.resume.as_deref().map(|folder| Resumed::find(folder, args.session.as_deref())).transpose()?;
    let name = match &resumed {
        Some(resumed) => resumed.session.clone(),
        None => args.session.clone().unwrap_or_else(new_name),
    };
    check_names(&name, &args.release)?;
    let (_, plan) = files::workload(&args.workload, terminal)?;
    trust::admit(&plan)?;
    // clap sees to it that there is one of the two.
    let out = args.out.as_ref().or(args.resume.as_ref()).cloned().unwrap_or_default();
    check_writable(&out).map_err(|error| CliError::failed(error.to_string()))?;
    let side = match args.side {
        SideArg::Baseline => Side::Baseline,
        SideArg::Candidate => Side::Candidate,
    };
    let interrupt = Interrupt::listen()?;
    let mut deployment = Live::new(target, Conditions::new(), interrupt.clone())?;
    let runs: Vec<_> = (0..args.runs).map(|_| (side, args.release.clone())).collect();
    let kept = if let Some(resumed) = resumed {
        resumed.check(&plan, &runs)?;
        resumed.enter(terminal)?
    } else {
        say_other_sessions(&out, &name, terminal);
        Vec::new()
    };
    let session = Session { plan: &plan, name: &name, runs, out: &out, keep_text: args.keep_text, kept };
    let Measured { runs, trouble } = session.measure(&mut deployment, &interrupt, terminal);
    show(&runs, &session, terminal)?;
    let resume = format!(
        "to continue, give the same command with --resume {} in place of --out: only the missing runs are measured",
        out.display()
    );
    trouble.map_or(Ok(Exit::Success), |error| Err(if runs.is_empty() { error } else { error.hint(resume) }))
}

/// Says that there are runs of other sessions in the folder already: whoever repeats a command may mean to go on.
fn say_other_sessions(out: &Path, session: &str, terminal: &mut Terminal) {
    // What cannot be read is nobody's session; a run that is being measured there has a name of its own.
    let found = find(&[out.to_owned()]).unwrap_or_default();
    let others: BTreeSet<String> =
        found.into_iter().map(|run| run.manifest.session).filter(|name| name != session).collect();
    if let Some(other) = others.first() {
        terminal.say(&format!(
            "note: {} holds runs of {} already, and session {session} begins beside them; --resume {} --session {other} \
             continues one",
            out.display(),
            count(others.len(), "session"),
            out.display()
        ));
    }
}

/// The table of what was measured, which runs do not count, and what else they tell.
fn show(runs: &[StoredRun], session: &Session<'_>, terminal: &mut Terminal) -> Result<(), CliError> {
    let (mut rows, mut doubts, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for stored in runs {
        let run = read_run(&stored.path).map_err(|error| CliError::failed(error.to_string()))?;
        let faults = uncounted(&run, Some(session.plan));
        let number = run.manifest.sequence.saturating_add(1);
        rows.extend(table::rows(&run, session.plan, &faults));
        notes.extend(noted(&run, session.plan));
        for cell in &session.plan.cells {
            let failures = Failures::of(run.records.iter().filter(|record| record.cell == cell.name));
            if !failures.is_empty() {
                let failures = escape::terminal(&failures.to_string());
                doubts.push(format!("warning: run {number} at {}: requests failed: {failures}", cell.name));
            }
        }
        doubts.extend(faults.into_iter().map(|Uncounted { cells, seen, fix, .. }| {
            format!("warning: run {number} does not count at {}: it {seen}; {fix}", cells.join(", "))
        }));
    }
    if terminal.json() {
        let paths: Vec<String> = runs.iter().map(|stored| stored.path.display().to_string()).collect();
        terminal.data_json(&json!({ "session": session.name, "runs": paths, "cells": rows }))?;
    } else if !rows.is_empty() {
        terminal.data(table::render(&rows).as_bytes())?;
        terminal.say(&format!("{} in {}", count(runs.len(), "run"), session.out.display()));
    }
    for note in rows.iter().filter_map(table::Row::note) {
        terminal.say(&note);
    }
    for line in table::hits(&rows) {
        terminal.say(&line);
    }
    for doubt in &doubts {
        terminal.warn(doubt);
    }
    for note in &notes {
        terminal.say(&format!("note: {note}"));
    }
    Ok(())
}

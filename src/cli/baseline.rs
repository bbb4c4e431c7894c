//! `servegate baseline`: the life of baselines.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;

use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::failures;
use crate::cli::files;
use crate::cli::folders;
use crate::cli::refresh;
use crate::cli::session::now;
use crate::cli::terminal::Terminal;
use crate::report::escape;
use crate::store::baseline::history::Event;
use crate::store::baseline::request::Change;
use crate::store::baseline::verify::Fault;
use crate::store::baseline::{BaselineError, Baselines};

/// The life of baselines: refresh, list, show, verify, history, rollback, anchor
///
/// Example: servegate baseline list
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the baselines [default: that of servegate.yaml, else baselines]
    #[arg(long, value_name = "DIR", global = true)]
    store: Option<PathBuf>,

    /// Config file [default: servegate.yaml, where there is one]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Refresh(refresh::Args),
    /// List the baselines of every workload
    ///
    /// Example: servegate baseline list --json
    List,
    Show(ShowArgs),
    Verify(VerifyArgs),
    History(HistoryArgs),
    Rollback(RollbackArgs),
    Anchor(AnchorArgs),
}

/// Show one baseline: approval, conditions, sessions, noise
///
/// Example: servegate baseline show chat v1.4.2
#[derive(clap::Args)]
struct ShowArgs {
    /// Name of the workload
    workload: String,
    /// Release [default: the active one]
    release: Option<String>,
}

/// Recompute every digest and report every fault
///
/// Example: servegate baseline verify
#[derive(clap::Args)]
struct VerifyArgs {
    /// Name of the workload [default: all]
    workload: Option<String>,
}

/// Show every change of a workload's baselines
///
/// Example: servegate baseline history chat
#[derive(clap::Args)]
struct HistoryArgs {
    /// Name of the workload
    workload: String,
}

/// Make an earlier release the active baseline again
///
/// Example: servegate baseline rollback chat v1.4.2 --by "Ada Lovelace" --reason "v1.5.0 was withdrawn"
#[derive(clap::Args)]
struct RollbackArgs {
    /// Name of the workload
    workload: String,
    /// The release
    release: String,
    /// Who decided
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why
    #[arg(long)]
    reason: String,
}

/// Make a stored release the anchor, the old release that bounds slow drift
///
/// Example: servegate baseline anchor chat v1.4.2 --by "Ada Lovelace" --reason "yearly review"
#[derive(clap::Args)]
struct AnchorArgs {
    /// Name of the workload
    workload: String,
    /// The release
    release: String,
    /// Who decided
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why
    #[arg(long)]
    reason: String,
}

/// Dispatches.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let config = files::config(args.config.as_deref())?;
    let store = Baselines::at(folders::store(args.store.as_deref(), &config));
    match &args.command {
        Command::Refresh(args) => refresh::run(&store, args, terminal),
        Command::List => list(&store, terminal),
        Command::Show(args) => show(&store, args, terminal),
        Command::Verify(args) => verify(&store, args, terminal),
        Command::History(args) => history(&store, args, terminal),
        Command::Rollback(args) => rollback(&store, args, terminal),
        Command::Anchor(args) => anchor(&store, args, terminal),
    }
}

fn failed(error: &BaselineError) -> CliError {
    CliError::failed(error.to_string())
}

/// Says what a history that was cut, or restored without its last lines, leaves behind: the active baseline may be an
/// older one than was approved. A killed refresh leaves the same, so it is no error.
pub(crate) fn warn_of_unapproved(
    baselines: &Baselines,
    workload: &str,
    terminal: &mut Terminal,
) -> Result<(), CliError> {
    let faults = baselines.unapproved(workload).map_err(|error| failed(&error))?;
    for Fault { path, what } in faults {
        terminal.warn(&format!("warning: {}: {}", path.display(), escape::terminal(&what)));
    }
    Ok(())
}

fn list(store: &Baselines, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let listed = store.list().map_err(|error| failed(&error))?;
    if terminal.json() {
        terminal.data_json(&listed)?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    for one in &listed {
        let state = match (one.active, one.anchor) {
            (true, true) => "active, anchor",
            (true, false) => "active",
            (false, true) => "anchor",
            (false, false) => "",
        };
        let name = format!("{}/{}", escape::terminal(&one.workload), escape::terminal(&one.release));
        let by = escape::terminal(&one.approved_by);
        let (sessions, runs) = (count(one.sessions, "session"), count(one.runs, "run"));
        line(&mut text, format_args!("{name:<32} {sessions}, {runs}  {}  {by}  {state}", one.approved_at));
    }
    if listed.is_empty() {
        line(&mut text, format_args!("no baseline"));
    }
    terminal.data(text.as_bytes())?;
    Ok(Exit::Success)
}

fn show(store: &Baselines, args: &ShowArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let (digest, manifest) = store.show(&args.workload, args.release.as_deref()).map_err(|error| failed(&error))?;
    if terminal.json() {
        terminal.data_json(&manifest)?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    line(&mut text, format_args!("workload     {}", escape::terminal(&manifest.workload)));
    line(&mut text, format_args!("release      {}", escape::terminal(&manifest.release)));
    line(&mut text, format_args!("digest       {digest}"));
    let by = escape::terminal(&manifest.approved_by);
    line(&mut text, format_args!("approved     {} by {by}", manifest.approved_at));
    if let Some(reason) = &manifest.reason {
        line(&mut text, format_args!("reason       {}", escape::terminal(reason)));
    }
    line(&mut text, format_args!("plan         {}", manifest.identity.plan));
    line(&mut text, format_args!("caches       {}", manifest.identity.caches_shown()));
    for (condition, value) in &manifest.identity.conditions {
        line(&mut text, format_args!("condition    {condition} = {}", escape::terminal(value)));
    }
    for (session, runs) in &manifest.sessions {
        line(&mut text, format_args!("session      {}: {}", escape::terminal(session), count(runs.len(), "run")));
    }
    match store.load(&manifest.workload, &manifest.release, digest) {
        Ok(baseline) => {
            for failed in failures::by_cell(&baseline.into_runs()) {
                line(&mut text, format_args!("failed       {failed}"));
            }
        }
        Err(error) => line(&mut text, format_args!("failed       unknown: {}", escape::terminal(&error.to_string()))),
    }
    line(&mut text, format_args!("\ncell       metric              median   run sd  session sd"));
    for noise in &manifest.noise {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |sd| format!("{:.2}%", sd * 100.0));
        let name = noise.metric.with(noise.statistic);
        let assumed = if noise.session_assumed { " (assumed)" } else { "" };
        let (cell, median) = (escape::terminal(&noise.cell), number(noise.median));
        let (run, session) = (percent(noise.run_sd), percent(Some(noise.session_sd)));
        line(&mut text, format_args!("{cell:<10} {name:<16} {median:>9} {run:>8} {session:>8}{assumed}"));
    }
    terminal.data(text.as_bytes())?;
    Ok(Exit::Success)
}

fn verify(store: &Baselines, args: &VerifyArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let faults = store.verify(args.workload.as_deref()).map_err(|error| failed(&error))?;
    // Nothing verified is not "all right".
    let known = store.workloads().map_err(|error| failed(&error))?;
    if faults.is_empty() && !args.workload.as_ref().map_or(!known.is_empty(), |name| known.contains(name)) {
        return Err(no_baseline(args.workload.as_deref()));
    }
    if terminal.json() {
        terminal.data_json(&faults)?;
    } else {
        let mut text = String::new();
        for fault in &faults {
            line(&mut text, format_args!("{}: {}", fault.path.display(), escape::terminal(&fault.what)));
        }
        if faults.is_empty() {
            line(&mut text, format_args!("every digest is right"));
        }
        terminal.data(text.as_bytes())?;
    }
    Ok(if faults.is_empty() { Exit::Success } else { Exit::Failed })
}

fn no_baseline(workload: Option<&str>) -> CliError {
    let of = workload.map(|name| format!(" of the workload `{}`", name.escape_debug())).unwrap_or_default();
    CliError::failed(format!("there is no baseline{of}"))
        .hint("`servegate baseline list` shows what there is; --store names another folder")
}

fn history(store: &Baselines, args: &HistoryArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let events = store.history(&args.workload).map_err(|error| failed(&error))?;
    if events.is_empty() {
        return Err(no_baseline(Some(&args.workload)));
    }
    if terminal.json() {
        terminal.data_json(&events)?;
        return Ok(Exit::Success);
    }
    let mut text = String::new();
    for Event { event, release, digest, by, at, reason, .. } in &events {
        let reason = reason.as_ref().map(|reason| format!(": {}", escape::terminal(reason))).unwrap_or_default();
        let (release, by) = (escape::terminal(release), escape::terminal(by));
        line(&mut text, format_args!("{at}  {event}  {release}  {}  {by}{reason}", digest.short()));
    }
    terminal.data(text.as_bytes())?;
    Ok(Exit::Success)
}

fn rollback(store: &Baselines, args: &RollbackArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let RollbackArgs { workload, release, by, reason } = args;
    store.rollback(&Change { workload, release, by, at: &now(), reason }).map_err(|error| failed(&error))?;
    terminal.say(&format!("{workload}: release {release} is the active baseline again"));
    Ok(Exit::Success)
}

fn anchor(store: &Baselines, args: &AnchorArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let AnchorArgs { workload, release, by, reason } = args;
    store.set_anchor(&Change { workload, release, by, at: &now(), reason }).map_err(|error| failed(&error))?;
    terminal.say(&format!("{workload}: release {release} is the anchor"));
    Ok(Exit::Success)
}

/// Appends a line. Writing to a String cannot fail.
fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _infallible = writeln!(text, "{content}");
}

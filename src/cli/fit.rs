//! `servegate workload fit`: from a trace to a workload that has its distributions.

use std::path::{Path, PathBuf};

use crate::base::units::Nanos;
use crate::cli::cut::{Cut, Steps};
use crate::cli::error::{CliError, Exit};
use crate::cli::fitted::Fitted;
use crate::cli::replay::not_there;
use crate::cli::terminal::Terminal;
use crate::cli::workload::{TraceArgs, read};
use crate::fit::{self, Options, Unfit};
use crate::spec::read_duration;
use crate::store::files::write_atomic;
use crate::trace::Reading;
use crate::trace::request::Traffic;
use crate::trace::shape::tick;
use crate::trace::steps::Recording;

/// Write a workload that has the distributions of a trace, and say how near its requests come to those of the trace
///
/// Each cell is an operating point: a window of the trace, with its rate, its burstiness, its lengths of prompts and answers
/// together, and what its prompts share. Nothing of the workload is a request of the trace. The report compares the
/// windows with the plan of the workload that was written.
///
/// Example: servegate workload fit conversation.jsonl --window 10m --cells 3 -o chat.yaml
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    file: TraceArgs,

    /// The workload file that is written; its name is that of the workload
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Write it although a file is there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    cut: Cut,

    /// The length of a window that becomes a cell
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = window)]
    window: Nanos,

    /// Most cells: the busiest window, the quietest, and others evenly between them by the rank of their rates
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    cells: u8,

    /// Most measured requests of a cell
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    requests: u32,

    /// The seed of the workload, and of everything that is random here
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn window(text: &str) -> Result<Nanos, String> {
    let window = read_duration(text)?;
    let is_right = (Nanos::from_secs(1)..=Nanos::from_secs(86_400)).contains(&window);
    if is_right { Ok(window) } else { Err("a window has a length from 1s to 24h".to_owned()) }
}

/// Writes and tells.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    not_there(&args.output, args.force)?;
    let Reading { format, why, traffic, faults } = read(&args.file, terminal)?;
    let name = args.file.trace.display().to_string();
    let Traffic::Requests(requests) = traffic else {
        let message = format!("{name} holds rates of arrivals and no requests, and a workload needs their lengths");
        return Err(
            CliError::unreadable(message).hint("write a workload with its rates: docs/workloads.md, \"Arrivals\"")
        );
    };
    let before = requests.rows.len();
    let ticked = tick(&requests);
    let spread = args.cut.spread || ticked.is_some();
    let Steps { recording, done } = args.cut.apply(Steps::of(Recording::of(requests)), spread, args.seed)?;
    let requests = recording.into_requests();
    let options = Options {
        name: workload_name(&args.output),
        seed: args.seed,
        window: args.window,
        cells: args.cells.into(),
        requests: args.requests,
    };
    let fit = fit::fit(&requests, &options).map_err(|error| refused(&name, &error))?;
    write_atomic(&args.output, fit.text.as_bytes()).map_err(|error| CliError::failed(error.to_string()))?;
    let reading = Reading { format, why, traffic: Traffic::Requests(requests), faults };
    let fitted = Fitted::of((&name, &args.output), before, done, ticked, &fit);
    if terminal.json() {
        terminal.data_json(&fitted)?;
    } else {
        terminal.data(fitted.render(&reading).as_bytes())?;
    }
    Ok(Exit::Success)
}

fn refused(name: &str, error: &Unfit) -> CliError {
    match error {
        Unfit::Written(_) => CliError::failed(error.to_string()),
        Unfit::TooFew { .. } | Unfit::AtOnce | Unfit::Rate { .. } => {
            let hint = "`servegate workload inspect` says what the trace holds; a short one is better replayed: \
                        `servegate workload replay`";
            CliError::unreadable(format!("{name}: {error}")).hint(hint)
        }
    }
}

/// The name of the file as that of a workload.
fn workload_name(output: &Path) -> String {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = stem.chars().take(64).map(plain).collect();
    let name = name.trim_matches(['-', '_']);
    if name.is_empty() { "fitted".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_called_like_its_file() {
        let name = |path: &str| workload_name(Path::new(path));
        assert_eq!(name("gate/Chat 2026.03.yaml"), "chat-2026-03");
        assert_eq!([name("-.yaml"), name("\u{4f60}.yaml"), name("..")], ["fitted"; 3]);
    }
}

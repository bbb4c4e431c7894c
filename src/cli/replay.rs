//! `servegate workload replay`: from a trace of any format to one that a workload may name.

use std::path::{Path, PathBuf};

use crate::base::words::count;
use crate::cli::cut::{Cut, Steps};
use crate::cli::error::{CliError, Exit};
use crate::cli::replayed::Replayed;
use crate::cli::terminal::Terminal;
use crate::cli::traces::MAX_FILE;
use crate::cli::traffic::OfRequests;
use crate::cli::workload::{TraceArgs, read};
use crate::spec::read_rate;
use crate::store::files::write_atomic;
use crate::trace::request::Traffic;
use crate::trace::steps::{Recording, Scaling, scaling};
use crate::trace::{MAX_ROWS, Reading, normal};

/// Write a trace as a workload replays it: cut, filtered, at another rate; say what is lost; print the cell
///
/// The steps are taken in this order: --from and --until, --spread, --class, --max-prompt-tokens and --max-output-tokens,
/// --thin, --superpose or --rate, --requests. Time is never stretched. The file holds no text of anybody.
///
/// Example: servegate workload replay conversation.jsonl --until 10m --rate 2/s -o chat.jsonl
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    file: TraceArgs,

    /// Where it is written: beside the workload file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Write it although a file is there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    cut: Cut,

    /// Keep each session with this probability, whole; a request without a session is one of its own
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["superpose", "rate"])]
    thin: Option<f64>,

    /// So many copies side by side, each moved by a random time, with users of its own
    #[arg(long, value_name = "COPIES", value_parser = clap::value_parser!(u32).range(2..=1_000), conflicts_with = "rate")]
    superpose: Option<u32>,

    /// Thin it or superpose copies, whichever leads to this mean rate, such as 2/s
    #[arg(long, value_name = "RATE", value_parser = read_rate)]
    rate: Option<f64>,

    /// Only the first so many of what is left
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests: Option<u32>,

    /// The seed of everything that is random in it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Refuses to write over a file.
pub(crate) fn not_there(output: &Path, force: bool) -> Result<(), CliError> {
    if output.exists() && !force {
        let message = format!("{} is there already", output.display());
        return Err(CliError::usage(message).hint("name another file, or write over it with --force"));
    }
    Ok(())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "a share is a number above 0 and up to 1, for example 0.25".to_owned())
}

/// Writes and tells.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    not_there(&args.output, args.force)?;
    let Reading { format, why, traffic, faults } = read(&args.file, terminal)?;
    let name = args.file.trace.display().to_string();
    let Traffic::Requests(requests) = traffic else {
        let message = format!("{name} holds rates of arrivals and no requests, and only requests can be replayed");
        return Err(
            CliError::unreadable(message).hint("write a workload with its rates: docs/workloads.md, \"Arrivals\"")
        );
    };
    if !requests.arrivals {
        let message =
            format!("{name} does not say when its requests arrived, and a replay is at the instants of the trace");
        return Err(
            CliError::unreadable(message).hint("write a workload with its lengths and a `rate`: docs/workloads.md")
        );
    }
    let before = OfRequests::of(&requests);
    let Steps { recording, done } = args.apply(Steps::of(Recording::of(requests)))?;
    let severed = recording.severed();
    let requests = recording.into_requests();
    let replayed = Replayed::of((&name, &args.output), before, done, &requests, severed);
    let reading = Reading { format, why, traffic: Traffic::Requests(requests), faults };
    let bytes = normal::write(&reading).map_err(|error| CliError::failed(error.to_string()))?;
    write_atomic(&args.output, &bytes).map_err(|error| CliError::failed(error.to_string()))?;
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > MAX_FILE) {
        terminal.warn(&format!(
            "the file has more than {} MiB, and a workload replays none so large: cut it",
            MAX_FILE >> 20
        ));
    }
    if terminal.json() {
        terminal.data_json(&replayed)?;
    } else {
        terminal.data(replayed.render(&reading).as_bytes())?;
    }
    Ok(Exit::Success)
}

impl Args {
    /// Every step that is asked for, in the order that the help names.
    fn apply(&self, steps: Steps) -> Result<Steps, CliError> {
        let mut steps = self.scaled(self.cut.apply(steps, self.cut.spread, self.seed)?)?;
        if let Some(most) = self.requests {
            let first = usize::try_from(most).unwrap_or(usize::MAX);
            steps = steps.take(format!("the first {}", count(most, "request")), |it| it.first(first))?;
        }
        Ok(steps)
    }

    /// Thinned, superposed, or whatever leads to the rate.
    fn scaled(&self, mut steps: Steps) -> Result<Steps, CliError> {
        let now = steps.recording.rate();
        let Scaling { copies, share } = match self.rate {
            Some(wanted) => scaling(now, wanted)
                .ok_or_else(|| CliError::usage(format!("a rate of {wanted}/s cannot be reached from {now:.6}/s")))?,
            None => Scaling { copies: self.superpose.unwrap_or(1), share: self.thin },
        };
        let towards = self.rate.map_or_else(String::new, |wanted| format!(", from {now:.3} to {wanted:.3} per s"));
        if copies > 1 {
            let rows = steps.recording.requests().rows.len();
            let copied = steps.recording.superpose(copies, self.seed).ok_or_else(|| {
                let message = format!("{copies} copies of {} are more than {MAX_ROWS}", count(rows, "request"));
                CliError::usage(message).hint("take a part of the trace: --from, --until")
            })?;
            steps.recording = copied;
            steps = steps.take(format!("superposed {copies} copies{towards}"), |it| it)?;
        }
        if let Some(share) = share {
            steps = steps.take(format!("thinned to {share:.6}{towards}"), |it| it.thin(share, self.seed))?;
        }
        Ok(steps)
    }
}

//! `servegate workload`: what traffic is made of.

use std::cell::Cell;
use std::path::PathBuf;

use clap::Subcommand;

use crate::base::words::count as count_of;
use crate::cli::error::{CliError, Exit};
use crate::cli::fit;
use crate::cli::replay;
use crate::cli::show;
use crate::cli::terminal::Terminal;
use crate::cli::tokenizer;
use crate::cli::traffic::Summary;
use crate::store::files::{FileError, read_bounded};
use crate::trace::refused::Refused;
use crate::trace::{self, Format, MAX_BYTES, Reading, tokens};

/// Workloads, and the traffic they are made from: inspect, replay, fit, show
///
/// Example: servegate workload inspect trace.csv
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(InspectArgs),
    Replay(replay::Args),
    Fit(fit::Args),
    Show(show::ShowArgs),
}

/// Say what a trace holds: its format and why, rate, bursts, lengths, sessions, shared prompts, faults
///
/// Reads traces of Azure, Mooncake, BurstGPT, Qwen-Bailian, ServeGen, Vidur and Splitwise, ShareGPT conversations,
/// OpenAI batch files, OpenTelemetry spans, and servegate's own form (docs/traffic.md). Nothing is stored. Exit 0, or
/// 5 when the file is refused.
///
/// Example: servegate workload inspect conversation.jsonl --json
#[derive(clap::Args)]
struct InspectArgs {
    #[command(flatten)]
    file: TraceArgs,
}

/// A trace that is read.
#[derive(clap::Args)]
pub(crate) struct TraceArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Its format, in place of what it looks like: azure, mooncake, burstgpt, bailian, servegen, vidur, splitwise,
    /// sharegpt, openai-batch, otel or servegate
    #[arg(long)]
    format: Option<Format>,

    /// The model's tokenizer.json, which counts texts exactly; else their tokens are estimated
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
}

/// Dispatches.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    match &args.command {
        Command::Inspect(args) => inspect(args, terminal),
        Command::Replay(args) => replay::run(args, terminal),
        Command::Fit(args) => fit::run(args, terminal),
        Command::Show(args) => show::run(args, terminal),
    }
}

fn inspect(args: &InspectArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let reading = read(&args.file, terminal)?;
    let summary = Summary::of(&reading);
    if terminal.json() {
        terminal.data_json(&summary)?;
    } else {
        terminal.data(summary.render(&args.file.trace.display().to_string()).as_bytes())?;
    }
    Ok(Exit::Success)
}

/// Reads a trace of any format.
pub(crate) fn read(args: &TraceArgs, terminal: &mut Terminal) -> Result<Reading, CliError> {
    let tokenizer = tokenizer::of_option(args.tokenizer.as_deref())?;
    let missed = Cell::new(0_u64);
    let count = |text: &str| {
        let exact = tokenizer.as_ref().and_then(|tokenizer| tokenizer.count(text));
        exact.unwrap_or_else(|| {
            missed.set(missed.get().saturating_add(u64::from(!text.is_empty())));
            tokens::estimate(text)
        })
    };
    let name = args.trace.display().to_string();
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    let bytes = read_bounded(&args.trace, limit).map_err(|error| {
        let large = matches!(error, FileError::TooLarge { .. });
        if large { refused(&Refused::TooLarge { name: name.clone() }) } else { CliError::unreadable(error.to_string()) }
    })?;
    let reading = trace::read(&name, &bytes, args.format, &count).map_err(|error| refused(&error))?;
    if tokenizer.is_some() && missed.get() > 0 {
        let texts = count_of(missed.get(), "text");
        terminal.warn(&format!("the tokenizer could not count {texts}; their tokens were estimated"));
    }
    Ok(reading)
}

fn refused(error: &Refused) -> CliError {
    error.hints().into_iter().fold(CliError::unreadable(error.to_string()), CliError::hint)
}

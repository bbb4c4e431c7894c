//! `servegate workload replay`: from a trace of any format to one that a workload may name.

use std::path::PathBuf;

use crate::base::units::Nanos;
use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::replayed::Replayed;
use crate::cli::terminal::Terminal;
use crate::cli::traces::MAX_FILE;
use crate::cli::traffic::OfRequests;
use crate::cli::workload::{TraceArgs, read};
use crate::spec::{read_duration, read_rate};
use crate::store::files::write_atomic;
use crate::trace::request::{Request, Traffic};
use crate::trace::steps::{Recording, Scaling, scaling};
use crate::trace::{MAX_ROWS, Reading, normal};

/// Longest prompt or answer of a workload, in tokens.
const MAX_TOKENS: u32 = 1_000_000;

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

    /// Leave out what comes before this time from the first request, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    from: Option<Nanos>,

    /// Leave out what comes at this time from the first request or later
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    until: Option<Nanos>,

    /// Spread requests of one instant over the time to the next: for sources that write down ticks
    #[arg(long)]
    spread: bool,

    /// Only this kind of requests, as `inspect` names it; may be given several times
    #[arg(long, value_name = "CLASS")]
    class: Vec<String>,

    /// Leave out longer prompts
    #[arg(long, value_name = "N", default_value_t = MAX_TOKENS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS)))]
    max_prompt_tokens: u32,

    /// Leave out longer answers
    #[arg(long, value_name = "N", default_value_t = MAX_TOKENS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS)))]
    max_output_tokens: u32,

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

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "a share is a number above 0 and up to 1, for example 0.25".to_owned())
}

/// Writes and tells.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    if args.output.exists() && !args.force {
        let message = format!("{} is there already", args.output.display());
        return Err(CliError::usage(message).hint("name another file, or write over it with --force"));
    }
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
    let Steps { recording, done } = args.apply(Steps { recording: Recording::of(requests), done: Vec::new() })?;
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

/// What is done to a trace, one after the other.
struct Steps {
    recording: Recording,
    /// What was done, and how many requests were left.
    done: Vec<(String, usize)>,
}

impl Steps {
    fn take(mut self, what: String, step: impl FnOnce(Recording) -> Recording) -> Result<Self, CliError> {
        self.recording = step(self.recording);
        let left = self.recording.requests().rows.len();
        if left == 0 {
            let error = CliError::usage(format!("no request is left after this: {what}"));
            return Err(error.hint("`servegate workload inspect` says what the trace holds"));
        }
        self.done.push((what, left));
        Ok(self)
    }

    /// Filters, where anything is to be left out.
    fn keep(self, what: String, wanted: impl Fn(&Request) -> bool) -> Result<Self, CliError> {
        if self.recording.requests().rows.iter().all(&wanted) {
            Ok(self)
        } else {
            self.take(what, |it| it.keep(wanted))
        }
    }
}

impl Args {
    /// Every step that is asked for, in the order that the help names.
    fn apply(&self, mut steps: Steps) -> Result<Steps, CliError> {
        if self.from.is_some() || self.until.is_some() {
            let from = self.from.unwrap_or_default();
            let end = self.until.map_or_else(|| "the end".to_owned(), |until| until.to_string());
            let start = self.from.map_or_else(|| "the begin".to_owned(), |from| from.to_string());
            steps = steps.take(format!("from {start} to {end}"), |it| it.window(from, self.until))?;
        }
        if self.spread {
            let moved = steps.recording.spread(self.seed);
            steps = steps.take(format!("spread {} of one instant with others", count(moved, "request")), |it| it)?;
        }
        steps = self.of_classes(steps)?;
        let (most, longest) = (self.max_prompt_tokens, self.max_output_tokens);
        let what = format!("prompts of up to {}", count(most, "token"));
        steps = steps.keep(what, |row| row.prompt_tokens <= most)?;
        let what = format!("answers of up to {}", count(longest, "token"));
        steps = steps.keep(what, |row| row.output_tokens.is_none_or(|tokens| tokens <= longest))?;
        steps = self.scaled(steps)?;
        if let Some(most) = self.requests {
            let first = usize::try_from(most).unwrap_or(usize::MAX);
            steps = steps.take(format!("the first {}", count(most, "request")), |it| it.first(first))?;
        }
        Ok(steps)
    }

    fn of_classes(&self, steps: Steps) -> Result<Steps, CliError> {
        if self.class.is_empty() {
            return Ok(steps);
        }
        let names = steps.recording.requests().classes.clone();
        if let Some(unknown) = self.class.iter().find(|class| !names.contains(class)) {
            let error = CliError::usage(format!("the trace has no class `{}`", unknown.escape_debug()));
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            return Err(error.hint(known));
        }
        let is_wanted = |class: u16| names.get(usize::from(class)).is_some_and(|name| self.class.contains(name));
        steps.take(format!("of class {}", self.class.join(", ")), |it| it.keep(|row| row.class.is_some_and(is_wanted)))
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

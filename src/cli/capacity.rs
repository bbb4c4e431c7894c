//! `servegate capacity`: the largest load at which objectives hold, from short probes of one boot.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::artifact::conditions::Conditions;
use crate::base::names::Scale;
use crate::base::words::count;
use crate::cli::capacity_report::{Outcome, Report};
use crate::cli::deployment::{Deployment, Live};
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::probing::{Answer, Asked, Probe, Probing};
use crate::cli::session::{check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::target::TargetArgs;
use crate::cli::terminal::Terminal;
use crate::spec::WrongOption;
use crate::spec::slo::{Slo, read_rate, read_slo};
use crate::spec::workload::{Cell, Load, Phase, Workload};
use crate::stats::search::{Range, Search};
use crate::store::files::{check_writable, write_atomic};
use crate::verdict::judgement::Verdict;

/// Measured requests of a probe at least, unless a statistic needs more.
const REQUESTS: u32 = 200;
/// Without a range: so many times more and less than the cell's own load.
const AROUND: f64 = 64.0;
/// Loads that a workload may have, and so many requests at once.
const RATES: [f64; 2] = [0.001, 10_000.0];
const AT_ONCE: [f64; 2] = [1.0, 4_096.0];

/// Find the largest load of a cell at which objectives hold
///
/// Short probes of one boot, with the shapes of a cell of the workload: the load is doubled until objectives are missed,
/// then searched between. Gives an interval, and says which objective binds. Exit codes: 0 found, 2 not in the range, 4
/// could not measure, or beyond what this host can offer.
///
/// Example: servegate capacity --target staging --workload gate-policies/workloads/chat.yaml --cell peak --slo "ttft p90 <= 500ms"
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,

    /// The cell that gives lengths and prefixes; its load is varied [default: the only one]
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,

    #[command(flatten)]
    target: TargetArgs,

    /// What must hold, for example "ttft p90 <= 500ms"; all of several. `error_rate <= 1%` is one of them unless another is
    /// given
    #[arg(long, required = true, value_name = "OBJECTIVE", value_parser = slo)]
    slo: Vec<Slo>,

    /// What is varied: the arrival rate or the requests at once [default: what the cell has]
    #[arg(long, value_enum)]
    by: Option<By>,

    /// The smallest load, such as `0.5/s` or `1` [default: a 64th of the cell's]
    #[arg(long, value_name = "LOAD")]
    from: Option<String>,

    /// The largest load, such as `50/s` or `256` [default: 64 times the cell's]
    #[arg(long, value_name = "LOAD")]
    to: Option<String>,

    /// Probes at most
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=200))]
    probes: u32,

    /// Measured requests of a probe; more where many are in flight [default: 200, or what the statistics need]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    requests: Option<u32>,

    /// Seed of the probes' arrivals, lengths and prompts
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Release that is measured, for the target's restart command
    #[arg(long, default_value = "unnamed")]
    release: String,

    /// File that gets the result as JSON
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// Requests per second that arrive, whatever the target does.
    Rate,
    /// Requests at once.
    Concurrency,
}

impl By {
    /// A load for people: as a workload has it.
    pub(crate) fn load(self, level: f64) -> String {
        match self {
            Self::Rate => format!("{level}/s"),
            Self::Concurrency => format!("{level} at once"),
        }
    }

    const fn limits(self) -> [f64; 2] {
        match self {
            Self::Rate => RATES,
            Self::Concurrency => AT_ONCE,
        }
    }

    /// The load of a cell, where it is one of this kind.
    fn of(self, load: Load) -> Option<f64> {
        match (self, load) {
            (Self::Rate, Load::Poisson { rate } | Load::Constant { rate } | Load::Gamma { rate, .. }) => Some(rate),
            (Self::Concurrency, Load::Closed { concurrency }) => Some(f64::from(concurrency)),
            _ => None,
        }
    }

    /// A load of the command line.
    fn read(self, option: &str, text: &str) -> Result<f64, CliError> {
        let wrong = |WrongOption { message, help }| CliError::usage(format!("{option}: {message}")).hint(help);
        let [least, most] = self.limits();
        let level = match self {
            Self::Rate => read_rate(text).map_err(wrong)?,
            Self::Concurrency => f64::from(text.parse::<u32>().map_err(|_source| {
                CliError::usage(format!("{option}: `{}` is no number of requests at once", text.escape_debug()))
                    .hint("write a whole number, for example `8`, or use --by rate")
            })?),
        };
        if (least..=most).contains(&level) {
            return Ok(level);
        }
        let message = format!("{option}: {} is out of range", self.load(level));
        Err(CliError::usage(message).hint(format!("write a load from {} to {}", self.load(least), self.load(most))))
    }
}

fn slo(text: &str) -> Result<Slo, String> {
    read_slo(text).map_err(|WrongOption { message, help }| format!("{message}; {help}"))
}

/// Searches, shows, and keeps the result.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let target = args.target.target(&args.target.config()?)?;
    let session = new_name();
    check_names(&session, &args.release)?;
    let (workload, _) = files::workload(&args.workload, terminal)?;
    let wanted = Wanted::of(args, &workload)?;
    if let Some(folder) = args.out.as_deref().and_then(Path::parent) {
        check_writable(folder).map_err(|error| CliError::failed(error.to_string()))?;
    }
    let interrupt = Interrupt::listen()?;
    let mut deployment = Live::new(target, Conditions::new(), interrupt.clone())?;
    let asked = wanted.asked(args, &workload, &session);
    let found = search(asked, wanted.range, &mut deployment, &interrupt, terminal)?;
    conclude(args, &found, terminal)
}

/// What the command line asks for, checked against the workload.
pub(crate) struct Wanted<'a> {
    cell: &'a Cell,
    by: By,
    slos: Vec<Slo>,
    requests: u32,
    pub(crate) range: Range,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(args: &Args, workload: &'a Workload) -> Result<Self, CliError> {
        let cell = the_cell(args.cell.as_deref(), workload)?;
        if cell.trace.is_some() {
            let message = format!("cell `{}` repeats a trace, whose load cannot be varied", cell.name);
            let hint =
                "use a cell with `rate` or `concurrency`, or scale the trace with `servegate workload replay --rate`";
            return Err(CliError::usage(message).hint(hint));
        }
        let by = args.by.unwrap_or(if cell.load.is_open() { By::Rate } else { By::Concurrency });
        let mut slos = args.slo.clone();
        if slos.iter().all(|slo| slo.metric != Slo::few_failures().metric) {
            slos.push(Slo::few_failures());
        }
        Ok(Self { cell, by, requests: requests(args.requests, &slos)?, slos, range: range(args, cell, by)? })
    }

    pub(crate) fn asked<'w>(&'w self, args: &'w Args, workload: &'w Workload, session: &'w str) -> Asked<'w> {
        Asked {
            workload,
            cell: self.cell,
            by: self.by,
            slos: &self.slos,
            requests: self.requests,
            seed: args.seed,
            session,
            release: &args.release,
        }
    }
}

/// The cell that is meant; phases beside the steady one have no load of their own to search.
fn the_cell<'w>(name: Option<&str>, workload: &'w Workload) -> Result<&'w Cell, CliError> {
    let cells: Vec<&Cell> = workload.cells.iter().filter(|cell| cell.phase == Phase::Steady).collect();
    let names = || cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, cells.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(CliError::usage(format!("`{}` has several cells, and --cell names none", workload.name))
            .hint(format!("--cell is one of {}", names()))),
        (Some(name), cells) => cells.iter().find(|cell| cell.name == name).copied().ok_or_else(|| {
            let error = CliError::usage(format!("`{}` has no cell `{}`", workload.name, name.escape_debug()));
            error.hint(format!("--cell is one of {}", names()))
        }),
    }
}

/// Requests of a probe: enough for every statistic.
fn requests(given: Option<u32>, slos: &[Slo]) -> Result<u32, CliError> {
    let needs = |slo: &Slo| u32::try_from(slo.statistic.floor()).unwrap_or(u32::MAX);
    // A request has many gaps, and one of everything else.
    let per_request = slos.iter().filter(|slo| slo.metric.scale() != Scale::PerGap);
    let Some(most) = per_request.max_by_key(|slo| needs(slo)) else { return Ok(given.unwrap_or(REQUESTS)) };
    match given {
        Some(given) if given < needs(most) => {
            let message = format!("--requests: {given} are too few for `{most}`, which needs {}", needs(most));
            Err(CliError::usage(message).hint("raise it, or choose a lower percentile"))
        }
        Some(given) => Ok(given),
        None => Ok(needs(most).max(REQUESTS)),
    }
}

/// What is searched, and where it begins.
fn range(args: &Args, cell: &Cell, by: By) -> Result<Range, CliError> {
    let read = |option, text: &Option<String>| text.as_deref().map(|text| by.read(option, text)).transpose();
    let (from, to) = (read("--from", &args.from)?, read("--to", &args.to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Err(CliError::usage(format!("--from {} is not less than --to {}", by.load(from), by.load(to))));
    }
    let start = by.of(cell.load).or(from).ok_or_else(|| {
        let error = CliError::usage(format!("`{}` has no load of this kind to begin with", cell.name));
        error.hint(match by {
            By::Rate => "give the smallest rate with --from, for example `--from 0.5/s`",
            By::Concurrency => "give the smallest number of requests at once with --from, for example `--from 1`",
        })
    })?;
    let [least, most] = by.limits();
    let from = from.unwrap_or_else(|| (start / AROUND).max(least).min(to.unwrap_or(most)));
    let to = to.unwrap_or_else(|| (start * AROUND).min(most).max(from));
    let whole = by == By::Concurrency;
    let from = if whole { from.floor().max(1.0) } else { from };
    Ok(Range { from, to, start, whole, trials: args.probes })
}

/// Probes until enough is known. Trouble ends the search, and what was found before it is part of the result.
pub(crate) fn search(
    asked: Asked<'_>,
    range: Range,
    deployment: &mut dyn Deployment,
    interrupt: &Interrupt,
    terminal: &mut Terminal,
) -> Result<Report, CliError> {
    let mut search = Search::new(range);
    let (mut report, requests) = (Report::begin(&asked, range), asked.requests);
    let mut probing = Probing::start(asked, deployment, interrupt, terminal)?;
    report.conditions.clone_from(probing.conditions());
    terminal.say(&format!("up to {} of {requests} requests and more each, of one boot", count(range.trials, "probe")));
    let mut refused: Option<f64> = None;
    while let Some(load) = search.next() {
        let probe = match probing.at(load, terminal) {
            Ok(probe) => probe,
            Err(error) => {
                report.trouble = Some(error);
                break;
            }
        };
        match probe.answer {
            Answer::Held => search.learn(load, true),
            Answer::Missed => {
                search.learn(load, false);
                if probe.idle {
                    search.nothing_below(load);
                }
            }
            Answer::TooShort => search.wasted(),
            // Once it may have been an accident of this host.
            Answer::ClientLimit if probe.requests > 0 && refused != Some(load) => search.wasted(),
            Answer::ClientLimit => search.cannot_offer(load),
        }
        refused = (probe.answer == Answer::ClientLimit).then_some(load);
        say(probe, &mut report, terminal);
    }
    report.end(&search);
    Ok(report)
}

/// Says what a probe found, and each kind of note once.
fn say(probe: Probe, report: &mut Report, terminal: &mut Terminal) {
    terminal.say(&report.line(&probe));
    for note in &probe.notes {
        let code = note.split(':').next().unwrap_or_default().to_owned();
        if report.noted.insert(code) {
            terminal.say(&format!("note: {note}"));
        }
    }
    report.probes.push(probe);
}

/// Shows the result and gives the exit code.
pub(crate) fn conclude(args: &Args, report: &Report, terminal: &mut Terminal) -> Result<Exit, CliError> {
    if let Some(out) = &args.out {
        let mut bytes = serde_json::to_vec_pretty(report).map_err(|error| CliError::failed(error.to_string()))?;
        bytes.push(b'\n');
        write_atomic(out, &bytes).map_err(|error| CliError::failed(error.to_string()))?;
    }
    if terminal.json() {
        terminal.data_json(report)?;
    } else {
        terminal.data(report.text().as_bytes())?;
    }
    if let Some(out) = &args.out {
        terminal.say(&format!("kept in {}", out.display()));
    }
    match (&report.trouble, report.outcome) {
        (Some(_), _) | (None, Outcome::ClientLimit) => Err(report.error()),
        (None, Outcome::Found) => Ok(Exit::Success),
        (None, Outcome::AtLeast | Outcome::AtMost | Outcome::Unknown) => Ok(Exit::Verdict(Verdict::Inconclusive)),
    }
}

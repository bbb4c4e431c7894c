//! The result of `servegate capacity`: for people, and as a file.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use crate::artifact::conditions::Conditions;
use crate::base::units::Nanos;
use crate::base::words::count;
use crate::cli::capacity::By;
use crate::cli::error::CliError;
use crate::cli::probing::{Answer, Asked, Judged, Probe};
use crate::cli::progress::words;
use crate::cli::session::now;
use crate::stats::search::{Capacity, Range, Search, three_digits};

/// Version of the file.
const FORMAT: u32 = 1;
/// The chance with which the capacity lies in its interval, under the model of the search.
const CHANCE: f64 = 0.9;
/// Probes up to this multiple of the interval's end tell what binds.
const NEAR: f64 = 1.1;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Both ends of the interval are known.
    Found,
    /// The capacity may be above the range.
    AtLeast,
    /// It may be below the range.
    AtMost,
    /// It may be above what this host can offer.
    ClientLimit,
    /// Nothing is known.
    Unknown,
}

/// What is found out, as it is stored.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    format: u32,
    servegate: &'static str,
    workload: String,
    cell: String,
    by: By,
    /// Of every load in the file.
    unit: &'static str,
    objectives: Vec<String>,
    release: String,
    session: String,
    /// RFC 3339 in UTC.
    started: String,
    seed: u64,
    /// Loads that might be tried.
    from: f64,
    to: f64,
    pub(crate) outcome: Outcome,
    /// The largest load at which the objectives hold: the middle of what is known; `null` where one end is not known.
    pub(crate) capacity: Option<f64>,
    /// Smaller with a chance of 5 %.
    pub(crate) lower: Option<f64>,
    /// Larger with a chance of 5 %.
    pub(crate) upper: Option<f64>,
    chance: f64,
    /// What was missed most near the capacity.
    pub(crate) binding: Vec<String>,
    /// Of all measured windows.
    seconds: f64,
    pub(crate) conditions: Conditions,
    pub(crate) probes: Vec<Probe>,
    /// Why the search came to no end.
    stopped: Option<String>,
    #[serde(skip)]
    pub(crate) trouble: Option<CliError>,
    /// Kinds of notes that were said.
    #[serde(skip)]
    pub(crate) noted: BTreeSet<String>,
}

impl Report {
    /// Before anything is measured.
    pub(crate) fn begin(asked: &Asked<'_>, range: Range) -> Self {
        let unit = match asked.by {
            By::Rate => "requests/s",
            By::Concurrency => "requests at once",
        };
        Self {
            format: FORMAT,
            servegate: env!("CARGO_PKG_VERSION"),
            workload: asked.workload.name.clone(),
            cell: asked.cell.name.clone(),
            by: asked.by,
            unit,
            objectives: asked.slos.iter().map(ToString::to_string).collect(),
            release: asked.release.to_owned(),
            session: asked.session.to_owned(),
            started: now(),
            seed: asked.seed,
            from: range.from,
            to: range.to,
            outcome: Outcome::Unknown,
            capacity: None,
            lower: None,
            upper: None,
            chance: CHANCE,
            binding: Vec::new(),
            seconds: 0.0,
            conditions: Conditions::new(),
            probes: Vec::new(),
            stopped: None,
            trouble: None,
            noted: BTreeSet::new(),
        }
    }

    /// Takes what the search found.
    pub(crate) fn end(&mut self, search: &Search) {
        let Capacity { lower, estimate, upper } = search.capacity();
        [self.lower, self.capacity, self.upper] = [lower, estimate, upper].map(|load| load.map(three_digits));
        self.outcome = match (lower, upper) {
            (Some(_), Some(_)) => Outcome::Found,
            (_, None) if search.is_capped() => Outcome::ClientLimit,
            (Some(_), None) => Outcome::AtLeast,
            (None, Some(_)) => Outcome::AtMost,
            (None, None) => Outcome::Unknown,
        };
        self.seconds = self.probes.iter().map(|probe| probe.seconds).sum();
        self.binding = self.binding();
        self.stopped = self.trouble.as_ref().map(|error| error.message().to_owned());
    }

    /// What was missed most in the probes near the capacity: none where no probe missed.
    fn binding(&self) -> Vec<String> {
        let missed = || self.probes.iter().filter(|probe| probe.answer == Answer::Missed);
        let smallest = missed().map(|probe| probe.load).fold(f64::INFINITY, f64::min);
        let near: Vec<&Probe> =
            missed().filter(|probe| probe.load <= NEAR * self.upper.unwrap_or(smallest).max(smallest)).collect();
        let times = |objective: &String| {
            let broke = |value: &&Judged| value.objective == *objective && (!value.held || value.rising);
            near.iter().filter(|probe| probe.values.iter().any(|value| broke(&value))).count()
        };
        let most = self.objectives.iter().map(times).max().unwrap_or(0);
        self.objectives.iter().filter(|objective| most > 0 && times(objective) == most).cloned().collect()
    }

    /// A probe in a line.
    pub(crate) fn line(&self, probe: &Probe) -> String {
        let what = match probe.answer {
            Answer::Held => "held",
            Answer::Missed => "missed",
            Answer::ClientLimit => "no answer",
            Answer::TooShort => "too short, and is repeated longer",
        };
        let mut causes: Vec<String> = probe.values.iter().map(shown).collect();
        causes.extend(probe.cause.clone());
        format!("probe {} at {}: {what}: {}", self.probes.len() + 1, self.by.load(probe.load), causes.join(", "))
    }

    /// The result, for people.
    pub(crate) fn text(&self) -> String {
        let Self { workload, cell, by, .. } = self;
        let load = |level: Option<f64>| level.map_or_else(|| "?".to_owned(), |level| by.load(level));
        let between = format!("{} to {}", load(self.lower), load(self.upper));
        let found = match (self.outcome, self.lower) {
            (Outcome::Found, _) => format!("{}, and with 90 % from {between}", load(self.capacity)),
            (Outcome::AtLeast, lower) if lower == Some(self.to) => {
                format!("at least {}, the largest load of the range", load(lower))
            }
            (Outcome::AtLeast | Outcome::ClientLimit, Some(_)) => format!("at least {}", load(self.lower)),
            (Outcome::AtMost, _) => {
                let least = self.probes.iter().map(|probe| probe.load).fold(self.to, f64::min);
                let idle = self.probes.iter().any(|probe| probe.idle && probe.answer == Answer::Missed);
                let why = if idle { ", and a smaller load would not be served better" } else { "" };
                format!(
                    "less than {}: missed at {}, the smallest that was tried{why}",
                    load(self.upper),
                    load(Some(least))
                )
            }
            (Outcome::AtLeast | Outcome::ClientLimit, None) | (Outcome::Unknown, _) => "unknown".to_owned(),
        };
        let mut text = format!("capacity of {workload} at {cell}: {found}\n");
        let mut line = |content: String| {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "  {content}");
        };
        line(format!("what must hold: {}", self.objectives.join("; ")));
        if !self.binding.is_empty() {
            line(format!("what binds: {}", self.binding.join("; ")));
        }
        let time = words(Nanos::from_seconds(self.seconds));
        line(format!(
            "{} in {time}, of one boot: another boot or another day adds its own noise",
            count(self.probes.len(), "probe")
        ));
        if let (Outcome::Found, By::Rate, Some(capacity)) = (self.outcome, by, self.capacity) {
            line(format!(
                "loads relative to it: `capacity: {}` in the workload, and `rate: 70% of capacity` in a cell",
                by.load(capacity)
            ));
        }
        text
    }

    /// Why the command did not do its work.
    pub(crate) fn error(&self) -> CliError {
        let begun = (!self.probes.is_empty())
            .then(|| format!("{} before it are part of the result", count(self.probes.len(), "probe")));
        if let Some(trouble) = &self.trouble {
            let error = CliError::interrupted(trouble.exit(), trouble.message());
            return trouble.hints().iter().cloned().chain(begun).fold(error, CliError::hint);
        }
        let last = self.probes.iter().rev().find(|probe| probe.answer == Answer::ClientLimit);
        let cause = last.and_then(|probe| probe.cause.clone()).unwrap_or_default();
        let load = last.map_or_else(String::new, |probe| format!(" at {}", self.by.load(probe.load)));
        CliError::failed(format!("this host, and not the target, is the limit{load}: {cause}"))
            .hint("measure from a host with more to spare (`servegate selfcheck`), or give a smaller --to")
    }
}

/// An objective and what a probe measured of it.
fn shown(value: &Judged) -> String {
    let name = value.objective.split(" <= ").next().unwrap_or_default();
    let number = match (value.value, value.unit) {
        (None, _) => "among failed requests".to_owned(),
        (Some(share), "share") => format!("{:.1} %", 100.0 * share),
        (Some(ms), _) => Nanos::from_ms(ms).to_string(),
    };
    let rising = if value.rising { " and rising" } else { "" };
    format!("{name} {number}{rising}")
}

//! One probe of a capacity: a short measurement of a cell under a load, and whether the objectives held there. All probes
//! meet the same boot, each with arrivals, lengths and prompts of its own.

use std::convert::Infallible;
use std::time::Instant;

use serde::Serialize;

use crate::artifact::conditions::Conditions;
use crate::artifact::load::{is_low, sent_in_schedule};
use crate::artifact::metrics::cell::CellData;
use crate::artifact::metrics::{NoValue, Question};
use crate::artifact::record::Record;
use crate::artifact::run::{Manifest, Run};
use crate::base::names::{Caches, Metric, Side};
use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::cli::capacity::By;
use crate::cli::cold::{Cold, cold};
use crate::cli::deployment::{Boot, Deployment};
use crate::cli::draft::{Draft, can_be_sent};
use crate::cli::error::CliError;
use crate::cli::progress::Progress;
use crate::cli::session::{now_to, stopped};
use crate::cli::signals::Interrupt;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::loadgen::event::Event;
use crate::loadgen::pass::pass;
use crate::plan::request::{Plan, PlannedCell};
use crate::plan::{self, RunName};
use crate::spec::slo::Slo;
use crate::spec::workload::{Cell, Load, Workload};
use crate::stats::trend::{Rise, rise};
use crate::verdict::counting::{Uncounted, noted, uncounted};

/// Requests before the measured ones at least, as in every cell.
const LEAST_WARMUP: f64 = 20.0;
/// Warm-up in multiples of the requests that are in flight at once: behind it as many end as begin.
const WARMUPS: f64 = 2.0;
/// The measured window in the same multiples.
const WINDOWS: f64 = 4.0;
/// No probe is longer than so many times what was asked for.
const LONGEST: f64 = 20.0;
/// A rise counts from this p-value on.
const RISE: f64 = 0.01;
/// Below so many requests in flight on average they hardly meet.
const IDLE: f64 = 0.5;
/// Where no objective is about the wait for the first token, the load is too much when it grows to this multiple.
const GROWS: f64 = 2.0;

/// Faults of a run that are the load generator's and its host's, and none of the target's: the load was too much for them.
const OF_THE_CLIENT: [&str; 5] =
    ["client-fault", "client-saturated", "host-saturated", "host-stolen", "load-untrusted"];

/// What is asked of a probe.
pub(crate) struct Asked<'a> {
    /// The workload that has the cell.
    pub(crate) workload: &'a Workload,
    /// The cell that gives the shapes.
    pub(crate) cell: &'a Cell,
    /// What the load is.
    pub(crate) by: By,
    /// What must hold.
    pub(crate) slos: &'a [Slo],
    /// Measured requests of a probe, at least.
    pub(crate) requests: u32,
    /// Seed of the probes.
    pub(crate) seed: u64,
    /// Name of the session.
    pub(crate) session: &'a str,
    /// Release that is measured.
    pub(crate) release: &'a str,
}

/// What a probe measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Probe {
    /// Requests per second, or requests at once.
    pub(crate) load: f64,
    /// Measured requests; 0 when it was refused.
    pub(crate) requests: u32,
    /// From the first request that was due to the last that ended, in seconds.
    pub(crate) seconds: f64,
    pub(crate) answer: Answer,
    /// Each objective, in the order in which they were given; empty where nothing can be said.
    pub(crate) values: Vec<Judged>,
    /// Why it is no answer, or what else broke.
    pub(crate) cause: Option<String>,
    /// Whether the target had nothing to do for most of the time: a smaller load would not be served better.
    pub(crate) idle: bool,
    /// Worth knowing about its run.
    pub(crate) notes: Vec<String>,
}

/// What a probe says about its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// All objectives held.
    Held,
    /// One did not, or would not have for long.
    Missed,
    /// The load generator or its host could not offer the load: nothing is known of the target.
    ClientLimit,
    /// It was too short for its answers, and is repeated.
    TooShort,
}

/// One objective in one probe.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Judged {
    pub(crate) objective: String,
    /// In the metric's unit; `null` where too many requests failed.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
    pub(crate) held: bool,
    /// It held, and rose so fast that it would not have in a second window as long.
    pub(crate) rising: bool,
}

/// Probes of one boot.
pub(crate) struct Probing<'a> {
    asked: Asked<'a>,
    deployment: &'a mut dyn Deployment,
    boot: Boot,
    interrupt: &'a Interrupt,
    /// Probes so far.
    number: u32,
    /// Mean time of a request in the last probe that held, in seconds.
    request_secs: Option<f64>,
}

impl<'a> Probing<'a> {
    /// Boots the deployment.
    pub(crate) fn start(
        asked: Asked<'a>,
        deployment: &'a mut dyn Deployment,
        interrupt: &'a Interrupt,
        terminal: &mut Terminal,
    ) -> Result<Self, CliError> {
        let boot = deployment.boot(Side::Baseline, asked.release, 0)?;
        boot.cautions.iter().for_each(|caution| terminal.say(&format!("warning: {caution}")));
        Ok(Self { asked, deployment, boot, interrupt, number: 0, request_secs: None })
    }

    /// What the numbers depend on.
    pub(crate) const fn conditions(&self) -> &Conditions {
        &self.boot.conditions
    }

    /// Measures one load.
    pub(crate) fn at(&mut self, load: f64, terminal: &mut Terminal) -> Result<Probe, CliError> {
        let plan = self.plan(load);
        self.number = self.number.saturating_add(1);
        can_be_sent(&plan, self.deployment.speaks())?;
        if let Err(refused) = trust::admit(&plan) {
            return Ok(Probe::none(load, Answer::ClientLimit, refused.message().to_owned()));
        }
        let run = self.measure(&plan, terminal)?;
        let Some(cell) = plan.cells.first() else { return Err(CliError::failed("the cell has no requests")) };
        let faults = uncounted(&run, Some(&plan));
        let probe = Probe {
            requests: count_of(&run),
            seconds: window(&run.manifest),
            notes: noted(&run, &plan),
            ..Probe::none(load, Answer::Held, String::new())
        };
        if let Some(Uncounted { code, seen, fix, .. }) = faults.into_iter().next() {
            if OF_THE_CLIENT.contains(&code) {
                let cause = Some(format!("the load generator {seen}; {fix}"));
                return Ok(Probe { answer: Answer::ClientLimit, cause, ..probe });
            }
            let message = format!("the probe at {} does not count: it {seen}", self.asked.by.load(load));
            return Err(CliError::failed(message).hint(fix));
        }
        self.judged(probe, &run, cell)
    }

    /// The plan of the next probe. Its seed is its own; without a declaration its prompts are salted, so that a cache
    /// remembers no earlier search.
    fn plan(&self, load: f64) -> Plan {
        let Asked { workload, cell, by, requests, seed, .. } = &self.asked;
        let in_flight = match by {
            By::Rate => load * self.request_secs.unwrap_or(0.0),
            By::Concurrency => load,
        };
        let requests = f64::from(*requests);
        let own_warmup = if cell.load.is_open() && *by == By::Rate { f64::from(cell.warmup) } else { 0.0 };
        let shape = Cell {
            load: by.with(cell.load, load),
            requests: whole(requests.max(WINDOWS * in_flight).min(LONGEST * requests.max(load))),
            warmup: whole((WARMUPS * in_flight).max(LEAST_WARMUP).max(own_warmup).min(LONGEST * requests.max(load))),
            max_connections: if *by == By::Rate { cell.max_connections } else { None },
            ..Cell::clone(cell)
        };
        plan::build(&Workload {
            seed: Stream::named(*seed, &format!("capacity/{}", self.number)).bits(),
            caches: workload.caches.or(Some(Caches::Salted)),
            cells: vec![shape],
            ..Workload::clone(workload)
        })
    }

    /// One pass, kept in memory.
    fn measure(&mut self, plan: &Plan, terminal: &mut Terminal) -> Result<Run, CliError> {
        let started = now_to(jiff::Unit::Millisecond);
        let name = RunName { session: self.asked.session, sequence: self.number, started: &started };
        let Cold { plan: sent, mode, salt, .. } = cold(plan, name, self.deployment)?;
        let draft = Draft { name, side: Side::Baseline, release: self.asked.release, plan };
        let (manifest, codec) = draft.with(self.deployment.speaks(), &self.boot, (mode, salt))?;
        let cells: Vec<&PlannedCell> = sent.cells.iter().collect();
        let mut progress = Progress::new(&cells, 0);
        terminal.start_bar(progress.requests().1, "");
        let (start, mut records) = (Instant::now(), Vec::new());
        let mut watch = |event: Event<'_>| {
            let at = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            match event {
                Event::CellStarted { cell, .. } => progress.started(cell, at),
                Event::Progress { cell, .. } => {
                    progress.request_ended(cell, at);
                    terminal.set_bar(progress.requests().0, cell, || progress.left(at));
                }
                Event::CountersUnread { .. } | Event::CellEnded { .. } => {}
            }
        };
        let mut sink = |record: Record| {
            records.push(record);
            Ok::<(), Infallible>(())
        };
        let Ok(passed) = pass(&cells, &codec, self.boot.transport.as_mut(), &mut sink, &mut watch);
        terminal.clear_bar();
        if let Some(stop) = passed.stop {
            return Err(stopped(&stop, self.interrupt));
        }
        let record_count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        Ok(Run { manifest: Manifest { cells: passed.cells, record_count, complete: true, ..manifest }, records })
    }

    /// What the run says about its load.
    fn judged(&mut self, probe: Probe, run: &Run, cell: &PlannedCell) -> Result<Probe, CliError> {
        let mut data = CellData::of(run, &cell.name);
        let values = self.asked.slos.iter().map(|slo| value(slo, &mut data, cell)).collect::<Result<Vec<_>, _>>()?;
        let held = values.iter().all(|value| value.held && !value.rising);
        let broke = self.also_broke(run, &data, cell);
        let answer = if held && broke.is_none() { Answer::Held } else { Answer::Missed };
        let mean = mean_secs(&data);
        let in_flight = probe.load * mean;
        let idle = self.asked.by == By::Rate && data.failed() == 0 && in_flight < IDLE;
        let probe = Probe { answer, values, idle, cause: broke, ..probe };
        if answer == Answer::Missed {
            return Ok(probe);
        }
        self.request_secs = Some(mean);
        let short = self.asked.by == By::Rate
            && (count(cell.warmup.len()) < in_flight || count(cell.requests.len()) < WARMUPS * in_flight);
        Ok(if short && self.longer(probe.load, cell) {
            let cause = format!(
                "{} warm-up and {} measured requests are few where {in_flight:.0} are in flight at once",
                cell.warmup.len(),
                cell.requests.len()
            );
            Probe { answer: Answer::TooShort, cause: Some(cause), ..probe }
        } else {
            probe
        })
    }

    /// Whether the next probe of the load will be longer than this one was.
    fn longer(&self, load: f64, cell: &PlannedCell) -> bool {
        let next = self.plan(load);
        next.cells.iter().any(|next| next.requests.len() > cell.requests.len() || next.warmup.len() > cell.warmup.len())
    }

    /// What no objective sees: an open loop that is not served as fast as it comes.
    fn also_broke(&self, run: &Run, data: &CellData<'_>, cell: &PlannedCell) -> Option<String> {
        if !cell.load.is_open() {
            return None;
        }
        if let Some((sent, all)) = sent_in_schedule(run, cell).filter(|(sent, all)| is_low(*sent, *all)) {
            return Some(format!(
                "of {all} requests {sent} were sent before the schedule ended: the others waited for a connection"
            ));
        }
        if self.asked.slos.iter().any(Slo::bounds_the_wait) {
            return None;
        }
        let Rise { ratio, .. } =
            rise(&data.times(Metric::Ttft), cell.timeout.as_ms()).filter(|rise| rise.p < RISE && rise.ratio > GROWS)?;
        Some(format!("TTFT grew to {ratio:.1} times what it was within the probe: a queue that never ends"))
    }
}

impl Probe {
    fn none(load: f64, answer: Answer, cause: String) -> Self {
        let cause = (!cause.is_empty()).then_some(cause);
        Self { load, requests: 0, seconds: 0.0, answer, values: Vec::new(), cause, idle: false, notes: Vec::new() }
    }
}

/// One objective in a run.
fn value(slo: &Slo, data: &mut CellData<'_>, cell: &PlannedCell) -> Result<Judged, CliError> {
    let Slo { metric, statistic, limit, .. } = *slo;
    let question = Question { metric, statistic, limits: &[], timeout: cell.timeout };
    let (value, few) = match data.summary(&question) {
        Ok(summary) => (summary.value, (!summary.gateable).then_some(summary.n)),
        // Failures are infinitely slow.
        Err(NoValue::NoSuccess) => (f64::INFINITY, None),
        Err(none) => return Err(CliError::failed(format!("`{slo}` cannot be judged: {none}"))),
    };
    let held = value <= limit;
    if let Some(n) = few.filter(|_| held) {
        let message = format!("`{slo}` cannot be judged from {n} values: {statistic} needs {}", statistic.floor());
        return Err(CliError::failed(message).hint("raise --requests, or choose a lower percentile"));
    }
    let trend = if cell.load.is_open() { rise(&data.times(metric), cell.timeout.as_ms()) } else { None };
    let rising = held && trend.is_some_and(|trend| trend.p < RISE && value + trend.growth > limit);
    let value = value.is_finite().then_some(value);
    Ok(Judged { objective: slo.to_string(), value, unit: metric.unit(), held, rising })
}

impl By {
    /// The load of a cell at this level.
    fn with(self, load: Load, level: f64) -> Load {
        match (self, load) {
            (Self::Concurrency, _) => Load::Closed { concurrency: whole(level) },
            (Self::Rate, Load::Constant { .. }) => Load::Constant { rate: level },
            (Self::Rate, Load::Gamma { burstiness, .. }) => Load::Gamma { rate: level, burstiness },
            (Self::Rate, _) => Load::Poisson { rate: level },
        }
    }
}

/// The mean time of a success, in seconds.
fn mean_secs(data: &CellData<'_>) -> f64 {
    let times: Vec<f64> = data.times(Metric::E2e).into_iter().filter(|time| time.is_finite()).collect();
    times.iter().sum::<f64>() / count(times.len()).max(1.0) / 1e3
}

/// From the first due instant to the last end, in seconds.
fn window(manifest: &Manifest) -> f64 {
    let spans = manifest.cells.iter().map(|cell| cell.window_end_us.saturating_sub(cell.window_start_us));
    Nanos::from_micros(spans.max().unwrap_or(0)).as_secs()
}

fn count_of(run: &Run) -> u32 {
    u32::try_from(run.records.len()).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^53")]
fn count(number: usize) -> f64 {
    number as f64
}

/// The next whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and NaN becomes 0")]
fn whole(number: f64) -> u32 {
    number.ceil() as u32
}

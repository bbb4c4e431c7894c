//! Measuring a session: boots in order, one run each, every record on disk as soon as it is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::{Timestamp, Unit};

use crate::artifact::record::Record;
use crate::artifact::run::{ConnectionCap, Manifest};
use crate::base::digest::Digest;
use crate::base::names::Side;
use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::base::words::count;
use crate::cli::cold::{Cold, cold};
use crate::cli::deployment::{Boot, Deployment};
use crate::cli::draft::{Draft, can_be_sent, planned};
use crate::cli::error::{CliError, Exit};
use crate::cli::progress::Progress;
use crate::cli::signals::Interrupt;
use crate::cli::terminal::Terminal;
use crate::loadgen::codec::Codec;
use crate::loadgen::drive::Stop;
use crate::loadgen::event::Event;
use crate::loadgen::pass::{Passed, pass_with_texts};
use crate::plan::request::{Plan, PlannedCell};
use crate::plan::{self, RunName};
use crate::store::files::checked_name;
use crate::store::runs::{RunError, RunWriter, StoredRun};

/// Characters that are kept of why a server's counters could not be read.
const MOST_CAUSE: usize = 300;

/// What to measure in one session.
pub(crate) struct Session<'a> {
    /// The plan that every run follows.
    pub(crate) plan: &'a Plan,
    /// Name of the session.
    pub(crate) name: &'a str,
    /// Side and release of each run, in order.
    pub(crate) runs: Vec<(Side, String)>,
    /// Folder that gets one folder per run.
    pub(crate) out: &'a Path,
    /// Whether to keep what the answers say.
    pub(crate) keep_text: bool,
    /// Runs of the session that are there already; they are not measured again.
    pub(crate) kept: Vec<StoredRun>,
}

/// What a session left behind.
pub(crate) struct Measured {
    /// The runs, in order; the last one is incomplete when it was stopped.
    pub(crate) runs: Vec<StoredRun>,
    /// Why not all of them are there, when that is so.
    pub(crate) trouble: Option<CliError>,
}

/// The order of a session: controls are spread among the candidate's runs, so that a slow drift of the
/// hardware meets both alike. With 3 and 2: candidate, control, candidate, candidate, control.
pub(crate) fn interleave(runs: u32, controls: u32) -> Vec<Side> {
    let mut order = Vec::new();
    let mut placed = 0;
    for run in 1..=runs {
        order.push(Side::Candidate);
        // Control number `placed` stands in the middle of its share of the candidate's runs.
        while placed < controls && (2 * placed + 1) * runs <= 2 * run * controls {
            order.push(Side::Control);
            placed += 1;
        }
    }
    order
}

/// A name for a session that starts now: sortable, and different for two sessions of one second.
pub(crate) fn new_name() -> String {
    let now = Timestamp::now();
    let stamp: String = now.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
    let mark = Digest::of(format!("{}/{now}", std::process::id()).as_bytes()).short();
    format!("{stamp}-{}", mark.chars().take(4).collect::<String>())
}

/// Checks the names that a session's runs will carry: they become folders, here and in the baselines, and
/// nobody wants to learn that after half an hour of measuring.
pub(crate) fn check_names(session: &str, release: &str) -> Result<(), CliError> {
    for (what, name) in [("--session", session), ("--release", release)] {
        checked_name(what, name).map_err(|error| CliError::usage(error.to_string()))?;
    }
    Ok(())
}

/// The present instant, RFC 3339 in UTC, whole seconds.
pub(crate) fn now() -> String {
    now_to(Unit::Second)
}

pub(crate) fn now_to(unit: Unit) -> String {
    let now = Timestamp::now();
    now.round(unit).unwrap_or(now).to_string()
}

impl Session<'_> {
    /// Measures run after run. Trouble ends the session and is returned beside what was measured.
    pub(crate) fn measure(
        &self,
        deployment: &mut dyn Deployment,
        interrupt: &Interrupt,
        terminal: &mut Terminal,
    ) -> Measured {
        let mut measured = Measured { runs: Vec::new(), trouble: None };
        let (mut said_unread, mut first) = (false, true);
        for (at, (side, release)) in self.runs.iter().enumerate() {
            let sequence = u32::try_from(at).unwrap_or(u32::MAX);
            if let Some(kept) = self.kept.iter().find(|run| run.manifest.sequence == sequence) {
                measured.runs.push(kept.clone());
                continue;
            }
            let mut seen = Seen { terminal, interrupt, first, said_unread: &mut said_unread };
            first = false;
            let number = Numbered { side: *side, release, sequence };
            match self.run(deployment, &number, &mut seen) {
                Ok(Ran { stored, trouble }) => {
                    terminal.clear_bar();
                    self.say(&stored, terminal);
                    measured.runs.push(stored);
                    measured.trouble = trouble;
                }
                Err(error) => measured.trouble = Some(self.with_kept(error, &measured.runs)),
            }
            if measured.trouble.is_some() {
                break;
            }
        }
        measured
    }

    /// Says where the runs before the one that could not be measured are.
    fn with_kept(&self, error: CliError, before: &[StoredRun]) -> CliError {
        let (count, of) = (before.len(), self.runs.len());
        match count {
            0 => error.hint("nothing was measured"),
            _ => error.hint(format!("{count} of {of} runs measured before are kept in {}", self.out.display())),
        }
    }

    fn say(&self, stored: &StoredRun, terminal: &mut Terminal) {
        let Manifest { side, sequence, record_count, complete, .. } = &stored.manifest;
        let state = if *complete { "" } else { ", incomplete" };
        let (number, of) = (sequence.saturating_add(1), self.runs.len());
        let workload = &self.plan.workload;
        terminal.say(&format!("{workload}: run {number} of {of} ({side}): {}{state}", count(*record_count, "request")));
        for cell in &stored.manifest.cells {
            if let Some(ConnectionCap { most, waited: waited @ 1.., longest_wait_us, .. }) = cell.connections {
                let longest = Nanos::from_micros(longest_wait_us);
                terminal.say(&format!(
                    "warning: at {} {waited} of {} requests waited for one of {most} connections, up to {longest}; the wait \
                     is part of their latency",
                    cell.name, cell.attempted
                ));
            }
        }
    }

    fn run(
        &self,
        deployment: &mut dyn Deployment,
        number: &Numbered<'_>,
        seen: &mut Seen<'_>,
    ) -> Result<Ran, CliError> {
        let Numbered { side, release, sequence } = *number;
        can_be_sent(self.plan, deployment.speaks())?;
        let mut boot = deployment.boot(side, release, sequence)?;
        if seen.first {
            for caution in &boot.cautions {
                seen.terminal.say(&format!("warning: {caution}"));
            }
        }
        // Finer than elsewhere: a run that is killed and measured again in the same second sends other prompts.
        let started = now_to(Unit::Millisecond);
        let name = RunName { session: self.name, sequence, started: &started };
        let Cold { plan, mode: caches, salt, fallback } = cold(self.plan, name, deployment)?;
        if let Some(tried) = fallback.filter(|_| seen.first) {
            seen.terminal.say(&format!(
                "note: prompts are salted, because the server offers no request that resets its caches ({tried})"
            ));
        }
        let draft = Draft { name, side, release, plan: self.plan };
        let (manifest, codec) = draft.with(deployment.speaks(), &boot, (caches, salt))?;
        self.pass(&Sent { cells: self.visit_order(&plan, sequence), codec }, manifest, &mut boot, seen)
    }

    /// One pass over the cells, into a run folder.
    fn pass(&self, sent: &Sent<'_>, draft: Manifest, boot: &mut Boot, seen: &mut Seen<'_>) -> Result<Ran, CliError> {
        let Sent { cells, codec } = sent;
        let draft = Manifest { cells: cells.iter().map(|cell| planned(cell)).collect(), ..draft };
        let folder = self.folder(&draft);
        let mut writer = RunWriter::create(&folder, &draft).map_err(|error| failed(&error))?;
        if self.keep_text {
            writer = writer.keep_texts().map_err(|error| failed(&error))?;
        }
        let mut progress = Progress::new(cells, self.runs_after(draft.sequence));
        seen.terminal.start_bar(progress.requests().1, "");
        let start = Instant::now();
        let mut unread: BTreeMap<String, String> = BTreeMap::new();
        let mut watch = |event: Event<'_>| {
            if let Event::CountersUnread { cell, cause } = &event {
                unread.insert((*cell).to_owned(), cause.chars().take(MOST_CAUSE).collect());
            }
            seen.watch(&event, &mut progress, start);
        };
        let mut sink = |record: Record, text: String| writer.text(&record, &text);
        let passed = pass_with_texts(cells, codec, boot.transport.as_mut(), &mut sink, &mut watch);
        let Passed { mut cells, stop } = passed.map_err(|error| {
            failed(&error).hint(format!("what was measured before is in {}.partial", folder.display()))
        })?;
        for cell in &mut cells {
            cell.counters_unread = unread.remove(&cell.name);
        }
        let manifest = Manifest { cells, complete: stop.is_none(), ..draft };
        let stored = if stop.is_none() { writer.finish(manifest) } else { writer.interrupted(manifest) };
        let stored = stored.map_err(|error| failed(&error))?;
        let trouble = stop.map(|stop| seen.trouble(&stop, &stored));
        Ok(Ran { stored, trouble })
    }

    /// Runs that are still to be measured after this one.
    fn runs_after(&self, sequence: u32) -> u32 {
        let all = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        let kept = self.kept.iter().filter(|run| run.manifest.sequence > sequence).count();
        all.saturating_sub(sequence.saturating_add(1)).saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX))
    }

    fn visit_order<'p>(&self, plan: &'p Plan, sequence: u32) -> Vec<&'p PlannedCell> {
        let seed = Stream::named(plan.seed, &format!("visit/{}/{sequence}", self.name)).bits();
        plan::order(plan, seed).into_iter().filter_map(|at| plan.cells.get(at)).collect()
    }

    fn folder(&self, manifest: &Manifest) -> PathBuf {
        self.out.join(format!("{}-{:02}-{}", manifest.session, manifest.sequence, manifest.side))
    }
}

/// What a run sends.
struct Sent<'a> {
    /// The cells in the order in which they are visited.
    cells: Vec<&'a PlannedCell>,
    codec: Codec,
}

/// A run of the session.
struct Numbered<'a> {
    side: Side,
    release: &'a str,
    sequence: u32,
}

struct Ran {
    stored: StoredRun,
    trouble: Option<CliError>,
}

/// Who watches a run.
struct Seen<'a> {
    terminal: &'a mut Terminal,
    interrupt: &'a Interrupt,
    first: bool,
    /// Whether it was said that the server's counters could not be read.
    said_unread: &'a mut bool,
}

impl Seen<'_> {
    fn watch(&mut self, event: &Event<'_>, progress: &mut Progress, start: Instant) {
        let at = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        match event {
            Event::CellStarted { cell, .. } => {
                progress.started(cell, at);
                self.terminal.set_bar(progress.requests().0, cell, || progress.left(at));
            }
            Event::Progress { cell, .. } => {
                progress.request_ended(cell, at);
                self.terminal.set_bar(progress.requests().0, cell, || progress.left(at));
            }
            Event::CountersUnread { cell, cause } => {
                tracing::info!("cell {cell}: the server's counters are unknown: {cause}");
                if !*self.said_unread {
                    *self.said_unread = true;
                    self.terminal.say(&format!(
                        "warning: the server's counters could not be read at {cell}, so they are not part of the evidence: {cause}"
                    ));
                }
            }
            Event::CellEnded { evidence, blocked } => {
                progress.cell_ended(&evidence.name, at);
                tracing::info!(
                    "cell {}: {} requests, decoder made it wait {blocked}",
                    evidence.name,
                    evidence.attempted
                );
            }
        }
    }

    fn trouble(&self, stop: &Stop, stored: &StoredRun) -> CliError {
        let measured = count(stored.manifest.record_count, "request");
        let kept = format!("what was measured is kept in {} ({measured})", stored.path.display());
        stopped(stop, self.interrupt).hint(kept)
    }
}

/// What kept a pass from its end.
pub(crate) fn stopped(stop: &Stop, interrupt: &Interrupt) -> CliError {
    match stop {
        Stop::Interrupted => CliError::interrupted(interrupt.exit().unwrap_or(Exit::Interrupted), "interrupted"),
        Stop::Refused => CliError::failed("the records could not be written"),
        Stop::Overdue { limit } => {
            CliError::failed(format!("a cell took longer than all its timeouts together allow ({limit})"))
        }
        Stop::Down { requests, cause } => {
            CliError::failed(format!("the target is down: {requests} requests without any answer ({cause})"))
        }
    }
}

fn failed(error: &RunError) -> CliError {
    CliError::failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_spread_among_the_candidates_runs() {
        let order = |runs, controls| -> String {
            let letter = |side| if side == Side::Control { 'A' } else { 'C' };
            interleave(runs, controls).into_iter().map(letter).collect()
        };
        assert_eq!(order(3, 2), "CACCA");
        assert_eq!(order(5, 2), "CCACCAC");
        assert_eq!(order(5, 3), "CACCACCA");
        assert_eq!(order(2, 2), "CACA");
        assert_eq!(order(3, 0), "CCC");
        assert_eq!(order(1, 3), "CAAA");
    }
}

//! What may enter the baselines: the mode fits the history, the verdict fits the mode, and the runs count and belong
//! together.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::run::Manifest;
use crate::store::baseline::BaselineError;
use crate::store::baseline::history::History;
use crate::store::baseline::manifest::{Identity, RunEntry};
use crate::store::baseline::refusal::Refusal;
use crate::store::baseline::request::{Approval, Mode, Refresh};
use crate::store::runs::{Opened, open_run};
use crate::verdict::counting::{Uncounted, uncounted};
use crate::verdict::judgement::Verdict;

/// Whether the mode fits the history.
pub(super) fn fits(refresh: &Refresh<'_>, history: &History) -> Result<(), Refusal> {
    let (release, active) = (refresh.release.to_owned(), history.active().map(|(active, _)| active.to_owned()));
    match (&refresh.mode, active) {
        (Mode::Initial, Some(active)) => Err(Refusal::NotInitial { active }),
        (Mode::Next | Mode::AddSession | Mode::Rebase(_), None) => Err(Refusal::NoActive),
        (Mode::Next, Some(active)) if active == release => Err(Refusal::SameRelease(active)),
        (Mode::AddSession, Some(active)) if active != release => Err(Refusal::OtherRelease { active, found: release }),
        _ => Ok(()),
    }
}

/// Whether the verdict fits the mode.
pub(super) fn approved(refresh: &Refresh<'_>) -> Result<(), Refusal> {
    let must_be_judged = matches!(refresh.mode, Mode::Next | Mode::AddSession);
    let Some(Approval { verdict, judgement }) = refresh.verdict else {
        return if must_be_judged { Err(Refusal::NotJudged) } else { Ok(()) };
    };
    let allowed = match refresh.mode {
        Mode::Next => matches!(verdict, Verdict::Pass | Verdict::Warn),
        // That sessions lie apart is what a further session is to show. Only keeping those that agree would hide it.
        Mode::AddSession => matches!(verdict, Verdict::Pass | Verdict::Warn | Verdict::Inconclusive),
        Mode::Initial | Mode::Rebase(_) => verdict != Verdict::Error,
    };
    let adds = refresh.mode == Mode::AddSession;
    if allowed { Ok(()) } else { Err(Refusal::Verdict { verdict, adds, evidence: judgement }) }
}

/// The runs of the measurement, verified, complete, of one release, made alike, and such that they can count.
pub(super) fn measurement(refresh: &Refresh<'_>) -> Result<Vec<Opened>, BaselineError> {
    let mut opened: Vec<Opened> = Vec::with_capacity(refresh.runs.len());
    let mut places = BTreeSet::new();
    for path in refresh.runs {
        let found = open_run(path)?;
        let run = path.display().to_string();
        let fresh = places.insert((found.run.manifest.session.clone(), found.run.manifest.sequence));
        let refusal = foreign(refresh, &run, &found)
            .or_else(|| repeated(&run, &found, &opened, fresh))
            .or_else(|| differing(&run, &found, opened.first()))
            .or_else(|| useless(&run, &found));
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        opened.push(found);
    }
    opened.sort_by_key(|one| (one.run.manifest.session.clone(), one.run.manifest.sequence));
    if opened.is_empty() { Err(Refusal::NoRuns.into()) } else { Ok(opened) }
}

/// A run that is not of the approved release, or not whole.
fn foreign(refresh: &Refresh<'_>, run: &str, found: &Opened) -> Option<Refusal> {
    let (run, manifest) = (run.to_owned(), &found.run.manifest);
    if manifest.workload != refresh.workload {
        let (found, expected) = (manifest.workload.clone(), refresh.workload.to_owned());
        return Some(Refusal::WrongWorkload { run, found, expected });
    }
    if manifest.release != refresh.release {
        let (found, expected) = (manifest.release.clone(), refresh.release.to_owned());
        return Some(Refusal::WrongRelease { run, found, expected });
    }
    (!manifest.complete).then_some(Refusal::Incomplete { run })
}

fn repeated(run: &str, found: &Opened, others: &[Opened], fresh: bool) -> Option<Refusal> {
    let Manifest { session, sequence, .. } = &found.run.manifest;
    let what = if others.iter().any(|other| other.id == found.id) {
        "the same digest".to_owned()
    } else if fresh {
        return None;
    } else {
        format!("position {sequence} of session `{session}`")
    };
    Some(Refusal::Duplicate { run: run.to_owned(), what })
}

fn differing(run: &str, found: &Opened, first: Option<&Opened>) -> Option<Refusal> {
    let what = Identity::of(&first?.run.manifest).difference(&Identity::of(&found.run.manifest))?;
    Some(Refusal::Mixed { run: run.to_owned(), what })
}

/// A run that no decision could use in some cell: as a baseline it would be left out for as long as it stands there.
fn useless(run: &str, found: &Opened) -> Option<Refusal> {
    let Uncounted { cells, seen, fix, .. } = uncounted(&found.run, None).into_iter().next()?;
    Some(Refusal::DoesNotCount { run: run.to_owned(), cells: cells.join(", "), seen, fix })
}

/// What the manifest says about these runs, by session.
pub(super) fn entries(measured: &[Opened]) -> BTreeMap<String, Vec<RunEntry>> {
    let mut sessions: BTreeMap<String, Vec<RunEntry>> = BTreeMap::new();
    for Opened { id, run, .. } in measured {
        sessions.entry(run.manifest.session.clone()).or_default().push(RunEntry {
            id: *id,
            sequence: run.manifest.sequence,
            side: run.manifest.side,
            started: run.manifest.started.clone(),
            records: run.manifest.record_count,
        });
    }
    sessions
}

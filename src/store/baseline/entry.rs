//! What may enter the baselines: the mode fits the history, the verdict fits the mode, and the runs belong together.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::baseline::BaselineError;
use crate::store::baseline::history::History;
use crate::store::baseline::manifest::{Identity, RunEntry};
use crate::store::baseline::refresh::{Approval, Mode, Refresh};
use crate::store::baseline::refusal::Refusal;
use crate::store::files::checked_name;
use crate::store::runs::{Opened, open_run};
use crate::verdict::judgement::Verdict;

/// Whether the mode fits the history, and the verdict the mode.
pub(super) fn may_enter(refresh: &Refresh<'_>, history: &History) -> Result<(), Refusal> {
    let (release, active) = (refresh.release.to_owned(), history.active().map(|(active, _)| active.to_owned()));
    match (&refresh.mode, active) {
        (Mode::Initial, Some(active)) => return Err(Refusal::NotInitial { active }),
        (Mode::Next | Mode::AddSession | Mode::Rebase(_), None) => return Err(Refusal::NoActive),
        (Mode::Next, Some(active)) if active == release => return Err(Refusal::SameRelease(active)),
        (Mode::AddSession, Some(active)) if active != release => {
            return Err(Refusal::OtherRelease { active, found: release });
        }
        _ => {}
    }
    let Some(Approval { verdict, judgement }) = refresh.verdict else {
        return if refresh.mode == Mode::Next { Err(Refusal::NotJudged) } else { Ok(()) };
    };
    let allowed = match refresh.mode {
        Mode::Next => matches!(verdict, Verdict::Pass | Verdict::Warn),
        // That sessions lie apart is what a further session is to show. Only keeping those that agree would hide it.
        Mode::AddSession => matches!(verdict, Verdict::Pass | Verdict::Warn | Verdict::Inconclusive),
        Mode::Initial | Mode::Rebase(_) => verdict != Verdict::Error,
    };
    if allowed { Ok(()) } else { Err(Refusal::Verdict { verdict, evidence: judgement }) }
}

/// The runs of the measurement, verified, complete, of one release and made alike.
pub(super) fn measurement(refresh: &Refresh<'_>) -> Result<Vec<Opened>, BaselineError> {
    let mut opened: Vec<Opened> = Vec::with_capacity(refresh.runs.len());
    let mut places = BTreeSet::new();
    for path in refresh.runs {
        let found = open_run(path)?;
        let (run, manifest) = (found.id.short(), &found.run.manifest);
        checked_name("session", &manifest.session)?;
        let refusal = if manifest.workload != refresh.workload {
            let (found, expected) = (manifest.workload.clone(), refresh.workload.to_owned());
            Some(Refusal::WrongWorkload { run, found, expected })
        } else if manifest.release != refresh.release {
            let (found, expected) = (manifest.release.clone(), refresh.release.to_owned());
            Some(Refusal::WrongRelease { run, found, expected })
        } else if !manifest.complete {
            Some(Refusal::Incomplete { run })
        } else if opened.iter().any(|other| other.id == found.id) {
            Some(Refusal::Duplicate { run, what: "the same digest".to_owned() })
        } else if !places.insert((manifest.session.clone(), manifest.sequence)) {
            let what = format!("position {} of session `{}`", manifest.sequence, manifest.session);
            Some(Refusal::Duplicate { run, what })
        } else {
            let differs = |first: &Opened| Identity::of(&first.run.manifest).difference(&Identity::of(manifest));
            opened.first().and_then(differs).map(|what| Refusal::Mixed { run, what })
        };
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        opened.push(found);
    }
    opened.sort_by_key(|one| (one.run.manifest.session.clone(), one.run.manifest.sequence));
    if opened.is_empty() { Err(Refusal::NoRuns.into()) } else { Ok(opened) }
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

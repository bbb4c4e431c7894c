//! Changing baselines: an approved measurement becomes one, a session is added, an earlier release comes back.
//!
//! A change is first worked out as a list of atomic writes and then made, in order: runs, then the manifest that
//! names them, then the line of the history that makes it count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::artifact::run::Run;
use crate::base::digest::Digest;
use crate::store::baseline::entry::{approved, entries, fits, measurement};
use crate::store::baseline::history::{Event, EventKind, History};
use crate::store::baseline::load::Baseline;
use crate::store::baseline::manifest::{self, BaselineManifest, CURRENT, FORMAT, Identity, Provenance};
use crate::store::baseline::noise::{self, Sessions};
use crate::store::baseline::refusal::Refusal;
use crate::store::baseline::request::{Change, Mode, Refresh, Refreshed};
use crate::store::baseline::{BaselineError, Baselines, lock, run_folder};
use crate::store::files::{checked_name, write_in_order};
use crate::store::runs::Opened;

/// Earlier releases that say something about noise.
const EARLIER: usize = 11;
/// Longest name of an approver, or reason, in bytes.
const MAX_SAID: usize = 500;

/// Files and their bytes, in the order in which they are written.
pub(super) type Writes = Vec<(PathBuf, Vec<u8>)>;

impl Baselines {
    /// Makes a measurement the baseline, or a part of it. The anchor stays where it is.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that says what to do instead, or a file that cannot be read or written. Nothing was changed, or
    /// the old state still counts.
    pub fn refresh(&self, refresh: &Refresh<'_>) -> Result<Refreshed, BaselineError> {
        let _lock = lock(&self.root)?;
        let (writes, refreshed) = self.refresh_writes(refresh)?;
        write_in_order(&writes)?;
        Ok(refreshed)
    }

    pub(super) fn refresh_writes(&self, refresh: &Refresh<'_>) -> Result<(Writes, Refreshed), BaselineError> {
        let folder = self.release(refresh.workload, refresh.release)?;
        said("the approver", refresh.approved_by)?;
        let reason = match &refresh.mode {
            Mode::Rebase(reason) => Some(said("the reason", reason)?.to_owned()),
            Mode::Initial | Mode::Next | Mode::AddSession => None,
        };
        time(refresh.at)?;
        let history = History::read(&self.workload(refresh.workload)?)?;
        fits(refresh, &history)?;
        let measured = measurement(refresh)?;
        let active = self.load_active(refresh.workload)?;
        let manifest = self.manifest_of(refresh, &measured, active.as_ref(), reason.clone())?;
        // Last: runs that do not belong here were judged in vain, and their verdict would hide why.
        approved(refresh)?;
        let refreshed = |digest| Refreshed {
            digest,
            previous: manifest.previous,
            sessions: manifest.sessions.len(),
            runs: manifest.sessions.values().map(Vec::len).sum(),
        };

        let mut writes = Writes::new();
        for run in measured {
            let run_folder = run_folder(&folder, &run.id);
            writes.extend(run.files.into_iter().map(|(name, bytes)| (run_folder.join(name), bytes)));
        }
        writes.extend(superseding(&folder, &history)?);
        let path = folder.join(CURRENT);
        let bytes = manifest.encode(&path)?;
        let digest = Digest::of(&bytes);
        writes.push((path, bytes));
        writes.push(history.with(Event {
            format: FORMAT,
            event: refresh.mode.event(),
            release: refresh.release.to_owned(),
            digest,
            by: refresh.approved_by.to_owned(),
            at: refresh.at.to_owned(),
            reason,
            previous: None,
        })?);
        Ok((writes, refreshed(digest)))
    }

    fn manifest_of(
        &self,
        refresh: &Refresh<'_>,
        measured: &[Opened],
        active: Option<&Baseline>,
        reason: Option<String>,
    ) -> Result<BaselineManifest, BaselineError> {
        let identity = measured.first().map(|run| Identity::of(&run.run.manifest)).ok_or(Refusal::NoRuns)?;
        let grown = active.filter(|_| refresh.mode == Mode::AddSession);
        let moved = match (&refresh.mode, active) {
            (Mode::AddSession, Some(active)) => active.manifest.identity.difference(&identity),
            // A new release may have other conditions: the policy's treatment was judged. Its method must be the same.
            (Mode::Next, Some(active)) => active.manifest.identity.difference_of_method(&identity),
            _ => None,
        };
        if let Some(what) = moved {
            return Err(Refusal::Moved { what }.into());
        }
        let mut sessions = grown.map(|active| active.manifest.sessions.clone()).unwrap_or_default();
        for (session, entries) in entries(measured) {
            if sessions.insert(session.clone(), entries).is_some() {
                return Err(Refusal::SameSession(session).into());
            }
        }
        Ok(BaselineManifest {
            format: FORMAT,
            workload: refresh.workload.to_owned(),
            release: refresh.release.to_owned(),
            approved_by: refresh.approved_by.to_owned(),
            approved_at: refresh.at.to_owned(),
            reason,
            provenance: Provenance {
                servegate: env!("CARGO_PKG_VERSION").to_owned(),
                verdict: refresh.verdict.map(|approval| approval.verdict.id().to_owned()),
                judgement: refresh.verdict.map(|approval| approval.judgement),
            },
            noise: self.noise(refresh, measured, active, &identity)?,
            identity,
            sessions,
            previous: active.map(|active| active.digest),
        })
    }

    /// The noise that the new baseline shows, learned from it and from earlier releases measured in the same way.
    fn noise(
        &self,
        refresh: &Refresh<'_>,
        measured: &[Opened],
        active: Option<&Baseline>,
        identity: &Identity,
    ) -> Result<Vec<noise::NoiseEntry>, BaselineError> {
        let earlier = self.load_earlier(refresh.workload, EARLIER)?;
        let alike = |one: &&Baseline| {
            one.release != refresh.release && one.manifest.identity.difference_of_method(identity).is_none()
        };
        let mut releases: Vec<Sessions<'_>> = earlier.iter().chain(active).filter(alike).map(sessions_of).collect();
        let mut own = active.filter(|_| refresh.mode == Mode::AddSession).map(sessions_of).unwrap_or_default();
        let mut fresh: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in measured {
            fresh.entry(&run.run.manifest.session).or_default().push(&run.run);
        }
        own.extend(fresh.into_values());
        releases.push(own);
        Ok(noise::entries(&releases))
    }

    /// Makes an earlier release the active baseline again, as it was last approved.
    ///
    /// # Errors
    ///
    /// The release was never approved, is active already, or its files are damaged.
    pub fn rollback(&self, change: &Change<'_>) -> Result<(), BaselineError> {
        self.decide(change, EventKind::Rollback)
    }

    /// Makes a stored release the anchor, as it was last approved. Nothing else moves the anchor.
    ///
    /// # Errors
    ///
    /// The release was never approved, is the anchor already, or its files are damaged.
    pub fn set_anchor(&self, change: &Change<'_>) -> Result<(), BaselineError> {
        self.decide(change, EventKind::Anchor)
    }

    fn decide(&self, change: &Change<'_>, event: EventKind) -> Result<(), BaselineError> {
        let _lock = lock(&self.root)?;
        said("the approver", change.by)?;
        said("the reason", change.reason)?;
        time(change.at)?;
        let history = History::read(&self.workload(change.workload)?)?;
        checked_name("release", change.release)?;
        let Some(digest) = history.latest(change.release).map(|event| event.digest) else {
            let (workload, release) = (change.workload.to_owned(), change.release.to_owned());
            return Err(BaselineError::Unknown { workload, release });
        };
        let wanted = Some((change.release, digest));
        if event == EventKind::Anchor && history.anchor() == wanted {
            return Err(Refusal::AlreadyAnchor(change.release.to_owned()).into());
        }
        if event == EventKind::Rollback && history.active() == wanted {
            return Err(Refusal::AlreadyActive(change.release.to_owned()).into());
        }
        self.load(change.workload, change.release, digest)?;
        write_in_order(&[history.with(Event {
            format: FORMAT,
            event,
            release: change.release.to_owned(),
            digest,
            by: change.by.to_owned(),
            at: change.at.to_owned(),
            reason: Some(change.reason.to_owned()),
            previous: None,
        })?])?;
        Ok(())
    }
}

fn sessions_of(baseline: &Baseline) -> Sessions<'_> {
    baseline.sessions.iter().map(|(_, runs)| runs.iter().collect()).collect()
}

/// Keeps the present manifest under a number when it was approved and is not kept yet.
fn superseding(release: &Path, history: &History) -> Result<Option<(PathBuf, Vec<u8>)>, BaselineError> {
    let Some(bytes) = manifest::current(release)?.filter(|bytes| history.knows(&Digest::of(bytes))) else {
        return Ok(None);
    };
    let mut number = 1;
    for path in manifest::versions(release).skip(1) {
        if BaselineManifest::read(&path)?.0 == Digest::of(&bytes) {
            return Ok(None);
        }
        number += 1;
    }
    Ok(Some((release.join(manifest::superseded(number)), bytes)))
}

fn said<'t>(what: &'static str, text: &'t str) -> Result<&'t str, Refusal> {
    let good = !text.trim().is_empty() && text.len() <= MAX_SAID && !text.chars().any(char::is_control);
    if good { Ok(text) } else { Err(Refusal::Unsaid(what)) }
}

fn time(text: &str) -> Result<(), Refusal> {
    let shown = || Refusal::NotATime(text.chars().take(40).flat_map(char::escape_default).collect());
    if text.parse::<jiff::Timestamp>().is_ok() { Ok(()) } else { Err(shown()) }
}

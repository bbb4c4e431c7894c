//! Reading baselines: the active one, earlier releases, and what there is.

use std::path::PathBuf;

use serde::Serialize;

use crate::artifact::run::Run;
use crate::base::digest::Digest;
use crate::store::baseline::history::{EventKind, History};
use crate::store::baseline::manifest::BaselineManifest;
use crate::store::baseline::{BaselineError, Baselines, run_folder};
use crate::store::runs::open_run;

/// A baseline with its runs.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The release.
    pub release: String,
    /// Digest of its manifest.
    pub digest: Digest,
    /// Who approved it.
    pub approved_by: String,
    /// When, RFC 3339 in UTC.
    pub approved_at: String,
    /// Its runs by session, each session's in the order they were measured. They keep the side they were measured as.
    pub sessions: Vec<(String, Vec<Run>)>,
    /// Its manifest.
    pub manifest: BaselineManifest,
}

impl Baseline {
    /// All runs, session by session.
    pub fn into_runs(self) -> Vec<Run> {
        self.sessions.into_iter().flat_map(|(_, runs)| runs).collect()
    }
}

/// One release of a workload, for a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The workload.
    pub workload: String,
    /// The release.
    pub release: String,
    /// Whether candidates are compared with it.
    pub active: bool,
    /// Whether it is the anchor.
    pub anchor: bool,
    /// Who approved it.
    pub approved_by: String,
    /// When, RFC 3339 in UTC.
    pub approved_at: String,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of runs.
    pub runs: usize,
    /// Digest of its manifest.
    pub digest: Digest,
}

impl Baselines {
    /// The active baseline with its runs, all digests verified; none when the workload has none.
    ///
    /// # Errors
    ///
    /// A file is missing, was changed, or cannot be read.
    pub fn load_active(&self, workload: &str) -> Result<Option<Baseline>, BaselineError> {
        let history = History::read(&self.workload(workload)?)?;
        history.active().map(|(release, digest)| self.load(workload, release, digest)).transpose()
    }

    /// The releases that were approved before the active one, at most `most`, oldest first: what is known about the
    /// noise. A release whose folder was deleted to save room is left out; a damaged one is an error.
    ///
    /// # Errors
    ///
    /// As [`Baselines::load_active`].
    pub fn load_earlier(&self, workload: &str, most: usize) -> Result<Vec<Baseline>, BaselineError> {
        let history = History::read(&self.workload(workload)?)?;
        let active = history.active().map(|(release, _)| release);
        let mut earlier: Vec<Baseline> = Vec::new();
        for event in history.events.iter().rev().filter(|event| event.event != EventKind::Anchor) {
            let seen = Some(event.release.as_str()) == active || earlier.iter().any(|one| one.release == event.release);
            if earlier.len() < most && !seen && self.release(workload, &event.release)?.exists() {
                earlier.push(self.load(workload, &event.release, event.digest)?);
            }
        }
        earlier.reverse();
        Ok(earlier)
    }

    /// Every release that was approved, by workload and time of its first approval.
    ///
    /// # Errors
    ///
    /// A history or a manifest cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, BaselineError> {
        let mut listed: Vec<Listed> = Vec::new();
        for workload in self.workloads()? {
            let history = History::read(&self.workload(&workload)?)?;
            for event in &history.events {
                if listed.iter().any(|one| one.workload == workload && one.release == event.release) {
                    continue;
                }
                let (digest, manifest) = self.show(&workload, Some(&event.release))?;
                let is = |found: Option<(&str, Digest)>| found.is_some_and(|(release, _)| release == event.release);
                listed.push(Listed {
                    workload: workload.clone(),
                    active: is(history.active()),
                    anchor: is(history.anchor()),
                    sessions: manifest.sessions.len(),
                    runs: manifest.sessions.values().map(Vec::len).sum(),
                    release: manifest.release,
                    approved_by: manifest.approved_by,
                    approved_at: manifest.approved_at,
                    digest,
                });
            }
        }
        Ok(listed)
    }

    /// The run folders of a baseline, in the order of its sessions, for a bundle.
    ///
    /// # Errors
    ///
    /// The baseline's names are no names.
    pub fn run_folders(&self, baseline: &Baseline) -> Result<Vec<PathBuf>, BaselineError> {
        let folder = self.release(&baseline.manifest.workload, &baseline.release)?;
        Ok(baseline.manifest.sessions.values().flatten().map(|entry| run_folder(&folder, &entry.id)).collect())
    }

    /// The manifest of a release as it was last approved; of the active release without a name.
    ///
    /// # Errors
    ///
    /// There is no such baseline, or its manifest was changed.
    pub fn show(&self, workload: &str, release: Option<&str>) -> Result<(Digest, BaselineManifest), BaselineError> {
        let history = History::read(&self.workload(workload)?)?;
        let unknown = || BaselineError::Unknown {
            workload: workload.to_owned(),
            release: release.unwrap_or("(active)").to_owned(),
        };
        let name = release.or(history.active().map(|(release, _)| release)).ok_or_else(unknown)?;
        let digest = history.latest(name).ok_or_else(unknown)?.digest;
        Ok((digest, self.manifest(workload, name, &digest)?))
    }

    fn manifest(&self, workload: &str, release: &str, digest: &Digest) -> Result<BaselineManifest, BaselineError> {
        let folder = self.release(workload, release)?;
        let manifest = BaselineManifest::find(&folder, digest)?.ok_or_else(|| BaselineError::Damaged {
            path: folder.clone(),
            what: format!("no manifest of it has the approved digest {digest}"),
        })?;
        match manifest.stranger(workload, release) {
            Some(what) => Err(BaselineError::Damaged { path: folder, what }),
            None => Ok(manifest),
        }
    }

    /// The manifest of a release with this digest, and its runs, all digests verified.
    ///
    /// # Errors
    ///
    /// As [`Baselines::load_active`].
    pub fn load(&self, workload: &str, release: &str, digest: Digest) -> Result<Baseline, BaselineError> {
        let folder = self.release(workload, release)?;
        let manifest = self.manifest(workload, release, &digest)?;
        let mut sessions = Vec::with_capacity(manifest.sessions.len());
        for (session, entries) in &manifest.sessions {
            let mut runs = Vec::with_capacity(entries.len());
            for entry in entries {
                let path = run_folder(&folder, &entry.id);
                let opened = open_run(&path)?;
                if opened.id != entry.id {
                    let what = format!("its digest is {} and the baseline says {}", opened.id, entry.id);
                    return Err(BaselineError::Damaged { path, what });
                }
                runs.push(opened.run);
            }
            sessions.push((session.clone(), runs));
        }
        Ok(Baseline {
            release: manifest.release.clone(),
            digest,
            approved_by: manifest.approved_by.clone(),
            approved_at: manifest.approved_at.clone(),
            sessions,
            manifest,
        })
    }
}

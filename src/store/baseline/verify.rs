//! Recomputes every digest of the stored baselines, looks at every name, and reports every fault, not only the first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::store::baseline::history::{Event, EventKind, History};
use crate::store::baseline::manifest::{BaselineManifest, CURRENT, versions};
use crate::store::baseline::{BaselineError, Baselines, RUNS, run_folder};
use crate::store::files::{FileError, checked_name};
use crate::store::runs::open_run;

/// Folders below a release: `runs/<run>`.
const DEPTH: u32 = 2;

/// Something that is not as it was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    pub path: PathBuf,
    /// What was found and what to do.
    pub what: String,
}

impl Baselines {
    /// Every fault of every workload, or of one. Empty: all is as it was approved.
    ///
    /// # Errors
    ///
    /// The folder of the baselines cannot be read, or the name is no name.
    pub fn verify(&self, workload: Option<&str>) -> Result<Vec<Fault>, BaselineError> {
        let mut faults = Vec::new();
        let workloads = if let Some(name) = workload {
            let folder = self.workload(name)?;
            faults.extend(is_link(&folder).then(|| linked(folder)));
            vec![name.to_owned()]
        } else {
            verify_names("workload", &self.root, &mut faults)?;
            self.workloads()?
        };
        for workload in workloads {
            let folder = self.workload(&workload)?;
            if folder.is_dir() {
                verify_names("release", &folder, &mut faults)?;
            }
            match History::read(&folder) {
                Ok(history) => self.verify_workload(&workload, &history, &mut faults)?,
                Err(error) => faults.push(Fault { path: folder, what: error.to_string() }),
            }
        }
        Ok(faults)
    }

    fn verify_workload(&self, workload: &str, history: &History, faults: &mut Vec<Fault>) -> Result<(), BaselineError> {
        let mut checked = Vec::new();
        for event in &history.events {
            let folder = self.release(workload, &event.release)?;
            if checked.contains(&event.digest) {
                continue;
            }
            checked.push(event.digest);
            match BaselineManifest::find(&folder, &event.digest) {
                Ok(Some(manifest)) => {
                    faults.extend(misquoted(event, &manifest).map(|what| Fault { path: folder.clone(), what }));
                    let stranger = manifest.stranger(workload, &event.release);
                    faults.extend(stranger.map(|what| Fault { path: folder.clone(), what }));
                    verify_runs(&folder, &manifest, faults);
                }
                Ok(None) => faults.push(Fault {
                    path: folder.clone(),
                    what: format!(
                        "no manifest of it has the approved digest {}; restore it from version control",
                        event.digest
                    ),
                }),
                Err(error) => faults.push(Fault { path: folder.clone(), what: error.to_string() }),
            }
        }
        for release in Self::at(self.workload(workload)?).workloads()? {
            let folder = self.release(workload, &release)?;
            verify_links(&folder, DEPTH, faults)?;
            verify_listed(&folder, faults)?;
        }
        faults.extend(self.unknown_to(history, workload)?);
        Ok(())
    }

    /// Manifests of a workload that its history does not know: changed by hand, left by a killed refresh, or approved by
    /// a line that was removed from the end of the history; and symbolic links. The active baseline may then not be the
    /// approved one.
    ///
    /// # Errors
    ///
    /// The history or the folder cannot be read, or the name is no name.
    pub fn unapproved(&self, workload: &str) -> Result<Vec<Fault>, BaselineError> {
        let mut faults = Vec::new();
        for release in Self::at(self.workload(workload)?).workloads()? {
            verify_links(&self.release(workload, &release)?, DEPTH, &mut faults)?;
        }
        faults.extend(self.unknown_to(&History::read(&self.workload(workload)?)?, workload)?);
        Ok(faults)
    }

    fn unknown_to(&self, history: &History, workload: &str) -> Result<Vec<Fault>, BaselineError> {
        let mut faults = Vec::new();
        for release in Self::at(self.workload(workload)?).workloads()? {
            for path in versions(&self.release(workload, &release)?) {
                let what = match BaselineManifest::read(&path) {
                    Ok((digest, _)) if history.knows(&digest) => continue,
                    Ok((digest, _)) => format!(
                        "the history does not know its digest {digest}: it was changed, a refresh was interrupted, or the last \
                         lines of history.jsonl were removed; restore it from version control or refresh again"
                    ),
                    Err(BaselineError::File(error)) if error.is_missing() && path.ends_with(CURRENT) => {
                        "it is missing; restore it from version control or delete the whole folder".to_owned()
                    }
                    Err(error) => error.to_string(),
                };
                faults.push(Fault { path, what });
            }
        }
        Ok(faults)
    }
}

/// Folders of a folder: what is called like no workload or release is read by nobody, and looks as if it were there.
fn verify_names(what: &'static str, folder: &Path, faults: &mut Vec<Fault>) -> Result<(), BaselineError> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_link(&path) {
            faults.push(linked(path));
        } else if path.is_dir()
            && let Err(error) = checked_name(what, &name)
        {
            faults.push(Fault { path, what: format!("{error}; rename it, or remove it") });
        }
    }
    Ok(())
}

/// Symbolic links in a release: what they lead to can change without a trace in the baselines.
fn verify_links(folder: &Path, depth: u32, faults: &mut Vec<Fault>) -> Result<(), BaselineError> {
    for path in entries(folder)? {
        if is_link(&path) {
            faults.push(linked(path));
        } else if path.is_dir() && depth > 0 {
            verify_links(&path, depth - 1, faults)?;
        }
    }
    Ok(())
}

/// What lies among the runs of a release and is in none of its manifests: read by nobody, approved by nobody, and left by a
/// killed refresh or put there by hand. Manifests that do not read are found elsewhere.
fn verify_listed(folder: &Path, faults: &mut Vec<Fault>) -> Result<(), BaselineError> {
    let manifests = versions(folder).filter_map(|path| BaselineManifest::read(&path).ok());
    let manifests: Vec<BaselineManifest> = manifests.map(|(_, manifest)| manifest).collect();
    let runs = manifests.iter().flat_map(|manifest| manifest.sessions.values().flatten());
    let listed: BTreeSet<PathBuf> = runs.map(|run| run_folder(folder, &run.id)).collect();
    for path in entries(&folder.join(RUNS))? {
        if !listed.contains(&path) && !is_link(&path) {
            let what = "no manifest of the release names it, so it is no part of a baseline; remove it, or refresh with its run";
            faults.push(Fault { path, what: what.to_owned() });
        }
    }
    Ok(())
}

fn linked(path: PathBuf) -> Fault {
    let what = "it is a symbolic link, so what it holds can change unseen; put the files themselves there";
    Fault { path, what: what.to_owned() }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_symlink())
}

/// What lies directly in a folder, in order of names; nothing in one that is not there. Hidden entries are read by
/// nobody and belong to other programs.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, BaselineError> {
    let fail = || FileError::of("read the folder", folder);
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(fail())?,
    };
    for entry in entries {
        let entry = entry.map_err(fail())?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn verify_runs(folder: &Path, manifest: &BaselineManifest, faults: &mut Vec<Fault>) {
    for entry in manifest.sessions.values().flatten() {
        let path = run_folder(folder, &entry.id);
        let what = match open_run(&path) {
            Ok(opened) if opened.id == entry.id => continue,
            Ok(opened) => format!(
                "its digest is {} and the baseline says {}; restore it from version control",
                opened.id, entry.id
            ),
            Err(error) => error.to_string(),
        };
        let fault = Fault { path, what };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
}

/// What the line of the history says otherwise than the manifest that it made count.
fn misquoted(event: &Event, manifest: &BaselineManifest) -> Option<String> {
    let own = match event.event {
        EventKind::Initial | EventKind::Refresh | EventKind::AddSession | EventKind::Rebase => true,
        // Decisions of their own, about a manifest that was approved before.
        EventKind::Rollback | EventKind::Anchor => false,
    };
    let same = event.by == manifest.approved_by && event.at == manifest.approved_at && event.reason == manifest.reason;
    (own && !same).then(|| {
        format!(
            "the history says that {} approved it at {}, and its manifest says {} at {}; restore history.jsonl from version \
             control",
            event.by, event.at, manifest.approved_by, manifest.approved_at
        )
    })
}

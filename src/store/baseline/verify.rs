//! Recomputes every digest of the stored baselines and reports every fault, not only the first.

use std::path::PathBuf;

use serde::Serialize;

use crate::store::baseline::history::History;
use crate::store::baseline::manifest::{BaselineManifest, CURRENT, versions};
use crate::store::baseline::{BaselineError, Baselines, run_folder};
use crate::store::runs::open_run;

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
        let workloads = workload.map_or_else(|| self.workloads(), |name| Ok(vec![name.to_owned()]))?;
        let mut faults = Vec::new();
        for workload in workloads {
            let folder = self.workload(&workload)?;
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
                Ok(Some(manifest)) => verify_runs(&folder, &manifest, faults),
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
        self.verify_manifests(workload, history, faults)
    }

    /// Manifests that nobody approved: changed by hand, or left by a killed refresh.
    fn verify_manifests(
        &self,
        workload: &str,
        history: &History,
        faults: &mut Vec<Fault>,
    ) -> Result<(), BaselineError> {
        for release in Self::at(self.workload(workload)?).workloads()? {
            let folder = self.release(workload, &release)?;
            for path in versions(&folder) {
                let what = match BaselineManifest::read(&path) {
                    Ok((digest, _)) if history.knows(&digest) => continue,
                    Ok((digest, _)) => format!(
                        "the history does not know its digest {digest}: it was changed, or a refresh was interrupted; \
                         restore it from version control or refresh again"
                    ),
                    Err(BaselineError::File(error)) if error.is_missing() && path.ends_with(CURRENT) => {
                        "it is missing; restore it from version control or delete the whole folder".to_owned()
                    }
                    Err(error) => error.to_string(),
                };
                faults.push(Fault { path, what });
            }
        }
        Ok(())
    }
}

fn verify_runs(folder: &std::path::Path, manifest: &BaselineManifest, faults: &mut Vec<Fault>) {
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

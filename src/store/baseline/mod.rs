//! Baselines: measurements of approved releases, with who approved them and why (`docs/baselines.md`).
//!
//! `<root>/<workload>/history.jsonl` is the truth: its last line says which release is active and with which digest.
//! Data is written before the line that makes it count, so a killed process leaves the old state or the new one.

mod entry;
pub mod history;
pub mod load;
pub mod manifest;
pub mod noise;
pub mod refresh;
pub mod refusal;
pub mod request;
pub mod verify;

#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::base::digest::Digest;
use crate::store::baseline::refusal::Refusal;
use crate::store::files::{FileError, checked_name};
use crate::store::runs::RunError;

/// The folder of all baselines.
#[derive(Clone, Debug)]
pub struct Baselines {
    root: PathBuf,
}

/// Baselines could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The change is not allowed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A file that servegate did not write like this.
    #[error("{}: {what}; restore it from version control", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Written by a newer version.
    #[error("{}: format {found} is newer than {}, the newest that this version reads; use a newer servegate", path.display(), manifest::FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The release is not in the history.
    #[error(
        "workload `{workload}` has no baseline of release `{release}`; `servegate baseline list` shows what there is"
    )]
    Unknown {
        /// The workload.
        workload: String,
        /// The release.
        release: String,
    },
    /// Another process changes the baselines of this workload.
    #[error("another process changes the baselines in {}; try again when it has ended", path.display())]
    Busy {
        /// The workload's folder.
        path: PathBuf,
    },
}

impl Baselines {
    /// The baselines under `root`; the folder need not exist.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The workloads that have a folder, in order.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn workloads(&self) -> Result<Vec<String>, BaselineError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(FileError::of("read the folder", &self.root))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(FileError::of("read the folder", &self.root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && checked_name("workload", &name).is_ok() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn workload(&self, name: &str) -> Result<PathBuf, BaselineError> {
        Ok(self.root.join(checked_name("workload", name)?))
    }

    fn release(&self, workload: &str, release: &str) -> Result<PathBuf, BaselineError> {
        Ok(self.workload(workload)?.join(checked_name("release", release)?))
    }
}

/// Folder of the runs in that of a release.
const RUNS: &str = "runs";

/// Where a run of a release is stored: its name is its digest, so it is never overwritten by another.
fn run_folder(release: &Path, id: &Digest) -> PathBuf {
    release.join(RUNS).join(id.short())
}

/// Keeps every other process from changing this folder until it is dropped; the system frees it after a kill.
fn lock(folder: &Path) -> Result<File, BaselineError> {
    fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
    let handle = File::open(folder).map_err(FileError::of("open the folder", folder))?;
    match handle.try_lock() {
        Ok(()) => Ok(handle),
        Err(TryLockError::WouldBlock) => Err(BaselineError::Busy { path: folder.to_owned() }),
        Err(TryLockError::Error(error)) => Err(FileError::of("lock the folder", folder)(error).into()),
    }
}

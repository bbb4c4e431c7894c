//! Finding runs: those that were named, and those inside folders that were named.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::files::FileError;
use crate::store::runs::{MANIFEST, RunError, StoredRun, half_written, is_partial, stored};

/// How deep runs may lie in a folder: `baselines/<workload>/<release>/runs/<run>`.
const DEPTH: usize = 4;
/// Folders that are looked into, at most.
const MOST: usize = 10_000;

/// The runs of these paths, in the order in which they were measured: by session and position in it. A path is a run
/// or a folder with runs, up to four folders deep; a symbolic link inside is not followed and a hidden folder not
/// entered. What a killed measurement left is refused when it is named, or when nothing else is there.
///
/// The manifests are read and not the records: opening a run verifies it.
///
/// # Errors
///
/// A path holds no run or far too many folders, or a folder or a manifest cannot be read.
pub fn find(paths: &[PathBuf]) -> Result<Vec<StoredRun>, RunError> {
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(below(path, MOST)?);
    }
    let place = |run: &StoredRun| (run.manifest.session.clone(), run.manifest.sequence);
    runs.sort_by_cached_key(place);
    Ok(runs)
}

/// The runs of one path; it looks into at most `most` folders.
pub(super) fn below(path: &Path, most: usize) -> Result<Vec<StoredRun>, RunError> {
    if is_run(path) {
        return Ok(vec![stored(path)?]);
    }
    if is_partial(path) {
        return Err(half_written(path));
    }
    let (mut runs, mut partial, mut looked) = (Vec::new(), None, 0);
    let mut level = vec![path.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for folder in level {
            for entry in folders(&folder)? {
                looked += 1;
                if looked > most {
                    return Err(RunError::TooMany { path: path.to_owned(), most });
                }
                if is_partial(&entry) {
                    partial.get_or_insert(entry);
                } else if is_run(&entry) {
                    runs.push(stored(&entry)?);
                } else {
                    next.push(entry);
                }
            }
        }
        level = next;
    }
    match (runs.is_empty(), partial) {
        (false, _) => Ok(runs),
        (true, Some(partial)) => Err(half_written(&partial)),
        (true, None) => Err(RunError::NoneFound { path: path.to_owned(), depth: DEPTH }),
    }
}

fn is_run(folder: &Path) -> bool {
    !is_partial(folder) && folder.join(MANIFEST).exists()
}

/// The folders directly inside, in order of their names: no links, nothing hidden.
pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let fail = || FileError::of("read the folder", folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail())? {
        let entry = entry.map_err(fail())?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // The type of the entry itself: that of a link is not `folder`.
        if !hidden && entry.file_type().map_err(fail())?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

//! What a session that ended early has left in its folder: whole runs, and runs that are not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::artifact::codec::MAX_MANIFEST;
use crate::store::files::{FileError, read_bounded};
use crate::store::runs::find::folders;
use crate::store::runs::{DRAFT, MANIFEST, RunError, StoredRun, decode, is_measuring, is_partial, open_run};

/// Folder inside the session's that gets what is measured again. Its name is hidden: no search enters it.
pub const SET_ASIDE: &str = ".interrupted";

/// One session's runs in a folder.
#[derive(Debug)]
pub struct Remains {
    /// Name of the session.
    pub session: String,
    /// The whole runs, verified, in their order.
    pub whole: Vec<StoredRun>,
    /// Folders of the runs that were interrupted or killed.
    pub broken: Vec<PathBuf>,
}

/// Looks directly in `folder` for the runs of one session.
///
/// # Errors
///
/// A run is being measured or does not verify, no run is there, or runs of several sessions are and `session` is none.
pub fn remains(folder: &Path, session: Option<&str>) -> Result<Remains, RunError> {
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    for path in folders(folder)? {
        let partial = is_partial(&path);
        // Killed in its last step a run has its manifest and no draft any more.
        let written = [MANIFEST, DRAFT].into_iter().map(|name| path.join(name)).find(|file| file.exists());
        let Some(file) = written.filter(|file| partial || file.ends_with(MANIFEST)) else {
            // Killed before its first request, or none of ours. The name alone says whose it was.
            if partial {
                broken.push((None, path));
            }
            continue;
        };
        let manifest = decode(&file, &read_bounded(&file, MAX_MANIFEST)?)?;
        if session.is_some_and(|session| session != manifest.session) {
            continue;
        }
        if partial && is_measuring(&path) {
            return Err(RunError::Measuring { path });
        }
        if partial || !manifest.complete {
            broken.push((Some(manifest.session), path));
        } else {
            let opened = open_run(&path)?;
            found.push(StoredRun { path, id: opened.id, manifest: opened.run.manifest });
        }
    }
    let known = found.iter().map(|run| run.manifest.session.clone());
    let mut names: Vec<String> = known.chain(broken.iter().filter_map(|(name, _)| name.clone())).collect();
    names.sort_unstable();
    names.dedup();
    let path = folder.to_owned();
    let session = match names.as_slice() {
        [] if session.is_some() && !broken.is_empty() => session.unwrap_or_default().to_owned(),
        [] => return Err(RunError::NoSession { path }),
        [name] => name.clone(),
        names => return Err(RunError::SeveralSessions { path, names: names.join(", ") }),
    };
    let prefix = format!("{session}-");
    let own = |(name, path): (Option<String>, PathBuf)| {
        let named = || path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&prefix));
        (name.is_some() || named()).then_some(path)
    };
    found.sort_by_key(|run| run.manifest.sequence);
    Ok(Remains { session, whole: found, broken: broken.into_iter().filter_map(own).collect() })
}

/// Moves the folder of a run that is measured again out of the way, and gives its new place. Nothing is deleted.
///
/// # Errors
///
/// The disk refuses.
pub fn set_aside(run: &Path) -> Result<PathBuf, FileError> {
    let place = run.with_file_name(SET_ASIDE);
    fs::create_dir_all(&place).map_err(FileError::of("create the folder", &place))?;
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = (1_u32..10_000).map(|n| place.join(format!("{n}-{name}"))).find(|path| !path.exists());
    let target = free.unwrap_or_else(|| place.join(name));
    fs::rename(run, &target).map_err(FileError::of("rename", run))?;
    Ok(target)
}

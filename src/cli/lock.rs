//! One decision at a time writes into a folder of reports.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::cli::error::CliError;

/// Name of the file in the folder that is locked. It is empty and stays; the lock ends with the process.
const LOCK: &str = ".servegate.lock";

/// The right to write into a folder of reports, until it is dropped or the process ends, however that happens.
#[derive(Debug)]
#[must_use = "dropped, the folder is free for others"]
pub(crate) struct Lock {
    _file: Option<File>,
}

impl Lock {
    /// Takes the right, or says at once that somebody else has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join(LOCK);
        let failed = |error: std::io::Error| CliError::failed(format!("cannot lock {}: {error}", path.display()));
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => {
                let folder = folder.display();
                Err(CliError::failed(format!("another servegate is writing into {folder}"))
                    .hint("nothing was measured; wait for it to end, or choose another folder with --out"))
            }
            // A file system without locks is no reason not to work.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                tracing::warn!("{} cannot be locked: {error}", path.display());
                Ok(Self { _file: None })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Refuses baselines in what is no folder, and a folder of reports that is the folder of the baselines, or one of them
/// inside the other: what clears the one would clear the other.
pub(crate) fn check_folders(out: &Path, store: &Path) -> Result<(), CliError> {
    if store.exists() && !store.is_dir() {
        let message = format!("--store {} is no folder", store.display());
        return Err(CliError::failed(message).hint("name the folder of the baselines"));
    }
    let (out_is, store_is) = (resolved(out), resolved(store));
    let (out, store) = (out.display(), store.display());
    let message = if out_is == store_is {
        format!("--out and --store are one folder: {out}")
    } else if out_is.starts_with(&store_is) {
        format!("--out {out} is inside --store {store}")
    } else if store_is.starts_with(&out_is) {
        format!("--store {store} is inside --out {out}")
    } else {
        return Ok(());
    };
    Err(CliError::usage(message)
        .hint("reports are replaced by every gate and baselines are kept: give them folders apart"))
}

/// The path without links and `..`, as far as it exists; the rest is taken by its words.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = std::path::absolute(path).unwrap_or_else(|_unknown| path.to_owned());
    let mut rest = Vec::new();
    loop {
        if let Ok(real) = resolved.canonicalize() {
            resolved = real;
            break;
        }
        match resolved.components().next_back() {
            Some(last @ (Component::Normal(_) | Component::ParentDir)) => {
                rest.push(last.as_os_str().to_owned());
                resolved.pop();
            }
            Some(Component::CurDir | Component::RootDir | Component::Prefix(_)) | None => break,
        }
    }
    for step in rest.into_iter().rev() {
        if step == ".." {
            resolved.pop();
        } else {
            resolved.push(step);
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_locked_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::take(folder.path()).unwrap();
        let second = Lock::take(folder.path()).unwrap_err();
        assert!(second.message().starts_with("another servegate is writing into "), "{}", second.message());
        drop(first);
        drop(Lock::take(folder.path()).unwrap());
    }

    #[test]
    fn folders_inside_each_other_are_found_however_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("real/deep")).unwrap();
        symlink(at("real"), at("link")).unwrap();
        for (out, store, words) in [
            ("a", "a", "one folder"),
            ("a", "b/../a/", "one folder"),
            ("link", "real", "one folder"),
            ("a/b", "a", "is inside --store"),
            ("link/new", "real", "is inside --store"),
            ("real", "link/deep", "is inside --out"),
            (".", "baselines", "is inside --out"),
        ] {
            let message = check_folders(&at(out), &at(store)).unwrap_err().message().to_owned();
            assert!(message.contains(words), "{out} {store}: {message}");
        }
        for (out, store) in [("a", "b"), ("a", "ab"), ("link/a", "link/b"), ("a/../b", "a")] {
            check_folders(&at(out), &at(store)).unwrap();
        }
    }
}

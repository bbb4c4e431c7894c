//! Why a run cannot be written or read.

use std::path::{Path, PathBuf};

use crate::artifact::codec::CodecError;
use crate::base::digest::Digest;
use crate::store::files::FileError;

/// A run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the run.
    #[error(transparent)]
    File(#[from] FileError),
    /// The contents of a run.
    #[error("{}: {source}", path.display())]
    Codec {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: CodecError,
    },
    /// The folder is in use.
    #[error("{} exists already; choose another folder, a run is never overwritten", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was left by a killed process.
    #[error("{0} was left by a measurement that was killed, and is no whole run; `servegate recover {0}` makes an incomplete run of it, or remove it and measure again", path.display())]
    HalfWritten {
        /// The folder.
        path: PathBuf,
    },
    /// The folder belongs to a measurement that goes on.
    #[error("{} is being measured at this moment; wait until the measurement has ended", path.display())]
    Measuring {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing to recover by this name.
    #[error("{} is not what a killed measurement leaves: that is a folder whose name ends with `.partial`", path.display())]
    NotPartial {
        /// The path.
        path: PathBuf,
    },
    /// A measurement that was killed before its first request.
    #[error("{} holds nothing of a run: it was killed before its first request; remove it and measure again", path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// A manifest with a name that must not become a path.
    #[error("{}: {source}; restore it from its source", path.display())]
    Name {
        /// The manifest.
        path: PathBuf,
        /// Which name.
        #[source]
        source: FileError,
    },
    /// A folder without runs.
    #[error(
        "{} is no run and holds none: a run is a folder with manifest.json and records.jsonl.zst; folders are searched {depth} deep, without following symbolic links",
        path.display()
    )]
    NoneFound {
        /// The folder.
        path: PathBuf,
        /// How many folders deep was looked.
        depth: usize,
    },
    /// A folder without a session that could be continued.
    #[error("{} holds no run of a session that could be continued; start one with `--out`", path.display())]
    NoSession {
        /// The folder.
        path: PathBuf,
    },
    /// A folder with more than one.
    #[error("{} holds runs of several sessions ({names}); name the one to continue with `--session`", path.display())]
    SeveralSessions {
        /// The folder.
        path: PathBuf,
        /// Their names.
        names: String,
    },
    /// A folder that holds everything.
    #[error("{} holds more than {most} folders; name the folders of the runs", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// How many are looked into.
        most: usize,
    },
    /// The records are not those that the manifest was written for.
    #[error("{} was changed after it was measured: its digest is {found} and its manifest says {expected}; restore it from its source", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Digest in the manifest.
        expected: Digest,
        /// Digest of the file.
        found: Digest,
    },
}

impl RunError {
    pub(super) fn codec(path: &Path) -> impl FnOnce(CodecError) -> Self {
        let path = path.to_owned();
        move |source| {
            if let CodecError::Write(source) = source {
                Self::File(FileError::of("write", &path)(source))
            } else {
                Self::Codec { path, source }
            }
        }
    }
}

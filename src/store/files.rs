//! Files: atomic writes, bounded reads, and names from outside that become paths.

use std::fs::{self, File, FileType, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Longest name of a workload, release or session, in bytes.
const MAX_NAME: usize = 100;

/// A file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Reading it could take for ever, or change something.
    #[error("cannot read {}: it is {what}, and only regular files are read", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// A folder is needed.
    #[error("{} is there and is no folder; choose another folder, or remove it", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// More than a reader takes.
    #[error("{} is larger than {limit} bytes, more than servegate writes; restore it from its source", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A name that must not become a path.
    #[error(
        "{what} `{}` cannot be a folder name; use letters, digits, `.`, `_` and `-`, at most {MAX_NAME}, not starting \
         with `.` and not ending with `.partial`",
        name.chars().take(MAX_NAME).flat_map(char::escape_default).collect::<String>()
    )]
    Name {
        /// Whose name.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl FileError {
    /// Wraps an error of the operating system.
    pub(super) fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

fn advice(error: &io::Error) -> &'static str {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        "; free space or choose another folder"
    } else if error.kind() == io::ErrorKind::FileTooLarge {
        "; raise the limit on the size of files (`ulimit -f`), or choose another file system"
    } else if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
        "; choose a folder that this user may write"
    } else if error.kind() == io::ErrorKind::NotADirectory {
        "; a part of the path is a file: choose another folder"
    } else {
        ""
    }
}

/// Checks a name that will be part of a path.
///
/// # Errors
///
/// The name could lead out of its folder, or is unreasonable as a folder name.
pub fn checked_name<'n>(what: &'static str, name: &'n str) -> Result<&'n str, FileError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let good = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain);
    if good && !name.starts_with('.') && !name.ends_with(PARTIAL) {
        Ok(name)
    } else {
        Err(FileError::Name { what, name: name.to_owned() })
    }
}

/// The ending of what is not whole yet.
pub(super) const PARTIAL: &str = ".partial";

/// Writes a file so that a reader sees the old bytes or the new ones, and makes its folder when it is missing.
///
/// # Errors
///
/// The operating system refuses; the old file, if any, is untouched.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let folder = folder_of(path);
    fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
    let fail = || FileError::of("write", path);
    let mut file = temporary(folder).map_err(fail())?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(fail())?;
    file.persist(path).map_err(|error| fail()(error.error))?;
    sync_folder(folder)
}

/// Writes several files in this order, each atomically: whoever kills the process leaves a prefix of them.
pub(super) fn write_in_order(writes: &[(PathBuf, Vec<u8>)]) -> Result<(), FileError> {
    writes.iter().try_for_each(|(path, bytes)| write_atomic(path, bytes))
}

/// Finds out before a measurement whether its results could be written. The folder is made when it is missing.
///
/// # Errors
///
/// The folder cannot be made or written.
pub fn check_writable(folder: &Path) -> Result<(), FileError> {
    if folder.exists() && !folder.is_dir() {
        return Err(FileError::NotAFolder { path: folder.to_owned() });
    }
    fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
    let written = temporary(folder).and_then(|mut file| {
        file.write_all(&[0; 4_096])?;
        file.as_file().sync_all()
    });
    written.map_err(FileError::of("write into the folder", folder))
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// It is larger or no regular file (a pipe would be waited for, a device may never end), or the operating system
/// refuses.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let fail = || FileError::of("read", path);
    let about = fs::metadata(path).map_err(fail())?;
    if !about.is_file() {
        return Err(FileError::NotAFile { path: path.to_owned(), what: kind(about.file_type()) });
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(fail())?.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(fail())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(FileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// What is there in place of a regular file.
fn kind(file: FileType) -> &'static str {
    let kinds = [
        (file.is_dir(), "a folder"),
        (file.is_fifo(), "a pipe"),
        (file.is_socket(), "a socket"),
        (file.is_char_device() || file.is_block_device(), "a device"),
    ];
    kinds.into_iter().find(|(is, _)| *is).map_or("something else", |(_, name)| name)
}

/// Makes the entries of a folder survive a power failure.
pub(super) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(FileError::of("write the folder", folder))
}

/// The folder that a path lies in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file, readable as the user's other files are.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".").suffix(PARTIAL);
    builder.permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_their_folder_are_refused() {
        for good in ["v1.2.3", "chat-short", "2026-01-01_a", "a"] {
            assert_eq!(checked_name("release", good).unwrap(), good);
        }
        let long = "x".repeat(101);
        for bad in ["", ".", "..", "../v1", "a/b", "a\\b", ".git", "v1 ", "v\u{0}1", "vé", "a.partial", &long] {
            assert!(checked_name("release", bad).is_err(), "{bad:?}");
        }
        let message = checked_name("release", "../\u{1b}[2J").unwrap_err().to_string();
        assert!(message.starts_with(r"release `../\u{1b}[2J` cannot be a folder name; use letters"), "{message}");
    }

    #[test]
    fn an_atomic_write_replaces_the_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reports/verdict.json");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(read_bounded(&path, 3).unwrap(), b"new");
        assert!(matches!(read_bounded(&path, 2), Err(FileError::TooLarge { .. })));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let message = read_bounded(folder.path(), 3).unwrap_err().to_string();
        assert!(message.ends_with(": it is a folder, and only regular files are read"), "{message}");
        assert!(read_bounded(&folder.path().join("missing"), 3).unwrap_err().is_missing());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_with_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        check_writable(&folder.path().join("out")).unwrap();
        let file = folder.path().join("file");
        write_atomic(&file, b"").unwrap();
        let message = check_writable(&file.join("out")).unwrap_err().to_string();
        assert!(message.starts_with("cannot create the folder /") && message.contains("file/out: "), "{message}");
        let message = check_writable(&file).unwrap_err().to_string();
        assert!(message.ends_with("/file is there and is no folder; choose another folder, or remove it"), "{message}");
        let full = FileError::of("write", Path::new("out/verdict.json"))(io::ErrorKind::StorageFull.into());
        assert_eq!(
            full.to_string(),
            "cannot write out/verdict.json: no storage space; free space or choose another folder"
        );
    }
}

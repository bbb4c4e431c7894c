//! Run folders: `manifest.json` beside `records.jsonl.zst`.
//!
//! While a run is measured its folder is called `<name>.partial` and holds a draft of the manifest. The manifest is
//! written last and the folder renamed after it, so a folder without `.partial` is whole. What a killed process
//! leaves behind can be recovered as an incomplete run.

mod error;
pub mod find;
pub mod recover;
pub mod remains;
pub mod texts;

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::artifact::codec::read::read;
use crate::artifact::codec::write::{RecordWriter, Sealed};
use crate::artifact::codec::{MAX_MANIFEST, MAX_STORED, manifest};
use crate::artifact::record::Record;
use crate::artifact::run::{FORMAT, Manifest, Run};
use crate::base::digest::Digest;
use crate::base::units::Nanos;
use crate::store::files::{FileError, PARTIAL, checked_name, folder_of, read_bounded, sync_folder, write_atomic};
use crate::store::runs::texts::{TEXTS, TextWriter};

pub use error::RunError;

/// Name of the manifest in its folder.
pub const MANIFEST: &str = "manifest.json";
/// Name of the records in their folder.
pub const RECORDS: &str = "records.jsonl.zst";
const DRAFT: &str = "draft.json";

/// A kill loses the records of at most this much of the run's time.
const FLUSH_EVERY: Nanos = Nanos::from_secs(1);

/// A run on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Its folder.
    pub path: PathBuf,
    /// Its identity: the digest of the manifest's bytes, which hold the digest of the records.
    pub id: Digest,
    /// Its manifest.
    pub manifest: Manifest,
}

/// Writes a run while it is measured.
pub struct RunWriter {
    path: PathBuf,
    partial: PathBuf,
    records: RecordWriter<Box<dyn Write + Send>>,
    texts: Option<TextWriter>,
    file: File,
    flushed: Nanos,
}

impl RunWriter {
    /// Opens the folder `path` for a run. `draft` is what is known before the measurement, with the planned cells;
    /// recovery rests on it.
    ///
    /// # Errors
    ///
    /// The folder exists, was left by a killed process, or cannot be written.
    pub fn create(path: &Path, draft: &Manifest) -> Result<Self, RunError> {
        let partial = partial_of(path);
        if path.exists() {
            return Err(RunError::Exists { path: path.to_owned() });
        }
        if partial.exists() {
            return Err(half_written(&partial));
        }
        checked_names(path, draft)?;
        let folder = folder_of(path);
        fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
        fs::create_dir(&partial).map_err(FileError::of("create the folder", &partial))?;
        let draft = Manifest { format: FORMAT, complete: false, record_count: 0, ..draft.clone() };
        let draft = manifest::encode(&draft).map_err(RunError::codec(path))?;
        write_atomic(&partial.join(DRAFT), &draft)?;
        let stored = partial.join(RECORDS);
        let file = File::create_new(&stored).map_err(FileError::of("create", &stored))?;
        // Whoever finds the folder learns from it that the run is still being measured; the system frees it after a
        // kill. A file system without locks can tell nobody, which is no reason not to measure.
        if let Err(error) = file.try_lock() {
            tracing::debug!("{} is not locked: {error}", stored.display());
        }
        let sink = file.try_clone().map_err(FileError::of("create", &stored))?;
        Self::over(path, Box::new(sink), file)
    }

    fn over(path: &Path, sink: Box<dyn Write + Send>, file: File) -> Result<Self, RunError> {
        let partial = partial_of(path);
        let records = RecordWriter::new(sink).map_err(RunError::codec(&partial.join(RECORDS)))?;
        Ok(Self { path: path.to_owned(), partial, records, texts: None, file, flushed: Nanos::ZERO })
    }

    /// Keeps what the answers say, too: see [`RunWriter::text`].
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn keep_texts(mut self) -> Result<Self, RunError> {
        self.texts = Some(TextWriter::create(&self.partial)?);
        Ok(self)
    }

    /// Adds a record and what its answer says, where texts are kept.
    ///
    /// # Errors
    ///
    /// As [`RunWriter::record`].
    pub fn text(&mut self, record: &Record, text: &str) -> Result<(), RunError> {
        if let Some(texts) = &mut self.texts {
            texts.write(record, text).map_err(FileError::of("write", &self.partial.join(TEXTS)))?;
        }
        self.record(record)
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// The record breaks a rule of the format, or the disk refuses bytes.
    pub fn record(&mut self, record: &Record) -> Result<(), RunError> {
        // By the run's own clock: a simulated run has the same bytes each time.
        let due = record.end.since(self.flushed) >= FLUSH_EVERY;
        let written = self.records.write(record).and_then(|()| if due { self.records.flush() } else { Ok(()) });
        written.map_err(RunError::codec(&self.partial.join(RECORDS)))?;
        if due {
            self.flushed = record.end;
            if let Some(texts) = &mut self.texts {
                texts.flush().map_err(FileError::of("write", &self.partial.join(TEXTS)))?;
            }
        }
        Ok(())
    }

    /// Ends the run. `format`, `records`, `record_count` and `texts` of the manifest are set here.
    ///
    /// # Errors
    ///
    /// The manifest does not agree with the records, or the disk refuses bytes; the half-written folder stays.
    pub fn finish(self, manifest: Manifest) -> Result<StoredRun, RunError> {
        let Sealed { sink, records, digest, cells, .. } =
            self.records.finish().map_err(RunError::codec(&self.partial.join(RECORDS)))?;
        drop(sink);
        self.file.sync_all().map_err(FileError::of("write", &self.partial.join(RECORDS)))?;
        let texts = self.texts.map(TextWriter::finish).transpose();
        let texts = texts.map_err(FileError::of("write", &self.partial.join(TEXTS)))?;
        let manifest = Manifest { format: FORMAT, records: digest, record_count: records, texts, ..manifest };
        let path = self.partial.join(MANIFEST);
        manifest::agree(&manifest, &cells).map_err(RunError::codec(&path))?;
        write_atomic(&path, &manifest::encode(&manifest).map_err(RunError::codec(&path))?)?;
        publish(&self.partial, &self.path)?;
        stored(&self.path)
    }

    /// Ends a run that was interrupted: what was measured stays, as an incomplete run that is never judged.
    ///
    /// # Errors
    ///
    /// As [`RunWriter::finish`].
    pub fn interrupted(self, manifest: Manifest) -> Result<StoredRun, RunError> {
        self.finish(Manifest { complete: false, ..manifest })
    }
}

/// A run that was verified, with the bytes that were verified.
#[derive(Debug)]
pub struct Opened {
    /// Its identity.
    pub id: Digest,
    /// The run.
    pub run: Run,
    /// The bytes of its files by name, manifest last.
    pub files: [(&'static str, Vec<u8>); 2],
}

/// Reads a run and verifies it: sizes, versions, digests, and that records and manifest agree.
///
/// # Errors
///
/// Which file breaks which rule.
pub fn open_run(path: &Path) -> Result<Opened, RunError> {
    if is_partial(path) {
        return Err(half_written(path));
    }
    open_whole(path)
}

/// Whether this is the name of a run that is not whole.
fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(PARTIAL))
}

/// What there is to say about a folder that is not whole.
fn half_written(partial: &Path) -> RunError {
    let path = partial.to_owned();
    if is_measuring(partial) { RunError::Measuring { path } } else { RunError::HalfWritten { path } }
}

/// Whether a process writes the records in this folder now.
fn is_measuring(partial: &Path) -> bool {
    let records = File::open(partial.join(RECORDS));
    records.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Refuses names that would lead out of a folder: a run's names become folders of the baselines.
fn checked_names(path: &Path, manifest: &Manifest) -> Result<(), RunError> {
    let Manifest { workload, release, session, .. } = manifest;
    for (what, name) in [("workload", workload), ("release", release), ("session", session)] {
        checked_name(what, name).map_err(|source| RunError::Name { path: path.to_owned(), source })?;
    }
    Ok(())
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest, RunError> {
    let manifest = manifest::decode(bytes).map_err(RunError::codec(path))?;
    checked_names(path, &manifest)?;
    Ok(manifest)
}

/// Reads and verifies a run, whatever its folder is called.
fn open_whole(path: &Path) -> Result<Opened, RunError> {
    let (manifest_path, records_path) = (path.join(MANIFEST), path.join(RECORDS));
    let manifest_bytes = read_bounded(&manifest_path, MAX_MANIFEST)?;
    let manifest = decode(&manifest_path, &manifest_bytes)?;
    let record_bytes = read_bounded(&records_path, MAX_STORED)?;
    let found = Digest::of(&record_bytes);
    if found != manifest.records {
        return Err(RunError::Changed { path: records_path, expected: manifest.records, found });
    }
    let records = read(&*record_bytes).map_err(RunError::codec(&records_path))?;
    manifest::agree(&manifest, &manifest::tally(&records)).map_err(RunError::codec(&manifest_path))?;
    let id = Digest::of(&manifest_bytes);
    Ok(Opened { id, run: Run { manifest, records }, files: [(RECORDS, record_bytes), (MANIFEST, manifest_bytes)] })
}

/// Reads a run, verified as by [`open_run`].
///
/// # Errors
///
/// Which file breaks which rule.
pub fn read_run(path: &Path) -> Result<Run, RunError> {
    open_run(path).map(|opened| opened.run)
}

/// The last step: from here on the run is whole.
fn publish(partial: &Path, target: &Path) -> Result<(), RunError> {
    let draft = partial.join(DRAFT);
    if draft.exists() {
        fs::remove_file(&draft).map_err(FileError::of("remove", &draft))?;
    }
    sync_folder(partial)?;
    fs::rename(partial, target).map_err(FileError::of("rename", partial))?;
    Ok(sync_folder(folder_of(target))?)
}

fn stored(path: &Path) -> Result<StoredRun, RunError> {
    let file = path.join(MANIFEST);
    let bytes = read_bounded(&file, MAX_MANIFEST)?;
    let manifest = decode(&file, &bytes)?;
    Ok(StoredRun { path: path.to_owned(), id: Digest::of(&bytes), manifest })
}

fn partial_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(PARTIAL);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;

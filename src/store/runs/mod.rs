//! Run folders: `manifest.json` beside `records.jsonl.zst`.
//!
//! While a run is measured its folder is called `<name>.partial` and holds a draft of the manifest. The manifest is
//! written last and the folder renamed after it, so a folder without `.partial` is whole. What a killed process
//! leaves behind can be recovered as an incomplete run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::artifact::codec::read::{read, read_lenient};
use crate::artifact::codec::write::{RecordWriter, Sealed};
use crate::artifact::codec::{CodecError, MAX_MANIFEST, MAX_STORED, manifest};
use crate::artifact::record::Record;
use crate::artifact::run::{CellEvidence, FORMAT, Manifest, Run};
use crate::base::digest::Digest;
use crate::base::units::Nanos;
use crate::store::files::{self, FileError, PARTIAL, folder_of, read_bounded, sync_folder, write_atomic};

/// Name of the manifest in its folder.
pub const MANIFEST: &str = "manifest.json";
/// Name of the records in their folder.
pub const RECORDS: &str = "records.jsonl.zst";
const DRAFT: &str = "draft.json";

/// A kill loses the records of at most this much of the run's time.
const FLUSH_EVERY: Nanos = Nanos::from_secs(1);

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
    #[error("{} was left by a measurement that was killed, and is no whole run; remove it and measure again", path.display())]
    HalfWritten {
        /// The folder.
        path: PathBuf,
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
    fn codec(path: &Path) -> impl FnOnce(CodecError) -> Self {
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
            return Err(RunError::HalfWritten { path: partial });
        }
        let folder = folder_of(path);
        fs::create_dir_all(folder).map_err(FileError::of("create the folder", folder))?;
        fs::create_dir(&partial).map_err(FileError::of("create the folder", &partial))?;
        let draft = Manifest { format: FORMAT, complete: false, record_count: 0, ..draft.clone() };
        let draft = manifest::encode(&draft).map_err(RunError::codec(path))?;
        write_atomic(&partial.join(DRAFT), &draft)?;
        let stored = partial.join(RECORDS);
        let file = File::create_new(&stored).map_err(FileError::of("create", &stored))?;
        let sink = file.try_clone().map_err(FileError::of("create", &stored))?;
        Self::over(path, Box::new(sink), file)
    }

    fn over(path: &Path, sink: Box<dyn Write + Send>, file: File) -> Result<Self, RunError> {
        let partial = partial_of(path);
        let records = RecordWriter::new(sink).map_err(RunError::codec(&partial.join(RECORDS)))?;
        Ok(Self { path: path.to_owned(), partial, records, file, flushed: Nanos::ZERO })
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
        }
        Ok(())
    }

    /// Ends the run. `format`, `records` and `record_count` of the manifest are set here.
    ///
    /// # Errors
    ///
    /// The manifest does not agree with the records, or the disk refuses bytes; the half-written folder stays.
    pub fn finish(self, manifest: Manifest) -> Result<StoredRun, RunError> {
        let Sealed { sink, records, digest, cells, .. } =
            self.records.finish().map_err(RunError::codec(&self.partial.join(RECORDS)))?;
        drop(sink);
        self.file.sync_all().map_err(FileError::of("write", &self.partial.join(RECORDS)))?;
        let manifest = Manifest { format: FORMAT, records: digest, record_count: records, ..manifest };
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
    if path.to_string_lossy().ends_with(PARTIAL) {
        return Err(RunError::HalfWritten { path: path.to_owned() });
    }
    open_unchecked_name(path)
}

fn open_unchecked_name(path: &Path) -> Result<Opened, RunError> {
    let (manifest_path, records_path) = (path.join(MANIFEST), path.join(RECORDS));
    let manifest_bytes = read_bounded(&manifest_path, MAX_MANIFEST)?;
    let manifest = manifest::decode(&manifest_bytes).map_err(RunError::codec(&manifest_path))?;
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

/// What recovery found.
#[derive(Debug)]
pub struct RecoveredRun {
    /// The run; incomplete, unless only the last renaming was missing.
    pub stored: StoredRun,
    /// Why records may be missing; none when the process was killed after the last of them.
    pub lost: Option<CodecError>,
}

/// Makes an incomplete run of the folder `<name>.partial` that a killed process left, and calls it `<name>`.
///
/// # Errors
///
/// The folder is not of this kind, `<name>` exists, or its files cannot be read or written.
pub fn recover(partial: &Path) -> Result<RecoveredRun, RunError> {
    let name = partial.file_name().map(OsString::from).unwrap_or_default();
    let target = name.to_string_lossy().strip_suffix(PARTIAL).map(|stem| partial.with_file_name(stem));
    let target =
        target.filter(|target| !target.exists()).ok_or_else(|| RunError::Exists { path: partial.to_owned() })?;
    if open_unchecked_name(partial).is_ok() {
        publish(partial, &target)?;
        return Ok(RecoveredRun { stored: stored(&target)?, lost: None });
    }
    let draft_path = partial.join(DRAFT);
    let draft = manifest::decode(&read_bounded(&draft_path, MAX_MANIFEST)?).map_err(RunError::codec(&draft_path))?;
    let records_path = partial.join(RECORDS);
    let found = read_lenient(&*read_bounded(&records_path, MAX_STORED)?);
    let mut writer = RecordWriter::new(Vec::new()).map_err(RunError::codec(&records_path))?;
    found.records.iter().try_for_each(|record| writer.write(record)).map_err(RunError::codec(&records_path))?;
    let sealed = writer.finish().map_err(RunError::codec(&records_path))?;
    let cells = draft.cells.iter().map(|cell| evidence(cell, &found.records)).collect();
    let manifest = Manifest { cells, complete: false, records: sealed.digest, record_count: sealed.records, ..draft };
    let manifest_path = partial.join(MANIFEST);
    manifest::agree(&manifest, &sealed.cells).map_err(RunError::codec(&manifest_path))?;
    let manifest = manifest::encode(&manifest).map_err(RunError::codec(&manifest_path))?;
    files::write_in_order(&[(records_path, sealed.sink), (manifest_path, manifest)])?;
    publish(partial, &target)?;
    Ok(RecoveredRun { stored: stored(&target)?, lost: found.lost })
}

/// What the recovered records tell about a planned cell.
#[expect(clippy::integer_division, reason = "instants of records are whole microseconds")]
fn evidence(planned: &CellEvidence, records: &[Record]) -> CellEvidence {
    let own = || records.iter().filter(|record| record.cell == planned.name);
    CellEvidence {
        attempted: u32::try_from(own().count()).unwrap_or(u32::MAX),
        window_start_us: own().map(|record| record.due.0 / 1_000).min().unwrap_or_default(),
        window_end_us: own().map(|record| record.end.0 / 1_000).max().unwrap_or_default(),
        // How many waited was known to the process that was killed.
        connections: None,
        ..planned.clone()
    }
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
    let manifest = manifest::decode(&bytes).map_err(RunError::codec(&file))?;
    Ok(StoredRun { path: path.to_owned(), id: Digest::of(&bytes), manifest })
}

fn partial_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(PARTIAL);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests;

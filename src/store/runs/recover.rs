//! What a killed measurement left, as an incomplete run: kept for people, never judged, never a baseline.

use std::path::{Path, PathBuf};

use crate::artifact::codec::read::read_lenient;
use crate::artifact::codec::write::RecordWriter;
use crate::artifact::codec::{CodecError, MAX_MANIFEST, MAX_STORED, manifest};
use crate::artifact::record::Record;
use crate::artifact::run::{CellEvidence, Manifest};
use crate::store::files::{PARTIAL, read_bounded, write_in_order};
use crate::store::runs::{
    DRAFT, MANIFEST, RECORDS, RunError, StoredRun, decode, is_measuring, open_whole, publish, stored,
};

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
/// The folder is not of this kind or holds nothing, its measurement goes on, `<name>` exists, or its files cannot be
/// read or written.
pub fn recover(partial: &Path) -> Result<RecoveredRun, RunError> {
    let path = || partial.to_owned();
    let target = target_of(partial).ok_or_else(|| RunError::NotPartial { path: path() })?;
    if target.exists() {
        return Err(RunError::Exists { path: target });
    }
    if is_measuring(partial) {
        return Err(RunError::Measuring { path: path() });
    }
    if open_whole(partial).is_ok() {
        publish(partial, &target)?;
        return Ok(RecoveredRun { stored: stored(&target)?, lost: None });
    }
    let draft_path = partial.join(DRAFT);
    let draft = match read_bounded(&draft_path, MAX_MANIFEST) {
        Err(error) if error.is_missing() && partial.is_dir() => return Err(RunError::Nothing { path: path() }),
        bytes => decode(&draft_path, &bytes?)?,
    };
    let records_path = partial.join(RECORDS);
    let found = match read_bounded(&records_path, MAX_STORED) {
        Err(error) if error.is_missing() => return Err(RunError::Nothing { path: path() }),
        bytes => read_lenient(&*bytes?),
    };
    let mut writer = RecordWriter::new(Vec::new()).map_err(RunError::codec(&records_path))?;
    found.records.iter().try_for_each(|record| writer.write(record)).map_err(RunError::codec(&records_path))?;
    let sealed = writer.finish().map_err(RunError::codec(&records_path))?;
    let cells = draft.cells.iter().map(|cell| evidence(cell, &found.records)).collect();
    let manifest = Manifest { cells, complete: false, records: sealed.digest, record_count: sealed.records, ..draft };
    let manifest_path = partial.join(MANIFEST);
    manifest::agree(&manifest, &sealed.cells).map_err(RunError::codec(&manifest_path))?;
    let manifest = manifest::encode(&manifest).map_err(RunError::codec(&manifest_path))?;
    write_in_order(&[(records_path, sealed.sink), (manifest_path, manifest)])?;
    publish(partial, &target)?;
    Ok(RecoveredRun { stored: stored(&target)?, lost: found.lost })
}

/// `<name>` of `<name>.partial`.
fn target_of(partial: &Path) -> Option<PathBuf> {
    let name = partial.file_name()?.to_str()?;
    name.strip_suffix(PARTIAL).filter(|stem| !stem.is_empty()).map(|stem| partial.with_file_name(stem))
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

//! Records to bytes, one at a time: JSON Lines in one zstd frame with a checksum.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use zstd::stream::write::Encoder;

use crate::artifact::codec::line::{self, CellTally, Header, Line, Seen};
use crate::artifact::codec::{CodecError, MAX_LINE, MAX_STORED, MAX_TEXT};
use crate::artifact::record::Record;
use crate::artifact::run::FORMAT;
use crate::base::digest::{Digest, Hasher};

/// zstd level: 3 is its default; 19 saves a sixth and takes fifty times as long.
const LEVEL: i32 = 3;

/// Writes records as they come. Nothing is whole before [`RecordWriter::finish`].
pub struct RecordWriter<W: Write> {
    encoder: Encoder<'static, Tally<W>>,
    seen: Seen,
    line: Vec<u8>,
    text_bytes: u64,
    records: u64,
}

/// What was written.
#[derive(Debug)]
pub struct Sealed<W> {
    /// The destination, flushed.
    pub sink: W,
    /// Number of records.
    pub records: u64,
    /// Number of stored bytes.
    pub bytes: u64,
    /// Digest of the stored bytes.
    pub digest: Digest,
    /// Records per cell.
    pub cells: BTreeMap<String, CellTally>,
}

impl<W: Write> RecordWriter<W> {
    /// Starts with the header line.
    ///
    /// # Errors
    ///
    /// The destination refuses bytes.
    pub fn new(sink: W) -> Result<Self, CodecError> {
        let tally = Tally { sink, bytes: 0, hasher: Hasher::default() };
        let mut encoder = Encoder::new(tally, LEVEL).map_err(CodecError::Write)?;
        encoder.include_checksum(true).map_err(CodecError::Write)?;
        let mut writer = Self { encoder, seen: Seen::default(), line: Vec::new(), text_bytes: 0, records: 0 };
        writer.put(&Header { servegate_records: FORMAT })?;
        Ok(writer)
    }

    /// Adds one record.
    ///
    /// # Errors
    ///
    /// The record breaks a rule of the format (instants out of order, a request twice), the run is too
    /// large, or the destination refuses bytes.
    pub fn write(&mut self, record: &Record) -> Result<(), CodecError> {
        line::check(record).and_then(|()| self.seen.admit(record)).map_err(|what| CodecError::Record {
            cell: record.cell.clone(),
            request: record.request,
            what,
        })?;
        self.put(&Line::from(record))?;
        self.records += 1;
        Ok(())
    }

    /// Bytes of text so far.
    #[cfg(test)]
    pub(super) const fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Hands everything so far to the destination, so that a reader of a cut file finds it.
    ///
    /// # Errors
    ///
    /// The destination refuses bytes.
    pub fn flush(&mut self) -> Result<(), CodecError> {
        self.encoder.flush().map_err(CodecError::Write)
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// The destination refuses bytes, or got more than a reader takes.
    pub fn finish(self) -> Result<Sealed<W>, CodecError> {
        let mut tally = self.encoder.finish().map_err(CodecError::Write)?;
        tally.flush().map_err(CodecError::Write)?;
        if tally.bytes > MAX_STORED {
            return Err(CodecError::TooLarge { what: "the stored records", limit: MAX_STORED });
        }
        let Tally { sink, bytes, hasher } = tally;
        Ok(Sealed { sink, records: self.records, bytes, digest: hasher.finish(), cells: self.seen.into_tally() })
    }

    fn put(&mut self, value: &impl Serialize) -> Result<(), CodecError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value).map_err(|error| CodecError::Write(error.into()))?;
        self.line.push(b'\n');
        if self.line.len() > MAX_LINE {
            return Err(CodecError::TooLarge { what: "a line of the records", limit: 32 << 20 });
        }
        self.text_bytes = self.text_bytes.saturating_add(u64::try_from(self.line.len()).unwrap_or(u64::MAX));
        if self.text_bytes > MAX_TEXT {
            return Err(CodecError::TooLarge { what: "the text of the records", limit: MAX_TEXT });
        }
        self.encoder.write_all(&self.line).map_err(CodecError::Write)
    }
}

/// Counts and hashes what passes.
struct Tally<W> {
    sink: W,
    bytes: u64,
    hasher: Hasher,
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.sink.write(bytes)?;
        self.hasher.update(bytes.get(..taken).unwrap_or(bytes));
        self.bytes = self.bytes.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

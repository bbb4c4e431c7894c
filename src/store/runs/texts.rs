//! What the answers of a run say, where the user asks for it: `texts.jsonl.zst` beside the records.
//!
//! Nothing reads it again. It stays in the folder that was measured: bundles and baselines take the manifest and the
//! records alone.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use zstd::stream::write::Encoder;

use crate::artifact::record::Record;
use crate::artifact::run::Texts;
use crate::base::digest::{Digest, Hasher};
use crate::store::files::FileError;

/// Name of the texts in their folder.
pub const TEXTS: &str = "texts.jsonl.zst";
/// Most text of one run, in bytes before compression.
const MOST: usize = 256 << 20;
/// zstd's default level.
const LEVEL: i32 = 3;

/// The first line.
#[derive(Serialize)]
struct Header {
    servegate_texts: u32,
}

/// What one answer says.
#[derive(Serialize)]
struct Line<'a> {
    cell: &'a str,
    request: u32,
    text: &'a str,
}

/// Writes texts as they come, up to a bound.
pub(super) struct TextWriter {
    encoder: Encoder<'static, Hashed>,
    room: usize,
    answers: u64,
    cut: u64,
}

impl TextWriter {
    /// Starts the file in this folder.
    pub(super) fn create(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(TEXTS);
        let start = || {
            let file = Hashed { file: File::create_new(&path)?, hasher: Hasher::default() };
            let mut encoder = Encoder::new(file, LEVEL)?;
            encoder.include_checksum(true)?;
            let mut writer = Self { encoder, room: MOST, answers: 0, cut: 0 };
            writer.put(&Header { servegate_texts: 1 })?;
            Ok(writer)
        };
        start().map_err(FileError::of("write", &path))
    }

    /// Adds the text of an answer, or as much of it as there is room for; nothing for an answer without text.
    pub(super) fn write(&mut self, record: &Record, text: &str) -> io::Result<()> {
        if record.text_bytes == 0 {
            return Ok(());
        }
        let kept = text.get(..text.floor_char_boundary(self.room)).unwrap_or_default();
        let whole = u64::try_from(kept.len()).is_ok_and(|kept| kept >= record.text_bytes);
        self.cut += u64::from(!whole);
        if kept.is_empty() {
            return Ok(());
        }
        self.room -= kept.len();
        self.answers += 1;
        self.put(&Line { cell: &record.cell, request: record.request, text: kept })
    }

    /// Hands everything so far to the disk.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }

    /// Ends the file.
    pub(super) fn finish(self) -> io::Result<Texts> {
        let Hashed { file, hasher } = self.encoder.finish()?;
        file.sync_all()?;
        let digest: Digest = hasher.finish();
        Ok(Texts { digest, answers: self.answers, cut: self.cut })
    }

    fn put(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.encoder, value)?;
        self.encoder.write_all(b"\n")
    }
}

/// A file, and the digest of what was written to it.
struct Hashed {
    file: File,
    hasher: Hasher,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..taken).unwrap_or(bytes));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::samples::streamed;

    fn answer(request: u32, text: &str) -> Record {
        Record { text_bytes: u64::try_from(text.len()).unwrap(), ..streamed(request, 0, 5, 5, 5) }
    }

    #[test]
    fn texts_are_lines_up_to_the_bound_and_what_is_cut_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = TextWriter::create(folder.path()).unwrap();
        writer.room = 6;
        for (request, text) in [(0, "abc"), (1, ""), (2, "dé\u{e9}f"), (3, "more")] {
            writer.write(&answer(request, text), text).unwrap();
        }
        let texts = writer.finish().unwrap();
        let stored = std::fs::read(folder.path().join(TEXTS)).unwrap();
        assert_eq!((texts.digest, texts.answers, texts.cut), (Digest::of(&stored), 2, 2));
        let lines = String::from_utf8(zstd::decode_all(&*stored).unwrap()).unwrap();
        assert_eq!(
            lines,
            "{\"servegate_texts\":1}\n{\"cell\":\"c8\",\"request\":0,\"text\":\"abc\"}\n{\"cell\":\"c8\",\"request\":2,\"text\":\"dé\"}\n"
        );
    }
}

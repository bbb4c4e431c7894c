//! Bytes to records. Everything read is hostile: sizes are bounded before memory is taken.

use std::io::{self, BufRead, BufReader, Read};

use zstd::stream::read::Decoder;

use crate::artifact::codec::line::{Header, Line, Seen};
use crate::artifact::codec::{CodecError, MAX_LINE, MAX_TEXT, quoted};
use crate::artifact::record::Record;
use crate::artifact::run::FORMAT;

/// All records of a whole file, in its order.
///
/// # Errors
///
/// The file is cut, damaged, too large, newer than this version, or breaks a rule of the format.
pub fn read(stored: impl Read) -> Result<Vec<Record>, CodecError> {
    let mut lines = Lines::new(stored)?;
    let mut records = Vec::new();
    while let Some(record) = lines.next_record()? {
        records.push(record);
    }
    Ok(records)
}

/// What a file holds that a killed process left behind.
#[derive(Debug)]
pub struct Recovered {
    /// The records up to the last whole line.
    pub records: Vec<Record>,
    /// Why there may have been more; none when the file is whole.
    pub lost: Option<CodecError>,
}

/// The records up to the first fault. Only for recovery: a judgement never rests on a cut file.
pub fn read_lenient(stored: impl Read) -> Recovered {
    let mut records = Vec::new();
    let mut lines = match Lines::new(stored) {
        Ok(lines) => lines,
        Err(fault) => return Recovered { records, lost: Some(fault) },
    };
    loop {
        match lines.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return Recovered { records, lost: None },
            Err(fault) => return Recovered { records, lost: Some(fault) },
        }
    }
}

struct Lines<R: Read> {
    text: BufReader<Decoder<'static, BufReader<R>>>,
    line: Vec<u8>,
    number: u64,
    text_bytes: u64,
    seen: Seen,
}

impl<R: Read> Lines<R> {
    fn new(stored: R) -> Result<Self, CodecError> {
        let decoder = Decoder::new(stored).map_err(|source| CodecError::Damaged { line: 0, source })?;
        let text = BufReader::with_capacity(1 << 17, decoder);
        let mut lines = Self { text, line: Vec::new(), number: 0, text_bytes: 0, seen: Seen::default() };
        if !lines.advance()? {
            return Err(CodecError::Line { line: 1, what: "the header is missing".to_owned() });
        }
        let header: Header = serde_json::from_slice(&lines.line).map_err(|error| lines.refusal(&error.to_string()))?;
        match header.servegate_records {
            0 => Err(lines.refusal("format 0 does not exist")),
            found if found > FORMAT => Err(CodecError::Newer { found }),
            _ => Ok(lines),
        }
    }

    fn next_record(&mut self) -> Result<Option<Record>, CodecError> {
        if !self.advance()? {
            return Ok(None);
        }
        let line: Line<'_> = serde_json::from_slice(&self.line).map_err(|error| self.refusal(&error.to_string()))?;
        let record = line.into_record().map_err(|what| self.refusal(&what))?;
        self.seen.admit(&record).map_err(|what| self.refusal(&what))?;
        Ok(Some(record))
    }

    /// Reads the next line; false at the end of the file.
    fn advance(&mut self) -> Result<bool, CodecError> {
        self.line.clear();
        let damaged = |number| move |source| CodecError::Damaged { line: number, source };
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1);
        let mut bounded = (&mut self.text).take(limit);
        let taken = bounded.read_until(b'\n', &mut self.line).map_err(damaged(self.number))?;
        if taken == 0 {
            return Ok(false);
        }
        if taken > MAX_LINE {
            return Err(CodecError::TooLarge { what: "a line of the records", limit: limit - 1 });
        }
        self.text_bytes = self.text_bytes.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
        if self.text_bytes > MAX_TEXT {
            return Err(CodecError::TooLarge { what: "the text of the records", limit: MAX_TEXT });
        }
        if self.line.pop() != Some(b'\n') {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the last line has no end");
            return Err(CodecError::Damaged { line: self.number, source });
        }
        self.number += 1;
        Ok(true)
    }

    fn refusal(&self, what: &str) -> CodecError {
        CodecError::Line { line: self.number, what: quoted(what) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::artifact::codec::samples;
    use crate::artifact::codec::write::RecordWriter;

    fn stored(records: &[Record]) -> Vec<u8> {
        let mut writer = RecordWriter::new(Vec::new()).unwrap();
        for record in records {
            writer.write(record).unwrap();
        }
        writer.finish().unwrap().sink
    }

    fn compressed(text: &str) -> Vec<u8> {
        zstd::encode_all(text.as_bytes(), 3).unwrap()
    }

    fn refusal(line: &str) -> String {
        read(&*compressed(&format!("{{\"servegate_records\":1}}\n{line}\n"))).unwrap_err().to_string()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(records in vec(samples::any_record(), 0..12)) {
            let mut records = records;
            for (number, record) in (0_u32..).zip(&mut records) {
                record.request = number;
            }
            prop_assert_eq!(read(&*stored(&records)).unwrap(), records);
        }

        #[test]
        fn a_cut_file_is_refused_and_gives_a_prefix_to_recovery(cut in 0_usize..4_000) {
            let records: Vec<_> = (0..40).map(|n| samples::streamed(n, u64::from(n) * 7, 30, u64::from(n % 5), 20)).collect();
            let mut writer = RecordWriter::new(Vec::new()).unwrap();
            for record in &records {
                writer.write(record).unwrap();
                writer.flush().unwrap();
            }
            let bytes = writer.finish().unwrap().sink;
            let cut = cut % bytes.len();
            prop_assert!(read(&bytes[..cut]).is_err());
            let recovered = read_lenient(&bytes[..cut]);
            prop_assert!(recovered.lost.is_some());
            prop_assert_eq!(&records[..recovered.records.len()], &recovered.records[..]);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
            prop_assert!(read(&*bytes).is_err());
            prop_assert!(read(&*compressed(&text)).is_err());
        }
    }

    #[test]
    fn most_of_a_flushed_file_survives_a_kill() {
        let mut writer = RecordWriter::new(Vec::new()).unwrap();
        let records: Vec<_> = (0..10).map(|n| samples::streamed(n, 0, 5, 5, 5)).collect();
        for record in &records {
            writer.write(record).unwrap();
        }
        writer.flush().unwrap();
        let bytes = writer.finish().unwrap().sink;
        assert_eq!(read_lenient(&bytes[..bytes.len() - 5]).records, records);
        assert!(read_lenient(&*bytes).lost.is_none());
    }

    #[test]
    fn a_refusal_names_the_line_and_the_key() {
        let good =
            r#""cell":"c8","request":1,"due_us":5,"sent_us":5,"end_us":9,"tokens_from":"usage","outcome":"shed""#;
        for (line, part) in [
            (format!("{{{good},\"extra\":1}}"), "unknown field `extra`"),
            (format!("{{{good},\"gaps_us\":[-1]}}"), "invalid value: integer `-1`"),
            (format!("{{{good},\"gaps_us\":[NaN]}}"), "expected"),
            (format!("{{{good},\"gaps_us\":[1.5]}}"), "floating point `1.5`"),
            (format!("{{{good},\"gaps_us\":[1],\"chunk_tokens\":[1,1]}}"), "2 entries"),
            (format!("{{{good},\"gaps_us\":[18446744073709551615]}}"), "beyond the largest instant"),
            (format!("{{{good},\"gaps_us\":[900]}}"), "`end` is earlier than `chunk`"),
            (format!("{{{good}}}\n{{{good}}}"), "there already"),
            (String::new(), "EOF"),
        ] {
            let message = refusal(&line);
            assert!(message.contains(part), "{line}: {message}");
            assert!(message.starts_with(if part == "there already" { "line 3" } else { "line 2" }), "{message}");
        }
        let newer = read(&*compressed("{\"servegate_records\":9,\"more\":1}\n")).unwrap_err();
        assert_eq!(
            newer.to_string(),
            "format 9 is newer than 1, the newest that this version reads; use a newer servegate"
        );
    }

    #[test]
    fn sizes_are_bounded_before_memory_is_taken() {
        let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        bomb.write_all(b"{\"servegate_records\":1}\n").unwrap();
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..33 {
            bomb.write_all(&zeros).unwrap();
        }
        let message = read(&*bomb.finish().unwrap()).unwrap_err().to_string();
        assert!(message.contains("a line of the records is larger than 33554432 bytes"), "{message}");
    }

    /// A destination that takes `room` bytes, like a disk that fills up.
    struct Full {
        room: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_of_the_writer() {
        let mut writer = RecordWriter::new(Full { room: 100 }).unwrap();
        let fault = (0..50)
            .find_map(|n| writer.write(&samples::streamed(n, 0, 5, 5, 50)).and_then(|()| writer.flush()).err())
            .unwrap();
        assert_eq!(fault.to_string(), "cannot write records: no storage space");
    }
}

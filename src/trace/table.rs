//! Rows of CSV: columns by name, never by position, and fields as the numbers that they should be.

use csv::{ByteRecord, ReaderBuilder};

use crate::base::units::Nanos;
use crate::trace::collect::Collector;
use crate::trace::faults::{Kind, Place};
use crate::trace::formats::Format;
use crate::trace::refused::Refused;
use crate::trace::{Input, MAX_LINE, MAX_TOKENS, instant};

/// What was wrong with a field.
pub(super) type Wrong = (Kind, &'static str);

/// A column that a format reads.
#[derive(Clone, Copy)]
pub(super) struct Column {
    index: usize,
    name: &'static str,
}

/// A name of a column as it is compared: without case, spaces, underscores and quotes, for the same trace is published in several
/// spellings.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '_' | '"' | '\r')).flat_map(char::to_lowercase).collect()
}

/// A table with its first line read.
pub(super) struct Table<'a> {
    input: Input<'a>,
    format: Format,
    header: Vec<String>,
    fields: usize,
}

impl<'a> Table<'a> {
    /// Reads the first line.
    pub(super) fn open(input: Input<'a>, format: Format) -> Self {
        let header = header(input.bytes);
        Self { input, format, fields: header.len(), header }
    }

    /// A table without a first line of names, with so many columns.
    pub(super) fn headless(input: Input<'a>, format: Format, fields: usize) -> Self {
        Self { input, format, header: Vec::new(), fields }
    }

    /// A column that must be there.
    ///
    /// # Errors
    /// It is not, or twice.
    pub(super) fn column(&self, name: &'static str) -> Result<Column, Refused> {
        let fault =
            |times| Refused::Column { name: self.input.name.to_owned(), format: self.format, column: name, times };
        self.optional(name)?.ok_or_else(|| fault(0))
    }

    /// A column that may be there.
    ///
    /// # Errors
    /// It is there twice.
    pub(super) fn optional(&self, name: &'static str) -> Result<Option<Column>, Refused> {
        let wanted = plain(name);
        let mut found = self.header.iter().enumerate().filter(|(_, there)| **there == wanted);
        let first = found.next().map(|(index, _)| Column { index, name });
        match found.count() {
            0 => Ok(first),
            more => Err(Refused::Column {
                name: self.input.name.to_owned(),
                format: self.format,
                column: name,
                times: more.saturating_add(1),
            }),
        }
    }

    /// A column by its position, from 0, of a table without names.
    pub(super) const fn at(index: usize, name: &'static str) -> Column {
        Column { index, name }
    }

    /// Gives every row to `take`. What it answers is counted as a fault of the row.
    ///
    /// # Errors
    /// There are more rows than are read.
    pub(super) fn each<'c>(
        self,
        collector: &mut Collector<'c>,
        mut take: impl FnMut(&mut Collector<'c>, u64, &Fields) -> Result<(), Wrong>,
    ) -> Result<(), Refused> {
        let bytes = self.input.bytes;
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut fields = Fields(ByteRecord::new());
        let mut header = !self.header.is_empty();
        let mut lines = Lines { bytes, at: 0, line: 1 };
        // Reading from memory cannot fail, and a flexible record of bytes has no other way to be wrong.
        while reader.read_byte_record(&mut fields.0).unwrap_or(false) {
            let end = usize::try_from(reader.position().byte()).unwrap_or(usize::MAX);
            let (line, swallowed) = lines.record(end);
            if std::mem::take(&mut header) {
                continue;
            }
            collector.rows(swallowed.saturating_add(1))?;
            if swallowed > 0 {
                let place = Place { line, field: "" };
                collector.faults.add_rows(Kind::OpenQuote, swallowed.saturating_add(1), place);
            } else if fields.0.as_slice().len() > MAX_LINE {
                collector.faults.add(Kind::LongLine, line, "");
            } else if fields.0.len() != self.fields {
                collector.faults.add(Kind::FieldCount, line, "");
            } else if let Err((kind, field)) = take(collector, line, &fields) {
                collector.faults.add(kind, line, field);
            }
        }
        Ok(())
    }
}

/// The names in the first line, as they are compared.
pub(super) fn header(bytes: &[u8]) -> Vec<String> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(first_line(bytes));
    let mut record = ByteRecord::new();
    if !reader.read_byte_record(&mut record).unwrap_or(false) {
        return Vec::new();
    }
    record.iter().map(|name| plain(&String::from_utf8_lossy(name))).collect()
}

/// The first line that holds something, at most 64 KiB of it.
fn first_line(bytes: &[u8]) -> &[u8] {
    let line = bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    line.get(..1 << 16).unwrap_or(line)
}

/// Counts lines along the records: the reader's own count is off behind empty lines and within CRLF.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line on which the record that ends before `end` begins, and how many lines more it spans.
    fn record(&mut self, end: usize) -> (u64, u64) {
        let mut rest = self.bytes.get(self.at..end).unwrap_or_default();
        while let Some((first @ (b'\r' | b'\n'), behind)) = rest.split_first() {
            self.line = self.line.saturating_add(u64::from(*first == b'\n'));
            rest = behind;
        }
        let begin = self.line;
        let breaks = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        let swallowed = breaks(rest.trim_ascii_end());
        self.line = self.line.saturating_add(breaks(rest));
        self.at = end;
        (begin, swallowed)
    }
}

/// The fields of one row.
pub(super) struct Fields(ByteRecord);

impl Fields {
    /// The text of a field, without white space around it; empty when it is no text.
    pub(super) fn text(&self, column: Column) -> &str {
        let bytes = self.0.get(column.index).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default().trim()
    }

    /// A number of tokens. Tools that know only decimal numbers write `374.0`.
    pub(super) fn tokens(&self, column: Column) -> Result<u32, Wrong> {
        let text = self.text(column);
        let whole = text.strip_suffix(".0").unwrap_or(text);
        whole.parse().ok().filter(|tokens| *tokens <= MAX_TOKENS).ok_or((Kind::BadLength, column.name))
    }

    /// Any finite number.
    pub(super) fn number(&self, column: Column) -> Result<f64, Wrong> {
        self.text(column).parse().ok().filter(|number: &f64| number.is_finite()).ok_or((Kind::BadField, column.name))
    }

    /// Seconds since any origin.
    pub(super) fn seconds(&self, column: Column) -> Result<Nanos, Wrong> {
        let number = self.text(column).parse().ok();
        number.and_then(instant::seconds).ok_or((Kind::BadInstant, column.name))
    }

    /// A date with a time of day.
    pub(super) fn date(&self, column: Column) -> Result<Nanos, Wrong> {
        instant::date(self.text(column)).ok_or((Kind::BadInstant, column.name))
    }
}

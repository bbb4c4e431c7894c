//! The values of a JSON file: one a line, the elements of one array, or one object.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::trace::collect::Collector;
use crate::trace::faults::Kind;
use crate::trace::refused::Refused;
use crate::trace::table::Wrong;
use crate::trace::{Input, MAX_LINE, MAX_ROWS};

/// Lines that are tried before a file is no JSON lines.
const TRIED: usize = 32;

/// A JSON file, split into its values.
pub(super) enum Items<'a> {
    /// One value a line.
    Lines(&'a [u8]),
    /// Elements of an array, or one object over several lines, with the text of the whole.
    Document(&'a str, Elements<'a>),
}

/// The elements of an array as they are written, no more than rows are read.
#[derive(Default)]
pub(super) struct Elements<'a>(pub(super) Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at most {MAX_ROWS} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Elements<'de>, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = array.next_element()? {
                    elements.push(element);
                    if u64::try_from(elements.len()).unwrap_or(u64::MAX) > MAX_ROWS {
                        return Err(A::Error::invalid_length(elements.len(), &self));
                    }
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

/// Lines of values that are parts of one text, in order.
pub(super) struct Cursor<'a> {
    /// The line of what was met last, from 1.
    pub(super) line: u64,
    /// The text behind it.
    pub(super) rest: &'a str,
}

impl Cursor<'_> {
    /// The line on which a part of the text begins.
    pub(super) fn line_of(&mut self, part: &str) -> u64 {
        let begin = part.as_ptr().addr().saturating_sub(self.rest.as_ptr().addr());
        if let Some((before, behind)) = self.rest.split_at_checked(begin) {
            let breaks = before.bytes().filter(|byte| *byte == b'\n').count();
            self.line = self.line.saturating_add(u64::try_from(breaks).unwrap_or(0));
            self.rest = behind;
        }
        self.line
    }
}

impl<'a> Items<'a> {
    /// Looks how the file is laid out.
    ///
    /// # Errors
    /// It is no JSON as a whole, nor is any of its first lines.
    pub(super) fn of(input: Input<'a>) -> Result<Self, Refused> {
        let lines = input.bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let object = |line: &[u8]| line.trim_ascii_start().starts_with(b"{") && is_json(line);
        if lines.clone().next().is_some_and(object) {
            return Ok(Self::Lines(input.bytes));
        }
        let name = || input.name.to_owned();
        match document(input.bytes) {
            Ok((text, values)) => Ok(Self::Document(text, values)),
            Err(_) if lines.take(TRIED).any(object) => Ok(Self::Lines(input.bytes)),
            Err(error) if error.is_data() => Err(Refused::TooManyRows { name: name() }),
            Err(error) => Err(Refused::NotJson { name: name(), line: error.line(), column: error.column() }),
        }
    }

    /// The first values, those only that are JSON.
    pub(super) fn first(&self, most: usize) -> Vec<&'a str> {
        match self {
            Self::Lines(bytes) => {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
                let sane = lines.take(most).filter(|line| line.len() <= MAX_LINE && is_json(line));
                sane.filter_map(|line| std::str::from_utf8(line).ok()).collect()
            }
            Self::Document(_, values) => values.0.iter().take(most).map(|value| value.get()).collect(),
        }
    }

    /// Gives every value with its line to `take`. What it answers is counted as a fault of the row.
    ///
    /// # Errors
    /// There are more rows than are read.
    pub(super) fn each<'c>(
        self,
        collector: &mut Collector<'c>,
        mut take: impl FnMut(&mut Collector<'c>, u64, &'a str) -> Result<(), Wrong>,
    ) -> Result<(), Refused> {
        let mut one = |collector: &mut Collector<'c>, line: u64, text: Option<&'a str>| {
            collector.rows(1)?;
            let outcome = match text {
                Some(text) => take(collector, line, text),
                None => Err((Kind::NotJson, "")),
            };
            if let Err((kind, field)) = outcome {
                collector.faults.add(kind, line, field);
            }
            Ok(())
        };
        match self {
            Self::Lines(bytes) => {
                let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
                let mut full = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
                full.try_for_each(|(number, line)| {
                    if line.len() > MAX_LINE {
                        collector.faults.add(Kind::LongLine, number, "");
                        return collector.rows(1);
                    }
                    one(collector, number, std::str::from_utf8(line).ok())
                })
            }
            Self::Document(text, values) => {
                let mut cursor = Cursor { line: 1, rest: text };
                for value in values.0 {
                    let line = cursor.line_of(value.get());
                    one(collector, line, Some(value.get()))?;
                }
                Ok(())
            }
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// The elements of one array, or one value.
fn document(bytes: &[u8]) -> Result<(&str, Elements<'_>), serde_json::Error> {
    let whole: &RawValue = serde_json::from_slice(bytes)?;
    // The lines in front of the value count too.
    let text = std::str::from_utf8(bytes).unwrap_or(whole.get());
    let elements = if whole.get().starts_with('[') { serde_json::from_str(text)? } else { Elements(vec![whole]) };
    Ok((text, elements))
}

/// A value as a row of a format. `fields` are what it must have.
///
/// # Errors
/// It is no JSON, or not such a row. What it holds is not repeated.
pub(super) fn row<'a, T: Deserialize<'a>>(text: &'a str, fields: &'static str) -> Result<T, Wrong> {
    serde_json::from_str(text).map_err(
        |error| {
            if error.is_data() { (Kind::BadField, fields) } else { (Kind::NotJson, "") }
        },
    )
}

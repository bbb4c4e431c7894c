//! Which format a file has, by what it contains.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::trace::Input;
use crate::trace::formats::{Format, Marks};
use crate::trace::items::Items;
use crate::trace::refused::Refused;
use crate::trace::table::{header, plain};

/// Rows that are looked at.
const SAMPLE: usize = 32;
/// Keys that a message names, and characters of each.
const SHOWN: (usize, usize) = (8, 40);

/// A format and why it is that.
pub(super) struct Found {
    pub(super) format: Format,
    pub(super) why: String,
}

/// Finds the format of a file.
///
/// # Errors
/// It is no trace, or fits several formats.
pub(super) fn detect(input: Input<'_>) -> Result<Found, Refused> {
    let name = || input.name.to_owned();
    let trimmed = input.bytes.trim_ascii_start();
    let Some(first) = trimmed.first() else { return Err(Refused::Empty { name: name() }) };
    if let Some(what) = other_file(trimmed) {
        return Err(Refused::NotATrace { name: name(), what });
    }
    if matches!(first, b'{' | b'[') { by_keys(input) } else { by_columns(input) }
}

/// What a file is whose first bytes tell it.
fn other_file(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\xff\xfe", "text in UTF-16; write it in UTF-8 first: iconv -f UTF-16 -t UTF-8 FILE"),
        (b"\xfe\xff", "text in UTF-16; write it in UTF-8 first: iconv -f UTF-16 -t UTF-8 FILE"),
        (b"\x1f\x8b", "compressed with gzip; unpack it first: gunzip -k FILE"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first: zstd -d FILE"),
        (b"BZh", "compressed with bzip2; unpack it first: bunzip2 -k FILE"),
        (b"\xfd7zXZ", "compressed with xz; unpack it first: unxz -k FILE"),
        (b"PK\x03\x04", "a zip archive; unpack it first"),
        (b"PAR1", "a Parquet file; write it as CSV or JSON lines first"),
        (b"version https://git-lfs", "a Git LFS pointer and not the data; fetch it: git lfs pull"),
    ];
    KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what)
}

fn by_columns(input: Input<'_>) -> Result<Found, Refused> {
    let names = header(input.bytes);
    let mut candidates = Vec::new();
    for format in Format::ALL {
        match format.marks() {
            Marks::Columns(columns) if columns.iter().all(|column| names.contains(&plain(column))) => {
                candidates.push((format, format!("its first line names the columns {}", quoted(columns))));
            }
            Marks::Headless(fits, why) if fits(&names) => candidates.push((format, why.to_owned())),
            Marks::Columns(_) | Marks::Headless(..) | Marks::Keys(_) | Marks::FirstKey(_) => {}
        }
    }
    let fields = names.len();
    decide(input, candidates, || match fields {
        0 | 1 => "its first line is no JSON and no header of a table with commas".to_owned(),
        _ => format!("its first line has {fields} fields and not the columns of a known table"),
    })
}

fn by_keys(input: Input<'_>) -> Result<Found, Refused> {
    let items = Items::of(input)?;
    let rows: Vec<_> = items.first(SAMPLE).into_iter().filter_map(keys).collect();
    let mut candidates: Vec<(Format, &[&str])> = Vec::new();
    for format in Format::ALL {
        match format.marks() {
            Marks::FirstKey(key) if rows.first().is_some_and(|row| row.contains_key(key)) => {
                return Ok(Found { format, why: format!("its first line has the key `{key}`") });
            }
            Marks::Keys(ways) => {
                let has = |row: &BTreeMap<_, _>, way: &[&str]| way.iter().all(|key| row.contains_key(*key));
                let most =
                    |way: &&&[&str]| rows.iter().filter(|row| has(row, way)).count().saturating_mul(2) > rows.len();
                candidates.extend(ways.iter().find(most).map(|way| (format, *way)));
            }
            Marks::FirstKey(_) | Marks::Columns(_) | Marks::Headless(..) => {}
        }
    }
    // A format whose marks are some of another's is not meant: every row of Bailian has the keys of Mooncake too.
    let within = |few: &[&str], many: &[&str]| few.len() < many.len() && few.iter().all(|key| many.contains(key));
    let all = candidates.clone();
    candidates.retain(|(_, marks)| !all.iter().any(|(_, other)| within(marks, other)));
    let why = |keys: &[&str]| format!("its first rows have the keys {}", quoted(keys));
    let candidates = candidates.into_iter().map(|(format, marks)| (format, why(marks))).collect();
    decide(input, candidates, || match rows.first() {
        Some(row) if !row.is_empty() => {
            let (most, length) = SHOWN;
            let cut = |key: &String| key.chars().take(length).collect::<String>();
            let shown: Vec<String> = row.keys().take(most).map(cut).collect();
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            format!("its first value has the keys {}", quoted(&shown))
        }
        _ => "it begins like JSON, and none of its first values is an object in UTF-8".to_owned(),
    })
}

/// The keys of an object with what they hold.
fn keys(text: &str) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(text).ok()
}

fn decide(input: Input<'_>, mut fit: Vec<(Format, String)>, seen: impl FnOnce() -> String) -> Result<Found, Refused> {
    let name = input.name.to_owned();
    match fit.pop() {
        None => Err(Refused::Unknown { name, seen: seen() }),
        Some((format, why)) if fit.is_empty() => Ok(Found { format, why }),
        Some((last, _)) => {
            let candidates = fit.into_iter().map(|(format, _)| format).chain([last]).collect();
            Err(Refused::Ambiguous { name, candidates })
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

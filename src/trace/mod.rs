//! Other people's traces: bytes in, requests without any text out.
//!
//! The way of a file: [`read`] finds its format by what it contains (`detect`) or is told, the format's reader
//! (`formats`, one file each) turns rows into requests, and `collect` puts them in order and numbers sessions,
//! parents and blocks anew. What was wrong with a row is counted by kind ([`faults`]) and never stops the reading
//! unless it is more than half of them. Prompts and answers are measured in tokens and dropped; names of sessions,
//! models and users become numbers. [`normal`] writes what was read, [`shape`] counts what a person asks first, [`steps`]
//! cuts, filters and scales.

pub mod faults;
pub mod normal;
pub mod refused;
pub mod request;
pub mod shape;
pub mod steps;
pub mod tokens;

mod collect;
mod detect;
mod formats;
mod instant;
mod items;
mod table;

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
pub(crate) mod testing;

use crate::trace::collect::Collector;
use crate::trace::detect::{Found, detect};
use crate::trace::faults::Faults;
pub use crate::trace::formats::Format;
use crate::trace::refused::Refused;
use crate::trace::request::Traffic;

/// Largest trace, in bytes.
pub const MAX_BYTES: usize = 512 << 20;
/// Most rows of a trace.
pub const MAX_ROWS: u64 = 5_000_000;
/// Longest row, in bytes: an exporter of spans writes thousands of them in one line.
pub const MAX_LINE: usize = 16 << 20;
/// Longest prompt or answer that is believed, in tokens.
pub const MAX_TOKENS: u32 = 10_000_000;

/// What a trace held.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// How it was read.
    pub format: Format,
    /// Which marks decided for that format.
    pub why: String,
    /// What it describes.
    pub traffic: Traffic,
    /// What was wrong, left out or changed, by kind.
    pub faults: Faults,
}

/// Counts the tokens of a text.
pub type Count<'c> = &'c dyn Fn(&str) -> u32;

/// A file that is read.
#[derive(Clone, Copy)]
struct Input<'a> {
    /// Its name, for messages.
    name: &'a str,
    /// All of it, without a byte order mark.
    bytes: &'a [u8],
}

/// Reads a trace of any format that [`Format`] names.
///
/// `name` is what messages call the file. With `format` nothing is detected. `count` counts the tokens of texts, for
/// formats that hold texts and no lengths.
///
/// # Errors
/// No format or several fit, more than half of the rows are faulty, nothing in it is a request, or it exceeds
/// [`MAX_BYTES`] or [`MAX_ROWS`].
pub fn read(name: &str, bytes: &[u8], format: Option<Format>, count: Count<'_>) -> Result<Reading, Refused> {
    if bytes.len() > MAX_BYTES {
        return Err(Refused::TooLarge { name: name.to_owned() });
    }
    let input = Input { name, bytes: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes) };
    let found = match format {
        Some(format) => Found { format, why: format!("`--format {format}`") },
        None => detect(input)?,
    };
    let mut collector = Collector::new(name, count);
    found.format.read(input, &mut collector)?;
    let (traffic, faults) = collector.finish(found.format)?;
    Ok(Reading { format: found.format, why: found.why, traffic, faults })
}

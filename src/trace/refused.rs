//! Why a trace is not read, and what to do about it.

use crate::base::words::count;
use crate::trace::formats::Format;

/// A trace is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing is in it.
    #[error("{name} is empty")]
    Empty {
        /// The file.
        name: String,
    },
    /// It holds something else than a trace, which can be told by its first bytes.
    #[error("{name} is {what}")]
    NotATrace {
        /// The file.
        name: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// No format fits.
    #[error("{name} is no trace of a known format: {seen}")]
    Unknown {
        /// The file.
        name: String,
        /// What is there instead.
        seen: String,
    },
    /// Several formats fit.
    #[error("{name} fits more than one format: {}", list(candidates))]
    Ambiguous {
        /// The file.
        name: String,
        /// The formats.
        candidates: Vec<Format>,
    },
    /// A document that must be JSON as a whole is not.
    #[error("{name}:{line}:{column}: not JSON")]
    NotJson {
        /// The file.
        name: String,
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
    },
    /// A column that the format needs is not there, or is there twice.
    #[error("{name} as `{format}`: the first line names the column `{column}` {times} times and must name it once")]
    Column {
        /// The file.
        name: String,
        /// How it was read.
        format: Format,
        /// The column.
        column: &'static str,
        /// How often it is there.
        times: usize,
    },
    /// The normal form in a version, or with a first line, that this servegate does not know.
    #[error("{name}:1: not the first line of a servegate trace of version 1")]
    Version {
        /// The file.
        name: String,
    },
    /// More than half of the rows cannot be read.
    #[error("{name} as `{format}`: {faulty} of {} are faulty, more than half; {}", count(*rows, "row"), reasons.join("; "))]
    Faulty {
        /// The file.
        name: String,
        /// How it was read.
        format: Format,
        /// Rows that could not be read.
        faulty: u64,
        /// All rows.
        rows: u64,
        /// The kinds with their first lines.
        reasons: Vec<String>,
    },
    /// No row is a request.
    #[error("{name} as `{format}`: {} and no request among them{}", count(*rows, "row"), tail(reasons))]
    NoRequest {
        /// The file.
        name: String,
        /// How it was read.
        format: Format,
        /// All rows.
        rows: u64,
        /// What the rows are.
        reasons: Vec<String>,
    },
    /// More bytes than are read.
    #[error("{name} is larger than {} bytes", super::MAX_BYTES)]
    TooLarge {
        /// The file.
        name: String,
    },
    /// More rows than are read.
    #[error("{name} holds more than {} rows", super::MAX_ROWS)]
    TooManyRows {
        /// The file.
        name: String,
    },
}

impl Refused {
    /// What to do, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown { .. } | Self::Faulty { .. } | Self::NotJson { .. } => {
                vec![format!("formats that are known: {}", list(&Format::ALL)), named()]
            }
            Self::Ambiguous { .. } | Self::Column { .. } | Self::NoRequest { .. } => vec![named()],
            Self::TooLarge { .. } | Self::TooManyRows { .. } => {
                vec!["cut a part of it first, such as one day; CSV needs its first line again".to_owned()]
            }
            Self::Version { .. } => {
                vec!["read the source trace again with this version of servegate (docs/traffic.md)".to_owned()]
            }
            Self::Empty { .. } | Self::NotATrace { .. } => Vec::new(),
        }
    }
}

fn named() -> String {
    "name the format: --format FORMAT (docs/traffic.md says what each looks like)".to_owned()
}

fn list(formats: &[Format]) -> String {
    formats.iter().map(|format| format!("`{format}`")).collect::<Vec<_>>().join(", ")
}

fn tail(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!("; {}", reasons.join("; ")) }
}

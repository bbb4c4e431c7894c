//! The normal form: one JSON value a line, a versioned first line, and no text of anybody.
//!
//! `docs/traffic.md` describes it. [`crate::trace::read`] takes it like every other format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::trace::faults::{Effect, Kind};
use crate::trace::formats::Format;
use crate::trace::refused::Refused;
use crate::trace::request::{Requests, Traffic};
use crate::trace::{Reading, tokens};

/// The version of the form.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) servegate_trace: u32,
    pub(super) source: Format,
    #[serde(default = "yes")]
    pub(super) arrivals: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) block_tokens: Option<u32>,
    #[serde(default)]
    pub(super) requests: Option<u64>,
    #[serde(default)]
    pub(super) lost: BTreeMap<Kind, u64>,
    #[serde(default)]
    pub(super) noted: BTreeMap<Kind, u64>,
}

const fn yes() -> bool {
    true
}

/// Every other line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) at_us: u64,
    pub(super) prompt_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blocks: Vec<u64>,
}

/// Nothing can be written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// Windows of rates are no requests.
    #[error("a `{0}` trace holds rates and no requests; the normal form is for requests")]
    Windows(Format),
    /// A value has no JSON.
    #[error("the normal form cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// A file cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReplayed {
    /// It cannot be read at all.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something is wrong with some of it: a workload that left rows out would not be what its file says.
    #[error("{name}: {}", reasons.join("; "))]
    Faulty {
        /// The file.
        name: String,
        /// The kinds with their first lines.
        reasons: Vec<String>,
    },
}

/// Reads a file in the normal form that must be right from its first line to its last.
///
/// # Errors
/// It is in another form, or a row of it is faulty, out of order, or continues a request that is not in front of it.
pub fn read(name: &str, bytes: &[u8]) -> Result<Requests, NotReplayed> {
    if bytes.trim_ascii().is_empty() {
        return Err(Refused::Empty { name: name.to_owned() }.into());
    }
    let reading = super::read(name, bytes, Some(Format::Servegate), &tokens::estimate)?;
    let reasons = reading.faults.of_this_file();
    match reading.traffic {
        Traffic::Requests(requests) if reasons.is_empty() => Ok(requests),
        Traffic::Requests(_) | Traffic::Windows(_) => Err(NotReplayed::Faulty { name: name.to_owned(), reasons }),
    }
}

/// The normal form of what was read, instants to the microsecond.
///
/// # Errors
/// The trace holds no requests.
pub fn write(reading: &Reading) -> Result<Vec<u8>, NotWritten> {
    let Traffic::Requests(requests) = &reading.traffic else { return Err(NotWritten::Windows(reading.format)) };
    let counts = |wanted: &[Effect]| {
        let met = reading.faults.iter().filter(|(kind, _)| wanted.contains(&kind.effect()));
        met.map(|(kind, tally)| (kind, tally.rows)).collect()
    };
    let header = Header {
        servegate_trace: VERSION,
        source: requests.source,
        arrivals: requests.arrivals,
        block_tokens: requests.block_tokens,
        requests: u64::try_from(requests.rows.len()).ok(),
        lost: counts(&[Effect::Faulty, Effect::LeftOut]),
        noted: counts(&[Effect::Noted]),
    };
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    for request in &requests.rows {
        let line = Line {
            at_us: request.at.to_stored_resolution().0.div_euclid(1_000),
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            session: request.session,
            turn: request.turn,
            parent: request.parent,
            class: requests.class(request).map(str::to_owned),
            blocks: request.blocks.clone(),
        };
        serde_json::to_writer(&mut bytes, &line)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

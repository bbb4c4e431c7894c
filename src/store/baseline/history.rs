//! `history.jsonl`: every change of a workload's baselines, one line each, never rewritten. Each line holds the
//! digest of the one before it, so a line that was changed or removed is found.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::store::baseline::manifest::{FORMAT, check_version, checked_time, damaged};
use crate::store::baseline::{BaselineError, Baselines};
use crate::store::files::{checked_name, read_bounded};

const FILE: &str = "history.jsonl";
/// Largest history, in bytes: about ten thousand changes.
const MAX_BYTES: u64 = 8 << 20;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The first baseline.
    Initial,
    /// The next approved release.
    Refresh,
    /// A session more of the active release.
    AddSession,
    /// A new start: identity changed, or a regression was accepted.
    Rebase,
    /// An earlier release is active again.
    Rollback,
    /// The anchor was moved.
    Anchor,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Initial => "initial",
            Self::Refresh => "refresh",
            Self::AddSession => "add_session",
            Self::Rebase => "rebase",
            Self::Rollback => "rollback",
            Self::Anchor => "anchor",
        })
    }
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Version of the format.
    pub format: u32,
    /// What happened.
    pub event: EventKind,
    /// To which release.
    pub release: String,
    /// Digest of the release's `baseline.json` from then on.
    pub digest: Digest,
    /// Who decided it.
    pub by: String,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Why, where the change needs a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Digest of the line before, without its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
}

/// A workload's history as read from disk.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
    bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
    tail: Option<Digest>,
}

impl History {
    /// Reads the history of a workload's folder; a missing file is an empty history.
    pub(super) fn read(workload: &Path) -> Result<Self, BaselineError> {
        let path = workload.join(FILE);
        let bytes = match read_bounded(&path, MAX_BYTES) {
            Err(error) if error.is_missing() => Vec::new(),
            bytes => bytes?,
        };
        let mut history = Self { path, bytes, events: Vec::new(), tail: None };
        let broken = |number: usize, what: &str| BaselineError::Damaged {
            path: workload.join(FILE),
            what: format!("line {number}: {what}"),
        };
        let lines = history.bytes.split_inclusive(|byte| *byte == b'\n');
        for (number, line) in (1..).zip(lines) {
            let line = line.strip_suffix(b"\n").ok_or_else(|| broken(number, "the line has no end"))?;
            check_version(&history.path, line)?;
            let event: Event = serde_json::from_slice(line).map_err(damaged(&history.path))?;
            checked_name("release", &event.release).map_err(|error| broken(number, &error.to_string()))?;
            checked_time("at", &event.at).map_err(|what| broken(number, &what))?;
            if event.previous != history.tail {
                return Err(broken(number, "it does not follow the line before it: a line was changed or removed"));
            }
            history.tail = Some(Digest::of(line));
            history.events.push(event);
        }
        Ok(history)
    }

    /// The active release and its digest.
    pub(super) fn active(&self) -> Option<(&str, Digest)> {
        let event = self.events.iter().rfind(|event| event.event != EventKind::Anchor)?;
        Some((&event.release, event.digest))
    }

    /// The anchor and its digest: what was set last, else the first release as it was first approved.
    pub(super) fn anchor(&self) -> Option<(&str, Digest)> {
        let set = self.events.iter().rfind(|event| event.event == EventKind::Anchor);
        set.or(self.events.first()).map(|event| (event.release.as_str(), event.digest))
    }

    /// The latest approved digest of a release.
    pub(super) fn latest(&self, release: &str) -> Option<&Event> {
        self.events.iter().rfind(|event| event.release == release && event.event != EventKind::Anchor)
    }

    /// Whether a manifest with this digest was ever approved.
    pub(super) fn knows(&self, digest: &Digest) -> bool {
        self.events.iter().any(|event| event.digest == *digest)
    }

    /// The file with one line more. `format` and `previous` of the event are set here.
    pub(super) fn with(&self, event: Event) -> Result<(PathBuf, Vec<u8>), BaselineError> {
        let event = Event { format: FORMAT, previous: self.tail, ..event };
        let mut bytes = self.bytes.clone();
        serde_json::to_writer(&mut bytes, &event).map_err(damaged(&self.path))?;
        bytes.push(b'\n');
        Ok((self.path.clone(), bytes))
    }
}

impl Baselines {
    /// Every change of a workload's baselines, oldest first.
    ///
    /// # Errors
    ///
    /// The history cannot be read, or a line of it was changed or removed.
    pub fn history(&self, workload: &str) -> Result<Vec<Event>, BaselineError> {
        Ok(History::read(&self.workload(workload)?)?.events)
    }
}

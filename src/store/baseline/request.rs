//! What is asked of the baselines, and what came of it: data that the steps of a change hand on.

use std::path::PathBuf;

use crate::base::digest::Digest;
use crate::store::baseline::history::EventKind;
use crate::verdict::judgement::Verdict;

/// A measurement of an approved release, to become the baseline or a part of it.
#[derive(Clone, Debug)]
pub struct Refresh<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// The approved release.
    pub release: &'a str,
    /// Who approved it.
    pub approved_by: &'a str,
    /// When, RFC 3339 in UTC.
    pub at: &'a str,
    /// In which way.
    pub mode: Mode,
    /// The run folders of the measurement.
    pub runs: &'a [PathBuf],
    /// What the gate said about the measurement against the active baseline.
    pub verdict: Option<Approval>,
}

/// In which way a measurement enters the baselines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first baseline of a workload.
    Initial,
    /// The next approved release.
    Next,
    /// One session or more of the active release.
    AddSession,
    /// A new start, with its reason: identity changed, or a regression was accepted.
    Rebase(String),
}

impl Mode {
    pub(super) const fn event(&self) -> EventKind {
        match self {
            Self::Initial => EventKind::Initial,
            Self::Next => EventKind::Refresh,
            Self::AddSession => EventKind::AddSession,
            Self::Rebase(_) => EventKind::Rebase,
        }
    }
}

/// A judgement of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its verdict.
    pub verdict: Verdict,
    /// Digest of its `verdict.json`.
    pub judgement: Digest,
}

/// What a refresh made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// Digest of the new manifest.
    pub digest: Digest,
    /// Digest of the baseline that was active before.
    pub previous: Option<Digest>,
    /// Sessions of the baseline now.
    pub sessions: usize,
    /// Runs of the baseline now.
    pub runs: usize,
}

/// A decision about a release that is stored already.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// The release.
    pub release: &'a str,
    /// Who decided.
    pub by: &'a str,
    /// When, RFC 3339 in UTC.
    pub at: &'a str,
    /// Why.
    pub reason: &'a str,
}

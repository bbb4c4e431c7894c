//! What was read from the user's files: texts, policies, and the suites that they make.

use std::path::Path;

use crate::base::diagnostic::Diagnostic;
use crate::cli::error::{CliError, Finding};
use crate::cli::traces::TraceFiles;
use crate::plan::request::Plan;
use crate::spec::policy::Policy;
use crate::spec::workload::Workload;
use crate::store::files::read_bounded;

/// Largest file of a user, in bytes; `spec` has its own limits inside.
const MAX_TEXT: u64 = 4 << 20;

/// A text and the name by which findings speak of it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The path as given.
    pub(crate) name: String,
    /// The whole text.
    pub(crate) text: String,
}

impl Source {
    /// Reads a file of the user.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let bytes = read_bounded(path, MAX_TEXT).map_err(|error| CliError::unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_invalid| CliError::unreadable(format!("{}: not UTF-8 text", path.display())))?;
        Ok(Self { name: path.display().to_string(), text })
    }

    /// Findings in this text.
    pub(crate) fn findings(&self, diagnostics: Vec<Diagnostic>) -> Vec<Finding> {
        diagnostics.into_iter().map(|diagnostic| Finding { diagnostic, text: self.text.clone() }).collect()
    }
}

/// A policy with its text.
#[derive(Clone, Debug)]
pub(crate) struct LoadedPolicy {
    /// The policy.
    pub(crate) policy: Policy,
    /// Its file.
    pub(crate) source: Source,
}

/// Policies that share a workload share its measurement.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    /// The workload.
    pub(crate) workload: Workload,
    /// Its file.
    pub(crate) source: Source,
    /// The traces that it replays.
    pub(crate) traces: TraceFiles,
    /// Its plan.
    pub(crate) plan: Plan,
    /// Its policies, in the order given.
    pub(crate) policies: Vec<LoadedPolicy>,
}

impl Suite {
    /// Candidate runs that the most demanding policy asks for.
    pub(crate) fn runs(&self) -> u32 {
        self.policies.iter().map(|loaded| loaded.policy.runs).max().unwrap_or(0)
    }

    /// Controls that the most demanding policy asks for.
    pub(crate) fn controls(&self) -> u32 {
        self.policies.iter().map(|loaded| loaded.policy.controls).max().unwrap_or(0)
    }
}

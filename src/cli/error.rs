//! Exit codes and the one error type of the command line: what went wrong, and what to do.

use std::process::ExitCode;

use crate::base::diagnostic::Diagnostic;
use crate::base::words::count;
use crate::verdict::judgement::Verdict;

/// How the process ends. The numbers are an interface: `docs/exit-codes.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, or a verdict that lets the change through.
    Success,
    /// The code of a blocking verdict: 1 to 4.
    Verdict(Verdict),
    /// 4: could not measure.
    Failed,
    /// 5: a policy, workload, config or trace file is missing, unreadable or invalid.
    InvalidFile,
    /// 64: the command line is wrong.
    Usage,
    /// 70: a bug.
    Internal,
    /// 130: SIGINT.
    Interrupted,
    /// 143: SIGTERM.
    Terminated,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Verdict(verdict) => verdict.exit_code(),
            Self::Failed => 4,
            Self::InvalidFile => 5,
            Self::Usage => 64,
            Self::Internal => 70,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    conditions_differ: bool,
    message: String,
    hints: Vec<String>,
    findings: Vec<Finding>,
}

/// A finding with the text of its file, for a picture of the place.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The finding.
    pub(crate) diagnostic: Diagnostic,
    /// The whole text of the file it is about.
    pub(crate) text: String,
}

impl CliError {
    /// Could not measure, read, write or reach something: exit 4.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            conditions_differ: false,
            message: message.into(),
            hints: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// A file of the user cannot be read: exit 5.
    pub(crate) fn unreadable(message: impl Into<String>) -> Self {
        Self { exit: Exit::InvalidFile, ..Self::failed(message) }
    }

    /// The command line asks for something impossible: exit 64.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(message) }
    }

    /// The sides may not be compared, or there is nothing to compare with: exit 3.
    pub(crate) fn not_comparable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Verdict(Verdict::NotComparable), ..Self::failed(message) }
    }

    /// Both sides declare what keeps them from being compared: exit 3.
    pub(crate) fn conditions_differ(message: impl Into<String>) -> Self {
        Self { conditions_differ: true, ..Self::not_comparable(message) }.hint("nothing was measured")
    }

    /// The user stopped it.
    pub(crate) fn interrupted(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, ..Self::failed(message) }
    }

    /// Files of the user are invalid: exit 5.
    pub(crate) fn invalid(findings: Vec<Finding>) -> Self {
        let message = format!("{} in the files", count(findings.len(), "problem"));
        Self { exit: Exit::InvalidFile, findings, ..Self::failed(message) }
    }

    /// Adds a line that says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says this instead of all that it said to do.
    pub(crate) fn only_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints = vec![hint.into()];
        self
    }

    /// How the process ends.
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the declared conditions of the sides are what is wrong.
    pub(crate) const fn is_of_conditions(&self) -> bool {
        self.conditions_differ
    }

    /// What went wrong, lower case, without a full stop.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do, one line each.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Findings about the user's files.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let page = include_str!("../../docs/exit-codes.md");
        for (exit, code) in [
            (Exit::Success, 0),
            (Exit::Verdict(Verdict::Pass), 0),
            (Exit::Verdict(Verdict::Warn), 0),
            (Exit::Verdict(Verdict::Fail), 1),
            (Exit::Verdict(Verdict::Inconclusive), 2),
            (Exit::Verdict(Verdict::NotComparable), 3),
            (Exit::Verdict(Verdict::Error), 4),
            (Exit::Failed, 4),
            (Exit::InvalidFile, 5),
            (Exit::Usage, 64),
            (Exit::Internal, 70),
            (Exit::Interrupted, 130),
            (Exit::Terminated, 143),
        ] {
            assert_eq!(exit.code(), code);
            assert!(page.contains(&format!("| {code} |")), "docs/exit-codes.md lacks {code}");
        }
    }
}

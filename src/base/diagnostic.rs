//! Findings about a user's file: data with a stable code, a place, a reason and a fix. A finding is
//! not an error of servegate, and all findings of all files are reported together.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a look; nothing is refused.
    Warning,
    /// The file is refused.
    Error,
}

/// A place in a file. Lines and columns count from 1; columns count characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file's name, as the user gave it.
    pub file: String,
    /// Line, from 1; 0 when the finding concerns the whole file.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The byte range in the file's text, for a picture of the place.
    #[serde(skip)]
    pub span: Range<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable, kebab-case, for example `unknown-key`.
    pub code: &'static str,
    /// Whether the file is refused.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// The path of keys, for example `checks[2].at_most`; empty for the whole file.
    pub key: String,
    /// What is wrong and why, one sentence.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{}: {severity}[{}]: ", self.place, self.code)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        write!(f, "{}", self.message)?;
        if !self.help.is_empty() {
            write!(f, " (fix: {})", self.help)?;
        }
        Ok(())
    }
}

//! The sink that collects every finding of one file, in the order of the file, up to a bound.

use crate::base::diagnostic::{Diagnostic, Place, Severity};
use crate::spec::text::escape;

/// More findings than anybody reads; a hostile file must not make more.
const MOST: usize = 100;

/// A position in the text of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Line, from 1; 0 for the whole file.
    pub(super) line: u32,
    /// Column in characters, from 1.
    pub(super) column: u32,
    /// Bytes of the text.
    pub(super) span: std::ops::Range<usize>,
}

/// What is wrong with a value, wherever it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Stable, kebab-case.
    pub(super) code: &'static str,
    /// What is wrong and why.
    pub(super) message: String,
    /// What to do.
    pub(super) help: String,
}

impl Fault {
    pub(super) fn new(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: help.into() }
    }
}

/// Collects the findings of one file.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    file: String,
    list: Vec<Diagnostic>,
    dropped: usize,
}

impl Findings {
    /// Nothing found yet in this file.
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), list: Vec::new(), dropped: 0 }
    }

    /// The file refused for this.
    pub(super) fn error(&mut self, at: &Mark, key: &str, fault: Fault) {
        self.push(Severity::Error, at, key, fault);
    }

    /// Worth a look.
    pub(super) fn warning(&mut self, at: &Mark, key: &str, fault: Fault) {
        self.push(Severity::Warning, at, key, fault);
    }

    fn push(&mut self, severity: Severity, at: &Mark, key: &str, Fault { code, message, help }: Fault) {
        if self.list.len() < MOST {
            self.list.push(Diagnostic { code, severity, place: self.place(at), key: key.to_owned(), message, help });
        } else {
            self.dropped += 1;
        }
    }

    /// The position as a place in this file.
    pub(super) fn place(&self, at: &Mark) -> Place {
        Place { file: self.file.clone(), line: at.line, column: at.column, span: at.span.clone() }
    }

    /// Whether the file is refused.
    pub(super) fn refused(&self) -> bool {
        self.list.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// The findings in the order of the file.
    pub(super) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list.sort_by(|a, b| {
            (a.place.line, a.place.column, &a.key, a.code).cmp(&(b.place.line, b.place.column, &b.key, b.code))
        });
        // An anchored value used twice has one fault, not two.
        self.list.dedup_by(|a, b| a.code == b.code && a.place == b.place && a.message == b.message);
        if self.dropped > 0 {
            let fault = Fault::new(
                "too-many-findings",
                format!("{} more findings are not shown", self.dropped),
                "fix these first",
            );
            let severity = Severity::Error;
            let Fault { code, message, help } = fault;
            let place = self.place(&Mark::default());
            self.list.push(Diagnostic { code, severity, place, key: String::new(), message, help });
        }
        self.list
    }
}

/// The path of a key inside a mapping: `decision.alpha_fail`.
pub(super) fn child(path: &str, key: &str) -> String {
    let key = escape(key, 60);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// The path of an item of a list, counted from 0: `checks[2]`.
pub(super) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

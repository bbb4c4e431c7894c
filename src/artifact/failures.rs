//! What failed requests were: how many of each outcome, and what the first one looked like.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use crate::artifact::record::Record;

/// Longest detail that is shown, in characters.
const SHOWN: usize = 160;

/// The failed requests among some records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many, by the text form of their outcome. An `ok` without content or tokens is `ok_without_tokens`.
    pub counts: BTreeMap<String, u64>,
    /// What was seen of the first one, bounded. It may hold what a server said: whoever shows it escapes it.
    pub first: Option<String>,
}

impl Failures {
    /// Counts what failed.
    pub fn of<R: Borrow<Record>>(records: impl IntoIterator<Item = R>) -> Self {
        let mut failures = Self::default();
        for record in records {
            let record = record.borrow();
            if record.is_success() {
                continue;
            }
            let outcome =
                if record.outcome.is_ok() { "ok_without_tokens".to_owned() } else { record.outcome.to_string() };
            let count = failures.counts.entry(outcome).or_default();
            *count = count.saturating_add(1);
            if failures.first.is_none() {
                failures.first = record.detail.as_deref().map(shown);
            }
        }
        failures
    }

    /// Whether nothing failed.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

fn shown(detail: &str) -> String {
    let mut text: String = detail.chars().take(SHOWN).collect();
    if text.len() < detail.len() {
        text.push_str("...");
    }
    text
}

impl fmt::Display for Failures {
    /// `3 http_error, 1 timed_out; the first: HTTP 500: out of memory`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        f.write_str(&counts.join(", "))?;
        self.first.as_ref().map_or(Ok(()), |detail| write!(f, "; the first: {detail}"))
    }
}

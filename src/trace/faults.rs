//! What was wrong with rows, counted by kind; the first few of each kind are named by their lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Places that are kept of each kind.
const PLACES: usize = 3;

/// A kind of trouble with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The line is no JSON, or no text.
    NotJson,
    /// The row has more or fewer fields than the header.
    FieldCount,
    /// A field is missing, or of another type than the format says.
    BadField,
    /// A length is no whole number up to [`crate::trace::MAX_TOKENS`].
    BadLength,
    /// The row has no instant that can be read, or one before 1970.
    BadInstant,
    /// The row is longer than [`crate::trace::MAX_LINE`].
    LongLine,
    /// A quote was opened and swallowed the rows behind it.
    OpenQuote,
    /// The request has no output tokens: it failed.
    FailedRequest,
    /// The row has neither input nor output tokens.
    EmptyRequest,
    /// The request has output tokens and no prompt.
    NoPrompt,
    /// The row is something else than a request to a language model.
    NotARequest,
    /// The request has neither lengths nor text.
    NoLength,
    /// A question without an answer.
    Unanswered,
    /// The row arrived before the one in front of it. It was put in its place.
    OutOfOrder,
    /// The request that it continues is not in the trace. It begins a session.
    UnknownParent,
    /// Two rows have one identity. Others continue the first.
    SameIdentity,
    /// The number of blocks does not fit the length of the prompt.
    BlockCount,
    /// A length was counted from text: an estimate of what the server's model would count.
    CountedLength,
    /// The output is the limit that the request gave, and not what was produced.
    OutputLimit,
    /// The request has no limit of its output: its output is unknown.
    NoLimit,
    /// An image, a sound or a file is in the prompt and was not counted.
    Media,
    /// The file holds fewer rows than its first line says.
    Shorter,
}

/// What a kind means for the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The row could not be read.
    Faulty,
    /// The row was read and is no request that can be repeated.
    LeftOut,
    /// The row is a request; something about it is not as the file says, or only an estimate.
    Noted,
}

impl Kind {
    /// What it means for the row.
    pub const fn effect(self) -> Effect {
        match self {
            Self::NotJson
            | Self::FieldCount
            | Self::BadField
            | Self::BadLength
            | Self::BadInstant
            | Self::LongLine
            | Self::OpenQuote => Effect::Faulty,
            Self::FailedRequest
            | Self::EmptyRequest
            | Self::NoPrompt
            | Self::NotARequest
            | Self::NoLength
            | Self::Unanswered => Effect::LeftOut,
            Self::OutOfOrder
            | Self::UnknownParent
            | Self::SameIdentity
            | Self::BlockCount
            | Self::CountedLength
            | Self::OutputLimit
            | Self::NoLimit
            | Self::Media
            | Self::Shorter => Effect::Noted,
        }
    }

    /// What it is, for a person.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotJson => "not JSON",
            Self::FieldCount => "more or fewer fields than the header",
            Self::BadField => "a field is missing or of a wrong type",
            Self::BadLength => "a length is no whole number up to 10000000",
            Self::BadInstant => "no instant since 1970",
            Self::LongLine => "longer than 16 MiB",
            Self::OpenQuote => "inside an open quote",
            Self::FailedRequest => "failed request: no output tokens",
            Self::EmptyRequest => "neither input nor output tokens",
            Self::NoPrompt => "output tokens and no prompt",
            Self::NotARequest => "no request to a language model",
            Self::NoLength => "neither lengths nor text",
            Self::Unanswered => "question without an answer",
            Self::OutOfOrder => "earlier than the row in front; put in its place",
            Self::UnknownParent => "continues a request that is not in the trace; begins a session",
            Self::SameIdentity => "identity of an earlier row; others continue the first",
            Self::BlockCount => "blocks do not fit the length of the prompt",
            Self::CountedLength => "length counted from text, an estimate",
            Self::OutputLimit => "output is the limit of the request, not what was produced",
            Self::NoLimit => "output unknown: the request has no limit",
            Self::Media => "image, sound or file in the prompt, not counted",
            Self::Shorter => "fewer rows than the first line says",
        }
    }
}

/// Where a fault was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The field, where one is at fault; else empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field: &'static str,
}

/// How often a kind was met, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows.
    pub rows: u64,
    /// The first few, in the order in which they were met.
    pub first: Vec<Place>,
}

/// All faults of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(BTreeMap<Kind, Tally>);

impl Faults {
    /// Counts one more.
    pub(super) fn add(&mut self, kind: Kind, line: u64, field: &'static str) {
        self.add_rows(kind, 1, Place { line, field });
    }

    /// Counts several rows that share a place.
    pub(super) fn add_rows(&mut self, kind: Kind, rows: u64, place: Place) {
        let tally = self.0.entry(kind).or_default();
        tally.rows = tally.rows.saturating_add(rows);
        if tally.first.len() < PLACES {
            tally.first.push(place);
        }
    }

    /// Takes over what an earlier reading counted; its lines are of another file.
    pub(super) fn inherit(&mut self, kind: Kind, rows: u64) {
        let tally = self.0.entry(kind).or_default();
        tally.rows = tally.rows.saturating_add(rows);
    }

    /// Every kind that was met.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &Tally)> {
        self.0.iter().map(|(kind, tally)| (*kind, tally))
    }

    /// Rows of one kind.
    pub fn rows(&self, kind: Kind) -> u64 {
        self.0.get(&kind).map_or(0, |tally| tally.rows)
    }

    /// Rows of all kinds with this effect. A row counts once for each kind.
    pub fn with(&self, effect: Effect) -> u64 {
        self.iter()
            .filter(|(kind, _)| kind.effect() == effect)
            .fold(0, |sum, (_, tally)| sum.saturating_add(tally.rows))
    }

    /// The kinds that were met in the file itself, whatever their effect, in words; what its first line hands down is
    /// not among them.
    pub fn of_this_file(&self) -> Vec<String> {
        self.iter().filter(|(_, tally)| !tally.first.is_empty()).map(|(kind, tally)| sentence(kind, tally)).collect()
    }

    /// The kinds with this effect in words: `not JSON: 2 (line 3, line 9)`.
    pub fn sentences(&self, effect: Effect) -> Vec<String> {
        self.iter().filter(|(kind, _)| kind.effect() == effect).map(|(kind, tally)| sentence(kind, tally)).collect()
    }
}

fn sentence(kind: Kind, tally: &Tally) -> String {
    let place = |place: &Place| match place.field {
        "" => format!("line {}", place.line),
        field => format!("line {}: {field}", place.line),
    };
    let mut places: Vec<String> = tally.first.iter().map(place).collect();
    if places.len() == PLACES && tally.rows > u64::try_from(PLACES).unwrap_or(u64::MAX) {
        places.push("...".to_owned());
    }
    let shown = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    format!("{}: {}{shown}", kind.words(), tally.rows)
}

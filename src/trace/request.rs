//! What a trace describes, whatever its format: requests, or windows of rates.

use crate::base::units::Nanos;
use crate::trace::formats::Format;

/// One request of a trace. It holds lengths and numbers, and no text of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it arrived, from the first request of the trace; zero where the trace has no instants.
    pub at: Nanos,
    /// Tokens of its prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens of its answer, at least 1; none where the trace does not tell.
    pub output_tokens: Option<u32>,
    /// Which session it belongs to, numbered from 0 by first appearance.
    pub session: Option<u32>,
    /// Its place in the session, from 1.
    pub turn: Option<u32>,
    /// The request that it continues: its position in the trace, always an earlier one.
    pub parent: Option<u32>,
    /// What kind of request it is: a position in [`Requests::classes`].
    pub class: Option<u16>,
    /// The blocks of its prompt, in order. Equal numbers are equal tokens after an equal beginning; numbered from 0 by
    /// first appearance.
    pub blocks: Vec<u64>,
}

/// The requests of a trace, in order of their arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// The format from which they first came; that of the file, except where it is the normal form.
    pub source: Format,
    /// Whether the trace says when requests arrived.
    pub arrivals: bool,
    /// Tokens of a block, where requests have blocks.
    pub block_tokens: Option<u32>,
    /// Names of the classes; words of servegate's own, or of its normal form.
    pub classes: Vec<String>,
    /// The requests.
    pub rows: Vec<Request>,
}

impl Requests {
    /// The name of the class of one of the requests.
    pub fn class(&self, row: &Request) -> Option<&str> {
        row.class.and_then(|class| self.classes.get(usize::from(class))).map(String::as_str)
    }
}

/// A stretch of time with one rate of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its begin, from the begin of the first window.
    pub at: Nanos,
    /// How long it lasts.
    pub length: Nanos,
    /// Requests per second.
    pub rate_per_s: f64,
    /// Coefficient of variation of the gaps between arrivals, as the source measured it.
    pub cv: f64,
    /// How the gaps are distributed; none where nothing arrives.
    pub gaps: Option<Gaps>,
}

/// A distribution of the gaps between arrivals, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Gamma.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale, in seconds.
        scale: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape.
        shape: f64,
        /// Scale, in seconds.
        scale: f64,
    },
}

/// What a trace describes.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Requests, one by one.
    Requests(Requests),
    /// Rates of arrivals, without lengths.
    Windows(Vec<Window>),
}

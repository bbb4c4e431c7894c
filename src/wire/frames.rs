//! Streams cut into events, whatever the framing: server-sent events or lines.

use crate::wire::lines::Lines;
use crate::wire::sse::Parser;

/// One event of a stream. For server-sent events an event without a `data` line is none, as the standard has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field; empty when the stream gave none. Lines have none.
    pub name: &'a [u8],
    /// The `data` lines, joined by line feeds; or the line. UTF-8 by the standards; that is for the reader to check.
    pub data: &'a [u8],
    /// Offset in the stream of the byte after the one that completed the event.
    pub end: u64,
}

/// A line or an event is longer than the limit. The rest of the stream cannot be read then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes (at byte {at} of the stream)")]
pub struct Oversized {
    /// The limit in bytes.
    pub limit: usize,
    /// Offset in the stream of the line that is too long, or of the end of the one that is too many.
    pub at: u64,
}

/// An incremental framer of one stream.
pub(super) enum Frames {
    /// Server-sent events.
    Events(Parser),
    /// One JSON text a line.
    Lines(Lines),
}

impl Frames {
    /// Server-sent events of at most `limit` bytes.
    pub(super) const fn events(limit: usize) -> Self {
        Self::Events(Parser::new(limit))
    }

    /// Lines of at most `limit` bytes.
    pub(super) const fn lines(limit: usize) -> Self {
        Self::Lines(Lines::new(limit))
    }

    /// Takes bytes from the front of `input`, up to the end of the next event or all of them.
    ///
    /// # Errors
    /// [`Oversized`] when a line or an event passes the limit.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event<'_>>, Oversized> {
        match self {
            Self::Events(parser) => parser.next_event(input),
            Self::Lines(lines) => lines.next_line(input),
        }
    }

    /// What the stream ended in, where that is not an event's own end.
    ///
    /// # Errors
    /// [`Oversized`] as before.
    pub(super) fn finish(&mut self) -> Result<Option<Event<'_>>, Oversized> {
        match self {
            Self::Events(parser) => parser.finish(),
            Self::Lines(lines) => Ok(lines.finish()),
        }
    }

    /// Whether this looks like a stream of this framing at all.
    pub(super) const fn recognised(&self) -> bool {
        match self {
            Self::Events(parser) => parser.recognised(),
            Self::Lines(lines) => lines.recognised(),
        }
    }
}

//! Streams cut into events, whatever the framing: server-sent events or lines.

use crate::wire::event::{Event, Oversized};
use crate::wire::lines::Lines;
use crate::wire::sse::Parser;

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

    /// Whether a line has begun and not ended: where the stream ends here, it ended inside of something. A comment says
    /// nothing, whole or not.
    pub(super) fn is_inside(&self) -> bool {
        match self {
            Self::Events(parser) => parser.is_inside(),
            Self::Lines(lines) => lines.is_inside(),
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

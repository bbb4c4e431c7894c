//! One event of a stream, whatever the framing.

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

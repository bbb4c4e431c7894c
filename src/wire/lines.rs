//! Newline-delimited JSON, cut into lines from bytes as they arrive.
//!
//! Lines end with LF; a CR before it is white space to JSON and cut off. Blank lines are none. Input may be split
//! anywhere: the lines and their offsets are the same for every split. Each byte is looked at once and copied once,
//! so the cost is linear; no more is held than one line within the limit.

use crate::wire::event::{Event, Oversized};

/// An incremental framer of one stream.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    /// Bytes taken so far.
    taken: u64,
    /// The line that has begun and not ended, or that was handed out.
    line: Vec<u8>,
    /// `line` was handed out and makes room for the next.
    handed_out: bool,
    recognised: bool,
}

impl Lines {
    /// A framer at the start of a stream that refuses lines of more than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, taken: 0, line: Vec::new(), handed_out: false, recognised: false }
    }

    /// Takes bytes from the front of `input`, up to the end of the next line or all of them.
    ///
    /// # Errors
    /// [`Oversized`] when a line passes the limit.
    pub fn next_line(&mut self, input: &mut &[u8]) -> Result<Option<Event<'_>>, Oversized> {
        self.make_room();
        while let Some(length) = input.iter().position(|byte| *byte == b'\n') {
            self.extend(input, length)?;
            *input = input.get(1..).unwrap_or_default();
            self.taken = self.taken.saturating_add(1);
            if self.line.trim_ascii().is_empty() {
                self.line.clear();
            } else {
                return Ok(Some(self.hand_out()));
            }
        }
        self.extend(input, input.len())?;
        Ok(None)
    }

    /// The line that the stream ended in before its line feed: whole or cut, that is for the reader to see.
    pub fn finish(&mut self) -> Option<Event<'_>> {
        self.make_room();
        if self.line.trim_ascii().is_empty() { None } else { Some(self.hand_out()) }
    }

    /// Whether a line has begun and not ended.
    pub fn is_inside(&self) -> bool {
        !self.handed_out && !self.line.trim_ascii().is_empty()
    }

    /// Whether a line came that may be a JSON object.
    pub const fn recognised(&self) -> bool {
        self.recognised
    }

    fn extend(&mut self, input: &mut &[u8], length: usize) -> Result<(), Oversized> {
        let begun = self.line.len();
        if begun.saturating_add(length) > self.limit {
            let begun = u64::try_from(begun).unwrap_or(u64::MAX);
            return Err(Oversized { limit: self.limit, at: self.taken.saturating_sub(begun) });
        }
        let (head, rest) = input.split_at_checked(length).unwrap_or((input, &[]));
        self.line.extend_from_slice(head);
        *input = rest;
        self.taken = self.taken.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        Ok(())
    }

    fn hand_out(&mut self) -> Event<'_> {
        self.handed_out = true;
        let data = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        self.recognised |= data.trim_ascii_start().starts_with(b"{");
        Event { name: &[], data, end: self.taken }
    }

    fn make_room(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Cut = (Vec<(Vec<u8>, u64)>, Option<Vec<u8>>);

    /// The lines of pieces with their ends, and the one left over.
    fn cut(pieces: &[&[u8]]) -> Cut {
        let mut framer = Lines::new(1 << 16);
        let mut lines = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(line) = framer.next_line(&mut piece).unwrap() {
                lines.push((line.data.to_vec(), line.end));
            }
        }
        (lines, framer.finish().map(|line| line.data.to_vec()))
    }

    #[test]
    fn lines_end_with_a_line_feed_and_blank_ones_are_none() {
        let (lines, rest) = cut(&[b"{}\r\n\n \t\r\n{\"a\":\"\xe2\x82\xac\"}\n{\"half\""]);
        let texts: Vec<&[u8]> = lines.iter().map(|(line, _)| line.as_slice()).collect();
        assert_eq!(texts, [b"{}".as_slice(), b"{\"a\":\"\xe2\x82\xac\"}"]);
        assert_eq!(lines.iter().map(|(_, end)| *end).collect::<Vec<_>>(), [4, 21]);
        assert_eq!(rest.as_deref(), Some(b"{\"half\"".as_slice()));
        assert_eq!(cut(&[b"{}\n  "]).1, None);
    }

    #[test]
    fn a_line_is_refused_at_the_same_byte_wherever_it_is_split() {
        let stream = [b"{}\n".as_slice(), &[b'x'; 100]].concat();
        for size in [1, 7, stream.len()] {
            let mut framer = Lines::new(64);
            let found = stream.chunks(size).find_map(|mut piece| {
                loop {
                    match framer.next_line(&mut piece) {
                        Ok(Some(_)) => {}
                        Ok(None) => break None,
                        Err(error) => break Some(error),
                    }
                }
            });
            assert_eq!(found, Some(Oversized { limit: 64, at: 3 }));
        }
    }

    #[test]
    fn a_long_line_in_small_pieces_costs_its_length_and_never_more_than_the_limit() {
        let mut framer = Lines::new(64 << 20);
        for _ in 0..4 << 20 {
            assert!(framer.next_line(&mut [b'x'; 16].as_slice()).unwrap().is_none());
        }
        assert_eq!(framer.next_line(&mut b"\n".as_slice()).unwrap().unwrap().data.len(), 64 << 20);
        let mut framer = Lines::new(1 << 20);
        let taken = (0..4 << 20).take_while(|_| framer.next_line(&mut [b'x'; 16].as_slice()).is_ok()).count();
        assert_eq!((taken, framer.line.len()), (1 << 16, 1 << 20));
        assert!(framer.line.capacity() <= 2 << 20);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_lines(
            parts in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..6),
                    proptest::sample::select(vec!["{}", "\r", "\n", "\r\n", " ", "é"])
                        .prop_map(|text| text.as_bytes().to_vec()),
                ],
                0..40,
            ),
            size in 1_usize..9,
        ) {
            let stream = parts.concat();
            prop_assert_eq!(cut(&stream.chunks(size).collect::<Vec<_>>()), cut(&[stream.as_slice()]));
            prop_assert_eq!(cut(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()), cut(&[stream.as_slice()]));
        }
    }
}

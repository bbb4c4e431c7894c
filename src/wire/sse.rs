//! Server-sent events, parsed from bytes as they arrive: the event stream format of the WHATWG HTML
//! standard (section 9.2.6), without its reconnection (`id` and `retry` mean nothing to one request).
//!
//! Lines end with CR, LF or CRLF; a byte order mark, comments and unknown fields are skipped, but for `error`: older
//! servers of llama.cpp write `error: {...}` in place of an event of this name. Input may
//! be split anywhere: the events and their offsets are the same for every split. Each byte is looked at
//! once and copied once, so the cost is linear; no more is held than a line and an event within the limit.

use crate::wire::event::{Event, Oversized};

/// Where the next byte stands, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the first line, which may begin with a byte order mark.
    FirstLine,
    /// After the CR that ended a line; a LF now belongs to it.
    AfterCr,
    Elsewhere,
}

/// An incremental parser of one stream.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    /// Bytes taken so far.
    taken: u64,
    /// The line that has begun and not ended.
    line: Vec<u8>,
    name: Vec<u8>,
    /// Each data line with a line feed after it.
    data: Vec<u8>,
    place: Place,
    /// `name` and `data` were handed out and make room for the next event.
    handed_out: bool,
    recognised: bool,
}

impl Parser {
    /// A parser at the start of a stream that refuses events of more than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: 0,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            place: Place::FirstLine,
            handed_out: false,
            recognised: false,
        }
    }

    /// Takes bytes from the front of `input`, up to the end of the next event or all of them.
    ///
    /// # Errors
    /// [`Oversized`] when a line or an event passes the limit.
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<Event<'_>>, Oversized> {
        self.make_room();
        self.skip_line_feed(input);
        while let Some(length) = input.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.begin_line(input, length)?;
            let end = self.take(input, 1);
            let dispatched = self.end_line()?;
            self.place = if end == b"\r" { Place::AfterCr } else { Place::Elsewhere };
            if dispatched {
                return Ok(Some(self.hand_out()));
            }
            self.skip_line_feed(input);
        }
        self.begin_line(input, input.len())?;
        Ok(None)
    }

    /// The event that the stream ended in before its blank line. The standard drops it; some servers
    /// leave out the last line's end, so the reader decides whether it is whole.
    ///
    /// # Errors
    /// [`Oversized`] as before.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, Oversized> {
        self.make_room();
        let complete = self.end_line()? || !self.data.is_empty();
        Ok(complete.then(|| self.hand_out()))
    }

    /// Whether a line has begun and not ended, unless it is a comment.
    pub fn is_inside(&self) -> bool {
        self.line.first().is_some_and(|byte| *byte != b':')
    }

    /// Whether any line so far was a comment or one of the standard's fields: whether this looks like
    /// an event stream at all.
    pub const fn recognised(&self) -> bool {
        self.recognised
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], length: usize) -> &'i [u8] {
        let (head, rest) = input.split_at_checked(length).unwrap_or((input, &[]));
        *input = rest;
        self.taken = self.taken.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        head
    }

    /// Skips the LF of a CRLF, whose CR has ended the line already.
    fn skip_line_feed(&mut self, input: &mut &[u8]) {
        let Some(next) = input.first() else { return };
        if self.place == Place::AfterCr {
            self.place = Place::Elsewhere;
            if *next == b'\n' {
                self.take(input, 1);
            }
        }
    }

    fn begin_line(&mut self, input: &mut &[u8], length: usize) -> Result<(), Oversized> {
        if self.line.len().saturating_add(length) > self.limit {
            let begun = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
            return Err(Oversized { limit: self.limit, at: self.taken.saturating_sub(begun) });
        }
        let bytes = self.take(input, length);
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Interprets the finished line; true when it dispatches an event.
    fn end_line(&mut self) -> Result<bool, Oversized> {
        let mut line = self.line.as_slice();
        if self.place == Place::FirstLine {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.line.clear();
            if self.data.is_empty() {
                self.name.clear();
            }
            return Ok(!self.data.is_empty());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':').and_then(|at| line.split_at_checked(at)) {
            Some((field, value)) => (field, value.get(1..).unwrap_or_default()),
            None => (line, [].as_slice()),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" | b"error" if self.data.len().saturating_add(value.len()) >= self.limit => {
                return Err(Oversized { limit: self.limit, at: self.taken });
            }
            b"data" | b"error" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
                if field == b"error" {
                    self.name.clear();
                    self.name.extend_from_slice(field);
                }
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
        self.recognised |= matches!(field, b"data" | b"event" | b"id" | b"retry" | b"error" | b"");
        self.line.clear();
        Ok(false)
    }

    fn hand_out(&mut self) -> Event<'_> {
        self.handed_out = true;
        let data = self.data.strip_suffix(b"\n").unwrap_or(&self.data);
        Event { name: &self.name, data, end: self.taken }
    }

    fn make_room(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.name.clear();
            self.data.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::recorded_tests::shared;

    type Owned = (String, String, u64);

    /// The events of pieces, and the one left over at the end.
    fn parse(pieces: &[&[u8]]) -> (Vec<Owned>, Option<String>) {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut parser = Parser::new(1 << 16);
        let mut events = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(event) = parser.next_event(&mut piece).unwrap() {
                events.push((lossy(event.name), lossy(event.data), event.end));
            }
        }
        let rest = parser.finish().unwrap().map(|event| lossy(event.data));
        (events, rest)
    }

    fn data(stream: &[u8]) -> Vec<String> {
        parse(&[stream]).0.into_iter().map(|(_, data, _)| data).collect()
    }

    #[test]
    fn fields_follow_the_standard() {
        assert_eq!(data(b"data: a\n\ndata:b\n\ndata:  c\n\n"), ["a", "b", " c"]);
        assert_eq!(data(b"data: a\ndata: b\ndata\n\n"), ["a\nb\n"]);
        assert_eq!(data(b"data\n\ndata:\n\n"), ["", ""]);
        assert_eq!(data(b": note\n\nid: 1\nretry: 5\nx: y\nDATA: no\n data: no\n\ndata: a:b\n\n"), ["a:b"]);
        assert_eq!(data(b"\xef\xbb\xbfdata: bom\n\n\xef\xbb\xbfdata: only at the start\n\n"), ["bom"]);
        let (events, rest) =
            parse(&[b"event: lost\n\nevent: x\nevent: error\ndata: 1\n\ndata: 2\n\ndata: half".as_slice()]);
        assert_eq!(events, [("error".into(), "1".into(), 44), (String::new(), "2".into(), 53)]);
        assert_eq!(rest.as_deref(), Some("half"));
    }

    #[test]
    fn an_event_is_complete_at_the_first_byte_that_ends_its_blank_line() {
        for (stream, end) in [("data: a\n\n", 9), ("data: a\r\r", 9), ("data: a\r\n\r\n", 10), ("data: a\r\n\n", 10)] {
            let (events, rest) = parse(&[stream.as_bytes()]);
            assert_eq!((events.len(), events[0].2, rest), (1, end, None), "{stream:?}");
        }
    }

    #[test]
    fn every_split_of_small_streams_gives_the_same_events() {
        let streams: [&[u8]; 5] = [
            b"\xef\xbb\xbfdata: a\r\n\r\n: c\r\ndata: b\r\n\r\n",
            b"data: \xe2\x82\xac\xf0\x9f\x9a\x80\ndata\n\nevent: error\rdata: {}\r\rdata: [DONE]\n\n",
            b"\r\n\n\r\rdata:x\n\rdata:y\r\n\r",
            b"\xef\xbbdata: not a mark\n\ndata: z\n\nid\n:\n\ndata",
            b"data: \xff\xfe\n\n",
        ];
        for stream in streams {
            let whole = parse(&[stream]);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                    assert_eq!(parse(&pieces), whole, "{first} {second} {:?}", String::from_utf8_lossy(stream));
                }
            }
            assert_eq!(parse(&stream.chunks(1).collect::<Vec<_>>()), whole);
        }
    }

    #[test]
    fn long_lines_and_events_are_refused_wherever_they_are_split() {
        let line = [b"data: ".as_slice(), &[b'x'; 100]].concat();
        let many = b"data: xxxxxxxx\n".repeat(12);
        for (stream, at) in [(line, 0), (many, 120)] {
            let mut found_at = Vec::new();
            for size in [1, 7, stream.len()] {
                let mut parser = Parser::new(64);
                let found = stream.chunks(size).find_map(|mut piece| parser.next_event(&mut piece).err());
                found_at.push(found.unwrap().at);
            }
            assert_eq!(found_at, [at; 3]);
        }
    }

    /// Base64, for the recorded vectors.
    fn decode(text: &str) -> Vec<u8> {
        const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits: Vec<usize> = text.chars().filter_map(|c| DIGITS.find(c)).collect();
        let bytes = digits.chunks(4).flat_map(|four| {
            let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
            [bits >> 16, bits >> 8, bits].into_iter().take(four.len() - 1)
        });
        bytes.map(|bits| u8::try_from(bits & 0xff).unwrap()).collect()
    }

    /// Streams of real servers, changed in ten ways, with the events that another parser saw in them.
    #[test]
    fn recorded_vectors_agree_with_another_parser() {
        let Some(vectors) = shared("data/streams/mutations/vectors.jsonl") else { return };
        for line in String::from_utf8(vectors).unwrap().lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let stream = decode(vector["bytes_b64"].as_str().unwrap());
            let expected: Vec<(&str, &str)> = (vector["events"].as_array().unwrap().iter())
                .map(|event| (event["event"].as_str().unwrap_or_default(), event["data"].as_str().unwrap()))
                .collect();
            let (events, _) = parse(&[stream.as_slice()]);
            let mut found: Vec<(&str, &str)> =
                events.iter().map(|(name, data, _)| (name.as_str(), data.as_str())).collect();
            if stream.ends_with(b"\r") && found.len() == expected.len() + 1 {
                // The other parser waits after a CR at the end of the stream in case a LF follows.
                found.pop();
            }
            assert_eq!(found, expected, "{} {}", vector["src"], vector["mutation"]);
            assert_eq!(parse(&stream.chunks(7).collect::<Vec<_>>()).0, events);
        }
    }

    /// The standard's algorithm on a whole stream, as written there: decode, split into lines, take each line.
    fn by_the_book(stream: &[u8]) -> Vec<(String, String)> {
        let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
        let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
        let Some((lines, _unended)) = text.rsplit_once('\n') else { return Vec::new() };
        let (mut name, mut data, mut events) = (String::new(), String::new(), Vec::new());
        for line in lines.split('\n') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() => {
                    if let Some(data) = data.strip_suffix('\n') {
                        events.push((name.clone(), data.to_owned()));
                    }
                    name.clear();
                    data.clear();
                }
                "event" => value.clone_into(&mut name),
                "data" => {
                    data.push_str(value);
                    data.push('\n');
                }
                _ => {}
            }
        }
        events
    }

    /// 64 MiB in pieces of 16 bytes. Were any of it looked at twice for each piece, this would take days.
    #[test]
    fn a_long_line_in_small_pieces_costs_its_length_and_never_more_than_the_limit() {
        let mut parser = Parser::new(65 << 20);
        assert!(parser.next_event(&mut b"data: ".as_slice()).unwrap().is_none());
        for _ in 0..4 << 20 {
            assert!(parser.next_event(&mut [b'x'; 16].as_slice()).unwrap().is_none());
        }
        assert_eq!(parser.next_event(&mut b"\n\n".as_slice()).unwrap().unwrap().data.len(), 64 << 20);
        let mut parser = Parser::new(1 << 20);
        let taken = (0..4 << 20).take_while(|_| parser.next_event(&mut [b'x'; 16].as_slice()).is_ok()).count();
        assert_eq!((taken, parser.line.len()), (1 << 16, 1 << 20));
        assert!(parser.line.capacity() <= 2 << 20);
    }

    #[test]
    fn files_of_other_parsers_give_their_events() {
        for (file, count) in [
            ("one-event.sse", 1),
            ("one-event-crlf.sse", 1),
            ("two-events.sse", 2),
            ("two-events-crlf.sse", 2),
            ("sseer_mixed.sse", 0),
        ] {
            let Some(stream) = shared(&format!("data/streams/parser_vectors/{file}")) else { continue };
            let (events, _) = parse(&[&stream]);
            let events: Vec<_> = events.into_iter().map(|(name, data, _)| (name, data)).collect();
            assert_eq!(events, by_the_book(&stream), "{file}");
            assert!(count == 0 || events.len() == count, "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_stream_gives_the_events_of_the_standards_algorithm(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "data", "data: a", "data:b", "event", "event: e", ":", ": c", " ", "\r", "\n", "\r\n", "\n\n", "\u{feff}",
                    "é", "id: 1", "x",
                ]),
                0..60,
            ),
        ) {
            let stream = parts.concat().into_bytes();
            let (events, _) = parse(&[&stream]);
            let events: Vec<_> = events.into_iter().map(|(name, data, _)| (name, data)).collect();
            prop_assert_eq!(events, by_the_book(&stream));
        }

        #[test]
        fn any_bytes_in_any_pieces_give_the_same_events(
            parts in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..6),
                    proptest::sample::select(vec!["data", ":", " ", "\r", "\n", "\r\n", "event", "\u{feff}", "é"])
                        .prop_map(|text| text.as_bytes().to_vec()),
                ],
                0..40,
            ),
            size in 1_usize..9,
        ) {
            let stream = parts.concat();
            prop_assert_eq!(parse(&stream.chunks(size).collect::<Vec<_>>()), parse(&[stream.as_slice()]));
            prop_assert_eq!(parse(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()), parse(&[stream.as_slice()]));
        }
    }
}

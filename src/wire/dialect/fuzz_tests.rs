//! The fuzz targets, driven by generated streams and by mutations of whole ones: bounded, a few seconds in all.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::base::names::Api;
use crate::base::rng::Stream;
use crate::wire::dialect::recorded_tests::{body, recordings};
use crate::wire::dialect::streams_tests::{WHOLE, pieces};
use crate::wire::fuzz::{check_body, check_stream};

/// Text that breaks parsers.
const SNIPPETS: [&str; 22] = [
    "\n",
    "\r",
    "\r\n\r\n",
    "\n\n",
    "data: ",
    "data",
    "event: error\n",
    ": x\n",
    "[DONE]",
    "null",
    "-1",
    "1e400",
    "4294967296",
    "\"",
    "{",
    "}",
    "]",
    "\\ud800",
    "\u{feff}",
    "é",
    "{\"error\":{\"message\":\"x\\u0000y\"}}",
    "\u{0}",
];

/// One change of a stream.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, &'static str),
    Remove(Index, usize),
    Repeat(Index, usize),
    Flip(Index, u8),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), select(SNIPPETS.to_vec())).prop_map(|(at, text)| Change::Insert(at, text)),
        (any::<Index>(), 1_usize..40).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), 1_usize..200).prop_map(|(at, length)| Change::Repeat(at, length)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        any::<Index>().prop_map(Change::Cut),
    ]
}

fn changed(mut stream: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if stream.is_empty() {
            return stream;
        }
        let length = stream.len();
        let range = |at: &Index, size: usize| at.index(length)..(at.index(length) + size).min(length);
        match change {
            Change::Insert(at, text) => drop(stream.splice(range(at, 0), text.bytes())),
            Change::Remove(at, size) => drop(stream.drain(range(at, *size))),
            Change::Repeat(at, size) => {
                let piece = stream[range(at, *size)].to_vec();
                drop(stream.splice(range(at, 0), piece));
            }
            Change::Flip(at, byte) => stream[at.index(length)] = *byte,
            Change::Cut(at) => stream.truncate(at.index(length)),
        }
    }
    stream
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn changed_streams_of_every_interface_keep_the_rules(
        changes in proptest::collection::vec(change(), 0..4), piece in 1_usize..60, status in select(vec![200, 200, 200, 429, 500]),
    ) {
        for (api, events) in WHOLE {
            let stream = changed(pieces(api, events).concat().into_bytes(), &changes);
            check_stream(api, &stream, piece, status).map_err(|broken| TestCaseError::fail(format!("{api}: {broken}")))?;
        }
    }

    #[test]
    fn any_bytes_keep_the_rules_in_every_interface(
        parts in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..8),
                select(SNIPPETS.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
                (any::<Index>(), any::<Index>()).prop_map(|(api, event)| {
                    let (api, events) = api.get(&WHOLE);
                    pieces(*api, &[*event.get(events)]).concat().into_bytes()
                }),
            ],
            0..12,
        ),
        piece in 1_usize..60,
    ) {
        check_body(&parts.concat(), piece).map_err(TestCaseError::fail)?;
    }
}

/// What is wrong with an event may show after its content was read.
#[test]
fn content_in_an_event_that_turns_out_malformed_is_no_chunk_and_no_first_answer() {
    let stream = "data: {\"text_output\":\"a b\",\"num_input_tokens\":\"nine\"}\n\n";
    for piece in 1..stream.len() {
        assert_eq!(check_stream(Api::Triton, stream.as_bytes(), piece, 200), Ok(()));
    }
}

/// Recorded streams, where they are at hand, each with a few changes from a fixed stream of random numbers.
#[test]
fn changed_recordings_keep_the_rules() {
    let mut random = Stream::named(7, "changed recordings");
    let mut below = |limit: usize| usize::try_from(random.bits() >> 33).unwrap() % limit.max(1);
    for (file, api) in recordings() {
        let Some(stream) = body(file, api).filter(|body| body.len() < 40_000) else { continue };
        let mut changed = stream;
        for _ in 0..3 {
            let at = below(changed.len());
            let snippet = SNIPPETS[below(SNIPPETS.len())];
            match below(3) {
                0 => drop(changed.splice(at..at, snippet.bytes())),
                1 => changed.truncate(changed.len() - below(200).min(changed.len())),
                _ => drop(changed.drain(at..(at + below(60)).min(changed.len()))),
            }
            let broken = check_stream(api, &changed, 1 + below(90), 200);
            assert_eq!(broken, Ok(()), "{file}");
        }
        let foreign = Api::ALL[below(Api::ALL.len())];
        assert_eq!(check_stream(foreign, &changed, 1 + below(90), 200), Ok(()), "{file} as {foreign}");
    }
}

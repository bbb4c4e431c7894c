//! What must hold for every file whatsoever: nothing panics, what is read keeps its laws, and no text survives.

use proptest::prelude::*;

use crate::base::units::Nanos;
use crate::trace::faults::Effect;
use crate::trace::normal::write;
use crate::trace::request::{Requests, Traffic};
use crate::trace::testing::{reading, sample};
use crate::trace::{Format, MAX_TOKENS, read, tokens};

/// Pieces that readers stumble over.
const PIECES: &[&str] = &[
    "\"",
    ",",
    "\n",
    "\r\n",
    "{",
    "}",
    "[",
    "]",
    "-",
    "-1",
    "1e999",
    "0",
    ".5",
    "NaN",
    "null",
    "true",
    "\\",
    "\\u0000",
    "\u{feff}",
    "\u{0}",
    "18446744073709551616",
    "9999999999",
    "\"\"",
    "\u{1f642}",
    ":",
    " ",
    "\t",
    "2023-11-16 18:15:46",
    "{}",
    "[[[[[[[[",
];

/// What holds for requests of any trace.
fn check(requests: &Requests) -> Result<(), TestCaseError> {
    prop_assert!(requests.rows.is_sorted_by_key(|row| row.at));
    prop_assert_eq!(requests.rows[0].at, Nanos::ZERO);
    let (mut sessions, mut blocks) = (0, 0);
    for (position, row) in requests.rows.iter().enumerate() {
        prop_assert!((1..=MAX_TOKENS).contains(&row.prompt_tokens) || requests.source != Format::Servegate);
        prop_assert!(row.prompt_tokens > 0 && row.output_tokens != Some(0));
        prop_assert!(row.parent.is_none_or(|parent| usize::try_from(parent).unwrap() < position));
        prop_assert!(row.class.is_none_or(|class| usize::from(class) < requests.classes.len()));
        prop_assert!(row.session.is_none_or(|session| session <= sessions));
        sessions = sessions.max(row.session.map_or(0, |session| session + 1));
        for block in &row.blocks {
            prop_assert!(*block <= blocks);
            blocks = blocks.max(block + 1);
        }
    }
    Ok(())
}

/// Reads as everything; checks what comes out.
fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    for format in Format::ALL.map(Some).into_iter().chain([None]) {
        match read("trace", bytes, format, &tokens::estimate) {
            Ok(found) => {
                if let Traffic::Requests(requests) = &found.traffic {
                    check(requests)?;
                    let written = write(&found).unwrap();
                    let again = read("trace", &written, None, &tokens::estimate).unwrap();
                    prop_assert_eq!(again.faults.with(Effect::LeftOut), found.faults.with(Effect::LeftOut));
                    prop_assert_eq!(write(&again).unwrap(), written);
                }
            }
            Err(refused) => {
                prop_assert!(!refused.to_string().is_empty());
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_changed_trace_is_read_or_refused(
        format in prop::sample::select(&Format::ALL[..]),
        changes in prop::collection::vec((0_usize..2_000, 0_usize..12, prop::sample::select(PIECES)), 1..6),
    ) {
        let mut bytes = sample(format, "word").into_bytes();
        for (place, cut, piece) in changes {
            let at = place % (bytes.len() + 1);
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        check_bytes(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&bytes)?;
        check_bytes(&[b"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6}\n", &bytes[..]].concat())?;
        check_bytes(&[b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n", &bytes[..]].concat())?;
    }

    #[test]
    fn no_text_of_a_trace_survives(
        format in prop::sample::select(&Format::ALL[..]),
        word in "zq[a-z]{6,20}",
        cut in 0_usize..3_000,
    ) {
        let text = sample(format, &word);
        let found = reading(&text);
        prop_assert!(!format!("{found:?}").contains(&word), "{found:?}");
        if matches!(found.traffic, Traffic::Requests(_)) {
            prop_assert!(!String::from_utf8(write(&found).unwrap()).unwrap().contains(&word));
        }
        // Nor does a message about a broken file repeat it.
        let broken = text.as_bytes().get(..cut % text.len()).unwrap();
        for named in Format::ALL.map(Some).into_iter().chain([None]) {
            let told = format!("{:?}", read("trace", broken, named, &tokens::estimate));
            prop_assert!(!told.contains(&word), "{told}");
        }
    }
}

#[test]
fn depth_and_breadth_are_bounded() {
    let deep = format!(
        "{{\"custom_id\": \"a\", \"body\": {{\"messages\": {}1{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let open = "[".repeat(1_000_000);
    let row = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6, \"x\": ";
    let nested = format!("{row}{}{}}}\n", "{\"a\":".repeat(100_000), "1".to_owned() + &"}".repeat(100_000));
    let quotes = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{}", "\"\n".repeat(10_000));
    let long = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{}", ",".repeat(1_000_000));
    let parents: Vec<String> = (1..2_000)
        .map(|id| {
            format!(
                "{{\"span_id\": \"{id}\", \"parent_span_id\": \"{}\", \"attributes\": {{}}}}",
                if id == 1_999 { 1 } else { id + 1 }
            )
        })
        .collect();
    for text in [deep, open, nested, quotes, long, parents.join("\n")] {
        check_bytes(text.as_bytes()).unwrap();
    }
}

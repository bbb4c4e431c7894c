//! The normal form of servegate, as [`crate::trace::normal`] writes it.

use crate::base::units::Nanos;
use crate::trace::collect::{Collector, Link};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::items::{Items, row};
use crate::trace::normal::{Header, Line, VERSION};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::{Input, MAX_TOKENS};

const FIELDS: &str = "at_us, prompt_tokens, and no other keys than those of the normal form";
/// Longest name of a class, in bytes.
const MAX_CLASS: usize = 40;

pub(super) const MARKS: Marks = Marks::FirstKey("servegate_trace");

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let items = Items::of(input)?;
    let first = items.first(1).first().and_then(|text| serde_json::from_str::<Header>(text).ok());
    let header = first.filter(|header| header.servegate_trace == VERSION);
    let header = header.ok_or_else(|| Refused::Version { name: input.name.to_owned() })?;
    collector.arrivals = header.arrivals;
    collector.source = Some(header.source);
    collector.inherited = header.lost.into_iter().chain(header.noted).collect();
    let (mut rows, mut last, mut begun) = (0_u64, 1, false);
    items.each(collector, |collector, line, text| {
        // The first line is the header.
        if !std::mem::replace(&mut begun, true) {
            return Ok(());
        }
        (rows, last) = (rows.saturating_add(1), line);
        let mut found: Line = row(text, FIELDS)?;
        // A trace has millions of them, and a vector that grew holds room for twice as many.
        found.blocks.shrink_to_fit();
        if found.prompt_tokens.max(found.output_tokens.unwrap_or(0)) > MAX_TOKENS {
            return Err((Kind::BadLength, FIELDS));
        }
        let class = match &found.class {
            None => None,
            Some(name) if is_plain(name) => collector.class(name, Some(name.clone())),
            Some(_) => return Err((Kind::BadField, "class")),
        };
        let request = Request {
            at: Nanos::from_micros(found.at_us),
            prompt_tokens: found.prompt_tokens,
            output_tokens: found.output_tokens,
            session: found.session,
            turn: found.turn,
            parent: None,
            class,
            blocks: found.blocks,
        };
        // Parents are positions among the requests, which begin on the second line.
        let own = u32::try_from(line.saturating_sub(2)).ok();
        collector.request(line, request, Link { own, parent: found.parent });
        Ok(())
    })?;
    if header.requests.is_some_and(|requests| requests > rows) {
        collector.faults.add(Kind::Shorter, last, "");
    }
    // Only now: what does not fit was noted when the source was read.
    collector.block_tokens = header.block_tokens;
    Ok(())
}

/// A name that cannot be a piece of text: lower-case letters, digits, `-`, `_` and `.`.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_CLASS).contains(&name.len()) && name.bytes().all(plain)
}

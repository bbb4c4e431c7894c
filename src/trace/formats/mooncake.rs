//! Mooncake (`timestamp` in ms, `input_length`, `output_length`, `hash_ids` of 512-token blocks). Arrivals come in ticks of
//! the service's log.

use serde::Deserialize;

use crate::trace::Input;
use crate::trace::collect::{Collector, Link};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::items::{Items, row};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::{MAX_TOKENS, instant};

const FIELDS: &str = "timestamp, input_length, output_length, hash_ids";
const BLOCK_TOKENS: u32 = 512;

pub(super) const MARKS: Marks = Marks::Keys(&[&["timestamp", "input_length", "output_length"]]);

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    collector.block_tokens = Some(BLOCK_TOKENS);
    Items::of(input)?.each(collector, |collector, line, text| {
        let found: Line = row(text, FIELDS)?;
        if found.input_length.max(found.output_length) > MAX_TOKENS {
            return Err((Kind::BadLength, FIELDS));
        }
        let request = Request {
            at: instant::millis(found.timestamp).ok_or((Kind::BadInstant, "timestamp"))?,
            prompt_tokens: found.input_length,
            output_tokens: Some(found.output_length),
            blocks: found.hash_ids,
            ..Request::default()
        };
        collector.request(line, request, Link::default());
        Ok(())
    })
}

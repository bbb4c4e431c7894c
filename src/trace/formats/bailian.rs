//! Qwen-Bailian (`chat_id`, `parent_chat_id` with -1 for a root, `timestamp` in s, `input_length`, `output_length`, `type`,
//! `turn`, `hash_ids` of 16-token blocks). A session is a root with all that continue it.

use serde::Deserialize;

use crate::trace::Input;
use crate::trace::collect::{Collector, Link, Numbers};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::items::{Items, row};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::{MAX_TOKENS, instant};

const FIELDS: &str = "chat_id, parent_chat_id, timestamp, input_length, output_length, type, turn, hash_ids";
const BLOCK_TOKENS: u32 = 16;
const ROOT: i64 = -1;
/// The words of the published files.
const TYPES: &[&str] = &["text", "search", "image", "file"];

pub(super) const MARKS: Marks =
    Marks::Keys(&[&["chat_id", "parent_chat_id", "timestamp", "input_length", "output_length"]]);

#[derive(Deserialize)]
struct Line {
    chat_id: i64,
    parent_chat_id: i64,
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    turn: Option<u32>,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    collector.block_tokens = Some(BLOCK_TOKENS);
    let mut chats = Numbers::default();
    Items::of(input)?.each(collector, |collector, line, text| {
        let found: Line = row(text, FIELDS)?;
        if found.input_length.max(found.output_length) > MAX_TOKENS {
            return Err((Kind::BadLength, FIELDS));
        }
        let known = TYPES.iter().find(|word| **word == found.kind).map(|word| (*word).to_owned());
        let request = Request {
            at: instant::seconds(found.timestamp).ok_or((Kind::BadInstant, "timestamp"))?,
            prompt_tokens: found.input_length,
            output_tokens: Some(found.output_length),
            turn: found.turn,
            class: if found.kind.is_empty() { None } else { collector.class(&found.kind, known) },
            blocks: found.hash_ids,
            ..Request::default()
        };
        let parent = (found.parent_chat_id != ROOT).then(|| chats.of(found.parent_chat_id));
        collector.request(line, request, Link { own: Some(chats.of(found.chat_id)), parent });
        Ok(())
    })
}

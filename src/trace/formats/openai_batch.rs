//! The input of OpenAI's batch interface (`custom_id`, `method`, `url`, `body`): no instants, prompts counted from their
//! texts, and the limit of an answer in place of its length.

use serde::Deserialize;
use serde_json::Value;

use crate::trace::collect::{Collector, Link};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::items::{Items, row};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::tokens::Counted;
use crate::trace::{Input, MAX_TOKENS};

const FIELDS: &str = "custom_id, body with messages, prompt or input, max_tokens";

pub(super) const MARKS: Marks = Marks::Keys(&[&["custom_id", "body"]]);

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    url: String,
    body: Body,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    model: String,
    #[serde(default)]
    instructions: Value,
    #[serde(default)]
    messages: Value,
    #[serde(default)]
    prompt: Value,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    tools: Value,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
}

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    collector.arrivals = false;
    Items::of(input)?.each(collector, |collector, line, text| {
        let found: Line = row(text, FIELDS)?;
        if found.url.ends_with("/embeddings") || found.url.ends_with("/moderations") {
            collector.faults.add(Kind::NotARequest, line, "");
            return Ok(());
        }
        let body = found.body;
        let limit = body.max_completion_tokens.or(body.max_tokens).or(body.max_output_tokens);
        if limit.is_some_and(|limit| limit > MAX_TOKENS) {
            return Err((Kind::BadLength, "max_tokens"));
        }
        let mut counted = Counted::default();
        for part in [&body.instructions, &body.messages, &body.prompt, &body.input, &body.tools] {
            counted.add(part, collector.count());
        }
        if counted.tokens == 0 {
            collector.faults.add(Kind::NoLength, line, "");
            return Ok(());
        }
        let kinds = [
            (true, Kind::CountedLength),
            (counted.media, Kind::Media),
            (limit.is_some(), Kind::OutputLimit),
            (limit.is_none(), Kind::NoLimit),
        ];
        for (_, kind) in kinds.into_iter().filter(|(met, _)| *met) {
            collector.faults.add(kind, line, "");
        }
        let request = Request {
            prompt_tokens: counted.tokens,
            output_tokens: limit,
            class: if body.model.is_empty() { None } else { collector.class(&body.model, None) },
            ..Request::default()
        };
        collector.request(line, request, Link::default());
        Ok(())
    })
}

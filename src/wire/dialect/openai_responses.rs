//! OpenAI Responses: `POST /v1/responses` with `stream: true`. Every event names its type; the deltas hold the
//! answer, `response.completed` or `response.incomplete` ends it and counts its tokens.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::field::{Count, Listed, Text, text};
use crate::wire::dialect::messages::Talk;
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is the whole input; nothing is kept on the server.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/v1/responses"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"store":false,"stream":true,"temperature":0}"#,
        nested: None,
        length: "max_output_tokens",
        seed: None,
        prompt: ("input", "", ""),
        ids: None,
        talk: Some(Talk::Responses),
    },
    framing: Framing::Events,
    end: End::Own("response.completed"),
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    delta: Option<Text<'a>>,
    /// The tokens of a text delta, where log probabilities were asked for.
    logprobs: Option<Listed>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    input_tokens: Option<Count>,
    input_tokens_details: Option<Details>,
    output_tokens: Option<Count>,
    output_tokens_details: Option<Details>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Details {
    cached_tokens: Option<Count>,
    reasoning_tokens: Option<Count>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    let kind = text(event.kind.as_ref());
    let delta = text(event.delta.as_ref());
    let said = match kind {
        "response.output_text.delta" | "response.refusal.delta" => Said { answer: delta, ..Said::default() },
        "response.reasoning_text.delta" | "response.reasoning.delta" | "response.reasoning_summary_text.delta" => {
            Said { reasoning: delta, ..Said::default() }
        }
        // Tool calls by their deltas, and the call as such when it begins: its name is the first that a reader sees.
        "response.output_item.added" => {
            let item = event.item.as_ref().map_or("", |item| text(item.kind.as_ref()));
            Said { calls: item.ends_with("_call"), ..Said::default() }
        }
        kind if kind.rsplit('.').next() == Some("delta") => Said { calls: !delta.is_empty(), ..Said::default() },
        "error" | "response.failed" => return Err(Problem::Reported),
        "response.completed" | "response.incomplete" | "response.cancelled" => return end(answer, event.response),
        _ if event.error.is_some() => return Err(Problem::Reported),
        _ => Said::default(),
    };
    let content = answer.say(&said);
    let listed = event.logprobs.and_then(|list| list.0).filter(|length| *length > 0);
    answer.close(content, listed.map_or(Told::Nothing, Told::Fresh))
}

fn end(answer: &mut Answer, response: Option<Response<'_>>) -> Result<(), Problem> {
    answer.end_if(true);
    let Some(response) = response else { return Ok(()) };
    let reason = response.incomplete_details.as_ref().map_or("", |details| text(details.reason.as_ref()));
    answer.finished(if reason.is_empty() { text(response.status.as_ref()) } else { reason });
    let told = match response.usage {
        Some(usage) => answer.counts(Counts {
            prompt: count(usage.input_tokens, "input_tokens")?,
            cached: count(usage.input_tokens_details.unwrap_or_default().cached_tokens, "cached_tokens")?,
            output: count(usage.output_tokens, "output_tokens")?,
            reasoning: count(usage.output_tokens_details.unwrap_or_default().reasoning_tokens, "reasoning_tokens")?,
        }),
        None => Told::Nothing,
    };
    answer.close(false, told)
}

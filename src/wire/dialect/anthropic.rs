//! Anthropic messages: `POST /v1/messages` with `stream: true`, as Anthropic, vLLM, SGLang and llama.cpp give it.
//! Blocks begin, grow by deltas and stop; `message_delta` counts tokens and gives the reason, `message_stop` ends.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::field::{Count, Text, text};
use crate::wire::dialect::messages::Talk;
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is one user message. The API has no seed.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/v1/messages"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"stream":true,"temperature":0}"#,
        nested: None,
        length: "max_tokens",
        seed: None,
        prompt: ("messages", r#"[{"role":"user","content":"#, "}]"),
        ids: None,
        talk: Some(Talk::Anthropic),
    },
    framing: Framing::Events,
    end: End::Own("message_stop"),
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    message: Option<Message>,
    #[serde(borrow)]
    content_block: Option<Piece<'a>>,
    #[serde(borrow)]
    delta: Option<Piece<'a>>,
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message {
    usage: Option<Usage>,
}

/// The beginning of a block, a piece of one, or the end of the message.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Clone, Copy, Deserialize)]
struct Usage {
    /// Without those read from or written to the cache.
    #[serde(rename = "input_tokens")]
    input: Option<Count>,
    #[serde(rename = "cache_read_input_tokens")]
    read: Option<Count>,
    #[serde(rename = "cache_creation_input_tokens")]
    written: Option<Count>,
    #[serde(rename = "output_tokens")]
    output: Option<Count>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    let kind = text(event.kind.as_ref());
    if event.error.is_some() || kind == "error" {
        return Err(Problem::Reported);
    }
    let mut content = false;
    for piece in [&event.content_block, &event.delta].into_iter().flatten() {
        content |= answer.say(&Said {
            reasoning: text(piece.thinking.as_ref()),
            answer: text(piece.text.as_ref()),
            // A tool call is content from its name on.
            calls: text(piece.kind.as_ref()).ends_with("tool_use") || !text(piece.partial_json.as_ref()).is_empty(),
        });
        answer.finished(text(piece.stop_reason.as_ref()));
    }
    answer.end_if(kind == "message_stop");
    let told = match (event.message.and_then(|message| message.usage), event.usage) {
        // The count at the start is a placeholder: 0, 1, or what happens to be ready.
        (Some(start), _) => {
            answer.counts(Counts { output: None, ..counts(start)? });
            Told::Nothing
        }
        (None, Some(usage)) => answer.counts(counts(usage)?),
        (None, None) => Told::Nothing,
    };
    answer.close(content, told)
}

/// Prompt tokens are those that were computed, read from the cache and written to it.
fn counts(usage: Usage) -> Result<Counts, Problem> {
    let cached = count(usage.read, "cache_read_input_tokens")?;
    let written = count(usage.written, "cache_creation_input_tokens")?;
    let all = |new: u32| new.saturating_add(cached.unwrap_or_default()).saturating_add(written.unwrap_or_default());
    Ok(Counts {
        prompt: count(usage.input, "input_tokens")?.map(all),
        cached,
        output: count(usage.output, "output_tokens")?,
        reasoning: None,
    })
}

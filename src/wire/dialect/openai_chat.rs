//! OpenAI chat completions: `POST /v1/chat/completions` with `stream: true`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Problem, Said};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::chunk::{Choice, Chunk, listed};
use crate::wire::dialect::field::{Count, Listed, Text, either, text};
use crate::wire::dialect::messages::Talk;
use crate::wire::dialect::parts::Content;
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is one user message.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/v1/chat/completions"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"stream":true,"stream_options":{"include_usage":true},"temperature":0}"#,
        nested: None,
        length: "max_tokens",
        seed: Some("seed"),
        prompt: ("messages", r#"[{"role":"user","content":"#, "}]"),
        ids: None,
        talk: Some(Talk::Chat),
    },
    framing: Framing::Events,
    end: End::Done,
    read,
};

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    serde_json::from_str::<Chunk<'_, ChatChoice<'_>>>(data)?.tell(answer)
}

#[derive(Debug, Deserialize)]
struct ChatChoice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    index: Option<Count>,
    token_ids: Option<Listed>,
    logprobs: Option<Listed>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    /// A refusal is an answer.
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    /// The newer name; some servers send the same text under both.
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    tool_calls: Option<Vec<IgnoredAny>>,
    function_call: Option<IgnoredAny>,
}

impl Choice for ChatChoice<'_> {
    fn index(&self) -> Option<Count> {
        self.index
    }

    fn said(&self) -> Said<'_> {
        let Some(delta) = &self.delta else { return Said::default() };
        let (answer, thought) =
            delta.content.as_ref().map_or(("", ""), |content| (&content.answer, &content.reasoning));
        let reasoning = either(delta.reasoning_content.as_ref(), delta.reasoning.as_ref());
        Said {
            reasoning: if reasoning.is_empty() { thought } else { reasoning },
            answer: if answer.is_empty() { text(delta.refusal.as_ref()) } else { answer },
            calls: delta.function_call.is_some() || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()),
        }
    }

    fn finish(&self) -> &str {
        text(self.finish_reason.as_ref())
    }

    fn tokens(&self) -> Option<u32> {
        listed(self.token_ids, self.logprobs)
    }
}

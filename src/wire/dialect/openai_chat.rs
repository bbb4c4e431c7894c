//! OpenAI chat completions: `POST /v1/chat/completions` with `stream: true`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::Dialect;
use crate::wire::dialect::answer::{Answer, Problem};
use crate::wire::dialect::chunk::{Choice, Text, text};

/// The dialect. The prompt is one user message.
pub(super) const DIALECT: Dialect =
    Dialect { path: "/v1/chat/completions", prompt: ("messages", r#"[{"role":"user","content":"#, "}]"), read };

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    answer.chunk::<ChatChoice<'_>>(&serde_json::from_str(data)?)
}

#[derive(Debug, Deserialize)]
struct ChatChoice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
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

/// The first of two fields that has text.
fn either<'c>(one: Option<&'c Text<'_>>, other: Option<&'c Text<'_>>) -> &'c str {
    match text(one) {
        "" => text(other),
        found => found,
    }
}

impl Choice for ChatChoice<'_> {
    fn reasoning(&self) -> &str {
        self.delta.as_ref().map_or("", |delta| either(delta.reasoning_content.as_ref(), delta.reasoning.as_ref()))
    }

    fn answer(&self) -> &str {
        self.delta.as_ref().map_or("", |delta| either(delta.content.as_ref(), delta.refusal.as_ref()))
    }

    fn calls(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| {
            delta.function_call.is_some() || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
        })
    }

    fn finish(&self) -> &str {
        text(self.finish_reason.as_ref())
    }
}

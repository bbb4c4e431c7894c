//! Ollama: `POST /api/chat` and `POST /api/generate`. One JSON object a line; the one with `done: true` ends the
//! answer and counts its tokens. The end token is counted and has no line of its own.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, count};
use crate::wire::dialect::body::{Nested, Shape};
use crate::wire::dialect::field::{Count, Text, either, text};
use crate::wire::dialect::messages::Talk;
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The chat. The prompt is one user message.
pub(super) const CHAT: Dialect = Dialect {
    path: Path::Fixed("/api/chat"),
    shape: &Shape { prompt: ("messages", r#"[{"role":"user","content":"#, "}]"), talk: Some(Talk::Ollama), ..SHAPE },
    framing: Framing::Lines,
    end: End::Own("done: true"),
    read,
};

/// The plain generation; the server applies the model's template unless `raw: true` is among the extra fields.
pub(super) const GENERATE: Dialect = Dialect { path: Path::Fixed("/api/generate"), shape: &SHAPE, ..CHAT };

/// The length cannot be forced.
const SHAPE: Shape = Shape {
    names_model: true,
    fixed: r#"{"stream":true}"#,
    nested: Some(Nested { name: "options", fixed: r#"{"temperature":0}"#, takes: &[] }),
    length: "num_predict",
    seed: Some("seed"),
    prompt: ("prompt", "", ""),
    ids: None,
    talk: None,
};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    response: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    done: Option<bool>,
    #[serde(borrow)]
    done_reason: Option<Text<'a>>,
    /// Absent when the whole prompt was cached.
    prompt_eval_count: Option<Count>,
    eval_count: Option<Count>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    tool_calls: Option<Vec<IgnoredAny>>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let line: Line<'_> = serde_json::from_str(data)?;
    if line.error.is_some() {
        return Err(Problem::Reported);
    }
    let message = line.message.as_ref();
    let content = answer.say(&Said {
        reasoning: either(message.and_then(|message| message.thinking.as_ref()), line.thinking.as_ref()),
        answer: either(message.and_then(|message| message.content.as_ref()), line.response.as_ref()),
        calls: message.and_then(|message| message.tool_calls.as_ref()).is_some_and(|calls| !calls.is_empty()),
    });
    answer.end_if(line.done == Some(true));
    answer.finished(text(line.done_reason.as_ref()));
    let told = answer.counts(Counts {
        prompt: count(line.prompt_eval_count, "prompt_eval_count")?,
        output: count(line.eval_count, "eval_count")?,
        ..Counts::default()
    });
    answer.close(content, told)
}

//! Triton's generate extension: `POST /v2/models/<model>/generate_stream`, for the TensorRT-LLM and vLLM backends.
//! An event holds the outputs of one response of the model; the stream ends with the response.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::field::{Count, Text, text};
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is sent as it is. What a model takes besides is up to its configuration.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::OfModel("/v2/models/", "/generate_stream"),
    shape: &Shape {
        names_model: false,
        fixed: r#"{"stream":true,"temperature":0}"#,
        nested: None,
        length: "max_tokens",
        seed: None,
        prompt: ("text_input", "", ""),
        ids: None,
        talk: None,
    },
    framing: Framing::Events,
    end: End::Close,
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    text_output: Option<Text<'a>>,
    /// Counts of this response, from the vLLM backend when it was asked for them.
    num_output_tokens: Option<Count>,
    num_input_tokens: Option<Count>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    error: Option<IgnoredAny>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    if event.error.is_some() {
        return Err(Problem::Reported);
    }
    let content = answer.say(&Said { answer: text(event.text_output.as_ref()), ..Said::default() });
    answer.finished(text(event.finish_reason.as_ref()));
    let own = count(event.num_output_tokens, "num_output_tokens")?;
    let before = answer.tokens.counts().output.unwrap_or_default();
    answer.counts(Counts {
        prompt: count(event.num_input_tokens, "num_input_tokens")?,
        output: own.map(|own| own.saturating_add(before)),
        ..Counts::default()
    });
    answer.close(content, own.map_or(Told::Nothing, Told::Fresh))
}

//! Text Generation Inference: `POST /generate_stream`. Each event is one token; the last also holds the whole text.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::body::{Nested, Shape};
use crate::wire::dialect::field::{Count, Text, text};
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is sent as it is. Greedy by default; the length cannot be forced.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/generate_stream"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"stream":true}"#,
        nested: Some(Nested { name: "parameters", fixed: r#"{"details":true}"#, takes: &[] }),
        length: "max_new_tokens",
        seed: Some("seed"),
        prompt: ("inputs", "", ""),
        ids: None,
        talk: None,
    },
    framing: Framing::Events,
    end: End::Own("generated_text"),
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    token: Option<Token<'a>>,
    /// Present in the last event.
    generated_text: Option<IgnoredAny>,
    #[serde(borrow)]
    details: Option<Details<'a>>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    /// An end mark of the model: a token without text for a reader.
    special: Option<bool>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    generated_tokens: Option<Count>,
    input_length: Option<Count>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    if event.error.is_some() {
        return Err(Problem::Reported);
    }
    let piece = event.token.as_ref().filter(|token| token.special != Some(true));
    let content = answer.say(&Said { answer: piece.map_or("", |token| text(token.text.as_ref())), ..Said::default() });
    if let Some(details) = &event.details {
        answer.finished(text(details.finish_reason.as_ref()));
        answer.counts(Counts {
            prompt: count(details.input_length, "input_length")?,
            output: count(details.generated_tokens, "generated_tokens")?,
            ..Counts::default()
        });
    }
    answer.end_if(event.generated_text.is_some());
    answer.close(content, if event.token.is_some() { Told::Fresh(1) } else { Told::Nothing })
}

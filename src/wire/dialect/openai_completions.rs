//! OpenAI completions: `POST /v1/completions` with `stream: true`.

use serde::Deserialize;

use crate::wire::dialect::answer::{Answer, Problem, Said};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::chunk::{Choice, Chunk, listed};
use crate::wire::dialect::field::{Count, Listed, Text, text};
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is sent as it is; no chat template is applied.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/v1/completions"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"stream":true,"stream_options":{"include_usage":true},"temperature":0}"#,
        nested: None,
        length: "max_tokens",
        seed: Some("seed"),
        prompt: ("prompt", "", ""),
        ids: Some("prompt"),
        talk: None,
    },
    framing: Framing::Events,
    end: End::Done,
    read,
};

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    serde_json::from_str::<Chunk<'_, TextChoice<'_>>>(data)?.tell(answer)
}

#[derive(Debug, Deserialize)]
struct TextChoice<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    index: Option<Count>,
    token_ids: Option<Listed>,
    logprobs: Option<Listed>,
}

impl Choice for TextChoice<'_> {
    fn index(&self) -> Option<Count> {
        self.index
    }

    fn said(&self) -> Said<'_> {
        Said { answer: text(self.text.as_ref()), ..Said::default() }
    }

    fn finish(&self) -> &str {
        text(self.finish_reason.as_ref())
    }

    fn tokens(&self) -> Option<u32> {
        listed(self.token_ids, self.logprobs)
    }
}

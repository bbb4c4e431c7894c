//! OpenAI completions: `POST /v1/completions` with `stream: true`.

use serde::Deserialize;

use crate::wire::dialect::Dialect;
use crate::wire::dialect::answer::{Answer, Problem};
use crate::wire::dialect::chunk::{Choice, Text, text};

/// The dialect. The prompt is sent as it is; no chat template is applied.
pub(super) const DIALECT: Dialect = Dialect { path: "/v1/completions", prompt: ("prompt", "", ""), read };

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    answer.chunk::<TextChoice<'_>>(&serde_json::from_str(data)?)
}

#[derive(Debug, Deserialize)]
struct TextChoice<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

impl Choice for TextChoice<'_> {
    fn reasoning(&self) -> &'static str {
        ""
    }

    fn answer(&self) -> &str {
        text(self.text.as_ref())
    }

    fn calls(&self) -> bool {
        false
    }

    fn finish(&self) -> &str {
        text(self.finish_reason.as_ref())
    }
}

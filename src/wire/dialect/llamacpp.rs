//! llama.cpp's own completion: `POST /completion` with `stream: true`. Every event counts the tokens so far; the one
//! with `stop: true` ends the answer.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::body::Shape;
use crate::wire::dialect::field::{Count, Listed, Text, text};
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is sent as it is; the answer has exactly the wanted length.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/completion"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"ignore_eos":true,"stream":true,"temperature":0}"#,
        nested: None,
        length: "n_predict",
        seed: Some("seed"),
        prompt: ("prompt", "", ""),
        ids: Some("prompt"),
        talk: None,
    },
    framing: Framing::Events,
    end: End::Own("stop: true"),
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    tokens: Option<Listed>,
    stop: Option<bool>,
    #[serde(borrow)]
    stop_type: Option<Text<'a>>,
    /// Older servers say the reason in three flags.
    stopped_eos: Option<bool>,
    stopped_limit: Option<bool>,
    stopped_word: Option<bool>,
    tokens_predicted: Option<Count>,
    tokens_evaluated: Option<Count>,
    timings: Option<Timings>,
    error: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
struct Timings {
    /// Prompt tokens that were read from the cache.
    cache_n: Option<Count>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    if event.error.is_some() {
        return Err(Problem::Reported);
    }
    let content = answer.say(&Said { answer: text(event.content.as_ref()), ..Said::default() });
    let ends = event.stop == Some(true);
    let predicted = count(event.tokens_predicted, "tokens_predicted")?;
    let told = match (predicted, event.tokens.and_then(|list| list.0)) {
        (Some(total), _) => Told::Total(total),
        (None, Some(own)) if own > 0 => Told::Fresh(own),
        (None, _) => Told::Nothing,
    };
    answer.counts(Counts {
        prompt: count(event.tokens_evaluated, "tokens_evaluated")?,
        cached: count(event.timings.and_then(|timings| timings.cache_n), "cache_n")?,
        // Before its end the answer may be cut: what was counted so far is then no count of the whole.
        output: predicted.filter(|_| ends),
        reasoning: None,
    });
    if ends {
        answer.end_if(true);
        let flags = [("limit", event.stopped_limit), ("eos", event.stopped_eos), ("word", event.stopped_word)];
        let flag = flags.iter().find(|(_, flag)| *flag == Some(true)).map_or("", |(reason, _)| reason);
        let reason = text(event.stop_type.as_ref());
        answer.finished(if matches!(reason, "" | "none") { flag } else { reason });
    }
    answer.close(content, told)
}

//! SGLang's own generation: `POST /generate` with `stream: true`. The text of an event is all text so far, unless the
//! server was started to stream pieces; the events tell which.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Cumulative, Problem, Said, count};
use crate::wire::dialect::body::{Nested, Shape};
use crate::wire::dialect::field::{Count, Listed, Text, text};
use crate::wire::dialect::{Dialect, End, Framing, Path};

/// The dialect. The prompt is sent as it is; the answer has exactly the wanted length. Greedy, so no seed is sent:
/// older servers do not know one.
pub(super) const DIALECT: Dialect = Dialect {
    path: Path::Fixed("/generate"),
    shape: &Shape {
        names_model: true,
        fixed: r#"{"stream":true}"#,
        nested: Some(Nested {
            name: "sampling_params",
            fixed: r#"{"ignore_eos":true,"temperature":0}"#,
            takes: &["ignore_eos", "min_new_tokens", "temperature"],
        }),
        length: "max_new_tokens",
        seed: None,
        prompt: ("text", "", ""),
        ids: Some("input_ids"),
        talk: None,
    },
    framing: Framing::Events,
    end: End::Done,
    read,
};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    output_ids: Option<Listed>,
    #[serde(borrow)]
    meta_info: Option<Meta<'a>>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    cached_tokens: Option<Count>,
    #[serde(borrow)]
    finish_reason: Option<Finish<'a>>,
}

#[derive(Deserialize)]
struct Finish<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
}

fn read(answer: &mut Answer, data: &str) -> Result<(), Problem> {
    let event: Event<'_> = serde_json::from_str(data)?;
    if event.error.is_some() {
        return Err(Problem::Reported);
    }
    let counts = match &event.meta_info {
        None => Counts::default(),
        Some(meta) => Counts {
            prompt: count(meta.prompt_tokens, "prompt_tokens")?,
            cached: count(meta.cached_tokens, "cached_tokens")?,
            output: count(meta.completion_tokens, "completion_tokens")?,
            reasoning: None,
        },
    };
    let ids = event.output_ids.and_then(|list| list.0);
    let piece = answer.cumulative.piece(text(event.text.as_ref()), ids, counts.output);
    let content = answer.say(&Said { answer: &piece, ..Said::default() });
    if let Some(finish) = event.meta_info.and_then(|meta| meta.finish_reason) {
        answer.finished(text(finish.kind.as_ref()));
    }
    let told = answer.counts(counts);
    answer.close(content, told)
}

impl Cumulative {
    /// The new text of an event, by its own text, the token ids it lists and the tokens so far.
    ///
    /// Fewer ids than tokens, or a text that neither continues nor begins the one before, is a piece. In a stream that
    /// repeats, a text that changed its end (a stop string cut off, a character completed) is new from there on.
    fn piece(&mut self, text: &str, ids: Option<u32>, total: Option<u32>) -> String {
        let first = self.last.is_empty();
        if let (Some(ids), Some(total), false) = (ids, total, first) {
            self.repeats = Some(ids >= total);
        }
        let same = same_bytes(&self.last, text);
        let either = same == self.last.len() || same == text.len();
        let piece = match self.repeats {
            Some(repeats) => text.get(if repeats { same } else { 0 }..),
            None if first || !either => Some(text),
            None => text.get(same..),
        };
        if !first && self.repeats.is_none() && same < text.len() {
            self.repeats = Some(either);
        }
        let piece = piece.unwrap_or_default().to_owned();
        text.clone_into(&mut self.last);
        piece
    }
}

/// Bytes of the characters with which both texts begin.
fn same_bytes(one: &str, other: &str) -> usize {
    if other.starts_with(one) {
        return one.len();
    }
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(events: &[(&str, Option<u32>, Option<u32>)]) -> Vec<String> {
        let mut cumulative = Cumulative::default();
        events.iter().map(|(text, ids, total)| cumulative.piece(text, *ids, *total)).collect()
    }

    #[test]
    fn repeated_text_and_pieces_are_told_apart() {
        let bare = |texts: &[&'static str]| pieces(&texts.iter().map(|text| (*text, None, None)).collect::<Vec<_>>());
        assert_eq!(bare(&["", "a", "ab", "ab", "abc"]), ["", "a", "b", "", "c"]);
        assert_eq!(bare(&["a", "b", "c", "cd"]), ["a", "b", "c", "cd"]);
        assert_eq!(bare(&["ab", "abEND", "ab"]), ["ab", "END", ""], "a stop string cut off again");
        assert_eq!(bare(&["a", "ab\u{fffd}", "ab\u{e9}c"]), ["a", "b\u{fffd}", "\u{e9}c"], "a character completed");
        // The ids decide where the text alone could be either.
        assert_eq!(pieces(&[("ha", Some(1), Some(1)), ("ha", Some(1), Some(2))]), ["ha", "ha"]);
        assert_eq!(pieces(&[("ha", Some(1), Some(1)), ("ha", Some(2), Some(2))]), ["ha", ""]);
    }
}

//! The JSON of one stream event, borrowed from its bytes. Fields that nobody reads are skipped unparsed.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string of the stream. (A newtype, because serde borrows a `Cow` only when it stands alone.)
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The text, empty when the field is absent or null.
pub(super) fn text<'c>(field: Option<&'c Text<'_>>) -> &'c str {
    field.map_or("", |text| &text.0)
}

/// One event of a stream whose choices are `C`.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a, C> {
    pub(super) choices: Option<Vec<C>>,
    pub(super) usage: Option<Usage>,
    /// Present in place of `choices` when the server failed.
    pub(super) error: Option<IgnoredAny>,
    /// `error` in the error events of older servers.
    #[serde(borrow)]
    pub(super) object: Option<Text<'a>>,
}

/// What a dialect's choice says, in the words of all dialects.
pub(super) trait Choice {
    /// Reasoning text; empty for none.
    fn reasoning(&self) -> &str;
    /// Answer text; empty for none.
    fn answer(&self) -> &str;
    /// Whether it holds a piece of a tool call.
    fn calls(&self) -> bool;
    /// Finish reason; empty for none.
    fn finish(&self) -> &str;
}

/// Token counts, of the stream so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Option<Count>,
    pub(super) completion_tokens: Option<Count>,
    /// SGLang's place for it.
    reasoning_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Count>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<Count>,
}

impl Usage {
    pub(super) fn cached(&self) -> Option<Count> {
        self.prompt_tokens_details?.cached_tokens
    }

    pub(super) fn reasoning(&self) -> Option<Count> {
        self.completion_tokens_details.and_then(|details| details.reasoning_tokens).or(self.reasoning_tokens)
    }
}

/// A number of tokens as the stream gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// A whole number up to [`MOST_TOKENS`].
    Tokens(u32),
    /// Anything else: negative, fractional, huge, or no number.
    Nonsense,
}

/// More tokens than any context window holds.
const MOST_TOKENS: u32 = 1 << 28;

impl Count {
    fn of(tokens: u64) -> Self {
        u32::try_from(tokens).ok().filter(|tokens| *tokens <= MOST_TOKENS).map_or(Self::Nonsense, Self::Tokens)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

/// Takes any JSON value, so that a wrong count is told apart from broken JSON.
struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens")
    }

    fn visit_u64<E>(self, tokens: u64) -> Result<Count, E> {
        Ok(Count::of(tokens))
    }

    fn visit_i64<E>(self, tokens: i64) -> Result<Count, E> {
        Ok(u64::try_from(tokens).map_or(Count::Nonsense, Count::of))
    }

    /// Some servers write whole numbers with a fraction of zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number in range")]
    fn visit_f64<E>(self, tokens: f64) -> Result<Count, E> {
        let whole = tokens.fract().abs() < f64::EPSILON && (0.0..=f64::from(MOST_TOKENS)).contains(&tokens);
        Ok(if whole { Count::Tokens(tokens as u32) } else { Count::Nonsense })
    }

    fn visit_str<E>(self, _: &str) -> Result<Count, E> {
        Ok(Count::Nonsense)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count::Nonsense)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Count, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count::Nonsense)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Count, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count::Nonsense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers_in_range_or_nonsense() {
        for (json, tokens) in [("0", 0), ("12", 12), ("12.0", 12), ("268435456", MOST_TOKENS)] {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap(), Count::Tokens(tokens));
        }
        for json in ["-1", "1.5", "268435457", "18446744073709551616", "1e300", "\"7\"", "true", "[1]", "{\"a\":1}"] {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap(), Count::Nonsense, "{json}");
        }
        for json in ["NaN", "1e400", "-"] {
            assert!(serde_json::from_str::<Count>(json).is_err(), "{json}");
        }
        assert_eq!(serde_json::from_str::<Usage>(r#"{"prompt_tokens":null}"#).unwrap().prompt_tokens, None);
    }

    #[test]
    fn plain_text_is_borrowed() {
        let chunk: Chunk<'_, IgnoredAny> = serde_json::from_str(r#"{"object":"text_completion"}"#).unwrap();
        assert!(matches!(chunk.object, Some(Text(Cow::Borrowed("text_completion")))));
    }
}

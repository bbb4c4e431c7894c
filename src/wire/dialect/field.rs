//! Values in the JSON of stream events, as all dialects write them. Text is borrowed from the event's bytes;
//! what nobody reads is skipped unparsed.

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

/// The first of two fields that has text.
pub(super) fn either<'c>(one: Option<&'c Text<'_>>, other: Option<&'c Text<'_>>) -> &'c str {
    match text(one) {
        "" => text(other),
        found => found,
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

/// Lists are counted, not read: the tokens of an event where it lists token ids or log probabilities.
/// Anything that is no list has no length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed(pub(super) Option<u32>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListedVisitor)
    }
}

/// Takes any JSON value.
struct ListedVisitor;

impl<'de> Visitor<'de> for ListedVisitor {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Listed, A::Error> {
        let mut length = 0_u32;
        while items.next_element::<IgnoredAny>()?.is_some() {
            length = length.saturating_add(1);
        }
        Ok(Listed(Some(length)))
    }

    /// Log probabilities of the OpenAI forms: an object with one list of entries, `content` or `tokens`.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Listed, A::Error> {
        let mut length = None;
        while let Some(key) = entries.next_key::<Text<'_>>()? {
            if matches!(&*key.0, "content" | "tokens") {
                length = length.or(entries.next_value::<Self::Value>()?.0);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Listed(length))
    }

    fn visit_unit<E>(self) -> Result<Listed, E> {
        Ok(Listed(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Listed, E> {
        Ok(Listed(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Listed, E> {
        Ok(Listed(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Listed, E> {
        Ok(Listed(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Listed, E> {
        Ok(Listed(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Listed, E> {
        Ok(Listed(None))
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
    }

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(
            serde_json::from_str(r#""text_completion""#).unwrap(),
            Text(Cow::Borrowed("text_completion"))
        ));
    }

    #[test]
    fn lists_are_counted_wherever_they_stand() {
        for (json, length) in [
            ("[]", Some(0)),
            ("[1,[2],{}]", Some(3)),
            (r#"{"refusal":null,"content":[{"token":"a","top_logprobs":[]}]}"#, Some(1)),
            (r#"{"tokens":["a","b"],"top_logprobs":null,"text_offset":[0,1]}"#, Some(2)),
            (r#"{"content":null,"other":[1]}"#, None),
            ("null", None),
            ("7", None),
            ("-7.5", None),
            ("-7", None),
            ("true", None),
            ("\"x\"", None),
        ] {
            assert_eq!(serde_json::from_str::<Listed>(json).unwrap(), Listed(length), "{json}");
        }
    }
}

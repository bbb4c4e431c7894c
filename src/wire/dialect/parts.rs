//! The content of a message: text, or a list of parts as Mistral's reasoning models stream it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::wire::dialect::field::{Text, text};

/// Content, split into what is answer and what is reasoning.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) answer: Cow<'a, str>,
    pub(super) reasoning: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// One part of a list. A part of another type has no text.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Content<'a>>,
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of parts")
    }

    fn visit_borrowed_str<E>(self, answer: &'de str) -> Result<Content<'de>, E> {
        Ok(Content { answer: Cow::Borrowed(answer), reasoning: Cow::default() })
    }

    fn visit_str<E>(self, answer: &str) -> Result<Content<'de>, E> {
        Ok(Content { answer: Cow::Owned(answer.to_owned()), reasoning: Cow::default() })
    }

    fn visit_string<E>(self, answer: String) -> Result<Content<'de>, E> {
        Ok(Content { answer: Cow::Owned(answer), reasoning: Cow::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content<'de>, A::Error> {
        let (mut answer, mut reasoning) = (String::new(), String::new());
        while let Some(part) = parts.next_element::<Part<'de>>()? {
            answer.push_str(text(part.text.as_ref()));
            if let Some(thinking) = part.thinking {
                reasoning.push_str(&thinking.reasoning);
                reasoning.push_str(&thinking.answer);
            }
        }
        Ok(Content { answer: Cow::Owned(answer), reasoning: Cow::Owned(reasoning) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_parts_are_told_apart() {
        let read = |json| {
            let content: Content<'_> = serde_json::from_str(json).unwrap();
            (content.answer.into_owned(), content.reasoning.into_owned())
        };
        let both = |answer: &str, reasoning: &str| (answer.to_owned(), reasoning.to_owned());
        assert_eq!(read(r#""a""#), both("a", ""));
        assert_eq!(read(r#""é\n""#), both("é\n", ""));
        assert_eq!(read("[]"), both("", ""));
        let parts = r#"[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}],"closed":true},{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]}]"#;
        assert_eq!(read(parts), both("a", "Hm"));
        for wrong in ["5", "{}", "[5]"] {
            assert!(serde_json::from_str::<Content<'_>>(wrong).is_err(), "{wrong}");
        }
    }
}

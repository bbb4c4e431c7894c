//! How many tokens a text has, where a trace holds texts and no lengths. The texts go no further.

use serde_json::Value;

use crate::trace::Count;

/// Keys of a message whose text is no part of what a model reads.
const NO_TEXT: &[&str] = &["role", "type", "id", "tool_call_id", "call_id", "finish_reason", "status", "detail"];
/// Keys and types of parts that are no text.
const MEDIA: &[&str] = &["image_url", "input_image", "input_audio", "file", "input_file", "blob"];

/// An estimate of how many tokens a text has for a model of today, without its tokenizer.
///
/// Letters: a word of up to seven is one token, and every five more are one. Digits: three a token, as the tokenizers
/// of GPT-4 and Llama 3 split them. Other ASCII: runs of one character are one token. Ideographs and kana: one each;
/// other scripts: two characters a token. Spaces belong to the word behind them; a run of line breaks is one token.
pub fn estimate(text: &str) -> u32 {
    let mut tokens = 0_usize;
    let mut run = Run { kind: Letter::Space, first: ' ', length: 0 };
    for c in text.chars() {
        let kind = Letter::of(c);
        if kind == run.kind && (kind != Letter::Mark || c == run.first) {
            run.length = run.length.saturating_add(1);
        } else {
            tokens = tokens.saturating_add(run.tokens());
            run = Run { kind, first: c, length: 1 };
        }
    }
    u32::try_from(tokens.saturating_add(run.tokens())).unwrap_or(u32::MAX)
}

/// Characters of one kind in a row.
struct Run {
    kind: Letter,
    first: char,
    length: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Letter {
    Latin,
    Digit,
    Ideograph,
    Other,
    Break,
    Space,
    Mark,
}

impl Letter {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' | '\'' => Self::Latin,
            '0'..='9' => Self::Digit,
            '\n' | '\r' => Self::Break,
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}' => Self::Ideograph,
            _ if c.is_whitespace() => Self::Space,
            _ if c.is_ascii() => Self::Mark,
            _ => Self::Other,
        }
    }
}

impl Run {
    fn tokens(&self) -> usize {
        match self.kind {
            Letter::Space => 0,
            Letter::Latin => 1_usize.saturating_add(self.length.saturating_sub(7).div_ceil(5)),
            Letter::Digit => self.length.div_ceil(3),
            Letter::Ideograph => self.length,
            Letter::Other => self.length.div_ceil(2),
            Letter::Break | Letter::Mark => 1,
        }
    }
}

/// The tokens of messages, and whether something in them is no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Tokens.
    pub(super) tokens: u32,
    /// An image, a sound or a file is among the parts.
    pub(super) media: bool,
}

impl Counted {
    /// Every text in a value: a string, messages with their parts, tool calls and definitions. An array of numbers is
    /// a prompt of so many tokens.
    pub(super) fn of(value: &Value, count: Count<'_>) -> Self {
        let mut counted = Self::default();
        counted.add(value, count);
        counted
    }

    /// Adds a value. A parsed value is at most 128 levels deep.
    pub(super) fn add(&mut self, value: &Value, count: Count<'_>) {
        match value {
            Value::String(text) => self.tokens = self.tokens.saturating_add(count(text)),
            Value::Array(values) => values.iter().for_each(|value| self.add(value, count)),
            Value::Object(fields) => {
                let media = |name: &str| MEDIA.contains(&name);
                if fields.get("type").and_then(Value::as_str).is_some_and(media) {
                    self.media = true;
                    return;
                }
                for (key, value) in fields {
                    if media(key) {
                        self.media = true;
                    } else if !NO_TEXT.contains(&key.as_str()) {
                        self.add(value, count);
                    }
                }
            }
            Value::Number(_) => self.tokens = self.tokens.saturating_add(1),
            Value::Null | Value::Bool(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_takes_words_digits_and_scripts_into_account() {
        for (text, tokens) in [
            ("", 0),
            ("   ", 0),
            ("Hello!", 2),
            ("What is 2+2?", 6),
            ("internationalisation", 4),
            ("1234567", 3),
            ("\u{65e5}\u{672c}\u{8a9e}", 3),
            ("\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}", 3),
            ("a\n\n\nb", 3),
            ("----", 1),
            ("it's", 1),
        ] {
            assert_eq!(estimate(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn roles_and_pictures_are_no_text() {
        let value = serde_json::json!([
            {"role": "system", "content": "one two"},
            {"role": "user", "content": [
                {"type": "text", "text": "three"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
        ]);
        assert_eq!(Counted::of(&value, &estimate), Counted { tokens: 3, media: true });
        let ids = serde_json::json!([1, 2, 3]);
        assert_eq!(Counted::of(&ids, &estimate), Counted { tokens: 3, media: false });
    }
}

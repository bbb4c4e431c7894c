//! A prompt of exactly so many tokens by a tokenizer.
//!
//! A tokenizer is not additive: two texts behind each other may have fewer tokens than each by itself. So a text is first
//! made from pieces that are counted one by one, then counted as a whole, and its end is changed until the count is right.

use std::collections::BTreeMap;

use crate::base::rng::Stream;
use crate::plan::content::{Source, source};
use crate::plan::request::{Part, PromptRecipe};
use crate::spec::workload::Content;

/// Counts the tokens of a text; none when it cannot.
pub type Count<'a> = dyn Fn(&str) -> Option<u32> + 'a;

/// Changes of a text's end before it is given up.
const TRIES: usize = 40;
/// Tokens up to which a text is made longer word by word.
const NEAR: u32 = 4;
/// What ends a text that no word brings to its length; one token each in nearly every vocabulary.
const MARKS: [&str; 5] = [".", "!", "?", ";", ","];

/// The text of a prompt whose tokens are as many as its recipe's words. Each part begins with its seed, spelled in words, and
/// equal parts are equal texts wherever they stand behind equal ones. None where no text of that length was found: the
/// tokenizer cannot count, or the length is one that no end of a text reaches.
pub fn exact(recipe: &PromptRecipe, content: Content, count: &Count<'_>) -> Option<String> {
    let mut out = String::new();
    let mut tokens = 0_u32;
    for part in recipe.parts().filter(|part| part.words > 0) {
        tokens = tokens.saturating_add(part.words);
        let stream = Stream::named(part.seed, content.id());
        Text { source: source(content), stream, count, known: BTreeMap::new(), pieces: Vec::new() }
            .extend(&mut out, part, tokens)?;
    }
    Some(out)
}

/// A part on its way.
struct Text<'a> {
    source: Box<dyn Source>,
    stream: Stream,
    count: &'a Count<'a>,
    /// Tokens of pieces that were counted.
    known: BTreeMap<String, u32>,
    /// Where each piece of the part begins in the text, and its tokens by itself.
    pieces: Vec<(usize, u32)>,
}

impl Text<'_> {
    /// Appends a part, so that the whole has `tokens`.
    fn extend(&mut self, out: &mut String, part: Part, tokens: u32) -> Option<()> {
        let mut left = part.words;
        for piece in self.spelled(part.seed, out.is_empty()) {
            let rest = self.append(out, &piece, left)?;
            if rest == left {
                break;
            }
            left = rest;
        }
        self.fill(out, left)?;
        self.finish(out, tokens)
    }

    /// Appends pieces as long as there is room for them.
    fn fill(&mut self, out: &mut String, mut left: u32) -> Option<()> {
        while left > 0 {
            let piece = self.source.next(&mut self.stream, out.is_empty());
            let rest = self.append(out, &piece, left)?;
            if rest == left {
                break;
            }
            left = rest;
        }
        Some(())
    }

    /// Appends a piece where there is room for it; gives the room that is left.
    fn append(&mut self, out: &mut String, piece: &str, left: u32) -> Option<u32> {
        let tokens = self.tokens(piece)?;
        let Some(rest) = left.checked_sub(tokens) else { return Some(left) };
        self.pieces.push((out.len(), tokens));
        out.push_str(piece);
        Some(rest)
    }

    fn tokens(&mut self, piece: &str) -> Option<u32> {
        if let Some(tokens) = self.known.get(piece) {
            return Some(*tokens);
        }
        let tokens = (self.count)(piece)?;
        self.known.insert(piece.to_owned(), tokens);
        Some(tokens)
    }

    /// The digits of a seed to the base of the words that there are.
    fn spelled(&self, seed: u64, first: bool) -> Vec<String> {
        let (words, space) = (self.source.alphabet(), self.source.space());
        let base = u64::try_from(words.len()).unwrap_or(1).max(2);
        let (mut largest, mut digits, mut pieces) = (u64::MAX, seed, Vec::new());
        while largest > 0 {
            let word = usize::try_from(digits % base).ok().and_then(|at| words.get(at)).copied().unwrap_or_default();
            pieces.push(if first && pieces.is_empty() { word.to_owned() } else { format!("{space}{word}") });
            digits = digits.checked_div(base).unwrap_or_default();
            largest = largest.checked_div(base).unwrap_or_default();
        }
        pieces
    }

    /// Changes the end of the text until the whole has so many tokens.
    fn finish(&mut self, out: &mut String, tokens: u32) -> Option<()> {
        let fillers = self.source.fillers().into_iter().map(|filler| Some((self.tokens(&filler)?, filler)));
        let fillers: Vec<(u32, String)> = fillers.collect::<Option<_>>()?;
        for _ in 0..TRIES {
            let has = if out.is_empty() { 0 } else { (self.count)(out)? };
            let Some(missing) = tokens.checked_sub(has) else {
                self.cut(out, has.saturating_sub(tokens))?;
                continue;
            };
            if missing == 0 {
                return Some(());
            }
            let before = out.len();
            if missing > NEAR {
                self.fill(out, missing)?;
            }
            if out.len() == before {
                // A word that has at most what is missing; another one each time.
                let room: Vec<_> = fillers.iter().filter(|(tokens, _)| *tokens <= missing).collect();
                let (tokens, end) = match self.stream.choose(&room) {
                    Some((tokens, filler)) => (*tokens, filler.as_str()),
                    None => (1, *self.stream.choose(&MARKS)?),
                };
                self.pieces.push((before, tokens));
                out.push_str(end);
            }
        }
        None
    }

    /// Takes away pieces that have so many tokens by themselves.
    fn cut(&mut self, out: &mut String, mut excess: u32) -> Option<()> {
        while excess > 0 {
            let (begin, tokens) = self.pieces.pop()?;
            out.truncate(begin);
            excess = excess.saturating_sub(tokens.max(1));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::digest::Digest;
    use crate::plan::request::Form;

    fn recipe(seed: u64, words: u32, prefix: &[(u64, u32)], content: Content) -> PromptRecipe {
        let prefix = prefix.iter().map(|(seed, words)| Part { seed: *seed, words: *words }).collect();
        PromptRecipe { seed, words, prefix, form: Form::Exact(content) }
    }

    /// A tokenizer with the trouble of real ones: words of up to five letters are one token, longer ones more, and a full
    /// stop and the space behind it are one together.
    fn tokens(text: &str) -> Option<u32> {
        let words = text.split_whitespace().map(|word| word.chars().count().div_ceil(5).max(1));
        let all = words.sum::<usize>() + text.matches('\n').count();
        u32::try_from(all - text.matches(". ").count().min(all)).ok()
    }

    proptest! {
        #[test]
        fn every_prompt_has_its_length_and_begins_like_its_twin(seed: u64, shared: u64, words in 1..400_u32, prefix in 0..200_u32) {
            for content in Content::ALL {
                let prefix = prefix.min(words);
                let one = recipe(seed, words, &[(shared, prefix)], content);
                let Some(text) = exact(&one, content, &tokens) else {
                    // Of a language without spaces this tokenizer cannot reach every length.
                    prop_assert!(content == Content::Chinese, "{content}: no text of {words} tokens");
                    continue;
                };
                prop_assert_eq!(tokens(&text), Some(words));
                let other = exact(&PromptRecipe { seed: seed.wrapping_add(1), ..one.clone() }, content, &tokens);
                let alone = exact(&recipe(shared, prefix, &[], content), content, &tokens).unwrap();
                prop_assert!(text.starts_with(&alone));
                prop_assert!(other.is_none_or(|other| other.starts_with(&alone) && (words < prefix + 12 || other != text)));
                prop_assert_eq!(exact(&one, content, &tokens), Some(text), "the same recipe, the same text");
            }
        }
    }

    #[test]
    fn the_texts_are_pinned() {
        let bytes = |text: &str| u32::try_from(text.len()).ok();
        let text = |content: Content| exact(&recipe(7, 3_000, &[(9, 400)], content), content, &bytes).unwrap();
        let all: String = Content::ALL.into_iter().map(text).collect();
        // A change of a text makes every plan with it another one: raise the version of `plan::fingerprint`.
        insta::assert_snapshot!(Digest::of(all.as_bytes()).to_string(), @"sha256:c7dc7d4636ce933d9b0225250198e27da063c61ad4574d0d01c34ba1e19289e7");
    }

    #[test]
    fn a_tokenizer_of_bytes_reaches_every_length() {
        let bytes = |text: &str| u32::try_from(text.len()).ok();
        for content in Content::ALL {
            for words in 1..300 {
                let text = exact(&recipe(7, words, &[(9, words.min(100))], content), content, &bytes);
                assert_eq!(text.map(|text| text.len()), usize::try_from(words).ok(), "{content}");
            }
        }
    }

    #[test]
    fn a_tokenizer_that_cannot_count_gives_no_prompt() {
        let one = recipe(1, 9, &[], Content::English);
        assert_eq!(exact(&one, Content::English, &|_| None), None);
    }
}

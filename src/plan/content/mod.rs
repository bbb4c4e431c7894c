//! What prompts of exact length say: words of a language in the frequencies of real texts, or code.
//!
//! A source gives pieces, each with the space or line break before it, without end and fixed by its seed. `exact` makes a
//! prompt of them that has its length by the model's own tokenizer. A change of any text needs
//! another version in `plan::fingerprint`.

mod code;
mod exact;
mod languages;
mod prose;

use crate::base::rng::Stream;
use crate::spec::workload::Content;

pub use exact::{Count, exact};

/// An endless text.
pub(super) trait Source {
    /// The next piece. The first of a text has nothing before it.
    fn next(&mut self, stream: &mut Stream, first: bool) -> String;

    /// What stands between two words.
    fn space(&self) -> &'static str {
        " "
    }

    /// Short pieces that may follow any other, to reach a length.
    fn fillers(&self) -> Vec<String>;

    /// The words that spell a seed, each of them different.
    fn alphabet(&self) -> &'static [&'static str];
}

/// The source of a content.
pub(super) fn source(content: Content) -> Box<dyn Source> {
    match content {
        Content::English => Box::new(prose::Prose::new(&languages::ENGLISH)),
        Content::German => Box::new(prose::Prose::new(&languages::GERMAN)),
        Content::French => Box::new(prose::Prose::new(&languages::FRENCH)),
        Content::Spanish => Box::new(prose::Prose::new(&languages::SPANISH)),
        Content::Chinese => Box::new(prose::Prose::new(&languages::CHINESE)),
        Content::Code => Box::new(code::Code),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(content: Content, seed: u64, pieces: usize) -> String {
        let (mut source, mut stream) = (source(content), Stream::named(seed, "test"));
        (0..pieces).map(|at| source.next(&mut stream, at == 0)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_text_and_another_seed_another() {
        for content in Content::ALL {
            assert_eq!(text(content, 1, 300), text(content, 1, 300));
            assert_ne!(text(content, 1, 300), text(content, 2, 300), "{content}");
            assert!(!text(content, 1, 300).starts_with(char::is_whitespace), "{content}");
        }
    }

    #[test]
    fn words_are_different_and_enough_to_spell_a_seed() {
        for content in Content::ALL {
            let words = source(content).alphabet();
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{content}: a word came twice");
            assert!(words.len() >= 100, "{content}: {}", words.len());
            assert!(words.iter().all(|word| !word.is_empty() && !word.contains(char::is_whitespace)));
        }
    }

    #[test]
    fn frequent_words_are_as_frequent_as_in_a_language() {
        let text = text(Content::English, 7, 20_000);
        let words: Vec<String> = text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase).collect();
        let share = |word: &str| {
            let hits = words.iter().filter(|found| *found == word).count();
            f64::from(u32::try_from(hits).unwrap()) / f64::from(u32::try_from(words.len()).unwrap())
        };
        // The law of Zipf and Mandelbrot over a short list: the first word has some 7 %, the tenth a third of it.
        let (first, tenth) = (share(languages::ENGLISH.words[0]), share(languages::ENGLISH.words[9]));
        assert!((0.05..0.09).contains(&first) && (0.2..0.4).contains(&(tenth / first)), "{first} {tenth}");
    }

    #[test]
    fn a_language_has_sentences_and_code_has_lines() {
        let german = text(Content::German, 3, 200);
        assert!(german.contains(". ") && german.contains(", "), "{german}");
        assert!(german.starts_with(char::is_uppercase), "{german}");
        let chinese = text(Content::Chinese, 3, 200);
        assert!(chinese.contains('。') && !chinese.contains(' '), "{chinese}");
        let code = text(Content::Code, 3, 60);
        assert!(code.lines().count() > 30 && code.contains("\n    "), "{code}");
    }
}

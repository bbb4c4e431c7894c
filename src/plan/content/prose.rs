//! Sentences: words by the law of Zipf and Mandelbrot, commas, full stops, capitals.

use crate::base::rng::Stream;
use crate::plan::content::Source;

/// A language.
pub(super) struct Language {
    /// Its words, the most frequent first.
    pub(super) words: &'static [&'static str],
    /// What stands between two words.
    pub(super) space: &'static str,
    /// What ends a part of a sentence, and a sentence.
    pub(super) marks: [&'static str; 2],
}

/// The offset of Mandelbrot's form of Zipf's law, p(rank) ~ 1 / (rank + offset), as it is found in English texts
/// (Piantadosi 2014, Psychonomic Bulletin & Review 21).
const OFFSET: f64 = 2.7;
/// Words of a sentence, from and to.
const SENTENCE: [u64; 2] = [6, 24];
/// One word in so many has a comma behind it.
const COMMA: u64 = 9;

/// Endless sentences.
pub(super) struct Prose {
    language: &'static Language,
    /// Cumulative weights of the words.
    weights: Vec<f64>,
    /// Words left of the sentence; none before the first.
    left: u64,
    /// What stands before the next word.
    before: &'static str,
}

impl Prose {
    pub(super) fn new(language: &'static Language) -> Self {
        let weights = (1_u32..).zip(language.words).scan(0.0, |sum, (rank, _)| {
            *sum += 1.0 / (f64::from(rank) + OFFSET);
            Some(*sum)
        });
        Self { language, weights: weights.collect(), left: 0, before: "" }
    }

    fn word(&self, stream: &mut Stream) -> &'static str {
        let at = stream.uniform() * self.weights.last().copied().unwrap_or_default();
        let rank = self.weights.partition_point(|weight| *weight <= at);
        self.language.words.get(rank).copied().unwrap_or_default()
    }
}

impl Source for Prose {
    fn next(&mut self, stream: &mut Stream, first: bool) -> String {
        let [comma, stop] = self.language.marks;
        let begins = self.left == 0;
        if begins {
            let [least, most] = SENTENCE;
            self.left = stream.between(least, most);
        }
        let word = self.word(stream);
        let mut piece = String::new();
        if !first {
            piece.push_str(self.before);
            piece.push_str(self.language.space);
        }
        let mut letters = word.chars();
        match letters.next() {
            Some(letter) if begins => piece.extend(letter.to_uppercase().chain(letters)),
            _ => piece.push_str(word),
        }
        self.left -= 1;
        self.before = match self.left {
            0 => stop,
            _ if stream.below(COMMA) == 0 => comma,
            _ => "",
        };
        piece
    }

    fn space(&self) -> &'static str {
        self.language.space
    }

    fn fillers(&self) -> Vec<String> {
        self.language.words.iter().map(|word| format!("{}{word}", self.language.space)).collect()
    }

    fn alphabet(&self) -> &'static [&'static str] {
        self.language.words
    }
}

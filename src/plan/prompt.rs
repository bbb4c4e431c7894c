//! The text of a prompt, made from its recipe when the request is sent.

use crate::base::rng::Stream;
use crate::plan::content::{Count, exact};
use crate::plan::request::{Form, PromptRecipe};
use crate::plan::vocabulary::WORDS;

/// Words that spell the seed, enough for 64 bits at 800 words.
const SPELLED: u32 = 7;

/// The text of a prompt by whoever counts tokens, where its length is to be exact; none where that is not to be had.
pub fn counted(recipe: &PromptRecipe, count: Option<&Count<'_>>) -> Option<String> {
    match (recipe.form, count) {
        (Form::Exact(content), Some(count)) => exact(recipe, content, count),
        (Form::Exact(_), None) => None,
        (Form::Words | Form::Ids(_), _) => Some(text(recipe)),
    }
}

/// The prompt's words, separated by single spaces.
///
/// Each part begins with its seed, spelled in words: different seeds
/// differ within the first seven words, so nothing is read from a prefix cache by accident. (A part
/// of fewer words is distinct only by chance.) The same recipe always gives the same text.
pub fn text(recipe: &PromptRecipe) -> String {
    // The longest words have seven letters; their mean is under five.
    let mut out = String::with_capacity(usize::try_from(recipe.words).unwrap_or_default().saturating_mul(6));
    recipe.parts().for_each(|part| extend(&mut out, part.seed, part.words));
    out
}

/// The token ids of a prompt that is sent as such: as many as its words. None for one of text.
///
/// They come from the middle half of the vocabulary: special tokens, single bytes and unused ids stand at its ends.
/// As in a text, each part begins with its seed, in digits that are tokens. The same recipe always gives the same ids.
pub fn ids(recipe: &PromptRecipe) -> Option<Vec<u32>> {
    let Form::Ids(vocabulary) = recipe.form else { return None };
    let range = Ids { first: vocabulary.div_euclid(4), count: vocabulary.div_euclid(2).max(1) };
    let mut out = Vec::with_capacity(usize::try_from(recipe.words).unwrap_or_default());
    recipe.parts().for_each(|part| range.extend(&mut out, part.seed, part.words));
    Some(out)
}

/// A range of token ids.
struct Ids {
    first: u32,
    count: u32,
}

impl Ids {
    /// Appends `tokens` ids fixed by the seed.
    fn extend(&self, out: &mut Vec<u32>, seed: u64, tokens: u32) {
        let (mut largest, mut digits) = (u64::MAX, seed);
        let mut stream = Stream::named(seed, "token ids");
        for _ in 0..tokens {
            // As many digits as the largest seed has, then at random: 32 bits scaled to the range.
            let index = if largest > 0 {
                let digit = digits.checked_rem(self.count.into()).unwrap_or_default();
                digits = digits.checked_div(self.count.into()).unwrap_or_default();
                largest = largest.checked_div(self.count.into()).unwrap_or_default();
                digit
            } else {
                ((stream.bits() >> 32) * u64::from(self.count)) >> 32
            };
            out.push(self.first.saturating_add(u32::try_from(index).unwrap_or_default()));
        }
    }
}

/// Appends `count` words fixed by the seed.
fn extend(out: &mut String, seed: u64, count: u32) {
    let spelled = SPELLED.min(count);
    let mut digits = seed;
    for _ in 0..spelled {
        push(out, digits % BASE);
        digits = digits.checked_div(BASE).unwrap_or_default();
    }
    let mut left = count - spelled;
    if left == 0 {
        return;
    }
    let mut stream = Stream::named(seed, "prompt");
    while left > 0 {
        // Four words a draw: 16 bits scaled to the vocabulary, even to one part in 80.
        let bits = stream.bits();
        for shift in [0, 16, 32, 48].into_iter().take(usize::try_from(left).unwrap_or(4)) {
            push(out, (((bits >> shift) & 0xffff) * BASE) >> 16);
            left -= 1;
        }
    }
}

const BASE: u64 = WORDS.len() as u64;

fn push(out: &mut String, index: u64) {
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(usize::try_from(index).ok().and_then(|index| WORDS.get(index)).copied().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::plan::request::Part;

    fn recipe(seed: u64, words: u32, prefix: Option<(u64, u32)>) -> PromptRecipe {
        let prefix = prefix.map(|(seed, words)| Part { seed, words }).into_iter().collect();
        PromptRecipe { seed, words, prefix, form: Form::Words }
    }

    #[test]
    fn the_vocabulary_spells_every_seed_and_holds_only_plain_words() {
        assert!(u128::from(BASE).pow(SPELLED) > u128::from(u64::MAX));
        assert!(WORDS.is_sorted_by(|a, b| a < b));
        for word in WORDS {
            assert!((2..=7).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
        }
    }

    #[test]
    fn a_text_is_pinned() {
        // A change of this text would make every stored plan another one.
        insta::assert_snapshot!(text(&recipe(0x1234_5678_9abc_def0, 24, Some((u64::MAX, 9)))), @"next discuss why flow yet hundred bus exist quite try did allow show eat across after at carry shot program well glad before are");
    }

    #[test]
    fn ids_are_pinned_stay_in_the_middle_of_the_vocabulary_and_are_used_evenly() {
        let of = |recipe: PromptRecipe, vocabulary| ids(&PromptRecipe { form: Form::Ids(vocabulary), ..recipe });
        let some = of(recipe(0x1234_5678_9abc_def0, 12, Some((u64::MAX, 6))), 32_000).unwrap();
        // A change of these ids would make every stored plan of token ids another one: raise their version.
        insta::assert_snapshot!(format!("{some:?}"), @"[23615, 22846, 18037, 15599, 8281, 10036, 22320, 8486, 23576, 8255, 8020, 11130]");
        assert_eq!(ids(&recipe(1, 5, None)), None);
        for vocabulary in [256, 1_000, 49_152, 16_777_216] {
            let ids = of(recipe(9, 20_000, None), vocabulary).unwrap();
            assert_eq!(ids.len(), 20_000);
            let (quarter, half) = (vocabulary >> 2, vocabulary >> 1);
            assert!(ids.iter().all(|id| (quarter..quarter + half).contains(id)), "{vocabulary}");
        }
        let ids = of(recipe(9, 128_000, None), 256).unwrap();
        let mut counts = BTreeMap::<u32, u32>::new();
        for id in &ids {
            *counts.entry(*id).or_default() += 1;
        }
        // 1,000 of each expected, standard deviation 32.
        assert!(counts.len() == 128 && counts.values().all(|n| (840..=1_160).contains(n)), "{counts:?}");
    }

    #[test]
    fn words_are_used_evenly_and_do_not_repeat_in_a_pattern() {
        let text = text(&recipe(3, 80_000, None));
        let mut counts = BTreeMap::<&str, u32>::new();
        text.split(' ').for_each(|word| *counts.entry(word).or_default() += 1);
        // 100 of each expected, standard deviation 10.
        assert_eq!(counts.len(), WORDS.len());
        assert!(counts.values().all(|n| (50..=150).contains(n)), "{counts:?}");
        let words: Vec<&str> = text.split(' ').skip(7).take(4_000).collect();
        let fours: BTreeSet<_> = words.windows(4).collect();
        assert_eq!(fours.len(), words.len() - 3, "four words in a row came twice");
    }

    #[test]
    fn equal_parts_are_equal_words_and_no_prompt_is_longer_than_it_says() {
        let of = |parts: &[(u64, u32)], words| {
            let prefix = parts.iter().map(|(seed, words)| Part { seed: *seed, words: *words }).collect();
            text(&PromptRecipe { prefix, ..recipe(9, words, None) })
        };
        let (one, other) = (of(&[(1, 32), (2, 32), (3, 32)], 100), of(&[(1, 32), (2, 32), (4, 32)], 100));
        let words =
            |text: &str, from: usize, to: usize| text.split(' ').take(to).skip(from).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&one, 0, 64), words(&other, 0, 64));
        assert_ne!(words(&one, 64, 71), words(&other, 64, 71));
        assert_eq!(words(&one, 96, 100), words(&other, 96, 100), "its own words");
        assert_eq!(of(&[(1, 32), (2, 32)], 40), words(&one, 0, 40), "cut in a part");
    }

    proptest! {
        #[test]
        fn the_first_words_differ_whenever_the_seeds_do(a: u64, b: u64, near in 0..1_000_u64) {
            for (a, b) in [(a, b), (a, a.wrapping_add(near))] {
                let head = |seed| text(&recipe(seed, 16, None));
                prop_assert_eq!(head(a) == head(b), a == b);
                let ids = |seed| ids(&PromptRecipe { form: Form::Ids(40_000), ..recipe(seed, 16, None) });
                prop_assert_eq!(ids(a) == ids(b), a == b);
            }
        }

        #[test]
        fn a_prompt_has_its_length_and_its_prefix(seed: u64, shared: u64, words in 0..300_u32, prefix in 0..300_u32) {
            let whole = text(&recipe(seed, words, Some((shared, prefix))));
            prop_assert_eq!(u32::try_from(whole.split_whitespace().count()).unwrap(), words);
            prop_assert!(whole.starts_with(&text(&recipe(shared, prefix.min(words), None))));
        }
    }
}

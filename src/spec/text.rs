//! Text from a stranger, made fit for a message: bounded, with nothing that could steer a terminal.

/// Longest quotation of a user's text, in characters.
const QUOTED: usize = 60;

/// Whether a terminal shows this character as itself: no control characters, and none of the invisible
/// ones that hide or reorder text (zero width, bidirectional overrides, byte-order mark).
pub(super) fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text with everything unprintable escaped, cut after `limit` characters.
pub(super) fn escape(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            out.push('…');
            break;
        }
        if is_printable(c) { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// The text in backticks, for a message.
pub(super) fn quote(text: &str) -> String {
    format!("`{}`", escape(text, QUOTED))
}

/// The words in backticks, separated by commas, for a message.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// The candidate that the word was most likely meant to be: at most one edit for every three letters.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(QUOTED).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(edits, candidate)| edits * 3 <= candidate.chars().count().max(word.len()))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: insertions, deletions and replacements (Wagner and Fischer 1974, one row kept).
fn distance(word: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (above, b) in other.chars().enumerate() {
        let mut diagonal = above;
        let mut left = above + 1;
        for (cell, a) in row.iter_mut().skip(1).zip(word) {
            let edits = (diagonal + usize::from(*a != b)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, edits);
            left = edits;
        }
        if let Some(first) = row.first_mut() {
            *first = above + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        for (a, b, edits) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("at_mst", "at_most", 1)] {
            assert_eq!(distance(&a.chars().collect::<Vec<_>>(), b), edits, "{a} {b}");
        }
    }

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        let metrics = ["ttft", "tpot", "throughput"];
        assert_eq!(nearest("troughput", metrics), Some("throughput"));
        assert_eq!(nearest("TTFT", metrics), Some("ttft"));
        assert_eq!(nearest("latency", metrics), None);
    }

    #[test]
    fn quotations_are_bounded_and_inert() {
        assert_eq!(quote("a\u{1b}[31m\u{202e}é"), "`a\\u{1b}[31m\\u{202e}é`");
        assert_eq!(quote(&"x".repeat(1_000)).chars().count(), QUOTED + 3);
    }
}

//! Hostile text made fit for one line of a report or a terminal.

/// Most bytes of an excerpt in a `detail`.
pub(super) const DETAIL: usize = 200;

/// The beginning of `text` in at most `limit` bytes, with three dots where something was cut off.
/// Control characters, and those that hide or reorder text, are written as escapes.
pub(super) fn excerpt(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    let mut cut = 0;
    for c in text.trim().chars() {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        if out.len() <= limit.saturating_sub(3) {
            cut = out.len();
        } else if out.len() > limit {
            out.truncate(cut);
            out.push_str("...");
            break;
        }
    }
    out
}

/// Zero-width, direction-changing and line-separating characters.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_at_a_character_and_escaped() {
        assert_eq!(excerpt(" plain text\n", 20), "plain text");
        assert_eq!(excerpt("a\nb\u{1b}[31m\u{202e}", 40), r"a\nb\u{1b}[31m\u{202e}");
        assert_eq!(excerpt("0123456789", 10), "0123456789");
        assert_eq!(excerpt("0123456789x", 10), "0123456...");
        assert_eq!(excerpt("aaaaaa\u{20ac}bbbb", 10), "aaaaaa...");
    }

    proptest! {
        #[test]
        fn an_excerpt_is_one_bounded_line(text: String, limit in 3_usize..80) {
            let line = excerpt(&text, limit);
            prop_assert!(line.len() <= limit && !line.contains(char::is_control));
        }
    }
}

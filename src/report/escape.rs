//! Text from outside made harmless for each format.
//!
//! Names, messages and conditions come from servers and files, and end in terminals, XML readers and
//! GitHub pages. Everything is bounded in length, and no control character, line break or character that
//! turns the direction of writing survives: such a character shows as U+FFFD, so that a reader sees that
//! something was there.

/// The longest one-line text, in characters.
pub const LINE: usize = 600;
/// The longest text of several lines, in characters.
pub const TEXT: usize = 10_000;

/// One line: white space of any kind becomes one space, at most [`LINE`] characters.
pub fn one_line(text: &str) -> String {
    bounded(text.split_whitespace().map(clean).collect::<Vec<_>>().join(" "), LINE)
}

/// Text for an XML text node; line breaks stay. XML 1.0 (section 2.2) forbids most C0 characters,
/// U+FFFE and U+FFFF even as references. What marks an attachment for GitLab is broken up, for it names
/// a file to publish. `<`, `&` and `]]>` are left to the XML writer.
pub fn xml(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(clean).collect();
    bounded(lines.join("\n"), TEXT).replace("[[ATTACHMENT|", "[ [ATTACHMENT|")
}

/// One line for an XML attribute, where readers turn line breaks into spaces anyway.
pub fn xml_line(text: &str) -> String {
    one_line(text).replace("[[ATTACHMENT|", "[ [ATTACHMENT|")
}

/// One line of plain prose for GitHub Markdown, also inside a table: no markup, HTML, link, mention or
/// reference to an issue comes to life. Pipes and back-slashes become entities, so that a reader which
/// splits rows naively counts the same columns.
pub fn markdown(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).replace("://", ":\u{200b}//").replace("www.", "www\u{200b}.").chars() {
        match c {
            '\\' => out.push_str("&#92;"),
            '|' => out.push_str("&#124;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // The zero-width space keeps the rendered text from matching a mention or an issue. After a
            // letter or digit, as in `tpot.p50@c8`, there is no mention to break.
            '@' if !out.ends_with(|before: char| before.is_ascii_alphanumeric()) => out.push_str("@&#8203;"),
            '#' => out.push_str("&#35;&#8203;"),
            '\u{200b}' => out.push_str("&#8203;"),
            '*' | '_' | '`' | '[' | ']' | '~' | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// A name as a Markdown code span, where no markup, HTML or mention works; the two characters that end a
/// span or a table cell are replaced.
pub fn markdown_code(text: &str) -> String {
    let line = one_line(text).replace('`', "'").replace('|', "\u{a6}");
    format!("`{}`", if line.is_empty() { "-" } else { &line })
}

/// One line for a terminal or a CI log.
pub fn terminal(text: &str) -> String {
    without_runner_commands(&one_line(text))
}

/// Breaks up commands to the GitHub runner (`::error::`, `##[group]`), which looks for them in everything a
/// step prints. For text put together from pieces: two harmless pieces may join into a command.
pub fn without_runner_commands(text: &str) -> String {
    text.replace("::", ": :").replace("::", ": :").replace("##[", "# #[")
}

/// Replaces every run of characters that must not be written by one U+FFFD; a tab becomes a space. For one line of
/// a text whose spaces and length matter.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\t' {
            out.push(' ');
        } else if !is_hostile(c) {
            out.push(c);
        } else if !out.ends_with('\u{fffd}') {
            out.push('\u{fffd}');
        }
    }
    out
}

/// Controls, marks and overrides of the direction of writing, separators that break lines, non-characters.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn bounded(mut text: String, most: usize) -> String {
    if let Some((cut, _)) = text.char_indices().nth(most) {
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_characters_are_seen_but_do_nothing() {
        let text = "a\u{1b}[31mred\0\u{202e}b\r\n::error::x ]]> \u{ffff}";
        assert_eq!(one_line(text), "a\u{fffd}[31mred\u{fffd}b ::error::x ]]> \u{fffd}");
        assert_eq!(xml("a\r\nb\tc\u{b}"), "a\nb c\u{fffd}");
        assert_eq!(xml("[[ATTACHMENT|/etc/passwd]]"), "[ [ATTACHMENT|/etc/passwd]]");
        assert_eq!(terminal(":::error::x ##[group]"), ": : :error: :x # #[group]");
        assert_eq!(one_line(&"x".repeat(LINE + 1)).len(), LINE + 3);
    }

    #[test]
    fn markdown_has_no_way_out_of_its_cell() {
        assert_eq!(
            markdown("a|b `c` <img> @org p50@c8 #1 \\ http://x kv_cache"),
            "a&#124;b \\`c\\` &lt;img&gt; @&#8203;org p50@c8 &#35;&#8203;1 &#92; http:&#8203;//x kv\\_cache"
        );
        assert_eq!(markdown_code("tpot.p50@c8"), "`tpot.p50@c8`");
        assert_eq!(markdown_code("a`|b\n"), "`a'\u{a6}b`");
        assert_eq!(markdown_code(""), "`-`");
    }

    proptest! {
        #[test]
        fn nothing_hostile_survives(text in any::<String>()) {
            for out in [one_line(&text), markdown(&text), markdown_code(&text), terminal(&text), xml_line(&text)] {
                prop_assert!(!out.chars().any(is_hostile), "{out:?}");
            }
            prop_assert!(!xml(&text).chars().any(|c| c != '\n' && is_hostile(c)));
            prop_assert!(!terminal(&text).contains("::"));
            prop_assert!(!markdown(&text).contains(['|', '<', '>']) && !markdown_code(&text).contains('|'));
        }
    }
}

//! A part of a cell's requests: those of a class, of a length of context, of some turns of a session, or all at once. It is chosen by what was planned
//! and never by what came back, so that the same requests are compared on both sides whatever became of them.

use std::fmt;

use crate::spec::findings::Fault;
use crate::spec::session::MOST_TURNS;
use crate::spec::text::quote;

/// Which requests of a cell. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// Those of this class.
    pub class: Option<String>,
    /// Those with a prompt of this length.
    pub context: Option<Context>,
    /// Those at this place in their session.
    pub turn: Option<Turns>,
}

impl Slice {
    /// Whether it is the whole cell.
    pub const fn is_whole(&self) -> bool {
        self.class.is_none() && self.context.is_none() && self.turn.is_none()
    }

    /// The name of this part of a cell in checks and reports: `mixed`, `mixed:chat`, `mixed:context=8k-32k`,
    /// `mixed:chat,context=8k-32k`, `agent:turn=2-4`. Names of cells, phases and classes have neither `:` nor `=`.
    pub fn of(&self, cell: &str) -> String {
        let context = self.context.map(|context| format!("context={context}"));
        let turn = self.turn.map(|turn| format!("turn={turn}"));
        let parts: Vec<String> = [self.class.clone(), context, turn].into_iter().flatten().collect();
        if parts.is_empty() { cell.to_owned() } else { format!("{cell}:{}", parts.join(",")) }
    }
}

/// The largest end of a range, and what stands for none.
const MOST: u32 = 1_000_000;

/// Lengths of prompts in tokens, half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    /// The smallest.
    pub from: u32,
    /// The first that is too long; `u32::MAX` for no limit.
    pub upto: u32,
}

impl Context {
    /// Whether a prompt of so many tokens is one.
    pub const fn holds(self, tokens: u32) -> bool {
        self.from <= tokens && tokens < self.upto
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { from: 0, upto } => write!(f, "-{}", written(upto)),
            Self { from, upto: u32::MAX } => write!(f, "{}-", written(from)),
            Self { from, upto } => write!(f, "{}-{}", written(from), written(upto)),
        }
    }
}

/// Places in a session, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turns {
    /// The first.
    pub from: u32,
    /// The last; `u32::MAX` for no limit.
    pub to: u32,
}

impl Turns {
    /// Whether a turn is one of them.
    pub const fn holds(self, turn: u32) -> bool {
        self.from <= turn && turn <= self.to
    }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { from, to: u32::MAX } => write!(f, "{from}-"),
            Self { from, to } if from == to => write!(f, "{from}"),
            Self { from, to } => write!(f, "{from}-{to}"),
        }
    }
}

/// Turns as people write them: `1`, `2-4` or `2-`.
pub(super) fn turns(text: &str) -> Result<Turns, Fault> {
    let help = "write `1`, `2-4` or `2-`";
    let number = |text: &str| {
        let right = !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| right)
    };
    let turns = match text.split_once('-') {
        None => number(text).map(|turn| Turns { from: turn, to: turn }),
        Some((from, "")) => number(from).map(|from| Turns { from, to: u32::MAX }),
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| Turns { from, to }),
    };
    let turns = turns.ok_or_else(|| Fault::new("wrong-type", format!("{} is no range of turns", quote(text)), help))?;
    if turns.from == 0
        || turns.from > turns.to
        || turns.from > MOST_TURNS
        || (turns.to > MOST_TURNS && turns.to != u32::MAX)
    {
        let message = format!("no session has the turns {}", quote(text));
        return Err(Fault::new("out-of-range", message, format!("{help}; turns count from 1 to {MOST_TURNS}")));
    }
    if turns.to_string() != text {
        let message = format!("{} is written `{turns}`", quote(text));
        return Err(Fault::new(
            "out-of-range",
            message,
            format!("write `{turns}`: a range has one name in the reports"),
        ));
    }
    Ok(turns)
}

/// The one way to write a number: thousands with `k`.
#[expect(clippy::integer_division, reason = "whole thousands")]
fn written(tokens: u32) -> String {
    if tokens > 0 && tokens.is_multiple_of(1_000) { format!("{}k", tokens / 1_000) } else { tokens.to_string() }
}

/// A range as people write it: `8k-32k`, `8k-` or `-2k`.
pub(super) fn context(text: &str) -> Result<Context, Fault> {
    let help = "write `8k-32k` (from 8000 to 31999 tokens), `8k-` or `-2k`";
    let wrong = || Fault::new("wrong-type", format!("{} is not a range of lengths", quote(text)), help);
    let (from, upto) = text.split_once('-').ok_or_else(wrong)?;
    let end = |end: &str, open: u32| if end.is_empty() { Some(open) } else { tokens(end) };
    let (from, upto) = end(from, 0).zip(end(upto, u32::MAX)).ok_or_else(wrong)?;
    let range = Context { from, upto };
    if text == "-" || from >= upto || from > MOST || (upto > MOST && upto != u32::MAX) {
        let message = format!("no prompt has a length in {}", quote(text));
        return Err(Fault::new("out-of-range", message, format!("{help}; at most `1000k`")));
    }
    if range.to_string() != text {
        let message = format!("{} is written `{range}`", quote(text));
        return Err(Fault::new(
            "out-of-range",
            message,
            format!("write `{range}`: a range has one name in the reports"),
        ));
    }
    Ok(range)
}

/// `8k` or `8000`.
fn tokens(text: &str) -> Option<u32> {
    let (digits, times) = text.strip_suffix('k').map_or((text, 1), |digits| (digits, 1_000));
    let right = !digits.is_empty() && digits.len() <= 7 && digits.bytes().all(|b| b.is_ascii_digit());
    Some(digits.parse::<u32>().ok().filter(|_| right)?.saturating_mul(times).min(MOST + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_has_one_spelling() {
        let range = |from, upto| Context { from, upto };
        for (text, meant) in [
            ("8k-32k", range(8_000, 32_000)),
            ("8k-", range(8_000, u32::MAX)),
            ("-2k", range(0, 2_000)),
            ("1500-2k", range(1_500, 2_000)),
        ] {
            assert_eq!(context(text).unwrap(), meant);
            assert_eq!(meant.to_string(), text);
        }
        for (text, code, help) in [
            ("8000-32k", "out-of-range", "write `8k-32k`"),
            ("0-2k", "out-of-range", "write `-2k`"),
            ("08k-9k", "out-of-range", "write `8k-9k`"),
            ("32k-8k", "out-of-range", "write `8k-32k`"),
            ("-", "out-of-range", "`8k-`"),
            ("-1001k", "out-of-range", "at most `1000k`"),
            ("8K-9K", "wrong-type", "write `8k-32k`"),
            ("8k", "wrong-type", "write `8k-32k`"),
            ("1.5k-2k", "wrong-type", "write `8k-32k`"),
            ("99999999k-", "wrong-type", "write `8k-32k`"),
        ] {
            let fault = context(text).unwrap_err();
            assert_eq!(fault.code, code, "{text}");
            assert!(fault.help.contains(help), "{text}: {}", fault.help);
        }
        assert!(range(8_000, 32_000).holds(8_000) && !range(8_000, 32_000).holds(32_000));
    }

    #[test]
    fn a_part_of_a_cell_has_a_name_of_its_own() {
        let (class, context) = (Some("chat".to_owned()), Some(Context { from: 8_000, upto: 32_000 }));
        assert_eq!(Slice::default().of("c8/burst"), "c8/burst");
        let of_class = Slice { class, ..Slice::default() };
        assert_eq!(of_class.of("mixed"), "mixed:chat");
        assert_eq!(Slice { context, ..Slice::default() }.of("mixed"), "mixed:context=8k-32k");
        assert_eq!(Slice { context, ..of_class }.of("mixed"), "mixed:chat,context=8k-32k");
        let turn = Some(Turns { from: 2, to: u32::MAX });
        assert_eq!(Slice { turn, ..Slice::default() }.of("agent"), "agent:turn=2-");
        assert_eq!(Slice { context, turn, class: None }.of("agent"), "agent:context=8k-32k,turn=2-");
    }

    #[test]
    fn turns_have_one_spelling() {
        for (text, from, to) in [("1", 1, 1), ("2-4", 2, 4), ("2-", 2, u32::MAX), ("1000", 1_000, 1_000)] {
            let meant = Turns { from, to };
            assert_eq!((turns(text).unwrap(), meant.to_string().as_str()), (meant, text));
        }
        for (text, code) in [
            ("0", "out-of-range"),
            ("2-2", "out-of-range"),
            ("02", "out-of-range"),
            ("4-2", "out-of-range"),
            ("1001", "out-of-range"),
            ("1-1001", "out-of-range"),
            ("-4", "wrong-type"),
            ("", "wrong-type"),
            ("1-2-3", "wrong-type"),
            ("two", "wrong-type"),
            ("99999-", "wrong-type"),
        ] {
            assert_eq!(turns(text).unwrap_err().code, code, "{text}");
        }
        let later = Turns { from: 2, to: 4 };
        assert_eq!([1, 2, 4, 5].map(|turn| later.holds(turn)), [false, true, true, false]);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(from in 0_u32..1_000_000, size in 1_u32..1_000_000) {
            let range = Context { from, upto: (from + size).min(MOST) };
            prop_assert_eq!(context(&range.to_string()).unwrap(), range);
        }

        #[test]
        fn no_text_is_read_as_anything_but_its_own_spelling(text in "[0-9k-]{0,12}") {
            if let Ok(range) = context(&text) {
                prop_assert_eq!(range.to_string(), text);
            }
        }
    }
}

//! Finds a key in a text that somebody else wrote, as it is and as it looks after the usual encodings.
//!
//! Percent-encoding and JSON escapes are undone before the search, so a text may encode any part of the key, some
//! times over. Base64 and hex are looked for as such. All in any case of ASCII letters, in time linear in the text.

use std::borrow::Cow;
use std::ops::Range;

/// A shorter form is met by chance: a key that short counts only as it is, and a cut one not at all.
const FEWEST: usize = 6;
/// A text that is encoded more often than this is not followed.
const LAYERS: usize = 3;
/// What stands in place of a key.
const MASK: &str = "***";
/// The end of a text that was cut.
const CUT: &[u8] = b"...";

const ALPHABETS: [&[u8; 64]; 2] = [
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
];

/// Everything that a key is looked for as.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Forms(Vec<Form>);

impl Forms {
    /// The forms of a key; none of an empty one.
    pub(super) fn of(key: &str) -> Self {
        let key = key.as_bytes();
        let mut forms = vec![Form::new(key.to_vec(), false)];
        let hex =
            key.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|half| char::from_digit(u32::from(half), 16));
        forms.push(Form::new(hex.collect::<String>().into_bytes(), false));
        // A byte before the key shifts it by two bits against the sextets, two bytes by four.
        for (alphabet, skipped) in ALPHABETS.iter().flat_map(|alphabet| [(alphabet, 0), (alphabet, 4), (alphabet, 2)]) {
            forms.push(Form::new(base64(key, alphabet, skipped), true));
        }
        forms.retain(|form| form.text.len() >= FEWEST || (form.text == key && !key.is_empty()));
        forms.dedup_by(|one, other| one.text == other.text);
        Self(forms)
    }

    /// The text with three asterisks in place of every form.
    pub(super) fn hide_in(&self, text: &str) -> String {
        let mut found = Vec::new();
        let mut layer = Some(Layer { bytes: Cow::Borrowed(text.as_bytes()), starts: None });
        for _ in 0..=LAYERS {
            let Some(seen) = layer else { break };
            self.0.iter().for_each(|form| form.find(&seen, &mut found));
            layer = seen.decoded();
        }
        found.sort_unstable_by_key(|span| span.start);
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        for Range { start, end } in found {
            let (start, end) = (text.floor_char_boundary(start), text.ceil_char_boundary(end));
            if end > done {
                if start >= done {
                    out.push_str(text.get(done..start).unwrap_or_default());
                    out.push_str(MASK);
                }
                done = end;
            }
        }
        out.push_str(text.get(done..).unwrap_or_default());
        out
    }
}

/// The sextets that rest on the key alone, when so many of its first bits belong to one with what is before it.
fn base64(key: &[u8], alphabet: &[u8; 64], skipped: usize) -> Vec<u8> {
    let bits = key.iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1));
    let bits: Vec<u8> = bits.skip(skipped).collect();
    let sextets = bits.chunks_exact(6).map(|six| six.iter().fold(0, |value, bit| value << 1 | bit));
    sextets.filter_map(|sextet: u8| alphabet.get(usize::from(sextet)).copied()).collect()
}

/// One form and its Knuth-Morris-Pratt table.
#[derive(Clone, PartialEq, Eq)]
struct Form {
    text: Vec<u8>,
    /// For every length of a beginning of `text`: the longest shorter beginning that it ends with.
    borders: Vec<usize>,
    /// Whether its neighbours hold the rest of its bits.
    base64: bool,
}

impl Form {
    fn new(text: Vec<u8>, base64: bool) -> Self {
        let mut form = Self { borders: vec![0, 0], text, base64 };
        for at in 1..form.text.len() {
            let longest = form.borders.last().copied().unwrap_or_default();
            let next = form.text.get(at).map_or(0, |byte| form.advance(longest, *byte));
            form.borders.push(next);
        }
        form
    }

    /// How much of the form ends with this byte, when so much of it ended before.
    fn advance(&self, mut matched: usize, byte: u8) -> usize {
        let same = |own: &u8| if self.text.len() < FEWEST { *own == byte } else { own.eq_ignore_ascii_case(&byte) };
        loop {
            if self.text.get(matched).is_some_and(same) {
                return matched + 1;
            }
            if matched == 0 {
                return 0;
            }
            matched = self.border(matched);
        }
    }

    fn border(&self, matched: usize) -> usize {
        self.borders.get(matched).copied().unwrap_or_default()
    }

    /// Where the form is, and where the text was cut within it.
    fn find(&self, layer: &Layer<'_>, found: &mut Vec<Range<usize>>) {
        let mut matched = 0;
        for (at, byte) in layer.bytes.iter().enumerate() {
            matched = self.advance(matched, *byte);
            let whole = matched == self.text.len();
            if whole || (matched >= FEWEST && layer.is_cut_at(at + 1)) {
                found.push(self.span(layer, at + 1 - matched, at + 1));
            }
            if whole {
                matched = self.border(matched);
            }
        }
    }

    fn span(&self, layer: &Layer<'_>, start: usize, end: usize) -> Range<usize> {
        let holds_bits = |at: usize| {
            let byte = layer.bytes.get(at);
            self.base64 && byte.is_some_and(|byte| ALPHABETS.iter().any(|alphabet| alphabet.contains(byte)))
        };
        let before = start.checked_sub(1).filter(|at| holds_bits(*at));
        layer.source(before.unwrap_or(start))..layer.source(if holds_bits(end) { end + 1 } else { end })
    }
}

/// A text without so many layers of encoding.
struct Layer<'t> {
    bytes: Cow<'t, [u8]>,
    /// Where each byte begins in the text itself, and the text's end; none where the text is as it was.
    starts: Option<Vec<usize>>,
}

impl Layer<'_> {
    fn source(&self, at: usize) -> usize {
        self.starts.as_ref().map_or(at, |starts| starts.get(at).copied().unwrap_or_default())
    }

    fn is_cut_at(&self, at: usize) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.is_empty() || rest.starts_with(CUT))
    }

    /// The text with one layer less; none where there is no further one.
    fn decoded<'n>(&self) -> Option<Layer<'n>> {
        if !self.bytes.iter().any(|byte| matches!(byte, b'%' | b'\\')) {
            return None;
        }
        let (mut bytes, mut starts) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.bytes.len() + 1));
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let start = self.source(at);
            let mut buffer = [0; 4];
            let (length, plain) = plain(rest, &mut buffer);
            bytes.extend_from_slice(plain);
            starts.extend(plain.iter().map(|_| start));
            at += length;
        }
        let further = bytes.len() < self.bytes.len();
        starts.push(self.source(self.bytes.len()));
        further.then_some(Layer { bytes: Cow::Owned(bytes), starts: Some(starts) })
    }
}

/// What a text begins with: so many bytes, and what they stand for.
fn plain<'b>(text: &'b [u8], buffer: &'b mut [u8; 4]) -> (usize, &'b [u8]) {
    let digits = |from: usize, to: usize| {
        let digits = std::str::from_utf8(text.get(from..to)?).ok()?;
        // `from_str_radix` would take a sign.
        let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| all)
    };
    let byte = |from: usize| digits(from, from + 2).and_then(|value| u8::try_from(value).ok());
    let one = match text {
        [b'%', ..] => byte(1).map(|byte| (3, byte)),
        [b'\\', b'x', ..] => byte(2).map(|byte| (4, byte)),
        [b'\\', sign @ (b'"' | b'\'' | b'/' | b'\\'), ..] => Some((2, *sign)),
        _ => None,
    };
    if let Some((length, byte)) = one {
        let [first, ..] = buffer;
        *first = byte;
        return (length, std::slice::from_ref(first));
    }
    match digits(2, 6).filter(|_| text.starts_with(b"\\u")).and_then(char::from_u32) {
        Some(c) => (6, c.encode_utf8(buffer).as_bytes()),
        None => (1, text.get(..1).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn percent(text: &str, upper: bool, all: bool) -> String {
        text.bytes().fold(String::new(), |mut out, byte| {
            match (all || !byte.is_ascii_alphanumeric(), upper) {
                (false, _) => out.push(char::from(byte)),
                (true, true) => write!(out, "%{byte:02X}").unwrap(),
                (true, false) => write!(out, "%{byte:02x}").unwrap(),
            }
            out
        })
    }

    fn unicode(text: &str) -> String {
        text.encode_utf16().fold(String::new(), |mut out, unit| {
            write!(out, "\\u{unit:04x}").unwrap();
            out
        })
    }

    /// As RFC 4648 says it, group by group.
    fn base64(text: &str, alphabet: &[u8; 64], padding: &str) -> String {
        let mut out = String::new();
        for group in text.as_bytes().chunks(3) {
            let value = (0..3).fold(0, |value, at| value << 8 | usize::from(*group.get(at).unwrap_or(&0)));
            for at in 0..4 {
                let sextet = char::from(alphabet[value >> (18 - 6 * at) & 63]);
                if at <= group.len() { out.push(sextet) } else { out.push_str(padding) }
            }
        }
        out
    }

    /// The key as a server may give it back, and more of the text before and after it.
    fn given_back(key: &str, before: &str, way: usize) -> String {
        let bearer = format!("Bearer {key}");
        match way {
            0 => key.to_owned(),
            1 => key.to_ascii_uppercase(),
            2 => key.to_ascii_lowercase(),
            3 => percent(key, true, false),
            4 => percent(key, false, true),
            5 => percent(&percent(key, true, false), false, false),
            6 => serde_json::to_string(key).unwrap(),
            7 => serde_json::to_string(&serde_json::to_string(key).unwrap()).unwrap(),
            8 => unicode(key),
            9 => unicode(key).to_uppercase().replace("\\U", "\\u"),
            10 => key.bytes().fold(String::new(), |out, byte| format!("{out}{byte:02x}")),
            11 => key.bytes().fold(String::new(), |out, byte| format!("{out}{byte:02X}")),
            12 => base64(key, ALPHABETS[0], "="),
            13 => base64(key, ALPHABETS[1], ""),
            14 => base64(&bearer, ALPHABETS[0], ""),
            15 => base64(&bearer, ALPHABETS[1], "="),
            16 => base64(&format!("{before}{key}{before}"), ALPHABETS[0], "="),
            17 => percent(&base64(&bearer, ALPHABETS[0], "="), true, false),
            _ => base64(key, ALPHABETS[0], "=").replace('/', "\\/"),
        }
    }

    const WAYS: usize = 19;

    proptest! {
        #[test]
        fn no_form_of_a_key_is_left(key in "[A-Za-z0-9._~+/=@:$!\"-]{6,60}", before in "[ -~]{0,7}", around in "[a-z :=]{0,9}", way in 0..WAYS) {
            let form = given_back(&key, &before, way);
            let forms = Forms::of(&key);
            let hidden = forms.hide_in(&format!("{around}{form}{around}"));
            prop_assert!(hidden.contains(MASK), "{hidden}");
            let lower = hidden.to_ascii_lowercase();
            prop_assert!(!lower.contains(&form.to_ascii_lowercase()), "{hidden}");
            prop_assert!(!lower.contains(&key.to_ascii_lowercase()), "{hidden}");
            // What a reader could still decode is not the key's: none of it is longer than what stood around it.
            prop_assert!(hidden.len() <= 2 * around.len() + 4 * (2 * before.len() + 12) + MASK.len(), "{hidden}");
        }

        #[test]
        fn what_holds_no_key_stays_as_it_is(text in "[a-y %\\\\u0-9é€]{0,200}") {
            prop_assert_eq!(Forms::of("zzz-Zq3vNever").hide_in(&text), text);
        }

        #[test]
        fn any_text_can_be_searched(key: String, text: String) {
            let hidden = Forms::of(&key).hide_in(&format!("{text}{key}{text}"));
            prop_assert!(key.is_empty() || hidden.contains(MASK));
        }
    }

    #[test]
    fn the_rest_of_the_text_stays() {
        let forms = Forms::of("sk-Zq3v/7");
        for (text, hidden) in [
            ("key sk-Zq3v/7, SK-ZQ3V/7.", "key ***, ***."),
            ("?key=sk%2DZq3v%2f7&n=%41", "?key=***&n=%41"),
            (r#"{"key":"\u0073k-Zq3v\/7"}"#, r#"{"key":"***"}"#),
            (r#"{"key":"\\u0073k-Zq3v\\\/7"}"#, r#"{"key":"***"}"#),
            ("0x736b2d5a7133762F37!", "0x***!"),
            ("c2stWnEzdi83 c2stWnEzdi83", "*** ***"),
            // The space shares a sextet with the key.
            ("QmVhcmVyIHNrLVpxM3YvNw==", "QmVhcmVyI***=="),
            ("sk-Zq3v/", "***"),
            ("cut: sk-Zq3v...; sk-Zq", "cut: ***...; sk-Zq"),
            ("sk-Zq3v, no more", "sk-Zq3v, no more"),
            ("aé%C3%A9sk-Zq3v/7é", "aé%C3%A9***é"),
        ] {
            assert_eq!(forms.hide_in(text), hidden);
        }
    }

    #[test]
    fn a_key_as_short_as_a_word_counts_only_as_it_is() {
        assert_eq!(Forms::of("EMPTY").hide_in("an empty EMPTY, %45MPTY"), "an empty ***, ***");
        assert_eq!(Forms::of("").hide_in("as it is"), "as it is");
    }

    #[test]
    fn a_key_that_overlaps_itself_leaves_no_end() {
        assert_eq!(Forms::of("abababa").hide_in("xababababababay"), "x***y");
    }
}

//! The text formats of metrics pages, Prometheus and `OpenMetrics`, read leniently: a page is evidence, and one odd
//! line must not cost the rest. Samples come out; comments, types, timestamps and exemplars are passed over; a line
//! that is none of these is counted.
//!
//! What real pages hold and strict readers refuse: names with colons, `_created` beside `_total`, labels in any
//! order with spaces between them, braces inside label values, CRLF, no end of the last line, no HELP, HELP of
//! another name, `# EOF` in the middle of pages that were joined.

use std::borrow::Cow;

/// Most bytes of a page that are read.
pub const MAX_PAGE: usize = 16 << 20;
/// Most samples of a page.
pub const MAX_SAMPLES: usize = 200_000;
/// Longest line, in bytes.
pub const MAX_LINE: usize = 64 << 10;
/// Most labels of a sample.
pub const MAX_LABELS: usize = 64;
/// Longest name of a metric or label and longest label value, in bytes.
pub const MAX_WORD: usize = 4_096;

/// One value of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Name, as it stands there.
    pub name: Cow<'a, str>,
    /// Labels in the order of the page, with unescaped values.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The value; it may be infinite or not a number.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_ref())
    }
}

/// A metrics page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page<'a> {
    /// The samples in order.
    pub samples: Vec<Sample<'a>>,
    /// Lines that are neither sample nor comment.
    pub unread: usize,
    /// Whether the page is larger than what is read of it.
    pub cut: bool,
}

/// Reads a page. Takes any bytes, in time proportional to their number.
pub fn parse(bytes: &[u8]) -> Page<'_> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut page = Page { cut: bytes.len() > MAX_PAGE, ..Page::default() };
    // A line that the limit cuts might still look like a sample, with fewer digits: it is left out.
    let whole = match bytes.get(..MAX_PAGE) {
        Some(first) if page.cut => first.get(..first.iter().rposition(|b| *b == b'\n').unwrap_or(0)).unwrap_or(&[]),
        _ => bytes,
    };
    for line in whole.split(|b| *b == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if page.samples.len() == MAX_SAMPLES {
            page.cut = true;
            break;
        }
        match read_line(line) {
            Some(sample) => page.samples.push(sample),
            None => page.unread += 1,
        }
    }
    page
}

fn read_line(line: &[u8]) -> Option<Sample<'_>> {
    if line.len() > MAX_LINE {
        return None;
    }
    let mut rest = Rest { text: std::str::from_utf8(line).ok()? };
    let mut name = rest.word(is_name);
    rest.spaces();
    let mut labels = Vec::new();
    if rest.take('{') {
        rest.labels(&mut name, &mut labels)?;
        rest.spaces();
    }
    let value = number(rest.until_space())?;
    rest.spaces();
    // Then a timestamp, an exemplar, or nothing.
    let tail = rest.text;
    let mut stamped = || number(rest.until_space()).is_some_and(f64::is_finite);
    if name.is_empty() || name.len() > MAX_WORD || !(tail.is_empty() || tail.starts_with('#') || stamped()) {
        return None;
    }
    Some(Sample { name, labels, value })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '-')
}

/// A value as the formats write it: `NaN`, `+Inf`, `8.1e+06`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// What is left of a line.
struct Rest<'a> {
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (head, tail) = self.text.split_at_checked(bytes).unwrap_or((self.text, ""));
        self.text = tail;
        head
    }

    fn word(&mut self, belongs: fn(char) -> bool) -> Cow<'a, str> {
        Cow::Borrowed(self.advance(self.text.find(|c| !belongs(c)).unwrap_or(self.text.len())))
    }

    fn until_space(&mut self) -> &'a str {
        self.advance(self.text.find([' ', '\t']).unwrap_or(self.text.len()))
    }

    fn spaces(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.text.strip_prefix(c);
        self.text = found.unwrap_or(self.text);
        found.is_some()
    }

    /// Everything up to the closing brace. A quoted word without a value is the metric's name.
    fn labels(&mut self, name: &mut Cow<'a, str>, labels: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Option<()> {
        loop {
            self.spaces();
            if self.take('}') {
                return Some(());
            }
            let quoted = self.text.starts_with('"');
            let label = if quoted { self.quoted()? } else { self.word(is_name) };
            self.spaces();
            if self.take('=') {
                self.spaces();
                let value = self.quoted()?;
                if label.is_empty() || label.len() > MAX_WORD || labels.len() == MAX_LABELS {
                    return None;
                }
                labels.push((label, value));
            } else if quoted && name.is_empty() {
                *name = label;
            } else {
                return None;
            }
            self.spaces();
            if !self.take(',') && !self.text.starts_with('}') {
                return None;
            }
        }
    }

    /// A quoted text without its escapes: `\\`, `\"` and `\n`; any other backslash stands for itself.
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        if !self.take('"') {
            return None;
        }
        let mut plain = String::new();
        loop {
            let part = self.advance(self.text.find(['"', '\\'])?);
            if plain.len().saturating_add(part.len()) > MAX_WORD {
                return None;
            }
            if self.take('"') {
                return Some(if plain.is_empty() {
                    Cow::Borrowed(part)
                } else {
                    plain.push_str(part);
                    Cow::Owned(plain)
                });
            }
            plain.push_str(part);
            self.advance(1);
            let escaped = match self.text.chars().next()? {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => {
                    plain.push('\\');
                    continue;
                }
            };
            plain.push(escaped);
            self.advance(1);
        }
    }
}

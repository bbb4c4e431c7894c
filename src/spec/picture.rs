//! Findings as pictures for a terminal: the line, the place in it, the reason and the fix.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::spec::text::{escape, is_printable};
use crate::spec::value::is_secret_key;

/// Characters of a source line that a picture shows at most.
const SHOWN: usize = 120;
/// Longest message or fix in characters.
const SENTENCE: usize = 600;

/// The findings of one file, whose text this is, as text for a terminal; ends with a line break unless empty.
/// Control characters of the file are replaced, long lines cut, secrets blotted out.
pub fn render(findings: &[Diagnostic], text: &str, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let source = Source { text, secrets: findings.iter().filter(|f| f.code == "secret-in-file").collect() };
    findings.iter().map(|finding| picture(finding, &source, &renderer) + "\n").collect::<Vec<_>>().join("\n")
}

struct Source<'a> {
    text: &'a str,
    secrets: Vec<&'a Diagnostic>,
}

fn picture(finding: &Diagnostic, source: &Source<'_>, renderer: &Renderer) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let key = if finding.key.is_empty() { String::new() } else { format!("`{}`: ", escape(&finding.key, SHOWN)) };
    let title = level.primary_title(key + &escape(&finding.message, SENTENCE)).id(finding.code);
    let place = escape(&finding.place.to_string(), 300);
    let mut group = Group::with_title(title);
    group = match source.line(finding) {
        Some(Line { shown, mark }) => {
            let number = usize::try_from(finding.place.line).unwrap_or(usize::MAX);
            let annotation = AnnotationKind::Primary.span(mark);
            // The origin is ours: the snippet is cut, so its own column would be wrong.
            group.element(Origin::path(place)).element(Snippet::source(shown).line_start(number).annotation(annotation))
        }
        None => group.element(Origin::path(place)),
    };
    if !finding.help.is_empty() {
        group = group.element(Level::HELP.message(escape(&finding.help, SENTENCE)));
    }
    renderer.render(&[group])
}

/// A line made fit to show, and the bytes of it to mark.
struct Line {
    shown: String,
    mark: Range<usize>,
}

impl Source<'_> {
    /// The part of the finding's line around its place; none for a finding about the whole file.
    fn line(&self, finding: &Diagnostic) -> Option<Line> {
        let span = &finding.place.span;
        let before = self.text.get(..span.start).filter(|_| finding.place.line > 0)?;
        let start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let line = self.text.get(start..)?.split(['\n', '\r']).next()?;
        let column = before.get(start..)?.chars().count();
        let value_of_secret = secret_value(line).map(|at| start + at);
        let (mut shown, mut mark) = (String::new(), None::<Range<usize>>);
        for (at, c) in line.char_indices().skip(column.saturating_sub(SHOWN / 4)).take(SHOWN) {
            let byte = start + at;
            let hidden = value_of_secret.is_some_and(|value| byte >= value)
                || self.secrets.iter().any(|secret| secret.place.span.contains(&byte));
            let begin = shown.len();
            shown.push(if hidden {
                '*'
            } else if is_printable(c) {
                c
            } else {
                '\u{fffd}'
            });
            if span.contains(&byte) || byte == span.start {
                mark = Some(mark.map_or(begin, |mark| mark.start)..shown.len());
            }
        }
        let mark = mark.unwrap_or(shown.len()..shown.len());
        Some(Line { shown, mark })
    }
}

/// Where the value begins in a line `api_key: ...`, even in a file that is not readable as YAML.
fn secret_value(line: &str) -> Option<usize> {
    let (key, _) = line.split_once(':')?;
    let name = key.trim_start_matches([' ', '\t', '-', '{', '"', '\'']).trim_end_matches([' ', '"', '\'']);
    is_secret_key(name).then_some(key.len() + 1)
}

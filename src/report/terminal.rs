//! The answer on a terminal: 80 columns, plain words; colour only repeats what the words say.

use std::iter;

use crate::report::effects::{Effects, Mark, Row};
use crate::report::escape::{terminal as text, without_runner_commands};
use crate::report::format;
use crate::report::view::{CheckView, View};
use crate::verdict::judgement::{Effect, Finding, Verdict};

/// Columns that every line keeps within.
pub const WIDTH: usize = 80;

/// The report. `colour` adds ANSI colours to verdicts; nothing else differs.
pub fn render(view: &View<'_>, colour: bool) -> String {
    let mut screen = Screen { text: String::new(), colour };
    screen.paragraph(&text(&view.headline), "", "", Some(view.judgement.verdict));
    for policy in &view.policies {
        let judged = policy.policy;
        let line = format!("{}: {} - {}", text(&judged.policy), judged.verdict, text(&judged.sentence));
        screen.paragraph(&line, "  ", "    ", Some(judged.verdict));
    }
    attention(&mut screen, view);
    effects(&mut screen, &view.effects);
    checks(&mut screen, view);
    screen.heading("Notes");
    for policy in &view.policies {
        for note in policy.notes() {
            screen.paragraph(&format!("{}: {}", text(&policy.policy.policy), text(&note)), "  ", "    ", None);
        }
    }
    screen.heading("Counts");
    for policy in &view.policies {
        screen.paragraph(&format!("{}: {}", text(&policy.policy.policy), policy.counts()), "  ", "    ", None);
    }
    let exit = format!("exit code {}, exit policy {}", view.exit_code, view.context.exit_policy.id());
    screen.paragraph(&exit, "  ", "    ", None);
    if !view.next_steps.is_empty() || !view.context.files.is_empty() {
        screen.heading("Next steps");
    }
    for step in &view.next_steps {
        screen.paragraph(&text(step), "  - ", "    ", None);
    }
    if !view.context.files.is_empty() {
        let files: Vec<String> = view.context.files.iter().map(|file| text(file)).collect();
        screen.paragraph(&format!("read the reports: {}", files.join(", ")), "  - ", "    ", None);
    }
    screen.text
}

struct Screen {
    text: String,
    colour: bool,
}

impl Screen {
    fn heading(&mut self, title: &str) {
        self.text.push('\n');
        self.text.push_str(title);
        self.text.push('\n');
    }

    /// Wraps `text` to the width. With a verdict, its first mention is coloured.
    fn paragraph(&mut self, text: &str, first: &str, other: &str, verdict: Option<Verdict>) {
        let mut verdict = verdict.filter(|_| self.colour);
        let text = without_runner_commands(text);
        for (i, line) in wrap(&text, WIDTH - other.len().max(first.len())).into_iter().enumerate() {
            self.text.push_str(if i == 0 { first } else { other });
            let painted = verdict.and_then(|verdict| paint(&line, verdict));
            if painted.is_some() {
                verdict = None;
            }
            self.text.push_str(painted.as_deref().unwrap_or(&line));
            self.text.push('\n');
        }
    }
}

/// The line with the verdict's word in colour; none when the word is not in it.
fn paint(line: &str, verdict: Verdict) -> Option<String> {
    let upper = verdict.id().to_uppercase().replace('_', " ");
    let word = [upper.as_str(), verdict.id()].into_iter().find(|word| line.contains(word))?;
    let code = match verdict {
        Verdict::Pass => 32,
        Verdict::Warn | Verdict::Inconclusive => 33,
        Verdict::NotComparable | Verdict::Error => 35,
        Verdict::Fail => 31,
        Verdict::NotApplicable => 90,
    };
    Some(line.replacen(word, &format!("\u{1b}[{code}m{word}\u{1b}[0m"), 1))
}

fn attention(screen: &mut Screen, view: &View<'_>) {
    let findings = view.findings();
    if !view.blocking.is_empty() || !findings.is_empty() {
        screen.heading(view.blocking_title());
    }
    // First: the checks that a finding keeps from being judged refer to it.
    for finding in findings {
        found(screen, finding);
    }
    for view in &view.blocking {
        sentence(screen, view);
    }
    let warnings = view.warnings();
    if !view.tolerated.is_empty() || !warnings.is_empty() {
        screen.heading("What does not block");
    }
    for finding in warnings {
        found(screen, finding);
    }
    for view in &view.tolerated {
        sentence(screen, view);
    }
}

fn found(screen: &mut Screen, finding: &Finding) {
    let cell = finding.cell.as_ref().map(|cell| format!(" at {}", text(cell))).unwrap_or_default();
    let line = format!("{} {}{cell}: {}", finding.verdict, finding.code, text(&finding.message));
    screen.paragraph(&line, "  - ", "    ", Some(finding.verdict));
}

fn sentence(screen: &mut Screen, view: &CheckView<'_>) {
    let check = view.check;
    let asides = view.asides().iter().map(|aside| format!(" ({})", text(aside))).collect::<Vec<_>>().concat();
    let head = format!("{} {} of {}", check.verdict, text(&check.id), text(view.policy));
    screen.paragraph(&format!("{head}: {}{asides}", text(&check.reason)), "  - ", "    ", Some(check.verdict));
}

/// Least width of a column of the table of effects; that of the first.
const COLUMN: usize = 19;

/// As many cells side by side as fit; more go below. A column is as wide as its longest number.
fn effects(screen: &mut Screen, effects: &Effects) {
    if effects.rows.is_empty() {
        return;
    }
    screen.heading("Change by cell (candidate against baseline, 90 % interval)");
    let numbers = effects.rows.iter().flat_map(|row| row.cells.iter().flat_map(|cell| cell_texts(row, *cell)));
    let column = numbers.map(|number| width(&number) + 1).max().unwrap_or(0).max(COLUMN);
    let indices: Vec<usize> = (0..effects.columns.len()).collect();
    for block in indices.chunks((WIDTH - 2 - COLUMN).div_euclid(column).max(1)) {
        let heads = effects.columns.iter().enumerate().filter(|(i, _)| block.contains(i));
        let heads = heads.map(|(_, head)| fit(&text(&head.label), column - 1));
        line(screen, iter::once(String::new()).chain(heads), column);
        for row in &effects.rows {
            effect_row(screen, row, block, column);
        }
    }
    for flip in effects.flips() {
        screen.paragraph(&text(&flip), "  ", "    ", None);
    }
}

/// The change and the interval of a cell.
fn cell_texts(row: &Row, cell: Option<(Effect, Mark)>) -> [String; 2] {
    cell.map_or_else(
        || [format::MISSING.to_owned(), String::new()],
        |(effect, mark)| {
            let change = format!("{} {}", format::change(row.metric, effect.change), mark.id());
            [change, format::interval(row.metric, effect.low, effect.high)]
        },
    )
}

fn effect_row(screen: &mut Screen, row: &Row, block: &[usize], column: usize) {
    let cells: Vec<_> =
        row.cells.iter().enumerate().filter(|(i, _)| block.contains(i)).map(|(_, cell)| *cell).collect();
    if cells.iter().all(Option::is_none) {
        return;
    }
    let (changes, intervals): (Vec<String>, Vec<String>) =
        cells.into_iter().map(|cell| cell_texts(row, cell)).map(|[change, interval]| (change, interval)).unzip();
    line(screen, iter::once(row.name()).chain(changes), column);
    line(screen, iter::once(String::new()).chain(intervals), column);
}

/// One table line: a column of names, and the others `column` wide.
fn line(screen: &mut Screen, cells: impl Iterator<Item = String>, column: usize) {
    let widths = iter::once(COLUMN).chain(iter::repeat(column));
    let line: String = cells.zip(widths).map(|(cell, width)| pad(&cell, width)).collect();
    screen.text.push_str("  ");
    screen.text.push_str(line.trim_end());
    screen.text.push('\n');
}

/// Widths of the table of checks: verdict, check, change, interval, margin, minimum detectable effect.
const CHECKS: [usize; 6] = [15, 22, 9, 17, 8, 7];

fn checks(screen: &mut Screen, view: &View<'_>) {
    screen.heading("All checks");
    check_line(screen, &["verdict", "check", "change", "90 % interval", "margin", "MDE"].map(String::from), None);
    for policy in &view.policies {
        screen.paragraph(&format!("{}:", text(&policy.policy.policy)), "  ", "  ", None);
        for view in &policy.checks {
            let check = view.check;
            let mark = if check.margin_floor.is_some() { "*" } else { "" };
            let margin = format!("{}{mark}", format::harm(check.metric, Some(check.margin)));
            let cells = [
                check.verdict.id().to_owned(),
                text(&check.id),
                view.change(),
                view.interval(),
                margin,
                view.detectable(),
            ];
            check_line(screen, &cells, Some(check.verdict));
        }
    }
    let legend = "margin: the harm allowed; MDE: minimum detectable effect, the true harm that would have failed \
                  with 80 % probability";
    screen.paragraph(legend, "  ", "  ", None);
    let mut checks = view.policies.iter().flat_map(|policy| &policy.checks);
    if checks.any(|view| view.check.margin_floor.is_some()) {
        screen.paragraph("*: the margin's floor allows more than its percentage", "  ", "  ", None);
    }
}

/// One row; a name that does not fit stands on lines of its own, with the numbers below. No number is ever cut: a long
/// one moves those behind it, and numbers that do not fit in the line are written out below.
fn check_line(screen: &mut Screen, cells: &[String; 6], verdict: Option<Verdict>) {
    let [word, name, numbers @ ..] = cells;
    let [word_width, name_width, widths @ ..] = CHECKS;
    let mut row = pad(word, word_width);
    if width(name) < name_width {
        row.push_str(&pad(name, name_width));
    } else {
        screen.paragraph(&format!("{row}{name}"), "  ", "                 ", verdict);
        row = " ".repeat(word_width + name_width);
    }
    let name_only = row.clone();
    for (number, columns) in numbers.iter().zip(widths) {
        row.push_str(&pad(number, columns.max(width(number) + 1)));
    }
    if width(row.trim_end()) + 2 > WIDTH {
        let labels = ["change", "interval", "margin", "MDE"];
        let told: Vec<String> = labels.iter().zip(numbers).map(|(label, number)| format!("{label} {number}")).collect();
        if !name_only.trim().is_empty() {
            screen.paragraph(name_only.trim_end(), "  ", "                 ", verdict);
        }
        screen.paragraph(&told.join(", "), "                 ", "                 ", None);
        return;
    }
    let row = row.trim_end();
    let painted = verdict.filter(|_| screen.colour).and_then(|verdict| paint(row, verdict));
    screen.text.push_str("  ");
    screen.text.push_str(painted.as_deref().unwrap_or(row));
    screen.text.push('\n');
}

/// Columns that a text takes at most: a character outside ASCII may be wide.
fn width(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// The text, cut to a width.
fn fit(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if width(&out) + width(c.encode_utf8(&mut [0; 4])) > columns {
            break;
        }
        out.push(c);
    }
    out
}

/// Lines of at most `columns`, broken at spaces, and inside a word only where it is longer than a line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        let mut rest = word;
        while width(&line) + width(rest) > columns {
            let head = fit(rest, columns - width(&line));
            rest = rest.strip_prefix(head.as_str()).unwrap_or_default();
            lines.push(std::mem::take(&mut line) + &head);
        }
        line.push_str(rest);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::names::Metric;
    use crate::report::fixture;
    use crate::report::view::ExitPolicy;
    use crate::verdict::judgement::Judgement;

    fn rendered(judgement: &Judgement, colour: bool) -> String {
        render(&View::new(judgement, &fixture::context(ExitPolicy::Strict)), colour)
    }

    #[test]
    fn the_screen_is_as_documented() {
        insta::assert_snapshot!(rendered(&fixture::rich(), false));
    }

    #[test]
    fn hostile_text_is_written_as_text() {
        insta::assert_snapshot!("hostile", rendered(&fixture::hostile(&fixture::hostile_texts(), None), false));
    }

    #[test]
    fn a_warning_stands_among_what_does_not_block() {
        let screen = rendered(&fixture::warned(), false);
        assert!(screen.starts_with("WARN: v1.5.0-fp8kv may ship, with a warning"), "{screen}");
        assert!(!screen.contains("What blocks"), "{screen}");
        let below = screen.split("What does not block").nth(1).unwrap();
        assert!(below.trim_start().starts_with("- warn more-failures at c64: 7 of 120 requests failed"), "{below}");
        assert!(below.contains("a warning blocks nothing"), "the next step: {below}");
    }

    #[test]
    fn colour_only_repeats_what_the_words_say() {
        let plain = rendered(&fixture::rich(), false);
        let coloured = rendered(&fixture::rich(), true);
        assert!(coloured.starts_with("\u{1b}[31mFAIL\u{1b}[0m: v1.5.0-fp8kv"));
        let mut stripped = coloured;
        for code in ["31", "32", "33", "35", "90", "0"] {
            stripped = stripped.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_inside() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a abcdefghij", 4), ["a", "abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(fit("\u{4e2d}\u{4e2d}\u{4e2d}", 5), "\u{4e2d}\u{4e2d}");
    }

    #[test]
    fn a_name_too_long_for_its_column_keeps_its_numbers() {
        let mut judgement = fixture::rich();
        judgement.policies[0].checks[0].id = "output_tokens@a-cell-with-a-long-name".to_owned();
        let screen = rendered(&judgement, false);
        assert!(screen.contains("  fail           output_tokens@a-cell-with-a-long-name\n"), "{screen}");
        assert!(screen.lines().all(|line| width(line) <= WIDTH));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_number_and_no_unit_is_ever_cut(
            numbers in prop::array::uniform6(prop_oneof![-20.0..20.0, -2.0..2.0, any::<f64>()]),
            points in any::<bool>(),
        ) {
            let mut judgement = fixture::rich();
            for check in judgement.policies.iter_mut().flat_map(|policy| &mut policy.checks) {
                let [change, low, high, margin, detectable, baseline] = numbers;
                check.metric = if points { Metric::ErrorRate } else { check.metric };
                check.effect = Some(Effect { baseline, candidate: baseline, change, low, high });
                (check.margin, check.minimum_detectable) = (margin, Some(detectable));
            }
            let context = fixture::context(ExitPolicy::Strict);
            let view = View::new(&judgement, &context);
            let screen = render(&view, false);
            let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            let (before, table) = words.split_once("All checks").unwrap();
            for check in view.policies.iter().flat_map(|policy| &policy.checks) {
                let margin = format::harm(check.check.metric, Some(check.check.margin));
                for number in [check.change(), check.interval(), margin, check.detectable()] {
                    let whole = [format!("{number} "), format!("{number}, ")];
                    prop_assert!(whole.iter().any(|number| table.contains(number)), "{number}\n{screen}");
                }
            }
            for (row, cell) in view.effects.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, *cell))) {
                for number in cell_texts(row, cell) {
                    prop_assert!(before.contains(&number), "{number}\n{screen}");
                }
            }
            for line in screen.lines() {
                prop_assert!(width(line) <= WIDTH, "{line}");
            }
        }

        #[test]
        fn any_text_keeps_within_the_width_and_controls_nothing(
            texts in prop::collection::vec(any::<String>(), 1..8),
            number in any::<f64>(),
        ) {
            for screen in [
                rendered(&fixture::hostile(&texts, Some(number)), false),
                rendered(&fixture::hostile(&["x".repeat(2_000)], None), false),
            ] {
                prop_assert!(!screen.chars().any(|c| c.is_control() && c != '\n'));
                prop_assert!(!screen.contains("::") && !screen.contains("##["));
                for line in screen.lines() {
                    prop_assert!(width(line) <= WIDTH, "{line}");
                }
            }
        }
    }
}

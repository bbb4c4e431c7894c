//! `summary.md` and the pull-request comment: GitHub Markdown within a byte limit, what blocks first.

use std::iter;

use crate::report::effects::{Effects, Mark, Row};
use crate::report::escape::{markdown as text, markdown_code as code};
use crate::report::format;
use crate::report::view::{CheckView, PolicyView, View};
use crate::verdict::judgement::{Effect, Finding, Verdict};

/// Bytes of a GitHub step summary; a larger one is refused whole.
pub const STEP_SUMMARY_LIMIT: usize = 1024 * 1024;
/// Bytes of a GitHub comment or check-run summary. GitHub counts 65,536 characters; bytes are never fewer.
pub const COMMENT_LIMIT: usize = 65_535;

/// Room kept for the line that says what was cut.
const RESERVE: usize = 160;

/// The summary in at most `limit` bytes. When it is too long, whole rows go, those that matter least first,
/// and a line says how many.
pub fn render(view: &View<'_>, limit: usize) -> String {
    let mut page = Page { text: String::new(), limit: limit.saturating_sub(RESERVE), cut: 0 };
    let heading = format!("## servegate: {}\n\n", verdict(view.judgement.verdict));
    page.block(&heading, iter::once(format!("{}\n", text(&view.headline))), "\n");
    page.block("", view.policies.iter().map(policy), "\n");
    // Findings first: the checks that one keeps from being judged refer to it.
    let blocking = view.findings().into_iter().map(finding).chain(view.blocking.iter().map(sentence));
    page.block(&format!("### {}\n\n", view.blocking_title()), blocking, "\n");
    let tolerated = view.warnings().into_iter().map(finding).chain(view.tolerated.iter().map(sentence));
    page.block("### What does not block\n\n", tolerated, "\n");
    effects(&mut page, &view.effects);
    page.block(&table_head(view), table_rows(view), "\n</details>\n\n");
    let notes = view.policies.iter().flat_map(|view| {
        view.notes().into_iter().map(|note| format!("- {}: {}\n", code(&view.policy.policy), text(&note)))
    });
    page.block("<details><summary>Notes</summary>\n\n", notes, "\n</details>\n\n");
    page.block("### Next steps\n\n", view.next_steps.iter().map(|step| format!("- {}\n", text(step))), "\n");
    let files: Vec<String> = view.context.files.iter().map(|file| code(file)).collect();
    let files = if files.is_empty() { String::new() } else { format!(" · reports: {}", files.join(", ")) };
    let version = text(&view.context.version);
    page.block(
        "",
        iter::once(format!("servegate {version} · exit policy {}{files}\n", view.context.exit_policy.id())),
        "",
    );
    page.finish()
}

/// Text that grows by whole rows and never past its limit.
struct Page {
    text: String,
    limit: usize,
    cut: usize,
}

impl Page {
    /// Appends rows between `open` and `close`, as many as fit; nothing at all when there is no row.
    fn block(&mut self, open: &str, rows: impl IntoIterator<Item = String>, close: &str) {
        let mut opened = false;
        let mut full = false;
        for row in rows {
            let lead = if opened { 0 } else { open.len() };
            full |= self.text.len() + lead + row.len() + close.len() > self.limit;
            if full {
                self.cut += 1;
                continue;
            }
            if !opened {
                self.text.push_str(open);
                opened = true;
            }
            self.text.push_str(&row);
        }
        if opened {
            self.text.push_str(close);
        }
    }

    fn finish(mut self) -> String {
        if self.cut > 0 {
            let limit = self.limit + RESERVE;
            let line = format!(
                "\n_{} lines were cut to keep within {limit} bytes; verdict.json and junit.xml hold everything._\n",
                self.cut
            );
            self.text.push_str(&line);
        }
        self.text
    }
}

fn verdict(verdict: Verdict) -> String {
    verdict.id().to_uppercase().replace('_', " ")
}

fn policy(view: &PolicyView<'_>) -> String {
    let policy = view.policy;
    format!(
        "- **{}** {} on {}: {} ({})\n",
        verdict(policy.verdict),
        code(&policy.policy),
        code(&policy.workload),
        text(&policy.sentence),
        view.counts()
    )
}

fn finding(finding: &Finding) -> String {
    let cell = finding.cell.as_ref().map(|cell| format!(" at {}", code(cell))).unwrap_or_default();
    format!("- **{}** {}{cell}: {}\n", verdict(finding.verdict), code(finding.code), text(&finding.message))
}

fn sentence(view: &CheckView<'_>) -> String {
    let check = view.check;
    let asides = view.asides().iter().map(|aside| format!(" ({})", text(aside))).collect::<Vec<_>>().concat();
    let head = format!("- **{}** {} of {}", verdict(check.verdict), code(&check.id), code(view.policy));
    format!("{head}: {}{asides}\n", text(&check.reason))
}

fn effects(page: &mut Page, effects: &Effects) {
    let heads = effects.columns.iter().map(|column| code(&column.label)).collect::<Vec<_>>().join(" | ");
    let rule = "|---".repeat(effects.columns.len() + 1);
    let open = format!(
        "### Change by cell\n\nCandidate against baseline with its 90 % interval, each cell on its own.\n\n\
         | metric | {heads} |\n{rule}|\n"
    );
    page.block(&open, effects.rows.iter().map(effect_row), "\n");
    page.block("", effects.flips().map(|flip| format!("- {}\n", text(&flip))), "\n");
}

fn effect_row(row: &Row) -> String {
    let cell = |cell: &Option<(Effect, Mark)>| {
        let Some((effect, mark)) = cell else { return format::MISSING.to_owned() };
        let change = format::change(row.metric, effect.change);
        format!("{change} {} {}", format::interval(row.metric, effect.low, effect.high), mark.id())
    };
    let cells: Vec<String> = row.cells.iter().map(cell).collect();
    format!("| {} | {} |\n", code(&row.name()), cells.join(" | "))
}

fn table_head(view: &View<'_>) -> String {
    let checks: usize = view.policies.iter().map(|view| view.checks.len()).sum();
    format!(
        "<details><summary>All checks ({checks})</summary>\n\n\
         | policy | check | verdict | role | baseline | candidate | change | 90 % interval | margin | detectable | p worse | p inside |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
}

/// All checks, what blocks first.
fn table_rows(view: &View<'_>) -> Vec<String> {
    let mut checks: Vec<_> = view.policies.iter().flat_map(|policy| &policy.checks).collect();
    checks.sort_by_key(|check| !check.blocks);
    let row = |check: &CheckView<'_>| {
        let mut cells = vec![code(check.policy), code(&check.check.id)];
        cells.extend([verdict(check.check.verdict), check.check.role.id().to_owned()]);
        cells.extend(check.numbers().into_iter().map(|(_, number)| text(&number)));
        format!("| {} |\n", cells.join(" | "))
    };
    checks.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::fixture;
    use crate::report::view::ExitPolicy;
    use crate::verdict::judgement::Judgement;

    fn rendered(judgement: &Judgement, limit: usize) -> String {
        render(&View::new(judgement, &fixture::context(ExitPolicy::Strict)), limit)
    }

    /// Columns of every table row, counted as the most naive reader would.
    fn columns(page: &str) -> Vec<usize> {
        page.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count() - 1).collect()
    }

    #[test]
    fn the_summary_is_as_documented() {
        insta::assert_snapshot!(rendered(&fixture::rich(), STEP_SUMMARY_LIMIT));
    }

    #[test]
    fn a_long_summary_loses_whole_rows_and_says_so() {
        let mut judgement = fixture::rich();
        let passing = judgement.policies[0].checks[2].clone();
        judgement.policies[0].checks.splice(0..0, (0..2_000).map(|_| passing.clone()));
        assert!(rendered(&judgement, STEP_SUMMARY_LIMIT).len() > COMMENT_LIMIT);
        let page = rendered(&judgement, COMMENT_LIMIT);
        assert!(page.len() <= COMMENT_LIMIT && page.len() > COMMENT_LIMIT - 2_000, "{}", page.len());
        assert!(
            page.ends_with("lines were cut to keep within 65535 bytes; verdict.json and junit.xml hold everything._\n")
        );
        assert_eq!(page.matches("<details>").count(), page.matches("</details>").count());
        // The failing row stands after 2,000 passing ones in the policy, and is still in the table.
        assert!(page.contains("| `chat` | `tpot.p50@c1` | FAIL |"));
        assert!(rendered(&judgement, 2_000).len() <= 2_000);
    }

    #[test]
    fn hostile_text_is_harmless() {
        let page = rendered(&fixture::hostile(&fixture::hostile_texts(), None), STEP_SUMMARY_LIMIT);
        insta::assert_snapshot!("hostile", page);
        let outside_code: String = page.replace("\\`", "").split('`').step_by(2).collect();
        for bad in ["<script", "@org", " #1", "https://", "[x](y)"] {
            assert!(!outside_code.contains(bad), "{bad}");
        }
        assert!(!page.contains("\n::error") && !page.contains("\n##["));
    }

    #[test]
    fn a_warning_stands_among_what_does_not_block() {
        let judgement = fixture::warned();
        let page = render(&View::new(&judgement, &fixture::context(ExitPolicy::Strict)), COMMENT_LIMIT);
        assert!(page.starts_with("## servegate: WARN\n"), "{page}");
        assert!(!page.contains("### What blocks"), "{page}");
        let below = page.split("### What does not block\n\n").nth(1).unwrap();
        assert!(below.starts_with("- **WARN** `more-failures` at `c64`: 7 of 120 requests failed"), "{below}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_leaves_the_tables_and_the_limit_whole(
            texts in prop::collection::vec(any::<String>(), 1..8),
            number in any::<f64>(),
            limit in 400_usize..20_000,
        ) {
            let plain = columns(&rendered(&fixture::rich(), STEP_SUMMARY_LIMIT));
            let judgement = fixture::hostile(&texts, Some(number));
            let page = rendered(&judgement, STEP_SUMMARY_LIMIT);
            let checks: Vec<_> = columns(&page).into_iter().rev().take(12).collect();
            prop_assert_eq!(checks, plain.into_iter().rev().take(12).collect::<Vec<_>>());
            let page = rendered(&judgement, limit);
            prop_assert!(page.len() <= limit);
            prop_assert_eq!(page.matches("<details>").count(), page.matches("</details>").count());
        }
    }
}

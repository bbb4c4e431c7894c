//! The catalogue as a page: every metric with its definition, from which `docs/reference/metrics.md` is made.

use std::fmt::Write as _;

use crate::base::names::{Direction, Metric, Scale, Statistic};

/// A definition in words.
struct Words {
    /// The formula.
    formula: &'static str,
    /// Requests that do not have the metric; empty when all have.
    undefined: &'static str,
    /// What it shows that its neighbours do not; empty for nothing to add.
    shows: &'static str,
}

const fn words(metric: Metric) -> Words {
    let (formula, undefined, shows) = match metric {
        Metric::Ttft => (
            "first content - due instant; reasoning and tool calls are content, role-only and usage chunks are not",
            "",
            "queueing and prefill, as a user waits for them",
        ),
        Metric::Ttfa => (
            "first answer - due instant; an answer is content that is not reasoning: text, a refusal, a tool call",
            "",
            "with reasoning models the wait for something to read; an answer that never left its reasoning is infinitely late",
        ),
        Metric::Tpot => (
            "(last content - first content) / (output tokens - tokens of the first chunk)",
            "an answer that came in one chunk, or at one instant",
            "the speed of decoding, however the server groups tokens into chunks",
        ),
        Metric::Itl => (
            "gap between two content chunks / tokens of the later one",
            "a chunk of unknown size",
            "each step of decoding; needs token counts for every chunk",
        ),
        Metric::ChunkGap => (
            "gap between two content chunks, whatever they hold",
            "an answer of one chunk",
            "all gaps of a run together: long answers count for more",
        ),
        Metric::Cadence => (
            "median of the request's gaps between content chunks",
            "an answer of one chunk",
            "the rhythm in which text appears: grouping tokens moves it and not TPOT, a single stall moves neither",
        ),
        Metric::Stall => (
            "largest of the request's gaps between content chunks",
            "an answer of one chunk",
            "how long a reader saw nothing move",
        ),
        Metric::E2e => ("last content - due instant", "", "usage and end marks after the last content do not count"),
        Metric::TtftSlope => (
            "median over all pairs of requests with different prompt tokens of (difference of TTFT / difference of prompt tokens)",
            "where the 10th and 90th percentiles of the prompt tokens lie less than 1,000 apart, or the server does not count them",
            "what a longer context costs (Theil 1950, Sen 1968); a pair with a failed request is infinitely steep; compared by difference",
        ),
        Metric::Throughput => {
            ("output tokens of the successful requests / the cell's measured window", "", "the closed loop's capacity")
        }
        Metric::Goodput => (
            "successful requests that met every limit of the check / the cell's measured window",
            "",
            "a failed request met no limit",
        ),
        Metric::CacheHitRate => (
            "prompt tokens of the successful requests that the server read from its prefix cache / all of their prompt tokens",
            "a server whose answers do not tell the cached tokens",
            "whether a prefix cache works, on requests that it should have; less than 0.01 % counts as 0.01 %",
        ),
        Metric::ErrorRate => {
            ("failed requests / attempted requests", "", "compared by difference, in percentage points")
        }
        Metric::OutputTokens => (
            "geometric mean of the output tokens of the successful requests",
            "",
            "answers that became shorter make a server look faster",
        ),
    };
    Words { formula, undefined, shows }
}

/// The page, in Markdown.
pub fn page() -> String {
    let mut page = "\
# Metrics, one by one

Made from the catalogue in `artifact::metrics` and kept in step with it by a test; do not edit it by hand
(`SERVEGATE_WRITE_DOCS=1 cargo test the_reference_of_metrics` writes it). [metrics.md](../metrics.md) says what holds for all of them.

A definition id names what a number means. It stands in every run, and runs with different ids are not compared.

| metric | definition id | one value per | unit | harm |
|---|---|---|---|---|
"
    .to_owned();
    for metric in Metric::ALL.iter().copied() {
        let (per, harm) = (per(metric.scale()), harm(metric.direction()));
        line(&mut page, &format!("| `{metric}` | `{}` | {per} | {} | {harm} |", metric.definition(), metric.unit()));
    }
    for metric in Metric::ALL.iter().copied() {
        let Words { formula, undefined, shows } = words(metric);
        line(&mut page, &format!("\n## `{metric}`\n\n{formula}\n"));
        line(&mut page, &format!("* definition id: `{}`", metric.definition()));
        if !undefined.is_empty() {
            line(&mut page, &format!("* not defined for: {undefined}"));
        }
        line(&mut page, &format!("* shows: {shows}"));
        line(&mut page, &format!("* statistics: {}", statistics(metric)));
        line(&mut page, &format!("* a failed request: {}", failed(metric)));
    }
    page
}

fn line(page: &mut String, text: &str) {
    // Writing into a string does not fail.
    writeln!(page, "{text}").unwrap_or_default();
}

const fn per(scale: Scale) -> &'static str {
    match scale {
        Scale::PerRequest => "request",
        Scale::PerGap => "chunk gap",
        Scale::PerRun => "run",
        Scale::Proportion => "run, a share of its requests",
    }
}

const fn harm(direction: Direction) -> &'static str {
    match direction {
        Direction::LowerIsBetter => "more",
        Direction::HigherIsBetter => "less",
        Direction::TwoSided => "any change",
    }
}

fn statistics(metric: Metric) -> String {
    let allowed = Statistic::ALL.iter().filter(|statistic| metric.allows(**statistic));
    let names = allowed.map(|statistic| match statistic.floor() {
        1 => format!("`{statistic}`"),
        floor => format!("`{statistic}` (from {floor} values a run)"),
    });
    names.collect::<Vec<_>>().join(", ")
}

const fn failed(metric: Metric) -> &'static str {
    match metric {
        Metric::ErrorRate => "is what is counted",
        Metric::Throughput | Metric::OutputTokens | Metric::CacheHitRate => "adds no tokens",
        Metric::Goodput => "adds nothing",
        Metric::TtftSlope => "makes every pair with it infinitely steep",
        Metric::Itl | Metric::ChunkGap => "adds no gaps; pair the check with one of `error_rate`",
        Metric::Ttft | Metric::Ttfa | Metric::Tpot | Metric::Cadence | Metric::Stall | Metric::E2e => {
            "counts as infinitely slow; in `tail05` as the time-out"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_defines_every_metric_once() {
        let page = page();
        for metric in Metric::ALL {
            assert_eq!(page.matches(&format!("\n## `{metric}`\n")).count(), 1);
            assert_eq!(page.matches(&format!("* definition id: `{}`\n", metric.definition())).count(), 1);
        }
        assert!(page.is_ascii() && !page.contains("  \n"));
    }
}

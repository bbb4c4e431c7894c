//! Numbers and names as people read them.

use crate::base::names::{Metric, Statistic};
pub(super) use crate::base::words::count;
use crate::compare::effect::Effect;
use crate::verdict::trial::Harm;

/// `TPOT p50 at c1`.
pub(super) fn subject(metric: Metric, statistic: Statistic, cell: &str) -> String {
    let metric = match metric {
        Metric::Ttft => "TTFT",
        Metric::Ttfa => "TTFA",
        Metric::Tpot => "TPOT",
        Metric::Itl => "ITL",
        Metric::ChunkGap => "chunk gap",
        Metric::Cadence => "cadence",
        Metric::Stall => "longest stall",
        Metric::E2e => "end-to-end latency",
        Metric::TtftSlope => "slope of TTFT",
        Metric::Throughput => "throughput",
        Metric::Goodput => "goodput",
        Metric::CacheHitRate => "cache hit rate",
        Metric::ErrorRate => "error rate",
        Metric::OutputTokens => "output length",
    };
    match statistic {
        Statistic::Value => format!("{metric} at {cell}"),
        Statistic::P50 | Statistic::P75 | Statistic::P90 | Statistic::P95 | Statistic::P99 | Statistic::Tail05 => {
            format!("{metric} {statistic} at {cell}")
        }
    }
}

/// `14.5 % worse [13.2, 15.8], margin 5 %`: the effect towards harm with its interval, in per cent or points. A floor that
/// is in force is named: `margin 5 ms = 28.3 %`.
pub(super) fn effect(metric: Metric, effect: &Effect, (margin, floor): (f64, Option<f64>)) -> String {
    let share = share(metric, margin);
    let margin = floor.map_or_else(|| share.clone(), |floor| format!("{floor} {} = {share}", metric.unit()));
    format!("{}, margin {margin}", change(metric, Harm::of(metric, effect)))
}

fn change(metric: Metric, Harm { estimate, low, high }: Harm) -> String {
    let size = tenths(metric, estimate.abs());
    let way = match (metric, estimate >= 0.0) {
        _ if size.bytes().all(|b| matches!(b, b'0' | b'.')) => "different",
        (Metric::OutputTokens, true) => "longer",
        (Metric::OutputTokens, false) => "shorter",
        (_, true) => "worse",
        (_, false) => "better",
    };
    // The interval is read in the direction of the word before it.
    let (low, high) = if estimate >= 0.0 { (low, high) } else { (-high, -low) };
    format!("{size} {} {way} [{}, {}]", metric.change_unit(), tenths(metric, low), tenths(metric, high))
}

/// `5 %`, or `1 points` as `1 pp` for shares.
pub(super) fn share(metric: Metric, value: f64) -> String {
    format!("{} {}", bare(metric, value), metric.change_unit())
}

/// A measured change in the metric's [`Metric::change_unit`], with one decimal: `14.5`, `5.0`; two where it is no share.
fn tenths(metric: Metric, value: f64) -> String {
    let (value, places) = metric.change_shown(value);
    let text = format!("{value:.places$}");
    text.strip_prefix('-').filter(|size| size.bytes().all(|b| matches!(b, b'0' | b'.'))).unwrap_or(&text).to_owned()
}

/// A share that somebody wrote down: no decimal when it is whole.
fn bare(metric: Metric, value: f64) -> String {
    let text = tenths(metric, value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `20.1 to 23.0 ms`.
pub(super) fn levels(metric: Metric, effect: &Effect) -> String {
    let (scale, unit) = if metric.unit() == "share" { (100.0, "%") } else { (1.0, metric.unit()) };
    format!("{} to {} {unit}", digits(scale * effect.baseline), digits(scale * effect.candidate))
}

/// Three or four significant digits, without an exponent.
pub(super) fn digits(value: f64) -> String {
    if value.abs() < 1e-9 {
        return "0".to_owned();
    }
    let places = match value.abs() {
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    format!("{value:.places$}")
}

/// A p-value as people read it.
pub(super) fn p(value: f64) -> String {
    if value < 0.001 { "p < 0.001".to_owned() } else { format!("p = {value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_like_a_person_would_write_them() {
        let harm = |estimate, low, high| change(Metric::Tpot, Harm { estimate, low, high });
        assert_eq!(harm(0.1449, 0.132, 0.158), "14.5 % worse [13.2, 15.8]");
        assert_eq!(harm(-0.02, -0.03, -0.01), "2.0 % better [1.0, 3.0]");
        assert_eq!(harm(0.0, -0.0001, 0.0001), "0.0 % different [0.0, 0.0]");
        assert_eq!(share(Metric::ErrorRate, 0.01), "1 pp");
        assert_eq!(
            [1234.6, 123.45, 20.1, 0.5, 0.001, 0.0].map(digits),
            ["1235", "123.5", "20.10", "0.500", "0.00100", "0"]
        );
        assert_eq!([0.0004, 0.0212].map(p), ["p < 0.001", "p = 0.021"]);
    }
}

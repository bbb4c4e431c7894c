//! An objective on the command line: `ttft p90 <= 500ms`. Its words are those of a policy's checks: metric, statistic and
//! `objective`.

use std::fmt;

use crate::base::names::{Direction, Metric, Scale, Statistic};
use crate::spec::check_entry::{in_unit, metrics, one_number, statistics};
use crate::spec::findings::Fault;
use crate::spec::scalar::{self, WrongOption};
use crate::spec::shape::Kind;
use crate::spec::text::{list, quote};
use crate::spec::value::check_scalar;

const EXAMPLE: &str = "write for example `ttft p90 <= 500ms`";

/// A limit that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    /// What is measured.
    pub metric: Metric,
    /// How its values become one number.
    pub statistic: Statistic,
    /// What it must not exceed, in [`Metric::unit`].
    pub limit: f64,
    /// The limit as it was written.
    pub written: String,
}

impl Slo {
    /// At most one failed request in a hundred: what holds where nothing is said about failures.
    pub fn few_failures() -> Self {
        Self { metric: Metric::ErrorRate, statistic: Statistic::Value, limit: 0.01, written: "1%".to_owned() }
    }

    /// Whether a request that waits for its turn counts against it.
    pub const fn bounds_the_wait(&self) -> bool {
        matches!(self.metric, Metric::Ttft | Metric::Ttfa | Metric::E2e)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, statistic, written, .. } = self;
        if *statistic == Statistic::Value {
            write!(f, "{metric} <= {written}")
        } else {
            write!(f, "{metric} {statistic} <= {written}")
        }
    }
}

/// Reads an objective: a metric, its statistic unless it has one number per run, `<=`, and a limit with its unit.
///
/// # Errors
/// What is wrong with the text. Metrics that do not grow with the load have no largest load at which they hold.
pub fn read_slo(text: &str) -> Result<Slo, WrongOption> {
    Ok(slo(text)?)
}

fn slo(text: &str) -> Result<Slo, Fault> {
    let Some((what, limit)) = text.split_once("<=") else {
        let message = format!("{} has no `<=` between what is measured and its limit", quote(text));
        return Err(Fault::new("wrong-type", message, EXAMPLE));
    };
    // A check is called `ttft.p90` in the reports.
    let mut words = what.split(|c: char| c.is_whitespace() || c == '.').filter(|word| !word.is_empty());
    let (metric, statistic) = (words.next().unwrap_or_default(), words.next());
    if let Some(word) = words.next() {
        let message = format!("{} is one word too many before `<=`", quote(word));
        return Err(Fault::new("wrong-type", message, EXAMPLE));
    }
    check_scalar(&Kind::Choice(metrics), metric, false)?;
    if let Some(statistic) = statistic {
        check_scalar(&Kind::Choice(statistics), statistic, false)?;
    }
    let metric = Metric::from_id(metric).ok_or_else(|| does_not_grow("it"))?;
    if metric.direction() != Direction::LowerIsBetter {
        return Err(does_not_grow(&quote(metric.id())));
    }
    let statistic = one_number(metric, statistic.and_then(Statistic::from_id)).map_err(|fault| match statistic {
        Some(_) => fault,
        None => Fault { help: format!("write it behind the metric, for example `{metric} p90`"), ..fault },
    })?;
    let written = limit.trim();
    check_scalar(&Kind::Objective, written, false)?;
    let limit = in_unit(metric, scalar::objective(written)?)?;
    if metric.scale() == Scale::Proportion && limit >= 1.0 {
        let message = format!("{} allows every request to fail", quote(written));
        return Err(Fault::new("out-of-range", message, "write a smaller percentage, for example `1%`"));
    }
    Ok(Slo { metric, statistic, limit, written: written.to_owned() })
}

fn does_not_grow(metric: &str) -> Fault {
    let growing = Metric::ALL.iter().filter(|metric| metric.direction() == Direction::LowerIsBetter);
    let message =
        format!("{metric} does not get worse and worse as the load grows, so no largest load meets a limit of it");
    Fault::new("unknown-value", message, format!("write one of {}", list(growing.map(|metric| metric.id()))))
}

/// A rate on the command line, `9/s`, requests per second.
///
/// # Errors
/// It is no rate above zero.
pub fn read_rate(text: &str) -> Result<f64, WrongOption> {
    match scalar::rate(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err(Fault::new("out-of-range", format!("{} never sends anything", quote(text)), "write `9/s`").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_has_the_words_of_a_check() {
        let read = |text| read_slo(text).unwrap();
        let slo = read("ttft p90 <= 500 ms");
        assert_eq!((slo.metric, slo.statistic), (Metric::Ttft, Statistic::P90));
        assert!((slo.limit - 500.0).abs() < 1e-12);
        assert_eq!(slo.to_string(), "ttft p90 <= 500 ms");
        assert_eq!(read("  tpot.p50<=50ms ").to_string(), "tpot p50 <= 50ms");
        let errors = read("error_rate <= 0.5%");
        assert!((errors.limit - 0.005).abs() < 1e-12 && errors.statistic == Statistic::Value);
        assert_eq!(Slo::few_failures(), read("error_rate <= 1%"));
        assert!(read("e2e p99 <= 2s").bounds_the_wait() && !read("tpot p99 <= 2s").bounds_the_wait());
    }

    #[test]
    fn what_is_no_objective_is_explained() {
        for (text, message, help) in [
            ("ttft p90 500ms", "`ttft p90 500ms` has no `<=`", "ttft p90 <= 500ms"),
            ("ttft p90 >= 500ms", "has no `<=`", ""),
            ("tttf p90 <= 500ms", "`tttf` is not known here", "write one of `ttft`"),
            ("ttft p91 <= 500ms", "`p91` is not known here", "did you mean `p90`?"),
            ("ttft <= 500ms", "`ttft` has many values in a run", "`ttft p90`"),
            ("error_rate p90 <= 1%", "`error_rate` has no `p90`", "use `value`"),
            ("ttft p90 max <= 1s", "`max` is one word too many", ""),
            ("ttft p90 <= 500", "`500` has no unit", "write `800ms`"),
            ("ttft p90 <= 5%", "`ttft` has no such unit", "a time, for example `800ms`"),
            ("ttft p90 <= 0ms", "an objective of zero is always missed", ""),
            ("error_rate <= 100%", "`100%` allows every request to fail", ""),
            ("throughput <= 9 tokens/s", "`throughput` does not get worse and worse", "`ttft`"),
            ("output_tokens <= 9 tokens", "`output_tokens` does not get worse", ""),
            ("<= 5ms", "", ""),
            ("", "", ""),
        ] {
            let wrong = read_slo(text).unwrap_err();
            assert!(wrong.message.contains(message) && wrong.help.contains(help), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn a_rate_has_its_unit() {
        assert!((read_rate("2.5/s").unwrap() - 2.5).abs() < 1e-12);
        assert!(read_rate("2").is_err() && read_rate("0/s").is_err());
    }
}

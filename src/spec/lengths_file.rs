//! Lengths in a workload file: one number, or a distribution.

use crate::spec::findings::{Fault, Findings};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::view::View;
use crate::spec::workload::Lengths;

/// A number of tokens.
pub(super) const TOKENS: Kind = Kind::Count { min: 1, max: 1_000_000 };
/// One length or a distribution of them.
pub(super) const LENGTH: Kind = Kind::Either(&TOKENS, &Kind::Object(&LENGTHS));

static LENGTHS: Object = Object {
    name: "length distribution",
    doc: "Token counts that differ between requests.",
    one_of: &["uniform", "log_normal", "table"],
    fields: &[
        Field {
            name: "uniform",
            kind: Kind::Object(&UNIFORM),
            need: Need::Optional,
            doc: "every length from `min` to `max` equally often",
        },
        Field {
            name: "log_normal",
            kind: Kind::Object(&LOG_NORMAL),
            need: Need::Optional,
            doc: "many short and few long ones, truncated to `min` to `max`",
        },
        Field {
            name: "table",
            kind: Kind::Map(&TOKENS, &Kind::Number { min: 0.000_001, max: 1_000_000.0 }),
            need: Need::Optional,
            doc: "lengths with their weights",
        },
    ],
};

static UNIFORM: Object = Object {
    name: "uniform distribution",
    doc: "Every length equally often.",
    one_of: &[],
    fields: &[
        Field { name: "min", kind: TOKENS, need: Need::Required, doc: "the smallest length" },
        Field { name: "max", kind: TOKENS, need: Need::Required, doc: "the largest length" },
    ],
};

static LOG_NORMAL: Object = Object {
    name: "log-normal distribution",
    doc: "Lengths whose logarithm is normal.",
    one_of: &[],
    fields: &[
        Field {
            name: "median",
            kind: Kind::Number { min: 1.0, max: 1_000_000.0 },
            need: Need::Required,
            doc: "the median before the distribution is truncated",
        },
        Field {
            name: "sigma",
            kind: Kind::Number { min: 0.01, max: 3.0 },
            need: Need::Required,
            doc: "the standard deviation of the natural logarithm",
        },
        Field { name: "min", kind: TOKENS, need: Need::Required, doc: "the smallest length" },
        Field { name: "max", kind: TOKENS, need: Need::Required, doc: "the largest length" },
    ],
};

/// The lengths under a key of a cell.
pub(super) fn lengths(key: &str, view: &View<'_>, findings: &mut Findings) -> Option<Lengths> {
    let Some(lengths) = view.view(key) else {
        return view.count(key).map(Lengths::Fixed);
    };
    if let Some(uniform) = lengths.view("uniform") {
        let (min, max) = (uniform.count("min")?, uniform.count("max")?);
        ordered(min < max, "`min` is not below `max`", &uniform, findings);
        return Some(Lengths::Uniform { min, max });
    }
    if let Some(log_normal) = lengths.view("log_normal") {
        let (min, max) = (log_normal.count("min")?, log_normal.count("max")?);
        let median = log_normal.read("median", scalar::number)?;
        let sigma = log_normal.read("sigma", scalar::number)?;
        let inside = median >= f64::from(min) && median <= f64::from(max);
        ordered(min < max, "`min` is not below `max`", &log_normal, findings);
        ordered(min >= max || inside, "`median` is not between `min` and `max`", &log_normal, findings);
        return Some(Lengths::LogNormal { median, sigma, min, max });
    }
    let weights = lengths.entries("table").iter().map(|entry| {
        let length = scalar::count(&entry.key).ok()?.try_into().ok()?;
        Some((length, scalar::number(entry.value.text()?).ok()?))
    });
    let mut table: Vec<(u32, f64)> = weights.collect::<Option<_>>()?;
    table.sort_by_key(|(length, _)| *length);
    (!table.is_empty()).then_some(Lengths::Table(table))
}

fn ordered(right: bool, message: &str, view: &View<'_>, findings: &mut Findings) {
    if !right {
        let fault = Fault::new(
            "impossible-range",
            message,
            "write a range with at least two lengths, or one number for a fixed length",
        );
        findings.error(&view.place(), &view.path, fault);
    }
}

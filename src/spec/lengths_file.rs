//! Lengths in a workload file: one number, or a distribution.

use crate::spec::findings::{Fault, Findings};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::view::View;
use crate::spec::workload::{LengthRow, Lengths, Range};

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

/// Prompts and answers together.
pub(super) const LENGTH_ROWS: Field = Field {
    name: "lengths",
    kind: Kind::List(&Kind::Object(&LENGTH_ROW)),
    need: Need::Optional,
    doc: "in place of `prompt_tokens` and `output_tokens`: a table of both together, for lengths that depend on each other",
};

/// One length, or the first and the last of a range.
const RANGE: Kind = Kind::Either(&TOKENS, &Kind::List(&TOKENS));
/// More rows than anybody reads.
const MOST_ROWS: usize = 256;

static LENGTH_ROW: Object = Object {
    name: "row of lengths",
    doc: "Requests whose prompts and answers have these lengths.",
    one_of: &[],
    fields: &[
        Field {
            name: "prompt",
            kind: RANGE,
            need: Need::Required,
            doc: "prompt length in tokens, or `[200, 350]`: every length from the first to the last equally often",
        },
        Field {
            name: "output",
            kind: RANGE,
            need: Need::Required,
            doc: "output length in tokens, written like `prompt`",
        },
        Field {
            name: "weight",
            kind: Kind::Number { min: 0.000_001, max: 1_000_000.0 },
            need: Need::Required,
            doc: "how frequent it is: its share of the requests is its weight among those of all rows",
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

/// The table under `lengths`, in one order whatever that of the file.
pub(super) fn rows(view: &View<'_>, findings: &mut Findings) -> Option<Vec<LengthRow>> {
    let views = view.views(LENGTH_ROWS.name);
    if views.len() > MOST_ROWS {
        let message = format!("{} rows are more than the {MOST_ROWS} allowed", views.len());
        let fault = Fault::new("too-large", message, "join rows that lie beside each other");
        findings.error(&view.at(LENGTH_ROWS.name), &view.key(LENGTH_ROWS.name), fault);
        return None;
    }
    let rows: Vec<Option<LengthRow>> = views.iter().map(|row| length_row(row, findings)).collect();
    let mut rows = rows.into_iter().collect::<Option<Vec<_>>>().filter(|rows| !rows.is_empty())?;
    rows.sort_by(|one, other| {
        (one.prompt, one.output).cmp(&(other.prompt, other.output)).then(one.weight.total_cmp(&other.weight))
    });
    Some(rows)
}

fn length_row(view: &View<'_>, findings: &mut Findings) -> Option<LengthRow> {
    let [prompt, output] = ["prompt", "output"].map(|key| range(key, view, findings));
    Some(LengthRow { prompt: prompt?, output: output?, weight: view.read("weight", scalar::number)? })
}

fn range(key: &str, view: &View<'_>, findings: &mut Findings) -> Option<Range> {
    if let Some(tokens) = view.count(key) {
        return Some(Range { min: tokens, max: tokens });
    }
    let items = view.items(key);
    let ends = items.iter().map(|(_, node)| scalar::count(node.text()?).ok()?.try_into().ok());
    let ends: Vec<u32> = ends.collect::<Option<_>>()?;
    match *ends.as_slice() {
        [min, max] if min < max => Some(Range { min, max }),
        [] => None,
        _ => {
            let message = "a range is two lengths, the smaller one first";
            let fault = Fault::new("impossible-range", message, "write `[200, 350]`, or one number for one length");
            findings.error(&view.at(key), &view.key(key), fault);
            None
        }
    }
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

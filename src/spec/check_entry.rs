//! One item of a policy's `checks`: its keys, and the text to a check that only misses its cell.

use crate::base::diagnostic::Place;
use crate::base::names::{Direction, Metric, Role, Scale, Statistic};
use crate::base::units::Nanos;
use crate::spec::bind::{Cells, Entry, NamedCell};
use crate::spec::findings::{Fault, Findings};
use crate::spec::load::Phase;
use crate::spec::policy::{Check, Margin};
use crate::spec::policy_file::default_role;
use crate::spec::scalar::{self, Amount, Objective};
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::slice::{self, Slice};
use crate::spec::text::{list, quote};
use crate::spec::view::View;

pub(super) static CHECK: Object = Object {
    name: "check",
    doc: "One metric and statistic in some cells, with a margin and a role.",
    one_of: &["at_most", "within"],
    fields: &[
        Field { name: "metric", kind: Kind::Choice(metrics), need: Need::Required, doc: "what is measured" },
        Field {
            name: "statistic",
            kind: Kind::Choice(statistics),
            need: Need::Optional,
            doc: "how a run's values become one number; `value`, the run's own number, for metrics that have one per run",
        },
        Field {
            name: "cells",
            kind: Kind::Either(&Kind::Word("all"), &Kind::Set(&Kind::Name)),
            need: Need::Default("all"),
            doc: "the cells of the workload, each judged on its own",
        },
        Field {
            name: "phase",
            kind: Kind::Choice(phases),
            need: Need::Default("steady"),
            doc: "the part of the cells' time lines that is judged; with `cells: all`, of those that have it",
        },
        Field {
            name: "class",
            kind: Kind::Name,
            need: Need::Optional,
            doc: "only the requests of this class of the cells; with `cells: all`, of those that have it",
        },
        Field {
            name: "context",
            kind: Kind::Context,
            need: Need::Optional,
            doc: "only requests whose planned prompt has so many tokens: `8k-32k` (up to 31999), `8k-` or `-2k`",
        },
        Field {
            name: "at_most",
            kind: Kind::Amount,
            need: Need::Optional,
            doc: "how much worse the candidate may be: `5%` of the baseline, or `1pp` for error_rate",
        },
        Field {
            name: "within",
            kind: Kind::Percent { min: "0.01%", max: "99%" },
            need: Need::Optional,
            doc: "for output_tokens: neither more nor less by this much",
        },
        Field {
            name: "floor",
            kind: Kind::Duration { min: "1us", max: "10s" },
            need: Need::Optional,
            doc: "for times, and for ttft_slope (per 1,000 tokens): a smaller difference never counts; the margin is the larger of the two",
        },
        Field {
            name: "warn_at",
            kind: Kind::Amount,
            need: Need::Optional,
            doc: "from this estimate on a pass becomes a warn; below the margin",
        },
        Field {
            name: "objective",
            kind: Kind::Objective,
            need: Need::Optional,
            doc: "an absolute limit, whatever the baseline: a time, `2000 tokens/s`, `9 requests/s`, `1%` or `200 tokens`",
        },
        Field {
            name: "limits",
            kind: Kind::Map(&Kind::Choice(request_times), &Kind::Duration { min: "1us", max: "1h" }),
            need: Need::Optional,
            doc: "for goodput: the times that a request must meet to count",
        },
        Field {
            name: "role",
            kind: Kind::Choice(roles),
            need: Need::Optional,
            doc: "`required`, `guard` or `advisory`; by default what suits the metric and statistic",
        },
    ],
};

/// A floor from which on a margin is called wide.
const WIDE_FLOOR: Nanos = Nanos::from_secs(1);
/// A share of the baseline from which on it is.
const WIDE_SHARE: f64 = 0.5;
/// A difference of shares from which on it is.
const WIDE_POINTS: f64 = 0.1;

pub(super) fn metrics() -> Vec<&'static str> {
    Metric::ALL.iter().map(|metric| metric.id()).collect()
}

pub(super) fn statistics() -> Vec<&'static str> {
    Statistic::ALL.iter().map(|statistic| statistic.id()).collect()
}

fn roles() -> Vec<&'static str> {
    Role::ALL.iter().map(|role| role.id()).collect()
}

fn phases() -> Vec<&'static str> {
    Phase::ALL.iter().map(|phase| phase.id()).collect()
}

/// Metrics that have one time per request.
fn request_times() -> Vec<&'static str> {
    Metric::ALL.iter().filter(|metric| metric.scale() == Scale::PerRequest).map(|metric| metric.id()).collect()
}

/// The check as written, with its cells where they can be read. What is wrong is in the findings.
pub(super) fn entry(view: &View<'_>, findings: &mut Findings) -> Entry {
    Entry {
        check: check(view, findings),
        role_is_default: !view.has("role"),
        cells: cells(view),
        phase: view.name("phase", Phase::from_id),
        path: view.path.clone(),
        at: view.place(),
    }
}

/// The check without its cell; none if something in it is wrong.
fn check(view: &View<'_>, findings: &mut Findings) -> Option<Check> {
    let metric = view.name("metric", Metric::from_id)?;
    let statistic = statistic(metric, view, findings);
    let margin = margin(metric, view, findings);
    if margin.is_some() {
        wide(view, findings);
    }
    let warn_at = margin.map(|margin| warn_at(metric, margin, view, findings));
    let objective = objective(metric, view, findings);
    let limits = limits(metric, view, findings);
    let role = view.name("role", Role::from_id);
    let (class, context) = (view.text("class"), view.read("context", slice::context));
    if (view.has("class") && class.is_none()) || (view.has("context") && context.is_none()) {
        return None;
    }
    let (statistic, margin) = (statistic?, margin?);
    Some(Check {
        metric,
        statistic,
        cell: String::new(),
        slice: Slice { class, context },
        margin,
        warn_at: warn_at?.ok()?,
        objective: objective.ok()?,
        role: if view.has("role") { role? } else { default_role(metric, statistic) },
        limits: limits?,
        place: place(view, findings),
    })
}

fn place(view: &View<'_>, findings: &Findings) -> Place {
    findings.place(&view.place())
}

fn cells(view: &View<'_>) -> Option<Cells> {
    if view.text("cells").is_some() {
        return Some(Cells::All);
    }
    let items = view.items("cells").into_iter();
    let named = items.map(|(path, node)| Some(NamedCell { name: node.text()?.to_owned(), at: node.at.clone(), path }));
    named.collect::<Option<Vec<_>>>().filter(|named| !named.is_empty()).map(Cells::Named)
}

/// A key that is right in itself and wrong for the metric.
fn misfit(key: &str, fault: Fault, view: &View<'_>, findings: &mut Findings) {
    findings.error(&view.at(key), &view.key(key), fault);
}

fn statistic(metric: Metric, view: &View<'_>, findings: &mut Findings) -> Option<Statistic> {
    let written = view.name("statistic", Statistic::from_id);
    if view.has("statistic") && written.is_none() {
        return None;
    }
    one_number(metric, written).map_err(|fault| misfit("statistic", fault, view, findings)).ok()
}

/// The statistic of a metric: the written one if the metric has it, by default the run's own number.
pub(super) fn one_number(metric: Metric, written: Option<Statistic>) -> Result<Statistic, Fault> {
    let allowed = || list(Statistic::ALL.iter().copied().filter(|one| metric.allows(*one)).map(Statistic::id));
    let statistic = written.unwrap_or(Statistic::Value);
    if metric.allows(statistic) {
        return Ok(statistic);
    }
    Err(if written.is_some() {
        let message = format!("`{metric}` has no `{statistic}`");
        Fault::new("wrong-statistic", message, format!("use {}", allowed()))
    } else {
        let message = format!("`{metric}` has many values in a run, and `statistic` does not say how they become one");
        Fault::new("missing-key", message, format!("add `statistic: p50`, or one of {}", allowed()))
    })
}

/// Margins so wide that they are more likely a slip than meant: nothing that people notice would be found.
fn wide(view: &View<'_>, findings: &mut Findings) {
    let mut warn = |key: &str, wide: bool, limit: &str| {
        if wide {
            let message = format!("the margin allows more than {limit}, and a change of that size would pass");
            let fault = Fault::new("wide-margin", message, "check the number and its unit");
            findings.warning(&view.at(key), &view.key(key), fault);
        }
    };
    warn("floor", view.read("floor", scalar::duration).is_some_and(|floor| floor > WIDE_FLOOR), "1 s");
    for (key, amount) in [
        ("at_most", view.read("at_most", scalar::amount)),
        ("within", view.read("within", scalar::percent).map(Amount::Share)),
    ] {
        match amount {
            Some(Amount::Share(share)) => warn(key, share > WIDE_SHARE, "50 %"),
            Some(Amount::Points(points)) => warn(key, points > WIDE_POINTS, "10 percentage points"),
            None => {}
        }
    }
}

/// The margin in the form that the metric needs; every wrong form is explained.
fn margin(metric: Metric, view: &View<'_>, findings: &mut Findings) -> Option<Margin> {
    let floor = view.read("floor", scalar::duration);
    if metric == Metric::TtftSlope && !view.has("floor") {
        let message = "a slope may be near zero, where no percentage of it means anything";
        let help = "add `floor: 2ms`: the difference per 1,000 tokens that still is harmless";
        misfit("floor", Fault::new("missing-key", message, help), view, findings);
        return None;
    }
    if view.has("floor") && !metric.is_time() && metric != Metric::TtftSlope {
        let message = format!("`floor` is a time, and `{metric}` is not one");
        misfit("floor", Fault::new("wrong-margin", message, "remove `floor`"), view, findings);
    }
    match metric.direction() {
        Direction::TwoSided => {
            if view.has("at_most") {
                let message = format!("`{metric}` must neither grow nor shrink, so `at_most` is not enough");
                misfit(
                    "at_most",
                    Fault::new("wrong-margin", message, "write `within` in place of `at_most`"),
                    view,
                    findings,
                );
            }
            view.read("within", scalar::percent).map(Margin::Within)
        }
        direction @ (Direction::LowerIsBetter | Direction::HigherIsBetter) => {
            if view.has("within") {
                let message = format!("only one direction of `{metric}` is harm");
                misfit(
                    "within",
                    Fault::new("wrong-margin", message, "write `at_most` in place of `within`"),
                    view,
                    findings,
                );
            }
            one_sided(metric, direction, floor, view, findings)
        }
    }
}

fn one_sided(
    metric: Metric,
    direction: Direction,
    floor: Option<Nanos>,
    view: &View<'_>,
    findings: &mut Findings,
) -> Option<Margin> {
    let fault = match (view.read("at_most", scalar::amount)?, metric.scale()) {
        (Amount::Points(points), Scale::Proportion) if points < 1.0 => return Some(Margin::Points(points)),
        (Amount::Points(_), Scale::Proportion) => Fault::new(
            "out-of-range",
            "a share cannot grow by 100 percentage points",
            "write `1pp` or another small number",
        ),
        (Amount::Share(_), Scale::Proportion) => {
            let message =
                format!("`{metric}` is a share itself, and a percentage of it means little when it is near zero");
            Fault::new("wrong-unit", message, "write percentage points, for example `1pp`")
        }
        (Amount::Points(_), _) => {
            let message = format!("`{metric}` is compared by its ratio, which has no percentage points");
            Fault::new("wrong-unit", message, "write `5%`")
        }
        (Amount::Share(ratio), _) if ratio >= most(direction) => {
            let message = format!("{} is no limit for `{metric}`", quote(view.node("at_most")?.text()?));
            Fault::new("out-of-range", message, format!("write less than `{}%`", most(direction) * 100.0))
        }
        (Amount::Share(ratio), _) => return Some(Margin::Relative { ratio, floor }),
    };
    misfit("at_most", fault, view, findings);
    None
}

/// The margin from which on nothing is refused: a rate cannot fall by more than all of it; a time that grows
/// tenfold is not a margin.
const fn most(direction: Direction) -> f64 {
    match direction {
        Direction::HigherIsBetter | Direction::TwoSided => 1.0,
        Direction::LowerIsBetter => 10.0,
    }
}

/// A value that the findings already explain.
struct Refused;

fn warn_at(metric: Metric, margin: Margin, view: &View<'_>, findings: &mut Findings) -> Result<Option<f64>, Refused> {
    if !view.has("warn_at") {
        return Ok(None);
    }
    let (limit, points) = match margin {
        Margin::Relative { ratio, .. } | Margin::Within(ratio) => (ratio, false),
        Margin::Points(points) => (points, true),
    };
    let amount = view.read("warn_at", scalar::amount).ok_or(Refused)?;
    let fault = if metric == Metric::TtftSlope {
        Fault::new("wrong-margin", format!("`{metric}` has no `warn_at`"), "remove `warn_at`")
    } else if matches!(amount, Amount::Points(_)) != points {
        Fault::new("wrong-unit", "`warn_at` has another unit than the margin", "use the margin's unit")
    } else if amount.value() >= limit {
        Fault::new(
            "impossible-range",
            "`warn_at` is not below the margin, so it never warns",
            "make it smaller than the margin",
        )
    } else {
        return Ok(Some(amount.value()));
    };
    misfit("warn_at", fault, view, findings);
    Err(Refused)
}

fn objective(metric: Metric, view: &View<'_>, findings: &mut Findings) -> Result<Option<f64>, Refused> {
    if !view.has("objective") {
        return Ok(None);
    }
    let objective = view.read("objective", scalar::objective).ok_or(Refused)?;
    in_unit(metric, objective).map(Some).map_err(|fault| {
        misfit("objective", fault, view, findings);
        Refused
    })
}

/// An objective in the unit of its metric.
pub(super) fn in_unit(metric: Metric, objective: Objective) -> Result<f64, Fault> {
    // The time that 1,000 tokens may cost.
    if objective.unit == metric.unit() || (metric == Metric::TtftSlope && objective.unit == "ms") {
        return Ok(objective.value);
    }
    let right = match metric.unit() {
        "ms" | "ms/1k tokens" => "a time, for example `800ms`",
        "share" => "a percentage, for example `1%`",
        "tokens/s" => "for example `2000 tokens/s`",
        "requests/s" => "for example `9 requests/s`",
        _ => "for example `200 tokens`",
    };
    Err(Fault::new("wrong-unit", format!("`{metric}` has no such unit"), format!("write {right}")))
}

fn limits(metric: Metric, view: &View<'_>, findings: &mut Findings) -> Option<Vec<(Metric, Nanos)>> {
    let fault = match (metric, view.has("limits")) {
        (Metric::Goodput, true) => {
            let limits = view.entries("limits").iter();
            return limits
                .map(|entry| Some((Metric::from_id(&entry.key)?, scalar::duration(entry.value.text()?).ok()?)))
                .collect();
        }
        (Metric::Goodput, false) => {
            let message = "goodput counts requests that meet limits, and none are given";
            Fault::new("missing-key", message, "add `limits: {ttft: 500ms, tpot: 50ms}`")
        }
        (_, true) => Fault::new("wrong-margin", format!("`{metric}` has no `limits`; goodput has"), "remove `limits`"),
        (_, false) => return Some(Vec::new()),
    };
    misfit("limits", fault, view, findings);
    None
}

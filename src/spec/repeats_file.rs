//! Requests that are sent again, in a workload file: a class that repeats another one.

use crate::spec::class_file::SHAPE;
use crate::spec::findings::{Fault, Findings};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::text::quote;
use crate::spec::view::View;
use crate::spec::workload::{Cell, Class, Repeats};

/// What the requests of a class are again.
pub(super) const REPEATS: Field = Field {
    name: "repeats",
    kind: Kind::Object(&OBJECT),
    need: Need::Optional,
    doc: "in place of the keys from `prompt_tokens` on: requests of another class of the cell, word for word",
};

static OBJECT: Object = Object {
    name: "repeats",
    doc: "Requests that are sent again, word for word.",
    one_of: &[],
    fields: &[
        Field {
            name: "class",
            kind: Kind::Name,
            need: Need::Required,
            doc: "the class whose requests are sent again, each as seldom as possible",
        },
        Field {
            name: "after",
            kind: Kind::Count { min: 1, max: 500_000 },
            need: Need::Optional,
            doc: "how many requests of the cell later, at least; by default twice the concurrency, or 64 in an open loop",
        },
    ],
};

/// A class that repeats one of the others, of which `plain` are those that repeat nothing and have nothing wrong in them.
pub(super) fn repeated(
    view: &View<'_>,
    (views, plain): (&[View<'_>], &[Option<Class>]),
    findings: &mut Findings,
) -> Option<Class> {
    for key in SHAPE.into_iter().filter(|key| view.has(key)) {
        let message = format!("the requests of this class are those of another one, with their `{key}`");
        let fault = Fault::new("conflicting-keys", message, format!("remove `{key}`"));
        findings.error(&view.at(key), &view.key(key), fault);
    }
    let written = view.view(REPEATS.name)?;
    let class = written.text("class")?;
    let named = views.iter().find(|other| other.text("name").as_ref() == Some(&class));
    let fault = match named {
        None => Some(Fault::new(
            "unknown-class",
            format!("the cell has no class {}", quote(&class)),
            "name a class of the same cell",
        )),
        Some(other) if other.has(REPEATS.name) => Some(Fault::new(
            "conflicting-keys",
            format!("the requests of {} are themselves those of another class", quote(&class)),
            "name the class whose requests are sent first",
        )),
        Some(_) => None,
    };
    if let Some(fault) = fault {
        findings.error(&written.at("class"), &written.key("class"), fault);
    }
    let first = plain.iter().flatten().find(|plain| plain.name.as_ref() == Some(&class))?;
    let repeats = Some(Repeats { class, after: written.count("after") });
    Some(Class { name: view.text("name"), weight: view.read("weight", scalar::number)?, repeats, ..first.clone() })
}

/// A cell has room for its repeats: they come in its second half at the latest.
pub(super) fn have_room(cell: &Cell, view: &View<'_>, findings: &mut Findings) {
    for (class, class_view) in cell.classes.iter().zip(view.views("classes")) {
        let Some(distance) = class.repeats.as_ref().map(|repeats| repeats.distance(cell.load)) else { continue };
        if cell.requests < distance.saturating_mul(2) {
            let message = format!(
                "repeats come {distance} requests after the first ones, and {} has {} requests",
                quote(&cell.name),
                cell.requests
            );
            let help = format!("plan {} requests or more, or a smaller `after`", distance.saturating_mul(2));
            let fault = Fault::new("out-of-range", message, help);
            findings.error(&class_view.at(REPEATS.name), &class_view.key(REPEATS.name), fault);
        }
    }
}

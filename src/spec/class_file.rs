//! What the requests of a cell look like in a workload file: one kind of them, or classes with weights.

use std::collections::BTreeMap;

use crate::spec::findings::{Fault, Findings};
use crate::spec::lengths_file::{LENGTH, TOKENS, lengths};
use crate::spec::load_file::TRACE;
use crate::spec::repeats_file::{REPEATS, repeated};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::text::quote;
use crate::spec::view::View;
use crate::spec::workload::{Class, Content, Lengths, SharedPrefix, shares};

fn contents() -> Vec<&'static str> {
    Content::ALL.iter().map(|content| content.id()).collect()
}

/// What prompts say.
pub(super) const CONTENT: Field = Field {
    name: "content",
    kind: Kind::Choice(contents),
    need: Need::Optional,
    doc: "with `prompts: exact`: what prompts say, `english` by default",
};

/// More kinds of requests in one cell than anybody judges.
const MOST_CLASSES: usize = 64;

pub(super) static CLASS: Object = Object {
    name: "class",
    doc: "Requests of one kind among those of a cell.",
    one_of: &[],
    fields: &[
        Field {
            name: "name",
            kind: Kind::Name,
            need: Need::Required,
            doc: "the name that checks use, for example `chat`",
        },
        Field {
            name: "weight",
            kind: Kind::Number { min: 0.000_001, max: 1_000_000.0 },
            need: Need::Required,
            doc: "how frequent it is: its share of the cell's requests is its weight among all of them",
        },
        Field {
            name: "prompt_tokens",
            kind: LENGTH,
            need: Need::Optional,
            doc: "prompt length in tokens; needed, unless it `repeats`",
        },
        Field {
            name: "output_tokens",
            kind: LENGTH,
            need: Need::Optional,
            doc: "output length in tokens, forced where the engine allows it; needed, unless it `repeats`",
        },
        Field {
            name: "shared_prefix",
            kind: Kind::Object(&SHARED_PREFIX),
            need: Need::Optional,
            doc: "prefixes shared between requests of the class; by default prompts share nothing",
        },
        CONTENT,
        REPEATS,
    ],
};

/// Keys that say what requests look like.
pub(super) const SHAPE: [&str; 4] = ["prompt_tokens", "output_tokens", "shared_prefix", "content"];

pub(super) static SHARED_PREFIX: Object = Object {
    name: "shared prefix",
    doc: "Prefixes that requests have in common, for cells about the prefix cache.",
    one_of: &[],
    fields: &[
        Field {
            name: "groups",
            kind: Kind::Count { min: 1, max: 100_000 },
            need: Need::Required,
            doc: "the number of different prefixes; a request takes one at random",
        },
        Field {
            name: "tokens",
            kind: TOKENS,
            need: Need::Required,
            doc: "the length of a prefix, part of the prompt's",
        },
        Field {
            name: "zipf",
            kind: Kind::Number { min: 0.01, max: 10.0 },
            need: Need::Optional,
            doc: "how unequal they are in popularity: the n-th is taken n^-`zipf` as often as the first; by default all are taken as often",
        },
        Field {
            name: "system_tokens",
            kind: TOKENS,
            need: Need::Optional,
            doc: "so many of its tokens, at the start, are the same in all prefixes, as a system prompt is",
        },
    ],
};

/// The classes of a cell, or the one that it is.
pub(super) fn classes(view: &View<'_>, findings: &mut Findings) -> Option<Vec<Class>> {
    if view.has("classes") {
        for key in SHAPE.into_iter().filter(|key| view.has(key)) {
            let message = format!("the cell has `classes`, and each has a `{key}` of its own");
            let fault = Fault::new("conflicting-keys", message, format!("move `{key}` into the classes"));
            findings.error(&view.at(key), &view.key(key), fault);
        }
        let views = view.views("classes");
        twice(&views, findings);
        if views.len() > MOST_CLASSES {
            let message = format!("{} classes are more than the {MOST_CLASSES} allowed", views.len());
            let fault = Fault::new("too-large", message, "make several cells of it");
            findings.error(&view.at("classes"), &view.key("classes"), fault);
            return None;
        }
        let plain: Vec<Option<Class>> = views.iter().map(|class| plain(class, findings)).collect();
        let classes = views.iter().zip(&plain).map(|(class, own)| {
            if class.has(REPEATS.name) { repeated(class, (&views, &plain), findings) } else { own.clone() }
        });
        let classes: Vec<Option<Class>> = classes.collect();
        return classes.into_iter().collect::<Option<Vec<_>>>().filter(|classes| !classes.is_empty());
    }
    if !view.has(TRACE.name) {
        has_lengths(view, ", or `classes` that have it", findings);
    }
    Some(vec![shape(view, findings)?])
}

/// A class that repeats no other; none for one that does.
fn plain(view: &View<'_>, findings: &mut Findings) -> Option<Class> {
    if view.has(REPEATS.name) {
        return None;
    }
    has_lengths(view, "", findings);
    let shape = shape(view, findings);
    let (name, weight) = (view.text("name")?, view.read("weight", scalar::number)?);
    Some(Class { name: Some(name), weight, ..shape? })
}

/// `or` is what else may be done.
fn has_lengths(view: &View<'_>, or: &str, findings: &mut Findings) {
    for (key, doc) in [("prompt_tokens", "prompt length in tokens"), ("output_tokens", "output length in tokens")] {
        if !view.has(key) {
            let fault =
                Fault::new("missing-key", format!("`{key}` is missing: {doc}"), format!("add `{key}: 100`{or}"));
            findings.error(&view.place(), &view.key(key), fault);
        }
    }
}

/// What the requests of a class, or of a cell without classes, look like.
fn shape(view: &View<'_>, findings: &mut Findings) -> Option<Class> {
    let traced = view.has(TRACE.name);
    let [prompt_tokens, output_tokens] = ["prompt_tokens", "output_tokens"]
        .map(|key| if traced && !view.has(key) { Some(Lengths::Traced) } else { lengths(key, view, findings) });
    let shared_prefix = view.view("shared_prefix").and_then(|prefix| shared_prefix(&prefix, findings));
    if let (Some(prefix), Some(prompt)) = (shared_prefix, &prompt_tokens)
        && *prompt != Lengths::Traced
        && prefix.tokens >= prompt.least()
    {
        let message = format!("the prefix has {} tokens, and a prompt may have {}", prefix.tokens, prompt.least());
        let fault = Fault::new("impossible-range", message, "make the prefix shorter or the prompts longer");
        findings.error(&view.at("shared_prefix"), &view.key("shared_prefix"), fault);
    }
    let content = view.text("content").as_deref().and_then(Content::from_id).unwrap_or_default();
    Some(Class { shared_prefix, content, ..Class::only(prompt_tokens?, output_tokens?) })
}

fn shared_prefix(view: &View<'_>, findings: &mut Findings) -> Option<SharedPrefix> {
    let (groups, tokens) = (view.count("groups")?, view.count("tokens")?);
    let system_tokens = view.count("system_tokens").unwrap_or(0);
    if system_tokens >= tokens {
        let message =
            format!("{system_tokens} of the {tokens} tokens are the same in all prefixes, so there is only one");
        let fault =
            Fault::new("impossible-range", message, "make it less than `tokens`, or write `groups: 1` without it");
        findings.error(&view.at("system_tokens"), &view.key("system_tokens"), fault);
    }
    Some(SharedPrefix { groups, tokens, zipf: view.read("zipf", scalar::number), system_tokens })
}

/// A share that rounds to no request is a slip.
pub(super) fn none_is_empty(classes: &[Class], requests: u32, view: &View<'_>, findings: &mut Findings) {
    for (class, count) in view.views("classes").iter().zip(shares(classes, requests)) {
        if count == 0 {
            let message = format!("of {requests} requests none is of this class");
            let fault = Fault::new("out-of-range", message, "raise its `weight`, or the cell's `requests`");
            findings.error(&class.at("weight"), &class.key("weight"), fault);
        }
    }
}

/// Names tell cells, and the classes of a cell, apart.
pub(super) fn twice(named: &[View<'_>], findings: &mut Findings) {
    let mut lines = BTreeMap::new();
    for view in named {
        let Some(name) = view.text("name") else { continue };
        if let Some(line) = lines.insert(name.clone(), view.at("name").line) {
            let message = format!("a {} on line {line} is already called {}", view.what(), quote(&name));
            let fault = Fault::new("duplicate-name", message, "choose another name");
            findings.error(&view.at("name"), &view.key("name"), fault);
        }
    }
}

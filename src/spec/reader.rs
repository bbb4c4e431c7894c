//! A tree against its description: finds everything that is wrong, once. What is right is then read through
//! a [`crate::spec::view::View`].

use std::collections::BTreeMap;

use crate::spec::findings::{Fault, Findings, child, item};
use crate::spec::shape::{Kind, Need, Object};
use crate::spec::text::{list, nearest, quote};
use crate::spec::value::{
    MAX_ITEMS, check_scalar, example_of, expected, is_null, is_secret_key, json, secret, wrapped,
};
use crate::spec::yaml::{Entry, Node, Value};

/// Finds everything that is wrong with a node of this kind, its children included. `removable`: whether the file is right
/// without it.
fn check(node: &Node, path: &str, (kind, removable): (&'static Kind, bool), findings: &mut Findings) {
    match (kind, &node.value) {
        (Kind::Either(scalar, other), Value::Scalar { text, plain }) => {
            if let Err(fault) = check_scalar(scalar, text, *plain) {
                let help = format!("{}, or {}", fault.help, expected(other));
                findings.error(&node.at, path, or_remove(Fault { help, ..fault }, removable));
            }
        }
        (Kind::Either(_, other), _) => check(node, path, (other, removable), findings),
        (Kind::Object(object), Value::Map(entries)) => check_object(node, entries, path, object, findings),
        (Kind::Map(keys, values), Value::Map(entries)) => {
            refuse_size(entries.len(), node, (path, removable), findings);
            for Entry { key, key_at, value } in entries {
                let path = child(path, key);
                if let Err(fault) = check_scalar(keys, key, true) {
                    findings.error(key_at, &path, fault);
                }
                check(value, &path, (values, true), findings);
            }
        }
        (Kind::List(kind) | Kind::Set(kind), Value::List(items)) => {
            refuse_size(items.len(), node, (path, removable), findings);
            for (index, value) in items.iter().enumerate() {
                check(value, &item(path, index), (kind, true), findings);
            }
        }
        (Kind::Json, Value::Map(_)) => {
            json(node, path, findings);
        }
        (Kind::Object(_) | Kind::Map(..) | Kind::List(_) | Kind::Set(_) | Kind::Json, _)
        | (_, Value::List(_) | Value::Map(_)) => {
            let found = match &node.value {
                Value::Scalar { text, plain: true } if is_null(text) => "nothing".to_owned(),
                Value::Scalar { text, .. } => quote(text),
                Value::List(_) => "a list".to_owned(),
                Value::Map(_) => "a mapping".to_owned(),
            };
            let message = format!("{found} does not belong here");
            let meant = match (kind, &node.value) {
                (Kind::Object(object), Value::Scalar { text, .. }) => wrapped(object, text),
                _ => None,
            };
            let help = meant.map_or_else(|| format!("write {}", expected(kind)), |meant| format!("write `{meant}`"));
            findings.error(&node.at, path, Fault::new("wrong-type", message, help));
        }
        (_, Value::Scalar { text, plain }) => {
            if let Err(fault) = check_scalar(kind, text, *plain) {
                findings.error(&node.at, path, or_remove(fault, removable));
            }
        }
    }
    if let (Kind::Set(_), Value::List(items)) = (kind, &node.value) {
        refuse_repetition(items, path, findings);
    }
}

/// What is empty may be left out where the file is right without it.
fn or_remove(fault: Fault, removable: bool) -> Fault {
    match fault.code {
        "empty-value" if removable => Fault { help: format!("{}, or remove the key", fault.help), ..fault },
        _ => fault,
    }
}

fn refuse_size(size: usize, node: &Node, (path, removable): (&str, bool), findings: &mut Findings) {
    let fault = match size {
        0 => or_remove(Fault::new("empty-value", "nothing is listed", "list something"), removable),
        1..=MAX_ITEMS => return,
        _ => Fault::new("too-large", format!("{size} entries are more than the {MAX_ITEMS} allowed"), "split the file"),
    };
    findings.error(&node.at, path, fault);
}

fn refuse_repetition(items: &[Node], path: &str, findings: &mut Findings) {
    let mut seen = BTreeMap::new();
    for (index, node) in items.iter().enumerate() {
        let Some(text) = node.text() else { continue };
        if let Some(first) = seen.insert(text, index) {
            let message = format!("{} is already item {first} of the list", quote(text));
            findings.error(
                &node.at,
                &item(path, index),
                Fault::new("duplicate-entry", message, "remove one of the two"),
            );
        }
    }
}

/// Finds what is wrong with a mapping of known keys, its values included.
pub(super) fn check_object(
    node: &Node,
    entries: &[Entry],
    path: &str,
    object: &'static Object,
    findings: &mut Findings,
) {
    for Entry { key, key_at, value } in entries {
        let path = child(path, key);
        match object.field(key) {
            Some(field) => {
                let needed = field.need == Need::Required || object.one_of.contains(&field.name);
                check(value, &path, (&field.kind, !needed), findings);
            }
            None if is_secret_key(key) => findings.error(&value.at, &path, secret()),
            None => findings.error(key_at, &path, unknown_key(key, object)),
        }
    }
    let has = |name: &str| entries.iter().any(|entry| entry.key == name);
    for field in object.fields.iter().filter(|field| field.need == Need::Required && !has(field.name)) {
        let message = format!("`{}` is missing: {}", field.name, field.doc);
        let fault = Fault::new("missing-key", message, format!("add `{}: {}`", field.name, example_of(field)));
        findings.error(&node.at, &child(path, field.name), fault);
    }
    let given: Vec<&str> = object.one_of.iter().copied().filter(|name| has(name)).collect();
    let fault = match given.as_slice() {
        [] if !object.one_of.is_empty() => {
            let message = format!("one of {} is missing", list(object.one_of.iter().copied()));
            Fault::new("missing-key", message, format!("add one of them to the {}", object.name))
        }
        [first, second, ..] => {
            let message = format!("`{first}` and `{second}` exclude each other");
            Fault::new("conflicting-keys", message, "keep one of the two")
        }
        _ => return,
    };
    findings.error(&node.at, path, fault);
}

fn unknown_key(key: &str, object: &Object) -> Fault {
    let names = || object.fields.iter().map(|field| field.name);
    let message = format!("{} is not a key of a {}", quote(key), object.name);
    let help = match nearest(key, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the keys are {}", list(names())),
    };
    Fault::new("unknown-key", message, help)
}

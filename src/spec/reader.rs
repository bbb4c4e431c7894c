//! A tree against its description: finds everything that is wrong, once. What is right is then read through
//! a [`crate::spec::view::View`].

use std::collections::BTreeMap;

use crate::spec::findings::{Fault, Findings, child, item};
use crate::spec::shape::{Kind, Need, Object};
use crate::spec::text::{list, nearest, quote};
use crate::spec::value::{check_scalar, example, expected, is_null, is_secret_key, json, secret};
use crate::spec::yaml::{Entry, Node, Value};

/// Finds everything that is wrong with a node of this kind, its children included.
pub(super) fn check(node: &Node, path: &str, kind: &'static Kind, findings: &mut Findings) {
    match (kind, &node.value) {
        (Kind::Either(scalar, other), Value::Scalar { text, plain }) => {
            if let Err(fault) = check_scalar(scalar, text, *plain) {
                let help = format!("{}, or {}", fault.help, expected(other));
                findings.error(&node.at, path, Fault { help, ..fault });
            }
        }
        (Kind::Either(_, other), _) => check(node, path, other, findings),
        (Kind::Object(object), Value::Map(entries)) => check_object(node, entries, path, object, findings),
        (Kind::Map(keys, values), Value::Map(entries)) => {
            refuse_empty(entries.is_empty(), node, path, findings);
            for Entry { key, key_at, value } in entries {
                let path = child(path, key);
                if let Err(fault) = check_scalar(keys, key, true) {
                    findings.error(key_at, &path, fault);
                }
                check(value, &path, values, findings);
            }
        }
        (Kind::List(kind) | Kind::Set(kind), Value::List(items)) => {
            refuse_empty(items.is_empty(), node, path, findings);
            for (index, value) in items.iter().enumerate() {
                check(value, &item(path, index), kind, findings);
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
            let message = format!("expected {}, found {found}", expected(kind));
            findings.error(
                &node.at,
                path,
                Fault::new("wrong-type", message, "see `docs/policies.md` and `docs/workloads.md`"),
            );
        }
        (_, Value::Scalar { text, plain }) => {
            if let Err(fault) = check_scalar(kind, text, *plain) {
                findings.error(&node.at, path, fault);
            }
        }
    }
    if let (Kind::Set(_), Value::List(items)) = (kind, &node.value) {
        refuse_repetition(items, path, findings);
    }
}

fn refuse_empty(empty: bool, node: &Node, path: &str, findings: &mut Findings) {
    if empty {
        findings.error(
            &node.at,
            path,
            Fault::new("empty-value", "nothing is listed", "list something, or remove the key"),
        );
    }
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
            Some(field) => check(value, &path, &field.kind, findings),
            None if is_secret_key(key) => findings.error(&value.at, &path, secret()),
            None => findings.error(key_at, &path, unknown_key(key, object)),
        }
    }
    let has = |name: &str| entries.iter().any(|entry| entry.key == name);
    for field in object.fields.iter().filter(|field| field.need == Need::Required && !has(field.name)) {
        let message = format!("`{}` is missing: {}", field.name, field.doc);
        let fault = Fault::new("missing-key", message, format!("add `{}: {}`", field.name, example(&field.kind)));
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

//! The JSON Schemas: they say what the reader does.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use regex_automata::dfa::regex::Regex;
use serde_json::Value;

use crate::spec::FileKind;
use crate::spec::findings::Findings;
use crate::spec::schema::{root, schema};
use crate::spec::shape::{Kind, Need, Object};
use crate::spec::value::{check_scalar, json};
use crate::spec::yaml::parse;

/// The text as JSON by the rules that editors use.
pub(super) fn as_json(text: &str) -> Value {
    let mut findings = Findings::new("f");
    let root = parse(text, &mut findings).unwrap();
    let value = json(&root, "", &mut findings);
    assert!(!findings.refused());
    value
}

/// Where a document breaks a schema. Knows the keywords that our schemas use and panics at any other.
pub(super) fn broken(document: &Value, schema: &Value, root: &Value, path: &str) -> Vec<String> {
    let mut all = Vec::new();
    let passes = |schema: &Value, document: &Value| broken(document, schema, root, path).is_empty();
    for (keyword, rule) in schema.as_object().unwrap() {
        let right = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" => true,
            "$ref" => passes(root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap(), document),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|one| has_type(document, one.as_str().unwrap())),
                one => has_type(document, one.as_str().unwrap()),
            },
            "const" => rule == document,
            "enum" => rule.as_array().unwrap().contains(document),
            "pattern" => document.as_str().is_none_or(|text| matches_pattern(rule.as_str().unwrap(), text)),
            "minLength" => document.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => document.as_str().is_none_or(|text| text.chars().count() as u64 <= rule.as_u64().unwrap()),
            "minimum" => document.as_f64().is_none_or(|x| x >= rule.as_f64().unwrap()),
            "maximum" => document.as_f64().is_none_or(|x| x <= rule.as_f64().unwrap()),
            "minItems" => document.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "minProperties" => document.as_object().is_none_or(|map| map.len() as u64 >= rule.as_u64().unwrap()),
            "uniqueItems" => document
                .as_array()
                .is_none_or(|items| items.iter().enumerate().all(|(index, item)| !items[..index].contains(item))),
            "items" => document.as_array().is_none_or(|items| items.iter().all(|item| passes(rule, item))),
            "required" => rule.as_array().unwrap().iter().all(|key| document.get(key.as_str().unwrap()).is_some()),
            "oneOf" => rule.as_array().unwrap().iter().filter(|one| passes(one, document)).count() == 1,
            "anyOf" => rule.as_array().unwrap().iter().any(|one| passes(one, document)),
            "propertyNames" => keys(document).iter().all(|key| passes(rule, &Value::from(key.as_str()))),
            "properties" => {
                for (key, rule) in rule.as_object().unwrap() {
                    if let Some(value) = document.get(key) {
                        all.extend(broken(value, rule, root, &format!("{path}.{key}")));
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").map(keys).unwrap_or_default();
                keys(document).iter().filter(|key| !known.contains(key)).all(|key| match rule {
                    Value::Bool(allowed) => *allowed,
                    rule => passes(rule, &document[key.as_str()]),
                })
            }
            other => panic!("unknown keyword {other}"),
        };
        if !right {
            all.push(format!("{path}: {keyword} {rule}"));
        }
    }
    all
}

fn keys(document: &Value) -> Vec<String> {
    document.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

fn has_type(document: &Value, name: &str) -> bool {
    match name {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "integer" => document.is_u64() || document.is_i64(),
        "number" => document.is_number(),
        "boolean" => document.is_boolean(),
        other => panic!("unknown type {other}"),
    }
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    // ASCII only, so that the automaton stays small; our patterns know no other letters.
    Regex::new(&format!("(?-u){pattern}")).unwrap().is_match(text.as_bytes())
}

/// Every object of the three files, once.
pub(super) fn objects() -> Vec<&'static Object> {
    fn add(object: &'static Object, all: &mut Vec<&'static Object>) {
        if all.iter().any(|known| known.name == object.name) {
            return;
        }
        all.push(object);
        for field in object.fields {
            add_kind(&field.kind, all);
        }
    }
    fn add_kind(kind: &'static Kind, all: &mut Vec<&'static Object>) {
        match kind {
            Kind::Object(object) => add(object, all),
            Kind::List(inner) | Kind::Set(inner) | Kind::Map(_, inner) | Kind::Either(_, inner) => add_kind(inner, all),
            _ => {}
        }
    }
    let mut all = Vec::new();
    FileKind::ALL.iter().for_each(|kind| add(root(*kind), &mut all));
    all
}

#[test]
fn defaults_are_right_values_and_names_of_keys_are_unique() {
    for object in objects() {
        for (index, field) in object.fields.iter().enumerate() {
            if let Need::Default(text) = field.need {
                assert!(check_scalar(&field.kind, text, true).is_ok(), "{} {}", object.name, field.name);
            }
            assert!(object.fields[..index].iter().all(|other| other.name != field.name), "{}", field.name);
        }
        assert!(object.one_of.iter().all(|key| object.field(key).is_some_and(|field| field.need == Need::Optional)));
    }
}

#[test]
fn the_schema_closes_every_object_and_describes_every_key() {
    let schema = schema(FileKind::Policy);
    insta::assert_snapshot!(serde_json::to_string_pretty(&schema["$defs"]["baseline"]).unwrap(), @"");
    for kind in FileKind::ALL {
        let schema = super::schemas::schema(*kind);
        assert_eq!(schema["additionalProperties"], false);
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            assert_eq!(definition["additionalProperties"], false, "{name}");
            for (key, value) in definition["properties"].as_object().unwrap() {
                assert!(value["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}.{key}");
            }
        }
    }
}

#[test]
fn texts_of_a_schema_pattern_are_texts_of_the_reader() {
    let mut runner = TestRunner::deterministic();
    for field in objects().iter().flat_map(|object| object.fields) {
        let mut definitions = serde_json::Map::new();
        let shown = crate::spec::schema::kind_schema(&field.kind, &mut definitions);
        let Some(pattern) = shown.get("pattern").and_then(Value::as_str) else { continue };
        let bounded = pattern.trim_matches(['^', '$']).replace("[0-9]+", "[1-9]{1,3}");
        let strategy = string_regex(&bounded).unwrap();
        for _ in 0..50 {
            let text = strategy.new_tree(&mut runner).unwrap().current();
            assert!(matches_pattern(pattern, &text), "{pattern} {text}");
            // The schema cannot know ranges; the grammar must be the same.
            if let Err(fault) = check_scalar(&field.kind, &text, true) {
                assert!(fault.code == "out-of-range", "{}: {text}: {fault:?}", field.name);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_text_that_the_reader_takes_is_one_that_the_schema_takes(text in "[0-9.a-z/% -]{1,9}") {
        for field in objects().iter().flat_map(|object| object.fields) {
            let mut definitions = serde_json::Map::new();
            let shown = crate::spec::schema::kind_schema(&field.kind, &mut definitions);
            if let Some(pattern) = shown.get("pattern").and_then(Value::as_str)
                && check_scalar(&field.kind, &text, false).is_ok()
            {
                prop_assert!(matches_pattern(pattern, &text), "{} {pattern} {text}", field.name);
            }
        }
    }
}

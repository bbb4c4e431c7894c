//! The JSON Schema (draft 2020-12) of each kind of file, made from the description that the reader uses.

use serde_json::{Map, Value, json};

use crate::spec::config_file::CONFIG;
use crate::spec::document::FileKind;
use crate::spec::policy_file::POLICY;
use crate::spec::scalar::pattern;
use crate::spec::session::MOST_TURNS;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::value::{FORMAT, MAX_ITEMS, MAX_TEXT};
use crate::spec::workload_file::WORKLOAD;

/// The JSON Schema of this kind of file, for editors.
pub fn schema(kind: FileKind) -> Value {
    let object = root(kind);
    let mut definitions = Map::new();
    let mut schema = object_schema(object, &mut definitions);
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), format!("servegate {kind}").into());
    schema.insert("$defs".to_owned(), definitions.into());
    schema.into()
}

pub(super) fn root(kind: FileKind) -> &'static Object {
    match kind {
        FileKind::Policy => &POLICY,
        FileKind::Workload => &WORKLOAD,
        FileKind::Config => &CONFIG,
    }
}

fn object_schema(object: &Object, definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let properties: Map<String, Value> =
        object.fields.iter().map(|field| (field.name.to_owned(), field_schema(field, definitions))).collect();
    let required: Vec<&str> =
        object.fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("description".to_owned(), object.doc.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    if !object.one_of.is_empty() {
        let choices: Vec<Value> = object.one_of.iter().map(|key| json!({ "required": [key] })).collect();
        schema.insert("oneOf".to_owned(), choices.into());
    }
    schema
}

fn field_schema(field: &Field, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = kind_schema(&field.kind, definitions);
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), sentence(field).into());
        if let Need::Default(text) = field.need {
            let number = matches!(field.kind, Kind::Count { .. } | Kind::Number { .. });
            let value = serde_json::from_str(text).ok().filter(|_| number).unwrap_or_else(|| text.into());
            map.insert("default".to_owned(), value);
        }
    }
    schema
}

/// The description of a key, with the bounds that a pattern cannot express.
fn sentence(field: &Field) -> String {
    let mut letters = field.doc.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let bounds = if let Kind::Duration { min, max }
    | Kind::Percent { min, max }
    | Kind::Rate { min, max }
    | Kind::CellRate { min, max } = field.kind
    {
        format!(" From {min} to {max}.")
    } else {
        String::new()
    };
    format!("{first}{}.{bounds}", letters.as_str())
}

pub(super) fn kind_schema(kind: &Kind, definitions: &mut Map<String, Value>) -> Value {
    let patterned = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match kind {
        Kind::Version => json!({ "const": FORMAT }),
        Kind::Word(word) => json!({ "const": word }),
        Kind::Text | Kind::RelativePath | Kind::UrlPath | Kind::Url | Kind::Page => {
            json!({ "type": "string", "minLength": 1, "maxLength": MAX_TEXT })
        }
        Kind::Name => patterned(pattern::NAME),
        Kind::EnvName => patterned(pattern::ENV_NAME),
        Kind::Fact => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Choice(names) => json!({ "enum": names() }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Duration { .. } => patterned(pattern::DURATION),
        Kind::Days => patterned(pattern::DAYS),
        Kind::Percent { .. } => patterned(pattern::PERCENT),
        Kind::Amount => patterned(pattern::AMOUNT),
        Kind::Rate { .. } => patterned(pattern::RATE),
        Kind::CellRate { .. } => patterned(pattern::CELL_RATE),
        Kind::Objective => patterned(pattern::OBJECTIVE),
        Kind::Context => patterned(pattern::CONTEXT),
        Kind::Turns => {
            json!({ "type": ["integer", "string"], "minimum": 1, "maximum": MOST_TURNS, "pattern": pattern::TURNS })
        }
        Kind::Set(item) => {
            json!({ "type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "uniqueItems": true, "items": kind_schema(item, definitions) })
        }
        Kind::List(item) => {
            json!({ "type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": kind_schema(item, definitions) })
        }
        Kind::Map(keys, values) => {
            // Keys are text in JSON.
            let names = if matches!(keys, Kind::Count { .. }) {
                json!({ "pattern": pattern::COUNT })
            } else {
                kind_schema(keys, definitions)
            };
            let values = kind_schema(values, definitions);
            json!({ "type": "object", "minProperties": 1, "maxProperties": MAX_ITEMS, "propertyNames": names, "additionalProperties": values })
        }
        Kind::Object(object) => {
            let name = object.name.replace(' ', "-");
            if !definitions.contains_key(&name) {
                let definition = object_schema(object, definitions);
                definitions.insert(name.clone(), definition.into());
            }
            json!({ "$ref": format!("#/$defs/{name}") })
        }
        Kind::Either(first, second) => {
            json!({ "anyOf": [kind_schema(first, definitions), kind_schema(second, definitions)] })
        }
        Kind::Json => json!({ "type": "object" }),
    }
}

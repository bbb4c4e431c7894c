//! One OpenTelemetry span: its attributes in both encodings, and the model call that it may describe.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::base::units::Nanos;
use crate::trace::tokens::Counted;
use crate::trace::{Count, MAX_TOKENS, instant};

/// Operations that are requests to a language model.
const CALLS: &[&str] = &["chat", "text_completion", "generate_content", "completion"];
const OPERATION: &[&str] = &["gen_ai.operation.name", "llm.request.type"];
const MODEL: &[&str] = &["gen_ai.request.model", "gen_ai.response.model"];
const SESSION: &[&str] = &["gen_ai.conversation.id", "session.id"];
/// Vendors put their own word in front of this.
const SESSION_END: &str = ".session.id";
const INPUT_TOKENS: &[&str] = &["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"];
const OUTPUT_TOKENS: &[&str] =
    &["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens"];
const INPUT_TEXT: &[&str] = &["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.prompt"];
const OUTPUT_TEXT: &[&str] = &["gen_ai.output.messages", "gen_ai.output.text", "gen_ai.completion"];
/// Older instrumentation writes `gen_ai.prompt.0.content` and so on.
const NUMBERED: (&str, &str, &str) = ("gen_ai.prompt.", "gen_ai.completion.", ".content");

/// A span as it is written, in the flat or the OTLP spelling.
#[derive(Deserialize)]
pub(super) struct Span {
    #[serde(rename = "trace_id", alias = "traceId", default)]
    pub(super) trace: Option<String>,
    #[serde(rename = "span_id", alias = "spanId", default)]
    pub(super) id: Option<String>,
    #[serde(rename = "parent_span_id", alias = "parentSpanId", default)]
    pub(super) parent: Option<String>,
    #[serde(alias = "startTimeUnixNano", alias = "start_time_unix_nano", alias = "startTime", default)]
    start_time: Value,
    #[serde(default)]
    attributes: Value,
    #[serde(default)]
    status: Value,
}

/// A length, and whether it was counted from text.
#[derive(Clone, Copy)]
pub(super) struct Length {
    pub(super) tokens: u32,
    pub(super) counted: bool,
    pub(super) media: bool,
}

impl Span {
    /// Nanoseconds since 1970 as a number or digits, or a date.
    pub(super) fn start(&self) -> Option<Nanos> {
        match &self.start_time {
            Value::Number(nanos) => nanos.as_u64().map(Nanos),
            Value::String(text) => text.parse().ok().map(Nanos).or_else(|| instant::date(text)),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether it ended with an error.
    pub(super) fn failed(&self) -> bool {
        let code = self.status.get("code").unwrap_or(&self.status);
        code.as_u64() == Some(2) || code.as_str().is_some_and(|code| code.ends_with("ERROR"))
    }

    /// Its attributes by name, with the wrappers of OTLP taken off.
    pub(super) fn attributes(&mut self) -> Attributes {
        Attributes(
            match plain(Value::Object(Map::from_iter([("kvlistValue".to_owned(), values(&mut self.attributes))]))) {
                Value::Object(fields) => fields,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
            },
        )
    }
}

/// Attributes as OTLP's list of pairs.
fn values(attributes: &mut Value) -> Value {
    let pairs = match attributes.take() {
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| serde_json::json!({ "key": key, "value": value })).collect()
        }
        Value::Array(pairs) => pairs,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    serde_json::json!({ "values": pairs })
}

/// A value of OTLP without its wrappers: `{"stringValue": "x"}` is `"x"`.
fn plain(value: Value) -> Value {
    let Value::Object(mut fields) = value else { return value };
    let inner = |mut list: Value| list.get_mut("values").map(Value::take).unwrap_or_default();
    if fields.len() == 1 {
        for simple in ["stringValue", "intValue", "doubleValue", "boolValue"] {
            if let Some(value) = fields.remove(simple) {
                return value;
            }
        }
        if let Some(list) = fields.remove("arrayValue") {
            let mut values = inner(list);
            for value in values.as_array_mut().into_iter().flatten() {
                *value = plain(value.take());
            }
            return values;
        }
        if let Some(list) = fields.remove("kvlistValue") {
            let Value::Array(pairs) = inner(list) else { return Value::Null };
            let pair = |mut pair: Value| {
                let value = pair.get_mut("value").map(Value::take).unwrap_or_default();
                pair.get("key").and_then(Value::as_str).map(|key| (key.to_owned(), plain(value)))
            };
            return Value::Object(pairs.into_iter().filter_map(pair).collect());
        }
    }
    Value::Object(fields)
}

/// Attributes of a span.
pub(super) struct Attributes(Map<String, Value>);

impl Attributes {
    fn first(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.0.get(*name))
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        self.first(names).and_then(Value::as_str)
    }

    /// Whether the span is a request to a language model. Without the name of an operation, what it was asked or
    /// what it cost tells.
    pub(super) fn is_call(&self) -> bool {
        match self.text(OPERATION) {
            Some(operation) => CALLS.contains(&operation),
            None => [INPUT_TOKENS, OUTPUT_TOKENS, INPUT_TEXT].iter().any(|names| self.first(names).is_some()),
        }
    }

    /// The model that was asked.
    pub(super) fn model(&self) -> Option<&str> {
        self.text(MODEL)
    }

    /// What names its session.
    pub(super) fn session(&self) -> Option<&str> {
        let vendors = || self.0.iter().find(|(name, _)| name.ends_with(SESSION_END)).and_then(|(_, id)| id.as_str());
        self.text(SESSION).or_else(vendors).filter(|session| !session.is_empty())
    }

    /// The length of its prompt; none when nothing tells.
    pub(super) fn input(&self, count: Count<'_>) -> Option<Length> {
        self.length(INPUT_TOKENS, INPUT_TEXT, NUMBERED.0, count)
    }

    /// The length of its answer; none when nothing tells.
    pub(super) fn output(&self, count: Count<'_>) -> Option<Length> {
        self.length(OUTPUT_TOKENS, OUTPUT_TEXT, NUMBERED.1, count)
    }

    fn length(&self, tokens: &[&str], texts: &[&str], numbered: &str, count: Count<'_>) -> Option<Length> {
        if let Some(tokens) = self.first(tokens).and_then(number).filter(|tokens| *tokens <= MAX_TOKENS) {
            return Some(Length { tokens, counted: false, media: false });
        }
        let is_part = |name: &str| name.starts_with(numbered) && name.ends_with(NUMBERED.2);
        let parts = self.0.iter().filter(|(name, _)| texts.contains(&name.as_str()) || is_part(name));
        let mut counted = Counted::default();
        let mut met = false;
        for (_, text) in parts {
            met = true;
            counted.add(&unpacked(text), count);
        }
        met.then_some(Length { tokens: counted.tokens, counted: true, media: counted.media })
    }
}

/// Messages are written as JSON inside a text.
fn unpacked(value: &Value) -> Cow<'_, Value> {
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    parsed.filter(|parsed| parsed.is_array() || parsed.is_object()).map_or(Cow::Borrowed(value), Cow::Owned)
}

/// OTLP writes whole numbers as text.
fn number(value: &Value) -> Option<u32> {
    let whole = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    whole.and_then(|whole| whole.try_into().ok())
}

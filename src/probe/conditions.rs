//! Conditions that a deployment tells: model and engine from `/v1/models`, vLLM's `/version`,
//! llama.cpp's `/props`. What does not answer stays unknown; nothing is guessed.

use serde_json::Value;

use crate::artifact::conditions::{Conditions, Known, Source};
use crate::base::names::Condition;
use crate::probe::control::Control;
use crate::report::escape;

/// Longest text that is taken over from a deployment.
const MOST_CHARS: usize = 200;
/// More models than these are not listed.
const MOST_MODELS: usize = 100;

/// Engines that name themselves as the owner of their models. Other owners are organisations.
const ENGINES: [&str; 5] = ["vllm", "sglang", "llamacpp", "lmdeploy", "tensorrt_llm"];

/// What a deployment tells about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The models it serves, in its order; none when it does not tell.
    pub models: Option<Vec<String>>,
    /// Conditions, all [`Source::Probed`].
    pub conditions: Conditions,
}

/// Asks the deployment which models it serves and what it is. `model` is the one that will be measured.
pub fn conditions(control: &Control, model: &str) -> Told {
    let ask = |path: &str| control.json(path).unwrap_or_default();
    told(model, &ask("/v1/models"), &ask("/version"), &ask("/props"))
}

fn told(model: &str, models: &Value, version: &Value, props: &Value) -> Told {
    let list = models.get("data").and_then(Value::as_array);
    let id = |entry: &&Value| entry.get("id").and_then(Value::as_str).is_some_and(|id| id == model);
    let entry = list.and_then(|list| list.iter().find(id)).unwrap_or(&Value::Null);
    let owner = entry.get("owned_by").filter(|owner| owner.as_str().is_some_and(|owner| ENGINES.contains(&owner)));
    let found = [
        (Condition::Model, entry.get("id")),
        (Condition::Engine, owner),
        (Condition::EngineVersion, version.get("version").or_else(|| props.get("build_info"))),
        (Condition::Quantization, props.get("model_ftype").or_else(|| entry.pointer("/meta/ftype"))),
        (Condition::MaxNumSeqs, props.get("total_slots")),
    ];
    let conditions = found.into_iter().filter_map(|(condition, value)| {
        let value = text(value?)?;
        Some((condition, Known { value, source: Source::Probed }))
    });
    let models = list.map(|list| list.iter().take(MOST_MODELS).filter_map(|entry| text(entry.get("id")?)).collect());
    Told { models, conditions: conditions.collect() }
}

/// A number or a non-empty text as one bounded line.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let line: String = escape::one_line(&text).chars().take(MOST_CHARS).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(told: &Told) -> Vec<(&'static str, &str)> {
        told.conditions.iter().map(|(condition, known)| (condition.id(), known.value.as_str())).collect()
    }

    #[test]
    fn engines_tell_what_they_are() {
        let models = json!({"object": "list", "data": [
            {"id": "other", "owned_by": "vllm"}, {"id": "m", "owned_by": "vllm", "max_model_len": 4096}]});
        let vllm = told("m", &models, &json!({"version": "0.32.0"}), &Value::Null);
        assert_eq!(vllm.models, Some(vec!["other".to_owned(), "m".to_owned()]));
        assert_eq!(values(&vllm), [("model", "m"), ("engine", "vllm"), ("engine_version", "0.32.0")]);

        let models = json!({"data": [{"id": "s.gguf", "owned_by": "llamacpp", "meta": {"ftype": "Q4_1"}}]});
        let props = json!({"total_slots": 4, "model_ftype": "Q4_1", "build_info": "b1-abc"});
        let llama = told("s.gguf", &models, &Value::Null, &props);
        assert_eq!(
            values(&llama),
            [
                ("model", "s.gguf"),
                ("engine", "llamacpp"),
                ("engine_version", "b1-abc"),
                ("quantization", "Q4_1"),
                ("max_num_seqs", "4")
            ]
        );
    }

    #[test]
    fn silence_and_nonsense_stay_unknown() {
        assert_eq!(told("m", &Value::Null, &Value::Null, &Value::Null), Told::default());
        let hostile = json!({"data": [{"id": 7, "owned_by": {"a": 1}}, 5, {"id": "a\u{1b}[31m".repeat(100)}]});
        let seen = told("m", &hostile, &json!([1]), &json!({"total_slots": true, "build_info": ""}));
        assert!(seen.conditions.is_empty());
        let names = seen.models.unwrap();
        assert_eq!((names.len(), names[1].chars().count()), (2, 200));
        assert!(!names[1].contains('\u{1b}'));
        assert_eq!(told("m", &json!({"data": []}), &Value::Null, &Value::Null).models, Some(Vec::new()));
    }
}

//! Request bodies.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::wire::decoded::Wanted;
use crate::wire::dialect::Dialect;

/// The request body of one target: all that is the same in every request is written once.
#[derive(Clone, Debug)]
pub struct Template {
    /// The opening brace and the common fields.
    head: String,
    /// Name, and text before and after its value, of the fields that differ between requests.
    prompt: Option<(&'static str, &'static str, &'static str)>,
    max_tokens: bool,
    seed: bool,
    extra_max_tokens: Option<u32>,
    ignore_eos: bool,
    min_tokens: u32,
}

impl Template {
    /// The body for a model of a target. Every field of `extra` wins over servegate's own field of that
    /// name; null removes the field, for servers that refuse it.
    pub fn new(dialect: &Dialect, model: &str, extra: &Map<String, Value>) -> Self {
        let mut fields = Map::new();
        fields.insert("model".to_owned(), model.into());
        fields.insert("stream".to_owned(), true.into());
        fields.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        fields.insert("temperature".to_owned(), 0.into());
        fields.extend(extra.clone());
        fields.retain(|_, value| !value.is_null());
        let mut head = Value::Object(fields).to_string();
        head.pop();
        let number = |name: &str| extra.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        let ours = |name: &str| !extra.contains_key(name);
        Self {
            head,
            prompt: Some(dialect.prompt).filter(|(name, ..)| ours(name)),
            max_tokens: ours("max_tokens"),
            seed: ours("seed"),
            extra_max_tokens: number("max_tokens"),
            ignore_eos: extra.get("ignore_eos") == Some(&Value::Bool(true)),
            min_tokens: number("min_tokens").unwrap_or_default(),
        }
    }

    /// What an answer to a request of this many output tokens must be like. The length is forced when
    /// the extra fields say so: `ignore_eos: true`, or `min_tokens` of at least that many (the names in
    /// vLLM, SGLang and llama.cpp).
    pub fn wanted(&self, output_tokens: u32) -> Wanted {
        let output_tokens = self.extra_max_tokens.unwrap_or(output_tokens);
        Wanted { output_tokens, forced: self.ignore_eos || self.min_tokens >= output_tokens }
    }

    /// The JSON body of one request. Of the seed, the low 31 bits are sent: the range that every engine takes.
    pub fn body(&self, prompt: &str, output_tokens: u32, seed: u64) -> Bytes {
        let mut out = String::with_capacity(self.head.len().saturating_add(prompt.len()).saturating_add(128));
        out.push_str(&self.head);
        if self.max_tokens {
            field(&mut out, "max_tokens", &output_tokens.to_string());
        }
        if self.seed {
            field(&mut out, "seed", &(seed & 0x7fff_ffff).to_string());
        }
        if let Some((name, before, after)) = self.prompt {
            field(&mut out, name, before);
            out.push_str(&Value::from(prompt).to_string());
            out.push_str(after);
        }
        out.push('}');
        Bytes::from(out)
    }
}

/// Appends `"name":value`, where there may be fields before it.
fn field(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    out.push_str(value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::names::Api;
    use crate::wire::dialect;

    fn template(api: Api, extra: Value) -> Template {
        let Value::Object(extra) = extra else { panic!("not an object") };
        Template::new(&dialect::of(api), "m", &extra)
    }

    fn text(template: &Template) -> String {
        String::from_utf8(template.body("say \"hi\"\n", 16, (1 << 40) + 5).to_vec()).unwrap()
    }

    #[test]
    fn bodies_are_those_of_the_interfaces() {
        assert_eq!(
            text(&template(Api::Completions, json!({}))),
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"max_tokens":16,"seed":5,"prompt":"say \"hi\"\n"}"#
        );
        assert_eq!(
            text(&template(Api::Chat, json!({ "ignore_eos": true }))),
            r#"{"ignore_eos":true,"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"max_tokens":16,"seed":5,"messages":[{"role":"user","content":"say \"hi\"\n"}]}"#
        );
    }

    #[test]
    fn extra_fields_win_and_null_removes() {
        let extra = json!({ "max_tokens": 3, "seed": null, "stream_options": null, "temperature": 1, "model": null });
        assert_eq!(
            text(&template(Api::Completions, extra)),
            r#"{"max_tokens":3,"stream":true,"temperature":1,"prompt":"say \"hi\"\n"}"#
        );
        let nothing = json!({ "model": null, "stream": null, "stream_options": null, "temperature": null });
        assert_eq!(text(&template(Api::Completions, nothing)), r#"{"max_tokens":16,"seed":5,"prompt":"say \"hi\"\n"}"#);
    }

    #[test]
    fn a_forced_length_is_seen() {
        for (extra, output_tokens, forced) in [
            (json!({}), 16, false),
            (json!({ "ignore_eos": false, "min_tokens": 15 }), 16, false),
            (json!({ "ignore_eos": true }), 16, true),
            (json!({ "min_tokens": 16 }), 16, true),
            (json!({ "min_tokens": 4, "max_tokens": 4 }), 4, true),
        ] {
            assert_eq!(template(Api::Chat, extra).wanted(16), Wanted { output_tokens, forced });
        }
    }

    proptest! {
        #[test]
        fn any_prompt_is_one_json_string(prompt: String, tokens: u32, seed: u64) {
            let body = template(Api::Chat, json!({})).body(&prompt, tokens, seed);
            let value: Value = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(value["messages"][0]["content"].as_str(), Some(prompt.as_str()));
            prop_assert_eq!(value["max_tokens"].as_u64(), Some(u64::from(tokens)));
        }
    }
}

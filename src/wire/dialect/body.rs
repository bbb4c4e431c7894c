//! Request bodies.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::base::said::Said;
use crate::wire::decoded::Wanted;
use crate::wire::dialect::Dialect;
use crate::wire::dialect::messages::Talk;

/// How a dialect writes a request.
pub(super) struct Shape {
    /// Whether the body names the model.
    pub(super) names_model: bool,
    /// Fields that are the same in every request, as a JSON object.
    pub(super) fixed: &'static str,
    /// The object that holds the generation's parameters, where they do not stand beside the prompt. The length and
    /// the seed are among them.
    pub(super) nested: Option<Nested>,
    /// Field of the number of output tokens.
    pub(super) length: &'static str,
    /// Field of the seed, where there is one.
    pub(super) seed: Option<&'static str>,
    /// Field of the prompt, and the JSON before and after the prompt's string in it.
    pub(super) prompt: (&'static str, &'static str, &'static str),
    /// Field of a prompt of token ids, where the interface takes one.
    pub(super) ids: Option<&'static str>,
    /// How it carries a conversation; none for one text.
    pub(super) talk: Option<Talk>,
}

/// What a request asks the model to continue.
#[derive(Clone, Copy, Debug)]
pub enum Prompt<'a> {
    /// Text, which the server turns into tokens.
    Text(&'a str),
    /// Token ids; an interface that takes none sends no prompt, see [`Dialect::takes_ids`].
    Ids(&'a [u32]),
    /// A conversation; an interface without messages gets its texts one after the other.
    Talk(&'a [Said]),
}

/// An object of parameters inside the body.
pub(super) struct Nested {
    /// Its field.
    pub(super) name: &'static str,
    /// Its fields that are the same in every request, as a JSON object.
    pub(super) fixed: &'static str,
    /// Extra fields that belong into it although they were written beside it.
    pub(super) takes: &'static [&'static str],
}

/// Names by which servers are told the least number of output tokens.
const LEAST: [&str; 3] = ["min_tokens", "min_new_tokens", "min_length"];

/// The request body of one target: all that is the same in every request is written once.
#[derive(Clone, Debug)]
pub struct Template {
    /// The opening brace and the common fields; where parameters are nested, those of the inner object last.
    head: String,
    /// Whether the inner object is open at the end of `head`.
    nested: bool,
    /// Name, and text before and after its value, of the fields that differ between requests.
    prompt: Option<(&'static str, &'static str, &'static str)>,
    ids: Option<&'static str>,
    talk: Option<Talk>,
    length: Option<&'static str>,
    seed: Option<&'static str>,
    extra_length: Option<u32>,
    ignore_eos: bool,
    least: u32,
}

impl Template {
    /// The body for a model of a target. Every field of `extra` wins over servegate's own field of that
    /// name; null removes the field, for servers that refuse it. Where a dialect nests its parameters, an extra
    /// object of that name is merged into it.
    pub fn new(dialect: &Dialect, model: &str, extra: &Map<String, Value>) -> Self {
        let shape = dialect.shape;
        let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let mut outer = object(shape.fixed);
        if shape.names_model {
            outer.insert("model".to_owned(), model.into());
        }
        let mut inner = shape.nested.as_ref().map(|nested| object(nested.fixed)).unwrap_or_default();
        let (mut outer_extra, mut inner_extra) = (extra.clone(), Map::new());
        if let Some(nested) = &shape.nested {
            for name in nested.takes {
                inner_extra.extend(outer_extra.remove_entry(*name));
            }
            if let Some(Value::Object(fields)) = outer_extra.get(nested.name) {
                inner_extra.extend(fields.clone());
                outer_extra.remove(nested.name);
            }
        }
        let parameters = if shape.nested.is_some() { &inner_extra } else { &outer_extra };
        let ours = |name: &&str| !parameters.contains_key(*name);
        let (length, seed) = (Some(shape.length).filter(ours), shape.seed.filter(ours));
        let extra_length = parameters.get(shape.length).and_then(number);
        let prompt = Some(shape.prompt).filter(|(name, ..)| !outer_extra.contains_key(*name));
        let open = |fields: &mut Map<String, Value>, extra: Map<String, Value>| {
            fields.extend(extra);
            fields.retain(|_, value| !value.is_null());
            let mut text = Value::Object(fields.clone()).to_string();
            text.pop();
            text
        };
        let mut head = open(&mut outer, outer_extra);
        let inner_head = open(&mut inner, inner_extra);
        if let Some(nested) = &shape.nested {
            field(&mut head, nested.name, &inner_head);
        }
        let set = |name: &str| inner.get(name).or_else(|| outer.get(name));
        Self {
            head,
            nested: shape.nested.is_some(),
            prompt,
            ids: shape.ids,
            talk: shape.talk,
            length,
            seed,
            extra_length,
            ignore_eos: set("ignore_eos") == Some(&Value::Bool(true)),
            least: LEAST.iter().filter_map(|name| set(name).and_then(number)).max().unwrap_or_default(),
        }
    }

    /// What an answer to a request of this many output tokens must be like. The length is forced when the body says
    /// so: `ignore_eos: true`, or a least number of tokens of at least that many.
    pub fn wanted(&self, output_tokens: u32) -> Wanted {
        let output_tokens = self.extra_length.unwrap_or(output_tokens);
        Wanted { output_tokens, forced: self.ignore_eos || self.least >= output_tokens }
    }

    /// The JSON body of one request. Of the seed, the low 31 bits are sent: the range that every engine takes.
    pub fn body(&self, prompt: Prompt<'_>, output_tokens: u32, seed: u64) -> Bytes {
        let size = match prompt {
            Prompt::Text(text) => text.len(),
            Prompt::Ids(ids) => ids.len().saturating_mul(7),
            Prompt::Talk(said) => said.iter().map(|said| said.text.len().saturating_add(128)).sum(),
        };
        let mut out = String::with_capacity(self.head.len().saturating_add(size).saturating_add(128));
        out.push_str(&self.head);
        if let Some(name) = self.length {
            field(&mut out, name, &output_tokens.to_string());
        }
        if let Some(name) = self.seed {
            field(&mut out, name, &(seed & 0x7fff_ffff).to_string());
        }
        if self.nested {
            out.push('}');
        }
        self.add_prompt(&mut out, prompt);
        out.push('}');
        Bytes::from(out)
    }

    fn add_prompt(&self, out: &mut String, prompt: Prompt<'_>) {
        match (prompt, self.prompt, self.ids) {
            (Prompt::Text(text), Some((name, before, after)), _) => {
                field(out, name, before);
                out.push_str(&Value::from(text).to_string());
                out.push_str(after);
            }
            (Prompt::Talk(said), Some((name, before, after)), _) => {
                if let Some(talk) = self.talk {
                    talk.fields(said).iter().for_each(|(name, value)| field(out, name, &value.to_string()));
                    return;
                }
                let texts: Vec<&str> = said.iter().map(|said| said.text.as_str()).collect();
                field(out, name, before);
                out.push_str(&Value::from(texts.join(" ")).to_string());
                out.push_str(after);
            }
            (Prompt::Ids(ids), _, Some(name)) => {
                let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
                field(out, name, &format!("[{}]", list.join(",")));
            }
            (Prompt::Text(_) | Prompt::Talk(_), None, _) | (Prompt::Ids(_), _, None) => {}
        }
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// A name as one segment of a URL's path.
pub(super) fn url_segment(name: &str) -> String {
    name.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let hex = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase();
            out.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
        out
    })
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
    use serde_json::json;

    use super::*;
    use crate::base::names::Api;
    use crate::wire::dialect;

    fn template(api: Api, extra: Value) -> Template {
        let Value::Object(extra) = extra else { panic!("not an object") };
        Template::new(&dialect::of(api), "m", &extra)
    }

    fn text(template: &Template) -> String {
        String::from_utf8(template.body(Prompt::Text("say \"hi\"\n"), 16, (1 << 40) + 5).to_vec()).unwrap()
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
    fn native_bodies_force_the_length_where_they_can() {
        for (api, body) in [
            (
                Api::Responses,
                r#"{"model":"m","store":false,"stream":true,"temperature":0,"max_output_tokens":16,"input":"say \"hi\"\n"}"#,
            ),
            (
                Api::Anthropic,
                r#"{"model":"m","stream":true,"temperature":0,"max_tokens":16,"messages":[{"role":"user","content":"say \"hi\"\n"}]}"#,
            ),
            (
                Api::Tgi,
                r#"{"model":"m","stream":true,"parameters":{"details":true,"max_new_tokens":16,"seed":5},"inputs":"say \"hi\"\n"}"#,
            ),
            (
                Api::Sglang,
                r#"{"model":"m","stream":true,"sampling_params":{"ignore_eos":true,"temperature":0,"max_new_tokens":16},"text":"say \"hi\"\n"}"#,
            ),
            (
                Api::Llamacpp,
                r#"{"ignore_eos":true,"model":"m","stream":true,"temperature":0,"n_predict":16,"seed":5,"prompt":"say \"hi\"\n"}"#,
            ),
            (
                Api::OllamaChat,
                r#"{"model":"m","stream":true,"options":{"temperature":0,"num_predict":16,"seed":5},"messages":[{"role":"user","content":"say \"hi\"\n"}]}"#,
            ),
            (
                Api::OllamaGenerate,
                r#"{"model":"m","stream":true,"options":{"temperature":0,"num_predict":16,"seed":5},"prompt":"say \"hi\"\n"}"#,
            ),
            (Api::Triton, r#"{"stream":true,"temperature":0,"max_tokens":16,"text_input":"say \"hi\"\n"}"#),
        ] {
            let template = template(api, json!({}));
            assert_eq!(text(&template), body);
            assert_eq!(template.wanted(16).forced, matches!(api, Api::Sglang | Api::Llamacpp), "{api}");
        }
    }

    #[test]
    fn extra_parameters_are_merged_where_the_dialect_has_them() {
        let extra = json!({ "ignore_eos": false, "sampling_params": { "top_k": 1, "temperature": null }, "rid": "x" });
        let merged = template(Api::Sglang, extra);
        assert_eq!(
            text(&merged),
            r#"{"model":"m","rid":"x","stream":true,"sampling_params":{"ignore_eos":false,"top_k":1,"max_new_tokens":16},"text":"say \"hi\"\n"}"#
        );
        assert_eq!(merged.wanted(16), Wanted { output_tokens: 16, forced: false });
        let shorter =
            template(Api::Tgi, json!({ "parameters": { "max_new_tokens": 4, "seed": null, "details": null } }));
        assert_eq!(
            text(&shorter),
            r#"{"model":"m","stream":true,"parameters":{"max_new_tokens":4},"inputs":"say \"hi\"\n"}"#
        );
        assert_eq!(shorter.wanted(16), Wanted { output_tokens: 4, forced: false });
        let least = template(Api::Sglang, json!({ "ignore_eos": null, "sampling_params": { "min_new_tokens": 16 } }));
        assert!(least.wanted(16).forced);
    }

    #[test]
    fn token_ids_stand_in_place_of_the_text() {
        for (api, end) in [
            (Api::Completions, r#""seed":5,"prompt":[7,40000]}"#),
            (Api::Llamacpp, r#""seed":5,"prompt":[7,40000]}"#),
            (Api::Sglang, r#""max_new_tokens":16},"input_ids":[7,40000]}"#),
        ] {
            assert!(dialect::of(api).takes_ids());
            let body = template(api, json!({})).body(Prompt::Ids(&[7, 40_000]), 16, 5);
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(body.ends_with(end) && serde_json::from_str::<Value>(&body).is_ok(), "{body}");
        }
        let takers = Api::ALL.iter().filter(|api| dialect::of(**api).takes_ids());
        assert_eq!(takers.count(), 3);
    }

    #[test]
    fn a_model_in_the_url_is_one_segment() {
        let triton = dialect::of(Api::Triton);
        assert_eq!(triton.serving("ensemble").path(), "/v2/models/ensemble/generate_stream");
        assert_eq!(triton.serving("a/b c\u{e9}?").path(), "/v2/models/a%2Fb%20c%C3%A9%3F/generate_stream");
        assert_eq!(dialect::of(Api::Chat).serving("m").path(), "/v1/chat/completions");
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
            for (api, said, length) in [
                (Api::Chat, "/messages/0/content", "/max_tokens"),
                (Api::Sglang, "/text", "/sampling_params/max_new_tokens"),
                (Api::OllamaGenerate, "/prompt", "/options/num_predict"),
            ] {
                let body = template(api, json!({})).body(Prompt::Text(&prompt), tokens, seed);
                let value: Value = serde_json::from_slice(&body).unwrap();
                prop_assert_eq!(value.pointer(said).unwrap().as_str(), Some(prompt.as_str()));
                prop_assert_eq!(value.pointer(length).unwrap().as_u64(), Some(u64::from(tokens)));
            }
        }
    }
}

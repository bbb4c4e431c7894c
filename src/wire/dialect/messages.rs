//! Conversations in request bodies: messages with their roles, calls of tools and their results.

use serde_json::{Value, json};

use crate::base::said::{Said, Speaker};

/// The name of the tool that conversations call.
const TOOL: &str = "lookup";

/// How an interface carries a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Talk {
    /// `messages` of OpenAI's chat completions.
    Chat,
    /// The items of `input` of OpenAI's Responses.
    Responses,
    /// `system` and `messages` with blocks of content.
    Anthropic,
    /// `messages` of Ollama: arguments are an object, and calls have no ids.
    Ollama,
}

impl Talk {
    /// The fields of the body that hold the conversation, in the order in which they are written.
    pub(super) fn fields(self, said: &[Said]) -> Vec<(&'static str, Value)> {
        match self {
            Self::Chat => vec![("messages", each(said, chat))],
            Self::Ollama => vec![("messages", each(said, ollama))],
            Self::Responses => vec![("input", each(said, response))],
            Self::Anthropic => {
                let (system, rest) = match said.split_first() {
                    Some((Said { by: Speaker::System, text }, rest)) => (Some(text), rest),
                    _ => (None, said),
                };
                let system = system.map(|text| ("system", Value::from(text.as_str())));
                system.into_iter().chain([("messages", each(rest, anthropic))]).collect()
            }
        }
    }
}

fn each(said: &[Said], message: fn(&Said, &str) -> Value) -> Value {
    // A call and its result have one id: results come right after the calls.
    let id =
        |(place, said): (usize, &Said)| format!("call_{}", place.saturating_sub(usize::from(said.by == Speaker::Tool)));
    said.iter().enumerate().map(|(place, said)| message(said, &id((place, said)))).collect()
}

fn chat(said: &Said, id: &str) -> Value {
    let text = said.text.as_str();
    match said.by {
        Speaker::System => json!({ "role": "system", "content": text }),
        Speaker::User => json!({ "role": "user", "content": text }),
        Speaker::Assistant => json!({ "role": "assistant", "content": text }),
        Speaker::Call => json!({
            "role": "assistant",
            "content": "",
            "tool_calls": [{ "id": id, "type": "function", "function": { "name": TOOL, "arguments": arguments(text).to_string() } }],
        }),
        Speaker::Tool => json!({ "role": "tool", "tool_call_id": id, "content": text }),
    }
}

fn ollama(said: &Said, _id: &str) -> Value {
    match said.by {
        Speaker::System | Speaker::User | Speaker::Assistant => chat(said, ""),
        Speaker::Call => json!({
            "role": "assistant",
            "content": "",
            "tool_calls": [{ "function": { "name": TOOL, "arguments": arguments(&said.text) } }],
        }),
        Speaker::Tool => json!({ "role": "tool", "tool_name": TOOL, "content": said.text }),
    }
}

fn response(said: &Said, id: &str) -> Value {
    match said.by {
        Speaker::System | Speaker::User | Speaker::Assistant => chat(said, id),
        Speaker::Call => json!({
            "type": "function_call",
            "call_id": id,
            "name": TOOL,
            "arguments": arguments(&said.text).to_string(),
        }),
        Speaker::Tool => json!({ "type": "function_call_output", "call_id": id, "output": said.text }),
    }
}

fn anthropic(said: &Said, id: &str) -> Value {
    let text = said.text.as_str();
    match said.by {
        Speaker::System | Speaker::User => json!({ "role": "user", "content": text }),
        Speaker::Assistant => json!({ "role": "assistant", "content": text }),
        Speaker::Call => json!({
            "role": "assistant",
            "content": [{ "type": "tool_use", "id": id, "name": TOOL, "input": arguments(text) }],
        }),
        Speaker::Tool => {
            json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": text }] })
        }
    }
}

/// What a tool is called with: all that the answer says.
fn arguments(text: &str) -> Value {
    json!({ "query": text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::names::Api;
    use crate::wire::dialect::{self, Prompt, Template};

    fn body(api: Api) -> Value {
        let say = |by, text: &str| Said { by, text: text.to_owned() };
        let said = [
            say(Speaker::System, "rules"),
            say(Speaker::User, "say \"hi\""),
            say(Speaker::Call, "find it"),
            say(Speaker::Tool, "found"),
            say(Speaker::Assistant, "hi"),
            say(Speaker::User, "more"),
        ];
        let dialect = dialect::of(api);
        let template = Template::new(&dialect, "m", &serde_json::Map::new());
        serde_json::from_slice(&template.body(Prompt::Talk(&said), 16, 5)).unwrap()
    }

    #[test]
    fn a_conversation_is_messages_where_the_interface_has_them() {
        let call = json!({ "id": "call_2", "type": "function", "function": { "name": "lookup", "arguments": "{\"query\":\"find it\"}" } });
        assert_eq!(
            body(Api::Chat)["messages"],
            json!([
                { "role": "system", "content": "rules" },
                { "role": "user", "content": "say \"hi\"" },
                { "role": "assistant", "content": "", "tool_calls": [call] },
                { "role": "tool", "tool_call_id": "call_2", "content": "found" },
                { "role": "assistant", "content": "hi" },
                { "role": "user", "content": "more" },
            ])
        );
        let anthropic = body(Api::Anthropic);
        assert_eq!(anthropic["system"], "rules");
        assert_eq!(
            anthropic["messages"],
            json!([
                { "role": "user", "content": "say \"hi\"" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "call_1", "name": "lookup", "input": { "query": "find it" } }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "call_1", "content": "found" }] },
                { "role": "assistant", "content": "hi" },
                { "role": "user", "content": "more" },
            ])
        );
        assert_eq!(
            body(Api::Responses)["input"].as_array().unwrap()[2..4],
            [
                json!({ "type": "function_call", "call_id": "call_2", "name": "lookup", "arguments": "{\"query\":\"find it\"}" }),
                json!({ "type": "function_call_output", "call_id": "call_2", "output": "found" }),
            ]
        );
        assert_eq!(
            body(Api::OllamaChat)["messages"].as_array().unwrap()[2..4],
            [
                json!({ "role": "assistant", "content": "", "tool_calls": [{ "function": { "name": "lookup", "arguments": { "query": "find it" } } }] }),
                json!({ "role": "tool", "tool_name": "lookup", "content": "found" }),
            ]
        );
    }

    #[test]
    fn an_interface_without_messages_gets_the_texts_one_after_the_other() {
        let text = "rules say \"hi\" find it found hi more";
        for (api, field) in
            [(Api::Completions, "prompt"), (Api::Tgi, "inputs"), (Api::Sglang, "text"), (Api::Triton, "text_input")]
        {
            assert_eq!(body(api)[field], text, "{api}");
        }
        let with = Api::ALL.iter().filter(|api| dialect::of(**api).takes_messages());
        assert_eq!(with.copied().collect::<Vec<_>>(), [Api::Chat, Api::Responses, Api::Anthropic, Api::OllamaChat]);
    }
}

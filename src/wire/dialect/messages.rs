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
    let id = |(place, said): (usize, &Said)| format!("call_{}", place.saturating_sub(usize::from(said.by == Speaker::Tool)));
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

//! What a client asks of the simulated server: the body of a request, taken apart and bounded.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::rng::Stream;
use crate::sim::prefix;
use crate::sim::profile::Profile;

/// Tokens that the chat template puts before the words of the messages; completions get one, for the start.
const TEMPLATE_TOKENS: u32 = 8;
/// What they are.
const START: &str = "<start>";
/// Median and spread of the natural length of an answer that may end by itself.
const NATURAL_TOKENS: f64 = 300.0;
const NATURAL_SIGMA: f64 = 0.5;

/// The interfaces that the simulated server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI completions.
    Completions,
}

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which interface.
    pub api: Interface,
    /// Whitespace-separated words of the prompt, and a few for the template.
    pub prompt_tokens: u32,
    /// How long the answer will be: the limit, or less when the model may end it and does.
    pub output_tokens: u32,
    /// Whether the limit ended the answer.
    pub by_length: bool,
    /// Whether the answer is a stream of events.
    pub stream: bool,
    /// Whether a stream ends with its usage.
    pub include_usage: bool,
    /// Fixes the words of the answer: the same prompt gets the same answer.
    pub answer_seed: u64,
    /// The whole blocks of the prompt, where the engine has a prefix cache.
    pub blocks: Vec<u64>,
}

/// A request that is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// JSON body in the form of vLLM.
    pub body: Vec<u8>,
}

impl Refusal {
    /// An error body as vLLM writes it.
    pub fn new(status: u16, kind: &str, message: &str, param: Option<&str>) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            error: Detail<'a>,
        }
        #[derive(Serialize)]
        struct Detail<'a> {
            message: &'a str,
            #[serde(rename = "type")]
            kind: &'a str,
            param: Option<&'a str>,
            code: u16,
        }
        let body = Body { error: Detail { message, kind, param, code: status } };
        Self { status, body: serde_json::to_vec(&body).unwrap_or_default() }
    }

    /// The request is longer than the model's context or the cache.
    pub fn too_long(prompt_tokens: u32, output_tokens: u32) -> Self {
        let message =
            format!("{prompt_tokens} prompt tokens and {output_tokens} output tokens exceed the context length");
        Self::bad_request(&message, None)
    }

    fn bad_request(message: &str, param: Option<&str>) -> Self {
        Self::new(400, "BadRequestError", message, param)
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow, default)]
    prompt: Option<Prompt<'a>>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    ignore_eos: Option<bool>,
}

/// The prompt of a completion.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Ids(Vec<u32>),
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// Reads a request to an engine, for its model.
///
/// # Errors
/// The answer to send instead: 404 for another path or model, 400 for anything else that is wrong.
pub fn read(path: &str, body: &[u8], engine: &Profile) -> Result<Ask, Refusal> {
    let model = engine.model;
    let api = match path.split('?').next() {
        Some("/v1/chat/completions") => Interface::Chat,
        Some("/v1/completions") => Interface::Completions,
        _ => return Err(Refusal::new(404, "NotFoundError", "Not Found", None)),
    };
    let body: Body<'_> =
        serde_json::from_slice(body).map_err(|error| Refusal::bad_request(&format!("JSON: {error}"), None))?;
    if let Some(other) = body.model.as_deref().filter(|other| *other != model) {
        let message = format!("The model `{other}` does not exist. Valid aliases: {model}.");
        return Err(Refusal::new(404, "NotFoundError", &message, Some("model")));
    }
    let (words, answer) = match api {
        Interface::Chat => {
            let messages = body.messages.as_deref().filter(|messages| !messages.is_empty());
            let messages = messages.ok_or_else(|| Refusal::bad_request("messages are required", Some("messages")))?;
            let words = messages.iter().map(|message| count_words(&message.content)).sum::<u32>();
            (words + TEMPLATE_TOKENS, Stream::named(0, messages.last().map_or("", |message| &message.content)))
        }
        Interface::Completions => {
            let prompt = body.prompt.as_ref();
            match prompt.ok_or_else(|| Refusal::bad_request("a prompt is required", Some("prompt")))? {
                Prompt::Text(text) => (count_words(text) + 1, Stream::named(0, text)),
                // Ids are taken as they are: nothing is put before them.
                Prompt::Ids(ids) => {
                    (u32::try_from(ids.len()).unwrap_or(u32::MAX), Stream::named(0, &format!("{ids:?}")))
                }
            }
        }
    };
    let limit =
        body.max_completion_tokens.or(body.max_tokens).unwrap_or_else(|| engine.max_model_len.saturating_sub(words));
    if limit == 0 {
        return Err(Refusal::bad_request("max_tokens must be at least 1", Some("max_tokens")));
    }
    let blocks = if engine.prefix_cache_tokens > 0 { blocks(api, &body, engine.block_tokens) } else { Vec::new() };
    Ok(Ask { blocks, ..finish(api, words, limit, &body, answer) })
}

fn finish(api: Interface, prompt_tokens: u32, limit: u32, body: &Body<'_>, mut answer: Stream) -> Ask {
    let answer_seed = answer.bits();
    let natural = if body.ignore_eos == Some(true) { u32::MAX } else { natural_length(&mut answer) };
    Ask {
        api,
        prompt_tokens,
        output_tokens: natural.min(limit),
        by_length: limit <= natural,
        stream: body.stream == Some(true),
        include_usage: body.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true),
        answer_seed,
        blocks: Vec::new(),
    }
}

/// The whole blocks of a prompt. What stands before its words is the same in all.
fn blocks(api: Interface, body: &Body<'_>, block_tokens: u32) -> Vec<u64> {
    let ids: Vec<String>;
    let mut tokens = Vec::new();
    match (api, &body.prompt) {
        (Interface::Chat, _) => {
            (0..TEMPLATE_TOKENS).for_each(|_| tokens.push(START));
            let messages = body.messages.iter().flatten();
            tokens.extend(messages.flat_map(|message| message.content.split_ascii_whitespace()));
        }
        (Interface::Completions, Some(Prompt::Text(text))) => {
            tokens.push(START);
            tokens.extend(text.split_ascii_whitespace());
        }
        (Interface::Completions, Some(Prompt::Ids(given))) => {
            ids = given.iter().map(u32::to_string).collect();
            tokens.extend(ids.iter().map(String::as_str));
        }
        (Interface::Completions, None) => {}
    }
    prefix::blocks(&tokens, block_tokens)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and `as` saturates")]
fn natural_length(answer: &mut Stream) -> u32 {
    (NATURAL_TOKENS * answer.log_normal(NATURAL_SIGMA)).ceil() as u32
}

fn count_words(text: &str) -> u32 {
    // Bytes, not characters: prompts are long, and every white space of ASCII is one byte.
    let mut inside = false;
    let mut words = 0_u32;
    for byte in text.bytes() {
        let blank = byte.is_ascii_whitespace();
        words += u32::from(inside && blank);
        inside = !blank;
    }
    words + u32::from(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = "/v1/chat/completions";

    fn engine(max_model_len: u32, prefix_cache_tokens: u32) -> Profile {
        Profile { model: "m", max_model_len, prefix_cache_tokens, ..Profile::h100_8b() }
    }

    fn ask(body: &str) -> Result<Ask, Refusal> {
        read(CHAT, body.as_bytes(), &engine(1_000, 0))
    }

    #[test]
    fn a_request_is_read_with_its_limits() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":" one two\nthree "}],"max_tokens":5,
            "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0}"#;
        let got = ask(body).unwrap();
        assert_eq!((got.prompt_tokens, got.output_tokens, got.by_length), (3 + 8, 5, true));
        assert!(got.stream && got.include_usage);
        assert_eq!(ask(body).unwrap(), got);
        let open = read("/v1/completions", br#"{"model":"m","prompt":"a b"}"#, &engine(100_000, 0)).unwrap();
        assert!(!open.by_length && !open.stream && open.prompt_tokens == 3);
        assert!((30..3_000).contains(&open.output_tokens));
        let ids = read("/v1/completions", br#"{"model":"m","prompt":[5,6,7]}"#, &engine(100_000, 0)).unwrap();
        assert_eq!(ids.prompt_tokens, 3);
    }

    #[test]
    fn what_is_wrong_is_refused_as_vllm_does() {
        let unknown = ask(r#"{"model":"nope","messages":[{"content":"x"}]}"#).unwrap_err();
        assert_eq!(unknown.status, 404);
        let text = r#"{"error":{"message":"The model `nope` does not exist. Valid aliases: m.","type":"NotFoundError","param":"model","code":404}}"#;
        assert_eq!(String::from_utf8(unknown.body).unwrap(), text);
        for bad in [
            "",
            "{",
            "[]",
            r#"{"model":"m"}"#,
            r#"{"messages":[]}"#,
            r#"{"messages":[{"content":"x"}],"max_tokens":0}"#,
        ] {
            assert_eq!(ask(bad).unwrap_err().status, 400, "{bad}");
        }
        assert_eq!(read("/v1/other", b"{}", &engine(9, 0)).unwrap_err().status, 404);
    }

    #[test]
    fn prompts_that_begin_alike_begin_with_the_same_blocks() {
        let of = |path: &str, body: &str| read(path, body.as_bytes(), &engine(100_000, 16_000)).unwrap().blocks;
        let words = "a b c d e f g h ".repeat(4);
        let chat = |end: &str| of(CHAT, &format!(r#"{{"messages":[{{"content":"{words}{end}"}}]}}"#));
        // 8 tokens of the template and 33 words are two blocks of 16.
        assert_eq!((chat("x").len(), chat("x") == chat("y")), (2, true));
        let text = |end: &str| of("/v1/completions", &format!(r#"{{"prompt":"{words}{end}"}}"#));
        assert!(text("x").len() == 2 && text("x") != chat("x"));
        let ids = |first: u32| of("/v1/completions", &format!(r#"{{"prompt":[{first}{}]}}"#, ",7".repeat(31)));
        assert!(ids(1).len() == 2 && ids(1)[0] != ids(2)[0] && ids(1)[1] != ids(2)[1]);
        assert_eq!(ask(&format!(r#"{{"messages":[{{"content":"{words}"}}]}}"#)).unwrap().blocks, [0; 0]);
    }
}

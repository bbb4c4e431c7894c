//! What a client asks of the simulated server: the body of a request, taken apart and bounded.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::rng::Stream;

/// Tokens that the chat template adds to the words of the messages; completions get one, for the start.
const TEMPLATE_TOKENS: u32 = 8;
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

    /// The queue is full.
    pub fn overloaded() -> Self {
        Self::new(503, "ServiceUnavailableError", "The queue is full. Try again later.", None)
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
    #[serde(borrow, default)]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

impl Message<'_> {
    fn words(&self) -> u32 {
        let calls = self.tool_calls.iter().map(|call| count_words(&call.function.arguments));
        calls.fold(count_words(&self.content), u32::saturating_add)
    }
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// Reads a request for `model`, whose prompts and answers have at most `max_len` tokens together.
///
/// # Errors
/// The answer to send instead: 404 for another path or model, 400 for anything else that is wrong.
pub fn read(path: &str, body: &[u8], model: &str, max_len: u32) -> Result<Ask, Refusal> {
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
            let words = messages.iter().map(Message::words).sum::<u32>();
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
    let limit = body.max_completion_tokens.or(body.max_tokens).unwrap_or_else(|| max_len.saturating_sub(words));
    if limit == 0 {
        return Err(Refusal::bad_request("max_tokens must be at least 1", Some("max_tokens")));
    }
    Ok(finish(api, words, limit, &body, answer))
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
    }
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

    fn ask(body: &str) -> Result<Ask, Refusal> {
        read(CHAT, body.as_bytes(), "m", 1_000)
    }

    #[test]
    fn a_request_is_read_with_its_limits() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":" one two\nthree "}],"max_tokens":5,
            "stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0}"#;
        let got = ask(body).unwrap();
        assert_eq!((got.prompt_tokens, got.output_tokens, got.by_length), (3 + 8, 5, true));
        assert!(got.stream && got.include_usage);
        assert_eq!(ask(body).unwrap(), got);
        let open = read("/v1/completions", br#"{"model":"m","prompt":"a b"}"#, "m", 100_000).unwrap();
        assert!(!open.by_length && !open.stream && open.prompt_tokens == 3);
        assert!((30..3_000).contains(&open.output_tokens));
        let ids = read("/v1/completions", br#"{"model":"m","prompt":[5,6,7]}"#, "m", 100_000).unwrap();
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
        assert_eq!(read("/v1/other", b"{}", "m", 9).unwrap_err().status, 404);
    }
}

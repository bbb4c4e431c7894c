//! What the simulated server says: the bytes of vLLM's chat and completions answers. All that repeats is
//! formatted once per answer, so that a chunk costs three copies.

use crate::sim::ask::{Ask, Interface, Refusal};
use crate::sim::fault::Fault;

/// Words of the answers, one token each; none needs escaping in JSON.
const WORDS: [&str; 64] = [
    " river",
    " stone",
    " light",
    " under",
    " seven",
    " quiet",
    " north",
    " field",
    " copper",
    " window",
    " paper",
    " slowly",
    " after",
    " green",
    " cloud",
    " market",
    " engine",
    " letter",
    " winter",
    " bridge",
    " garden",
    " never",
    " always",
    " small",
    " round",
    " silver",
    " open",
    " harbor",
    " table",
    " follow",
    " between",
    " music",
    " early",
    " forest",
    " simple",
    " number",
    " road",
    " gather",
    " evening",
    " island",
    " carry",
    " signal",
    " yellow",
    " morning",
    " pencil",
    " travel",
    " station",
    " bright",
    " corner",
    " water",
    " listen",
    " mountain",
    " record",
    " later",
    " wooden",
    " answer",
    " circle",
    " every",
    " measure",
    " lamp",
    " turn",
    " village",
    " wheel",
    " thread",
];
/// `created` of every answer: the simulator has no calendar.
const CREATED: u32 = 1_767_225_600;
const FINGERPRINT: &str = "servegate-sim";

/// What follows the words of a chunk that is not the last one.
const CHAT_TAIL: &[u8] = b"\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}\n\n";
const TEXT_TAIL: &[u8] = b"\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\
\"prompt_token_ids\":null,\"token_ids\":null}]}\n\n";

/// What the speaker of an answer does after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits for the next token.
    More,
    /// The answer is complete; the engine need not go on.
    Done,
    /// Breaks the connection.
    Cut,
    /// Says nothing more and keeps the connection open.
    Silent,
    /// Repeats [`Speech::flood`] for ever.
    Flood,
}

/// One answer as it is spoken.
#[derive(Clone, Debug)]
pub struct Speech {
    ask: Ask,
    fault: Option<Fault>,
    /// `data: {..."choices":[` of every chunk.
    head: Vec<u8>,
    /// `head` and the beginning of a choice, up to the word.
    opening: Vec<u8>,
    said: u32,
    words: u64,
    /// The answer so far, when it is not a stream.
    text: String,
    /// Tokens of the prompt that came from the prefix cache.
    cached: Option<u32>,
}

impl Speech {
    /// The answer of `model` to a request with this identity.
    pub fn new(id: u64, model: &str, ask: Ask, fault: Option<Fault>) -> Self {
        let model = serde_json::to_string(model).unwrap_or_default();
        let (prefix, object, choice) = match ask.api {
            Interface::Chat => ("chatcmpl", "chat.completion", "{\"index\":0,\"delta\":{\"content\":\""),
            Interface::Completions => ("cmpl", "text_completion", "{\"index\":0,\"text\":\""),
        };
        let (data, chunk) = match (ask.stream, ask.api) {
            (true, Interface::Chat) => ("data: ", ".chunk"),
            (true, Interface::Completions) => ("data: ", ""),
            (false, _) => ("", ""),
        };
        let head = format!(
            "{data}{{\"id\":\"{prefix}-{id:016x}\",\"object\":\"{object}{chunk}\",\"created\":{CREATED},\
             \"model\":{model},\"choices\":["
        );
        let opening = format!("{head}{choice}").into_bytes();
        let words = ask.answer_seed;
        Self { ask, fault, head: head.into_bytes(), opening, said: 0, words, text: String::new(), cached: None }
    }

    /// Whether the answer is a stream of events.
    pub const fn is_stream(&self) -> bool {
        self.ask.stream
    }

    /// The error to send instead when the engine rejects the request.
    pub fn too_long(&self) -> Refusal {
        Refusal::too_long(self.ask.prompt_tokens, self.ask.output_tokens)
    }

    /// A fair guess of the answer's size in bytes, bounded.
    pub fn size_hint(&self) -> usize {
        let tokens = usize::try_from(self.ask.output_tokens.min(8_192)).unwrap_or_default();
        tokens * (self.opening.len() + CHAT_TAIL.len() + 10) + 1_024
    }

    /// What the usage says of the prefix cache; nothing where there is none.
    pub const fn cached(&mut self, tokens: Option<u32>) {
        self.cached = tokens;
    }

    /// Says the next token; `last` when the engine has finished. Appends to `out`, perhaps nothing.
    pub fn token(&mut self, last: bool, out: &mut Vec<u8>) -> Next {
        self.said += 1;
        if self.said == 1 && self.ask.stream && self.ask.api == Interface::Chat {
            self.role(out);
        }
        if self.fault == Some(Fault::ZeroTokens) {
            self.said = 0;
            self.finish("", out);
            return Next::Done;
        }
        let word = self.word();
        let fails = self.fails_now();
        if last && fails.is_none() {
            self.finish(word, out);
            return Next::Done;
        }
        if self.ask.stream {
            self.content(word, out);
        } else {
            self.text.push_str(word);
        }
        match fails {
            None => Next::More,
            Some(Fault::CutStream) => Next::Cut,
            Some(Fault::StalledStream) => Next::Silent,
            Some(Fault::EndlessBody) => Next::Flood,
            Some(_) => {
                self.error(out);
                Next::Done
            }
        }
    }

    /// One more piece of an endless answer.
    pub fn flood(&mut self, out: &mut Vec<u8>) {
        let word = self.word();
        self.content(word, out);
    }

    /// The fault that breaks the answer in its middle, once the middle is reached.
    fn fails_now(&self) -> Option<Fault> {
        let breaks = |fault: &Fault| {
            matches!(fault, Fault::CutStream | Fault::ErrorInStream | Fault::EndlessBody | Fault::StalledStream)
        };
        self.fault.filter(breaks).filter(|_| self.said >= self.ask.output_tokens.div_ceil(2))
    }

    fn word(&mut self) -> &'static str {
        // Knuth's multiplicative step; the top six bits choose.
        self.words = self.words.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.words >> 58).ok().and_then(|index| WORDS.get(index)).copied().unwrap_or(" word")
    }

    fn role(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(
            b"{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\
              \"finish_reason\":null}],\"prompt_token_ids\":null,\"prompt_text\":null}\n\n",
        );
    }

    fn content(&self, word: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.opening);
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(match self.ask.api {
            Interface::Chat => CHAT_TAIL,
            Interface::Completions => TEXT_TAIL,
        });
    }

    /// The last word, the reason, the usage and the end.
    fn finish(&mut self, word: &str, out: &mut Vec<u8>) {
        let reason = if self.ask.by_length && self.said > 0 { "length" } else { "stop" };
        let usage = self.usage();
        if self.ask.stream {
            let with_usage = self.ask.include_usage && self.fault != Some(Fault::NoUsage);
            let fingerprint = format!(",\"system_fingerprint\":\"{FINGERPRINT}\"");
            out.extend_from_slice(&self.opening);
            out.extend_from_slice(word.as_bytes());
            let tail = match self.ask.api {
                Interface::Chat => ["\"},", "\"token_ids\":null}]"],
                Interface::Completions => ["\",", "\"prompt_token_ids\":null,\"token_ids\":null}]"],
            };
            let [before, after] = tail;
            let here = if with_usage { "" } else { &fingerprint };
            out.extend_from_slice(
                &format!(
                    "{before}\"logprobs\":null,\"finish_reason\":\"{reason}\",\"stop_reason\":null,{after}{here}}}\n\n"
                )
                .into_bytes(),
            );
            if with_usage {
                out.extend_from_slice(&self.head);
                out.extend_from_slice(&format!("],\"usage\":{usage}{fingerprint}}}\n\n").into_bytes());
            }
            out.extend_from_slice(b"data: [DONE]\n\n");
        } else {
            self.text.push_str(word);
            out.extend_from_slice(&self.head);
            let text = &self.text;
            let said = match self.ask.api {
                Interface::Chat => format!("\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}}"),
                Interface::Completions => format!("\"text\":\"{text}\""),
            };
            let usage = if self.fault == Some(Fault::NoUsage) { "null" } else { &usage };
            out.extend_from_slice(
                &format!(
                    "{{\"index\":0,{said},\"logprobs\":null,\"finish_reason\":\"{reason}\",\"stop_reason\":null}}],\
                 \"usage\":{usage},\"system_fingerprint\":\"{FINGERPRINT}\"}}"
                )
                .into_bytes(),
            );
        }
    }

    fn usage(&self) -> String {
        let (prompt, said) = (self.ask.prompt_tokens, self.said);
        let details = |cached| format!(",\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}");
        format!(
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{},\"completion_tokens\":{said}{}}}",
            prompt.saturating_add(said),
            self.cached.map(details).unwrap_or_default()
        )
    }

    /// An error inside a good answer, as vLLM reports a fault of its engine.
    fn error(&self, out: &mut Vec<u8>) {
        let body = r#"{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}}"#;
        if self.ask.stream {
            out.extend_from_slice(&format!("data: {body}\n\ndata: [DONE]\n\n").into_bytes());
        } else {
            out.extend_from_slice(body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::sim::ask;
    use crate::sim::profile::Profile;

    fn ask(api: Interface, stream: bool, tokens: u32) -> Ask {
        Ask {
            api,
            prompt_tokens: 11,
            output_tokens: tokens,
            by_length: true,
            stream,
            include_usage: true,
            answer_seed: 7,
            blocks: Vec::new(),
        }
    }

    fn say(ask: Ask, fault: Option<Fault>) -> (String, Next) {
        let tokens = ask.output_tokens;
        let mut speech = Speech::new(255, "m \"x\"", ask, fault);
        let mut out = Vec::new();
        let next = (1..=tokens).map(|n| speech.token(n == tokens, &mut out)).find(|next| *next != Next::More);
        (String::from_utf8(out).unwrap(), next.unwrap())
    }

    /// The JSON events of a stream, and whether it ended in good form.
    fn events(text: &str) -> (Vec<Value>, bool) {
        let lines: Vec<&str> = text.split_terminator("\n\n").map(|line| line.strip_prefix("data: ").unwrap()).collect();
        let json = lines.iter().filter(|line| **line != "[DONE]").map(|line| serde_json::from_str(line).unwrap());
        (json.collect(), lines.last() == Some(&"[DONE]"))
    }

    #[test]
    fn a_short_chat_is_vllm_byte_for_byte() {
        insta::assert_snapshot!(say(ask(Interface::Chat, true, 2), None).0);
    }

    #[test]
    fn a_short_completion_is_vllm_byte_for_byte() {
        insta::assert_snapshot!(say(ask(Interface::Completions, true, 2), None).0);
    }

    #[test]
    fn streams_decode_and_account_for_every_token() {
        for (api, chunks) in [(Interface::Chat, 1 + 40 + 1), (Interface::Completions, 40 + 1)] {
            let (text, next) = say(ask(api, true, 40), None);
            let (events, done) = events(&text);
            assert!(done && next == Next::Done);
            assert_eq!(events.len(), chunks);
            let usage = &events.last().unwrap()["usage"];
            assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&11.into(), &40.into()));
            assert_eq!(events[chunks - 2]["choices"][0]["finish_reason"], "length");
            assert!(events.iter().all(|event| event["model"] == "m \"x\""));
        }
    }

    #[test]
    fn one_answer_holds_the_words_of_the_stream() {
        let (whole, _) = say(ask(Interface::Chat, false, 30), None);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        let (stream, _) = say(ask(Interface::Chat, true, 30), None);
        let words: String =
            events(&stream).0.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(whole["choices"][0]["message"]["content"], words);
        assert_eq!(whole["usage"]["total_tokens"], 41);
        let (text, _) = say(ask(Interface::Completions, false, 3), Some(Fault::NoUsage));
        let text: Value = serde_json::from_str(&text).unwrap();
        assert!(text["choices"][0]["text"].is_string() && text["usage"].is_null());
    }

    #[test]
    fn faults_break_the_answer_in_their_way() {
        for (fault, next, chunks, done) in [
            (Fault::CutStream, Next::Cut, 1 + 5, false),
            (Fault::StalledStream, Next::Silent, 1 + 5, false),
            (Fault::EndlessBody, Next::Flood, 1 + 5, false),
            (Fault::ErrorInStream, Next::Done, 1 + 5 + 1, true),
            (Fault::NoUsage, Next::Done, 1 + 10, true),
            (Fault::ZeroTokens, Next::Done, 1 + 1 + 1, true),
        ] {
            let (text, got) = say(ask(Interface::Chat, true, 10), Some(fault));
            let (events, ended) = events(&text);
            assert_eq!((got, events.len(), ended), (next, chunks, done), "{}", fault.id());
            let last = events.last().unwrap();
            assert_eq!(fault == Fault::ErrorInStream, last["error"]["code"] == 500);
            assert_eq!(fault == Fault::ZeroTokens, last["usage"]["completion_tokens"] == 0);
        }
        // One token is its own middle.
        assert_eq!(say(ask(Interface::Chat, true, 1), Some(Fault::CutStream)).1, Next::Cut);
    }

    #[test]
    fn what_was_asked_is_what_is_said() {
        let body = br#"{"model":"m","prompt":"a b c","max_tokens":4,"stream":true,"ignore_eos":true}"#;
        let ask = ask::read("/v1/completions", body, &Profile { model: "m", max_model_len: 100, ..Profile::h100_8b() })
            .unwrap();
        let (events, done) = events(&say(ask, None).0);
        assert!(done && events.len() == 4, "no usage unless it was asked for");
        assert_eq!(events[3]["system_fingerprint"], FINGERPRINT);
    }
}

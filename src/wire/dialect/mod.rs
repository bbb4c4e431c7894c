//! The HTTP interfaces that servegate speaks; one file each, and one table.

mod answer;
mod anthropic;
mod body;
mod chunk;
#[cfg(test)]
mod cut_tests;
mod decode;
mod errors;
mod field;
#[cfg(test)]
mod fuzz_tests;
mod llamacpp;
mod messages;
mod ollama;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod parts;
#[cfg(test)]
mod recorded_tests;
mod sglang;
#[cfg(test)]
mod streams_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
mod tgi;
mod tokens;
mod triton;

use crate::base::names::Api;
use crate::wire::dialect::answer::{Answer, Problem};
pub use crate::wire::dialect::body::{Prompt, Template};
use crate::wire::dialect::body::{Shape, url_segment};

/// One HTTP interface: where requests go, how they carry a prompt, and how their streams are read.
#[derive(Clone, Copy)]
pub struct Dialect {
    path: Path,
    /// How a request is written.
    shape: &'static Shape,
    /// How a stream is cut into events.
    framing: Framing,
    /// What ends a stream.
    end: End,
    /// Reads the data of one event.
    read: fn(&mut Answer, &str) -> Result<(), Problem>,
}

/// The path of the URL.
#[derive(Clone, Copy)]
enum Path {
    Fixed(&'static str),
    /// The model's name stands between these.
    OfModel(&'static str, &'static str),
}

/// How a stream is cut into events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON text a line.
    Lines,
}

/// What ends a whole stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The event `[DONE]`.
    Done,
    /// An event of the dialect, by this name; the reader tells when it came.
    Own(&'static str),
    /// Nothing: the response just ends.
    Close,
}

/// How a request of an interface asks for an answer of exactly the wanted length.
pub const fn forcing(api: Api) -> &'static str {
    match api {
        Api::Chat | Api::Completions => {
            "set `extra_body: {ignore_eos: true}` for vLLM, SGLang and llama.cpp; where the server knows only a least length, \
             `min_tokens` of the planned length"
        }
        Api::Responses | Api::Anthropic => {
            "where the server takes it, set `extra_body: {ignore_eos: true}`; else measure with `api: completions`"
        }
        Api::Sglang | Api::Llamacpp => {
            "servegate asks for it by itself: see that no `ignore_eos: false` stands in `extra_body`, and that a gateway lets \
             `ignore_eos` through"
        }
        Api::Triton => "set `extra_body` to what the model takes: `min_tokens` or `min_length` for TensorRT-LLM",
        Api::Tgi | Api::OllamaChat | Api::OllamaGenerate => {
            "this interface cannot; measure with `api: completions` where the server has it"
        }
    }
}

/// The dialect of an interface.
pub const fn of(api: Api) -> Dialect {
    match api {
        Api::Chat => openai_chat::DIALECT,
        Api::Completions => openai_completions::DIALECT,
        Api::Responses => openai_responses::DIALECT,
        Api::Anthropic => anthropic::DIALECT,
        Api::Tgi => tgi::DIALECT,
        Api::Sglang => sglang::DIALECT,
        Api::Llamacpp => llamacpp::DIALECT,
        Api::OllamaChat => ollama::CHAT,
        Api::OllamaGenerate => ollama::GENERATE,
        Api::Triton => triton::DIALECT,
    }
}

impl Dialect {
    /// The dialect with the URL of this model, for interfaces that name the model there. The path of such a URL
    /// stays in memory until the process ends: a process measures one target.
    #[must_use]
    pub fn serving(self, model: &str) -> Self {
        match self.path {
            Path::Fixed(_) => self,
            Path::OfModel(before, after) => {
                let path = format!("{before}{}{after}", url_segment(model));
                Self { path: Path::Fixed(Box::leak(path.into_boxed_str())), ..self }
            }
        }
    }

    /// Path of the URL. For an interface that names the model there, see [`Dialect::serving`].
    pub const fn path(&self) -> &'static str {
        match self.path {
            Path::Fixed(path) => path,
            Path::OfModel(before, _) => before,
        }
    }

    /// Whether a prompt may be a list of token ids.
    pub const fn takes_ids(&self) -> bool {
        self.shape.ids.is_some()
    }

    /// Whether a conversation is sent as messages, and not as one text.
    pub const fn takes_messages(&self) -> bool {
        self.shape.talk.is_some()
    }

    /// Whether a stream is one JSON text a line, and not server-sent events.
    pub fn streams_json_lines(&self) -> bool {
        self.framing == Framing::Lines
    }
}

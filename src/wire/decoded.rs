//! What an ended exchange turned out to be: the dialect-free form of a response.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::units::Nanos;

/// Most bytes of an answer's text that are kept while it is decoded.
pub const KEPT: usize = 256 << 10;

/// A response, decoded. Instants are on the run's origin, as the transport stamped them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// First body byte.
    pub first_byte: Option<Nanos>,
    /// First content that is not reasoning.
    pub first_answer: Option<Nanos>,
    /// Events with content or reasoning, in order. Role, comment, usage and end events are not among them.
    pub chunks: Vec<Chunk>,
    /// Prompt tokens.
    pub prompt_tokens: Option<u32>,
    /// Of these, read from the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Output tokens, reasoning included; none when neither usage nor content came.
    pub output_tokens: Option<u32>,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u32>,
    /// Where `output_tokens` comes from.
    pub tokens_from: TokenSource,
    /// For a success: where the accounts of its tokens contradict each other.
    pub doubt: Option<Doubt>,
    /// The last finish reason, at most 64 bytes, printable.
    pub finish: Option<String>,
    /// Whether the stream's end mark came. Not every success has one: a whole answer may be told from its finish
    /// reason and usage, and one interface has no mark.
    pub ended: bool,
    /// SHA-256 of the text, reasoning and answer in the order they came. Tool calls are not part of it.
    pub text: Digest,
    /// Length of that text in bytes.
    pub text_bytes: u64,
    /// That text itself, as far as [`KEPT`] goes.
    pub said: String,
    /// Where in it the answer begins behind the last reasoning.
    pub answer_from: usize,
    /// Success, or the kind of failure.
    pub outcome: Outcome,
    /// For a failure: what was seen, one bounded line without control characters.
    pub detail: Option<String>,
    /// For a failure that has a usual cause: what to do.
    pub hint: Option<&'static str>,
}

/// What the request asked for, as far as it decides whether the answer is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Output tokens asked for.
    pub output_tokens: u32,
    /// Whether the server was told to give exactly that many.
    pub forced: bool,
}

/// A piece of content that arrived at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When it arrived.
    pub at: Nanos,
    /// Tokens in it, where the stream tells: usage in every chunk, token ids or log probabilities, or as many chunks
    /// as tokens; else, where the tokenizer counted the answer, those of its text. A first chunk that holds far more text
    /// than an average one has its share of the tokens by its share of the text.
    pub tokens: Option<u32>,
}

/// Where token counts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The server's usage object.
    Usage,
    /// No usage came, and not every chunk tells its tokens: the target's tokenizer file counted those of the text.
    Tokenizer,
    /// No usage came: the tokens that the chunks tell were added up, or, without a tokenizer file, every content chunk
    /// was counted as one.
    Chunks,
}

/// Accounts of the tokens of one answer that contradict each other. The answer counts all the same: what is doubtful
/// is a metric per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// More tokens than the request allowed.
    #[error("the usage counts more output tokens than were asked for")]
    MoreThanWanted,
    /// More content chunks than the request allowed tokens, and no usage: a chunk is no token there.
    #[error(
        "there are more chunks with content than output tokens were asked for, and no usage says how many tokens they hold"
    )]
    MoreChunksThanWanted,
    /// More content chunks than tokens, though each has at least one.
    #[error("the usage counts fewer output tokens than there are chunks with content")]
    FewerThanChunks,
    /// More token ids or log probabilities than tokens.
    #[error("the usage counts fewer output tokens than the chunks list")]
    FewerThanListed,
    /// Fewer token ids or log probabilities than tokens.
    #[error("the usage counts more output tokens than the chunks list")]
    MoreThanListed,
    /// More tokens than the tokenizer finds in the text.
    #[error("the usage counts more output tokens than the tokenizer finds in the text")]
    MoreThanText,
    /// Fewer tokens than the tokenizer finds in the text.
    #[error("the usage counts fewer output tokens than the tokenizer finds in the text")]
    FewerThanText,
    /// Reasoning tokens were counted, and none of their text was streamed.
    #[error("the usage counts reasoning tokens that the stream does not show: a time per output token is too small")]
    HiddenReasoning,
}

/// How a request ended. Only `Ok` is a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole, well-formed answer of the wanted length.
    Ok,
    /// The stream ended before the answer was whole.
    Truncated,
    /// Fewer tokens than asked for although the length was forced.
    WrongLength,
    /// A 200 without a token.
    Empty,
    /// An error object inside a 200 stream.
    InStreamError,
    /// The stream is not what the dialect says.
    Malformed,
    /// A status other than 2xx.
    HttpError,
    /// Refused for load: 429 or 503.
    Shed,
    /// Silent for too long.
    Stalled,
    /// Took too long.
    TimedOut,
    /// No connection, or it broke.
    Connection,
    /// The load generator's own system refused what the request needed: nothing is known of the target.
    ClientFault,
}

impl Outcome {
    /// Whether the request succeeded.
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }
}

impl fmt::Display for Outcome {
    /// The text form, as in records.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

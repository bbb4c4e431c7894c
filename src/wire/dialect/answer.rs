//! What a stream has said so far: content with its instants, token counts, finish reason.

use crate::base::digest::Hasher;
use crate::base::units::Nanos;
use crate::wire::decoded::{Chunk as Piece, TokenSource};
use crate::wire::dialect::chunk::{Choice, Chunk, Count, Usage, text};
use crate::wire::excerpt::excerpt;

/// Most bytes of a finish reason that are kept.
const FINISH: usize = 64;

/// Why an event ends the reading of its stream.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// The event carries the server's error in place of content.
    #[error("the server reports an error")]
    Reported,
    /// The server ended the request without an error object.
    #[error("the server gave up: finish reason {0}")]
    GaveUp(String),
    /// Not the dialect's JSON.
    #[error("an event is not a chunk of this API: {0}")]
    Json(#[from] serde_json::Error),
    /// A count that cannot be one.
    #[error("`{0}` in the usage is not a number of tokens")]
    Count(&'static str),
}

/// The answer in the making.
#[derive(Default)]
pub(super) struct Answer {
    /// When the event that is being read arrived.
    pub(super) at: Nanos,
    pub(super) chunks: Vec<Piece>,
    pub(super) answered_at: Option<Nanos>,
    pub(super) finish: Option<String>,
    pub(super) text: Hasher,
    pub(super) text_bytes: u64,
    pub(super) tokens: Tokens,
}

/// The counts of the usage objects, each from the last one that gave it.
#[derive(Default)]
pub(super) struct Tokens {
    pub(super) prompt: Option<u32>,
    pub(super) cached: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) reasoning: Option<u32>,
    /// Output tokens up to the last content event, for as long as every one of them has said so.
    until: u32,
    /// A content event came that did not tell its tokens.
    untold: bool,
}

impl Answer {
    /// Takes one event. One that holds content of any choice is one chunk, however many choices it has.
    pub(super) fn chunk<C: Choice>(&mut self, chunk: &Chunk<'_, C>) -> Result<(), Problem> {
        if chunk.error.is_some() || text(chunk.object.as_ref()) == "error" {
            return Err(Problem::Reported);
        }
        let mut content = false;
        for choice in chunk.choices.iter().flatten() {
            let (reasoning, answer) = (choice.reasoning(), choice.answer());
            self.add_text(reasoning);
            self.add_text(answer);
            let answered = !answer.is_empty() || choice.calls();
            if answered && self.answered_at.is_none() {
                self.answered_at = Some(self.at);
            }
            content |= answered || !reasoning.is_empty();
            if !choice.finish().is_empty() {
                self.finish = Some(excerpt(choice.finish(), FINISH));
            }
        }
        let told = chunk.usage.map_or(Ok(None), |usage| self.tokens.add(&usage))?;
        if content {
            self.chunks.push(Piece { at: self.at, tokens: self.tokens.fresh(told) });
        }
        match &self.finish {
            // vLLM and SGLang end a request so when the engine failed or dropped it.
            Some(finish) if matches!(finish.as_str(), "error" | "abort") => Err(Problem::GaveUp(finish.clone())),
            _ => Ok(()),
        }
    }

    /// Settles the tokens of every chunk once the stream has ended; gives the output tokens and their source.
    ///
    /// A chunk's tokens are those that the usage in each content event tells; else one, when there are as
    /// many chunks as tokens or no usage came; else they are unknown.
    pub(super) fn settle(&mut self) -> (TokenSource, u32) {
        let chunks = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        let (source, output) = match self.tokens.output {
            Some(output) => (TokenSource::Usage, output),
            None => (TokenSource::Chunks, chunks),
        };
        if self.tokens.untold {
            let each = (output == chunks).then_some(1);
            self.chunks.iter_mut().for_each(|chunk| chunk.tokens = each);
        }
        (source, output)
    }

    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.update(text.as_bytes());
            self.text_bytes = self.text_bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        }
    }
}

impl Tokens {
    /// Takes a usage object; gives its output tokens.
    fn add(&mut self, usage: &Usage) -> Result<Option<u32>, Problem> {
        let output = count(usage.completion_tokens, "completion_tokens")?;
        self.output = output.or(self.output);
        self.prompt = count(usage.prompt_tokens, "prompt_tokens")?.or(self.prompt);
        self.cached = count(usage.cached(), "cached_tokens")?.or(self.cached);
        self.reasoning = count(usage.reasoning(), "reasoning_tokens")?.or(self.reasoning);
        Ok(output)
    }

    /// The tokens that came since the content event before this one. Tokens without visible text count
    /// towards the next event that has some.
    fn fresh(&mut self, told: Option<u32>) -> Option<u32> {
        let fresh = told.and_then(|told| told.checked_sub(self.until)).filter(|fresh| *fresh > 0);
        self.untold |= fresh.is_none();
        self.until = told.unwrap_or(self.until);
        fresh
    }
}

fn count(field: Option<Count>, name: &'static str) -> Result<Option<u32>, Problem> {
    match field {
        None => Ok(None),
        Some(Count::Tokens(tokens)) => Ok(Some(tokens)),
        Some(Count::Nonsense) => Err(Problem::Count(name)),
    }
}

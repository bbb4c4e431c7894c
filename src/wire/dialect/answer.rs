//! What a stream has said so far, in the words of all dialects: content with its instants, finish reason, end.

use crate::base::digest::Hasher;
use crate::base::units::Nanos;
use crate::wire::decoded::{Chunk, KEPT, TokenSource};
use crate::wire::dialect::field::Count;
pub(super) use crate::wire::dialect::tokens::{Counts, Told};
use crate::wire::dialect::tokens::{Shown, Tokens};
use crate::wire::excerpt::excerpt;
use crate::wire::tokenizer::Tokenizer;

/// Most bytes of a finish reason that are kept.
const FINISH: usize = 64;

/// So many times the text of an average chunk is no chance of long words.
const HELD_BACK: u64 = 3;

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

/// A piece of an answer, as one event (or one choice of it) gives it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said<'a> {
    /// Reasoning text; empty for none.
    pub(super) reasoning: &'a str,
    /// Answer text; empty for none.
    pub(super) answer: &'a str,
    /// Whether it holds a piece of a tool call.
    pub(super) calls: bool,
}

/// The answer in the making. A dialect's reader tells it every event: what was said, then its close.
#[derive(Default)]
pub(super) struct Answer {
    /// When the event that is being read arrived.
    pub(super) at: Nanos,
    pub(super) chunks: Vec<Chunk>,
    /// Where the text of each chunk ends in `said`.
    ends: Vec<usize>,
    pub(super) answered_at: Option<Nanos>,
    pub(super) finish: Option<String>,
    pub(super) stage: Stage,
    pub(super) text: Hasher,
    pub(super) text_bytes: u64,
    /// The text itself, its first bytes.
    pub(super) said: String,
    /// Where in `said` the answer begins behind the reasoning.
    pub(super) thought_to: usize,
    /// Reasoning text came.
    pub(super) reasoned: bool,
    /// The event holds a piece of the answer itself, and not of the reasoning before it.
    answers: bool,
    /// A piece of a tool call came.
    pub(super) called: bool,
    pub(super) tokens: Tokens,
    /// The highest number of a choice, from 0.
    last_choice: u32,
    /// Tokens of the text, by the tokenizer.
    of_text: Option<u32>,
    /// For a dialect whose events repeat the text so far: that text, and whether they do.
    pub(super) cumulative: Cumulative,
}

/// How far the stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Open,
    /// Usage came with or after the finish reason, and no content after both: nothing but the end mark can follow.
    Complete,
    /// The end mark came.
    Ended,
}

/// The text of events that may repeat all that came before.
#[derive(Default)]
pub(super) struct Cumulative {
    /// The text of the last event.
    pub(super) last: String,
    /// Whether events repeat the text before them; unknown until two events tell.
    pub(super) repeats: Option<bool>,
}

impl Answer {
    /// Takes a piece; whether it is content.
    pub(super) fn say(&mut self, said: &Said<'_>) -> bool {
        self.add_text(said.reasoning);
        if !said.reasoning.is_empty() {
            self.thought_to = self.said.len();
        }
        self.add_text(said.answer);
        self.reasoned |= !said.reasoning.is_empty();
        self.called |= said.calls;
        let answered = !said.answer.is_empty() || said.calls;
        self.answers |= answered;
        answered || !said.reasoning.is_empty()
    }

    /// Takes the end mark, if this is one.
    pub(super) fn end_if(&mut self, mark: bool) {
        if mark {
            self.stage = Stage::Ended;
        }
    }

    /// Whether the end mark came.
    pub(super) fn ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Takes the number of a choice, from 0. Each choice has the wanted length.
    pub(super) fn choice(&mut self, index: Option<Count>) {
        if let Some(Count::Tokens(index)) = index {
            self.last_choice = self.last_choice.max(index);
        }
    }

    /// How many choices the answer has.
    pub(super) const fn choices(&self) -> u32 {
        self.last_choice.saturating_add(1)
    }

    /// Takes a finish reason; empty for none.
    pub(super) fn finished(&mut self, reason: &str) {
        if !reason.is_empty() {
            self.finish = Some(excerpt(reason, FINISH));
        }
    }

    /// Takes the counts of a usage object; gives what it tells of the tokens so far.
    pub(super) fn counts(&mut self, counts: Counts) -> Told {
        self.tokens.add(counts);
        counts.output.map_or(Told::Nothing, Told::Total)
    }

    /// Ends an event: with content it is one chunk.
    ///
    /// # Errors
    /// The finish reason says that the server gave the request up.
    pub(super) fn close(&mut self, content: bool, told: Told) -> Result<(), Problem> {
        let fresh = self.tokens.told(told, content);
        if content {
            self.chunks.push(Chunk { at: self.at, tokens: fresh });
            self.ends.push(self.said.len());
            if std::mem::take(&mut self.answers) {
                self.answered_at.get_or_insert(self.at);
            }
        }
        let complete = self.finish.is_some() && matches!(told, Told::Total(_));
        self.stage = match self.stage {
            Stage::Ended => Stage::Ended,
            _ if complete => Stage::Complete,
            Stage::Complete if !content => Stage::Complete,
            Stage::Open | Stage::Complete => Stage::Open,
        };
        match &self.finish {
            // vLLM and SGLang end a request so when the engine failed or dropped it.
            Some(finish) if matches!(finish.as_str(), "error" | "abort" | "cancelled") => {
                Err(Problem::GaveUp(finish.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Settles the tokens of every chunk once the stream has ended; gives the output tokens and their source.
    ///
    /// A chunk's tokens are those that the stream tells for every content event; else one, when there are as
    /// many chunks as tokens or nothing was told; else, in an answer that the tokenizer counted, those of its text; else
    /// they are unknown. Without usage the output tokens are the sum of what the chunks tell, or those of the text, or as
    /// many as there are chunks.
    pub(super) fn settle(&mut self, tokenizer: Option<&Tokenizer>) -> (TokenSource, u32) {
        let chunks = self.chunk_count();
        let told = self.tokens.all_told() && chunks > 0;
        let of_text = tokenizer.and_then(|tokenizer| self.count_text(tokenizer));
        let (source, output) = match (self.tokens.output(), of_text) {
            (Some(output), _) => (TokenSource::Usage, output),
            (None, _) if told => (TokenSource::Chunks, self.tokens.shown()),
            (None, Some(output)) => (TokenSource::Tokenizer, output),
            (None, None) => (TokenSource::Chunks, chunks),
        };
        if !told {
            let each = (output == chunks).then_some(1);
            self.chunks.iter_mut().for_each(|chunk| chunk.tokens = each);
            if let (TokenSource::Tokenizer, None, Some(tokenizer)) = (source, each, tokenizer) {
                self.count_chunks(tokenizer, output);
            }
        }
        self.size_first(output);
        self.of_text = of_text;
        (source, output)
    }

    /// A first chunk of unknown size that holds the text of several chunks was held back: its tokens are its share of
    /// the text. All else would make the tokens after it more, and the time of each shorter.
    fn size_first(&mut self, output: u32) {
        let (Some(end), Some(Chunk { tokens: tokens @ None, .. })) = (self.ends.first(), self.chunks.first_mut())
        else {
            return;
        };
        let count = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        let (first, whole) = (count(*end), self.text_bytes);
        if first.saturating_mul(count(self.ends.len())) > HELD_BACK.saturating_mul(whole) {
            let share = u64::from(output).saturating_mul(first).checked_div(whole);
            *tokens = share.and_then(|tokens| u32::try_from(tokens).ok());
        }
    }

    /// What the usage is held against. The text is no witness where it is not what the tokens say: the replacement
    /// character stands for bytes that are none.
    pub(super) fn shown(&self) -> Shown {
        let of_text = self.of_text.filter(|_| !self.said.contains(char::REPLACEMENT_CHARACTER));
        Shown { chunks: self.chunk_count(), called: self.called, reasoned: self.reasoned, of_text }
    }

    /// Tokens of the whole text; none where it is not all there: tool calls are no text, and a very long one was cut.
    fn count_text(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let whole = u64::try_from(self.said.len()).is_ok_and(|kept| kept == self.text_bytes);
        if whole && !self.called { tokenizer.count(&self.said) } else { None }
    }

    /// Gives each chunk the tokens of its own text. Where they do not add up to the tokens of the whole, chunks end
    /// within tokens, and what a single one holds stays unknown.
    fn count_chunks(&mut self, tokenizer: &Tokenizer, output: u32) {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let texts = starts.zip(&self.ends).map(|(start, end)| self.said.get(start..*end).unwrap_or_default());
        let counts: Option<Vec<u32>> = texts.map(|text| tokenizer.count(text)).collect();
        let adds_up =
            |counts: &Vec<u32>| counts.iter().map(|count| u64::from(*count)).sum::<u64>() == u64::from(output);
        let counts = counts.filter(adds_up);
        for (chunk, count) in self.chunks.iter_mut().zip(counts.unwrap_or_default()) {
            chunk.tokens = Some(count);
        }
    }

    fn chunk_count(&self) -> u32 {
        u32::try_from(self.chunks.len()).unwrap_or(u32::MAX)
    }

    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.update(text.as_bytes());
            let room = KEPT.saturating_sub(self.said.len());
            self.said.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
            self.text_bytes = self.text_bytes.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        }
    }
}

/// A count that a usage object may give.
///
/// # Errors
/// It is no number of tokens.
pub(super) fn count(field: Option<Count>, name: &'static str) -> Result<Option<u32>, Problem> {
    match field {
        None => Ok(None),
        Some(Count::Tokens(tokens)) => Ok(Some(tokens)),
        Some(Count::Nonsense) => Err(Problem::Count(name)),
    }
}

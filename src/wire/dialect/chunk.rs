//! The events of the two OpenAI completion APIs: choices with a piece of the answer each, and a usage object.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::wire::dialect::answer::{Answer, Counts, Problem, Said, Told, count};
use crate::wire::dialect::field::{Count, Listed, Text, text};

/// One event of a stream whose choices are `C`.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a, C> {
    choices: Option<Vec<C>>,
    usage: Option<Usage>,
    /// Present in place of `choices` when the server failed.
    error: Option<IgnoredAny>,
    /// `error` in the error events of older servers.
    #[serde(borrow)]
    object: Option<Text<'a>>,
}

/// What a dialect's choice says, in the words of all dialects.
pub(super) trait Choice {
    /// Its number among the choices of the request, from 0.
    fn index(&self) -> Option<Count>;
    /// The piece of the answer.
    fn said(&self) -> Said<'_>;
    /// Finish reason; empty for none.
    fn finish(&self) -> &str;
    /// Tokens of the piece, where the choice lists them.
    fn tokens(&self) -> Option<u32>;
}

impl<C: Choice> Chunk<'_, C> {
    /// Tells it to the answer. An event that holds content of any choice is one chunk, however many choices it has.
    pub(super) fn tell(&self, answer: &mut Answer) -> Result<(), Problem> {
        if self.error.is_some() || text(self.object.as_ref()) == "error" {
            return Err(Problem::Reported);
        }
        let mut content = false;
        let mut listed: Option<u32> = None;
        for choice in self.choices.iter().flatten() {
            answer.choice(choice.index());
            content |= answer.say(&choice.said());
            answer.finished(choice.finish());
            listed = match (listed, choice.tokens()) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            };
        }
        let told = match self.usage {
            Some(usage) => answer.counts(usage.counts()?),
            None => Told::Nothing,
        };
        answer.close(content, if told == Told::Nothing { listed.map_or(told, Told::Fresh) } else { told })
    }
}

/// The tokens of a choice: its token ids (vLLM), else the entries of its log probabilities. An empty list tells nothing.
pub(super) fn listed(token_ids: Option<Listed>, logprobs: Option<Listed>) -> Option<u32> {
    let length = |list: Option<Listed>| list.and_then(|list| list.0).filter(|length| *length > 0);
    length(token_ids).or_else(|| length(logprobs))
}

/// Token counts, of the stream so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Usage {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    /// SGLang's place for it.
    reasoning_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Count>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<Count>,
}

impl Usage {
    fn counts(&self) -> Result<Counts, Problem> {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Ok(Counts {
            prompt: count(self.prompt_tokens, "prompt_tokens")?,
            cached: count(cached, "cached_tokens")?,
            output: count(self.completion_tokens, "completion_tokens")?,
            reasoning: count(reasoning.or(self.reasoning_tokens), "reasoning_tokens")?,
        })
    }
}

//! Conversations: where a request stands in its session, and what was said before it.

use crate::base::rng::Stream;
use crate::base::said::{Said, Speaker};
use crate::base::units::Nanos;
use crate::plan::request::{Part, PlannedRequest, PromptRecipe};
use crate::spec::session::Answers;

/// Where a request stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the session in its cell: measured ones from 0, then the warm-up's, then the fillers'.
    pub session: u32,
    /// Its place in the session, from 1; requests of different branches may have the same.
    pub turn: u32,
    /// Number of the request whose answer it waits for; none where it is sent at its own instant, or when its session
    /// has a slot.
    pub after: Option<u32>,
    /// How long after the end of that answer it is due.
    pub pause: Nanos,
}

impl Turn {
    /// The same place in another session: requests are numbered from `first`, and sessions from `sessions`.
    pub(super) fn again(self, first: u32, sessions: u32) -> Self {
        let after = self.after.map(|after| after.saturating_add(first));
        Self { session: self.session.saturating_add(sessions), after, ..self }
    }
}

/// What the conversations of a cell are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Talk {
    /// Whether the first part of each prompt is a system prompt that sessions share.
    pub has_system: bool,
    /// Turns after each of the user that bring results of tools.
    pub tool_calls: u32,
    /// What stands in the context for earlier answers.
    pub answers: Answers,
}

impl Talk {
    /// Whether prompts hold what the model said.
    pub fn goes_on_from_answers(self) -> bool {
        self.answers == Answers::Model
    }

    /// Who says the part at a place of a prompt: the system's, then a turn and an answer in turns.
    pub fn speaker(self, place: usize) -> Speaker {
        let Some(place) = place.checked_sub(usize::from(self.has_system)) else { return Speaker::System };
        let cycle = u64::from(self.tool_calls).saturating_add(1);
        let is_tool = |turn: usize| u64::try_from(turn).is_ok_and(|turn| turn % cycle > 0);
        let turn = place >> 1;
        match (place & 1, is_tool(turn), is_tool(turn.saturating_add(1))) {
            (0, true, _) => Speaker::Tool,
            (0, false, _) => Speaker::User,
            (_, _, true) => Speaker::Call,
            (_, _, false) => Speaker::Assistant,
        }
    }

    /// The messages of a request. `text` makes the words of a part; `answer` gives what the model said in a turn, by its
    /// place in the session, where that is known.
    pub fn messages(
        self,
        request: &PlannedRequest,
        text: impl Fn(&PromptRecipe) -> String,
        answer: impl Fn(u32) -> Option<String>,
    ) -> Vec<Said> {
        let said = |(place, part): (usize, PromptRecipe)| {
            let by = self.speaker(place);
            let turn = || u32::try_from(place.checked_sub(usize::from(self.has_system))? >> 1).ok()?.checked_add(1);
            let given = matches!(by, Speaker::Assistant | Speaker::Call).then(|| turn().and_then(&answer)).flatten();
            Said { by, text: given.unwrap_or_else(|| text(&part)) }
        };
        request.prompt.apart().enumerate().map(said).collect()
    }

    /// The same shape with new words; a system prompt stays.
    pub(super) fn again(self, prompt: &PromptRecipe, round: u32) -> PromptRecipe {
        let again = |seed: u64| Stream::named(seed, &format!("filler/{round}")).bits();
        let parts = prompt.prefix.iter().enumerate().map(|(place, part)| match self.speaker(place) {
            Speaker::System => *part,
            Speaker::User | Speaker::Assistant | Speaker::Call | Speaker::Tool => {
                Part { seed: again(part.seed), ..*part }
            }
        });
        PromptRecipe { seed: again(prompt.seed), prefix: parts.collect(), ..prompt.clone() }
    }
}

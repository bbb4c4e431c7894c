//! Conversations of several turns: what a session is.

use crate::spec::load::Load;
use crate::spec::workload::Lengths;

/// The sessions of a cell: what follows the first request of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Requests of a session, on each of its branches.
    pub turns: Lengths,
    /// Tokens that a turn of the user brings to the context after the first one.
    pub turn_tokens: Lengths,
    /// From the end of an answer to the user's next turn.
    pub think: Pause,
    /// What stands in the context for earlier answers.
    pub answers: Answers,
    /// Calls of tools between two turns of the user; none: every turn is the user's.
    pub tools: Option<Tools>,
    /// Where a session goes on in several ways; none: it stays one.
    pub branches: Option<Branches>,
    /// A session ends before a turn whose context, the answer included, would have more tokens.
    pub max_context: u32,
}

/// A time between an answer and the next request, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause(pub Lengths);

/// What stands in the context for earlier answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Words of the plan: whatever the model said, both sides get the same prompts.
    #[default]
    Fixed,
    /// What the model said.
    Model,
}

impl Answers {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Fixed, Self::Model];

    /// As people write it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Model => "model",
        }
    }

    /// The kind of this name.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answers| answers.id() == id)
    }
}

/// Turns that bring the result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tools {
    /// So many after each turn of the user.
    pub calls: u32,
    /// Tokens of a result.
    pub tokens: Lengths,
    /// From the end of the answer that calls a tool to the request with its result.
    pub time: Pause,
}

/// Where a session goes on in several ways at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches {
    /// The last turn that they have in common.
    pub after: u32,
    /// How many there are.
    pub count: u32,
}

/// The most requests of a session.
pub const MOST_TURNS: u32 = 1_000;

impl Session {
    /// Whether a turn brings the result of a tool. Turns count from 1, and the first one is the user's.
    pub fn is_tool(&self, turn: u32) -> bool {
        let calls = self.tools.as_ref().map_or(0, |tools| tools.calls);
        turn > 1 && turn.saturating_sub(1).checked_rem(calls.saturating_add(1)).is_some_and(|place| place > 0)
    }

    /// Requests of an average session, branches included.
    pub fn mean_requests(&self) -> f64 {
        let turns = self.turns.mean();
        let extra = self.branches.map_or(0.0, |branches| {
            (turns - f64::from(branches.after)).max(0.0) * f64::from(branches.count.saturating_sub(1))
        });
        turns + extra
    }

    /// Warm-up requests that bring a cell into the state in which it stays. A closed loop begins with a session in each
    /// slot, each under way for another part of its length; an open one with as many new sessions as arrive while one of
    /// them pauses, and a half more. At least 20 requests.
    pub fn warmup(&self, load: Load) -> u32 {
        let requests = if let Load::Closed { concurrency } = load {
            f64::from(concurrency) * (self.mean_requests() + 1.0) / 2.0
        } else {
            load.rate() * self.mean_pauses() * 1.5 * self.mean_requests()
        };
        whole(requests.ceil().clamp(20.0, 100_000.0))
    }

    /// The pauses of an average session, in seconds.
    pub fn mean_pauses(&self) -> f64 {
        let gaps = (self.turns.mean() - 1.0).max(0.0);
        let (calls, time) = self.tools.as_ref().map_or((0, 0.0), |tools| (tools.calls, tools.time.0.mean()));
        let cycle = f64::from(calls) + 1.0;
        gaps * (f64::from(calls) * time + self.think.0.mean()) / cycle / 1e3
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within its bounds")]
const fn whole(requests: f64) -> u32 {
    requests as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn session(turns: u32) -> Session {
        Session {
            turns: Lengths::Fixed(turns),
            turn_tokens: Lengths::Fixed(50),
            think: Pause(Lengths::Fixed(2_000)),
            answers: Answers::Fixed,
            tools: None,
            branches: None,
            max_context: 1_000_000,
        }
    }

    #[test]
    fn turns_of_tools_follow_each_turn_of_the_user() {
        let tools = |calls| Session {
            tools: Some(Tools { calls, tokens: Lengths::Fixed(1), time: Pause(Lengths::Fixed(500)) }),
            ..session(7)
        };
        let which = |session: &Session| (1..=7).filter(|turn| session.is_tool(*turn)).collect::<Vec<_>>();
        assert_eq!(which(&session(7)), [0_u32; 0]);
        assert_eq!(which(&tools(1)), [2, 4, 6]);
        assert_eq!(which(&tools(2)), [2, 3, 5, 6]);
        assert_eq!(which(&tools(100)), [2, 3, 4, 5, 6, 7]);
        assert!((session(7).mean_pauses() - (12.0)).abs() < 1e-12);
        assert!((tools(2).mean_pauses() - (6.0 * 3.0 / 3.0)).abs() < 1e-12);
    }

    #[test]
    fn a_warm_up_is_long_enough_for_the_sessions_that_there_will_be() {
        let session = session(7);
        assert_eq!(session.warmup(Load::Closed { concurrency: 10 }), 40);
        assert_eq!(session.warmup(Load::Closed { concurrency: 1 }), 20);
        // 12 s of pauses, so that 24 sessions of 7 turns are under way; half as many come on top.
        assert_eq!(session.warmup(Load::Poisson { rate: 2.0 }), 252);
        assert_eq!(session.warmup(Load::Poisson { rate: 10_000.0 }), 100_000);
    }

    #[test]
    fn branches_are_requests_too() {
        let branched = Session { branches: Some(Branches { after: 3, count: 4 }), ..session(5) };
        assert!((branched.mean_requests() - (3.0 + 4.0 * 2.0)).abs() < 1e-12);
        assert!((Session { turns: Lengths::Fixed(2), ..branched }.mean_requests() - (2.0)).abs() < 1e-12);
    }
}

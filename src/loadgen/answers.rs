//! What the model said in the sessions of a cell, for prompts that go on from it.

use std::collections::BTreeMap;

use crate::plan::request::PlannedRequest;

/// The answers so far, by the number of their request.
#[derive(Debug, Default)]
pub(super) struct Answers {
    links: BTreeMap<u32, Link>,
}

#[derive(Debug)]
struct Link {
    turn: u32,
    /// The request before it in its session.
    after: Option<u32>,
    text: String,
}

impl Answers {
    /// Keeps the answer to a request of a session. One without text leaves the words of the plan in its place.
    pub(super) fn note(&mut self, request: &PlannedRequest, text: String) {
        if let Some(turn) = request.turn {
            self.links.insert(request.number, Link { turn: turn.turn, after: turn.after, text });
        }
    }

    /// What the model said at a turn on the way to a request; none where it said nothing, or was not asked.
    pub(super) fn at(&self, request: &PlannedRequest, turn: u32) -> Option<String> {
        let mut before = request.turn?.after;
        loop {
            let link = self.links.get(&before?)?;
            if link.turn <= turn {
                return (link.turn == turn && !link.text.is_empty()).then(|| link.text.clone());
            }
            before = link.after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Nanos;
    use crate::loadgen::scripted::cell;
    use crate::plan::talk::Turn;
    use crate::spec::workload::Load;

    #[test]
    fn an_answer_is_found_on_the_way_back_from_a_request() {
        let cell = cell("c", Load::Closed { concurrency: 1 }, 0, 6);
        let at = |number: u32, turn, after| PlannedRequest {
            number,
            turn: Some(Turn { session: 0, turn, after, pause: Nanos::ZERO }),
            ..cell.requests[0].clone()
        };
        // 0 - 1 - 2, and 3 beside 2.
        let [first, second, third, other] = [at(0, 1, None), at(1, 2, Some(0)), at(2, 3, Some(1)), at(3, 3, Some(1))];
        let mut answers = Answers::default();
        answers.note(&first, "one".to_owned());
        answers.note(&second, String::new());
        answers.note(&third, "three".to_owned());
        answers.note(&other, "other".to_owned());
        let later = at(4, 4, Some(3));
        assert_eq!(answers.at(&later, 3).as_deref(), Some("other"));
        assert_eq!(answers.at(&later, 2), None, "a failed turn has no text");
        assert_eq!(answers.at(&later, 1).as_deref(), Some("one"));
        assert_eq!(answers.at(&at(9, 5, Some(8)), 4), None, "a session that was joined later");
        assert_eq!(answers.at(&first, 1), None);
    }
}

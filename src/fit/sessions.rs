//! Conversations of a trace: how long they are, how long somebody thinks, and what a turn adds.

use std::collections::BTreeMap;

use crate::trace::request::{Request, Requests};

/// The sessions of a trace, as samples without order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    /// Requests of each session.
    pub turns: Vec<f64>,
    /// Seconds from the arrival of a request to that of the next of its session. When the answer ended is not known, so
    /// that it is in it.
    pub think_s: Vec<f64>,
    /// Prompt tokens of a request beyond the prompt and the answer of the one that it continues.
    pub new_tokens: Vec<f64>,
}

impl Sessions {
    /// None where the trace names no sessions.
    pub(super) fn of(trace: &Requests) -> Option<Self> {
        let mut found = Self::default();
        let mut last: BTreeMap<u32, (usize, &Request)> = BTreeMap::new();
        for row in &trace.rows {
            let Some(session) = row.session else { continue };
            let before = last.get(&session).copied();
            if let Some((_, earlier)) = before {
                if trace.arrivals {
                    found.think_s.push(row.at.since(earlier.at).as_secs());
                }
                let named = row.parent.and_then(|parent| trace.rows.get(usize::try_from(parent).ok()?));
                let continued = named.unwrap_or(earlier);
                let held = continued.prompt_tokens.saturating_add(continued.output_tokens.unwrap_or(0));
                found.new_tokens.push(f64::from(row.prompt_tokens.saturating_sub(held)));
            }
            last.insert(session, (before.map_or(1, |(turns, _)| turns.saturating_add(1)), row));
        }
        found.turns = last.into_values().map(|(turns, _)| super::real(turns)).collect();
        (!found.turns.is_empty()).then_some(found)
    }
}

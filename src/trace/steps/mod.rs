//! What may be done to a trace before it is replayed: cut, filter, thin, superpose, spread. Time is never stretched:
//! the distance between two requests of one copy stays what it was.
//!
//! After every step requests are in order, and a request continues an earlier one or none.

mod sample;
mod spread;
#[cfg(test)]
mod tests;

use crate::base::units::Nanos;
use crate::trace::collect::{BlockNumbers, Numbers};
use crate::trace::request::{Request, Requests};

pub use sample::{Scaling, scaling};

/// A trace, and the time that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    requests: Requests,
    length: Nanos,
    severed: u64,
}

impl Recording {
    /// A whole trace. It stands for the time from its first request to its last and one mean gap more: so many requests
    /// are as many gaps.
    pub fn of(requests: Requests) -> Self {
        let span = requests.rows.last().map_or(Nanos::ZERO, |row| row.at);
        let gaps = u64::try_from(requests.rows.len().saturating_sub(1)).unwrap_or(u64::MAX);
        let gap = Nanos(span.0.checked_div(gaps).unwrap_or(0));
        // What comes last is inside.
        let length = (span + gap).max(Nanos(span.0.saturating_add(1_000)));
        Self { requests, length: length.to_stored_resolution(), severed: 0 }
    }

    /// The requests, at instants from the begin of the time that they stand for.
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The time that they stand for.
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// Requests that continued one that is not there any more, nor what that one continued: they begin sessions now.
    pub const fn severed(&self) -> u64 {
        self.severed
    }

    /// Requests per second, over the whole time.
    #[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
    pub fn rate(&self) -> f64 {
        self.requests.rows.len() as f64 / self.length.as_secs()
    }

    /// The part from one instant to another; that instant is not in it.
    #[must_use]
    pub fn window(self, from: Nanos, until: Option<Nanos>) -> Self {
        let end = until.map_or(self.length, |until| until.min(self.length));
        let mut part = self.keep(|row| row.at >= from && row.at < end);
        for row in &mut part.requests.rows {
            row.at = row.at.since(from);
        }
        Self { length: end.since(from), ..part }
    }

    /// Only the first so many.
    #[must_use]
    pub fn first(self, most: usize) -> Self {
        let left = self.requests.rows.len().min(most);
        // What comes last is inside, also where the next comes with it.
        let last = left.checked_sub(1).and_then(|last| self.requests.rows.get(last));
        let inside = last.map_or(Nanos::ZERO, |last| Nanos(last.at.0.saturating_add(1_000)));
        let end = self.requests.rows.get(most).map_or(self.length, |next| next.at.max(inside));
        let mut kept = (0..self.requests.rows.len()).map(|place| place < left);
        Self { length: end, ..self.keep(|_| kept.next().unwrap_or(false)) }
    }

    /// The requests for which this holds. Who continues one that is gone continues what that one continued, for its
    /// prompt holds the prompts of both.
    #[must_use]
    pub fn keep(mut self, mut wanted: impl FnMut(&Request) -> bool) -> Self {
        // For each request of before: itself where it stays, else the nearest one that it continued, by its new position.
        let mut stands: Vec<Option<u32>> = Vec::with_capacity(self.requests.rows.len());
        let mut left: u32 = 0;
        let mut severed: u64 = 0;
        self.requests.rows.retain_mut(|row| {
            let before = row.parent.and_then(|parent| stands.get(usize::try_from(parent).ok()?).copied().flatten());
            if !wanted(row) {
                stands.push(before);
                return false;
            }
            severed = severed.saturating_add(u64::from(row.parent.is_some() && before.is_none()));
            row.parent = before;
            stands.push(Some(left));
            left = left.saturating_add(1);
            true
        });
        self.severed = self.severed.saturating_add(severed);
        self
    }

    /// The requests as a trace of their own: from the first one, with numbers in the order in which they appear.
    pub fn into_requests(self) -> Requests {
        let mut requests = self.requests;
        let origin = requests.rows.first().map_or(Nanos::ZERO, |row| row.at);
        let (mut sessions, mut blocks, mut used) = (Numbers::default(), BlockNumbers::default(), Numbers::default());
        let mut classes = Vec::new();
        for row in &mut requests.rows {
            row.at = row.at.since(origin);
            row.session = row.session.map(|session| sessions.of(session));
            for block in &mut row.blocks {
                *block = blocks.of(*block);
            }
            row.class = row.class.and_then(|class| {
                let number = used.of(class);
                if usize::try_from(number) == Ok(classes.len()) {
                    classes.push(requests.classes.get(usize::from(class))?.clone());
                }
                u16::try_from(number).ok()
            });
        }
        let has_blocks = requests.rows.iter().any(|row| !row.blocks.is_empty());
        Requests { classes, block_tokens: requests.block_tokens.filter(|_| has_blocks), ..requests }
    }
}

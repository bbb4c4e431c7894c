//! Another rate without another clock: fewer requests, or several copies side by side.

use std::collections::BTreeMap;

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::trace::MAX_ROWS;
use crate::trace::collect::Numbers;
use crate::trace::request::Request;
use crate::trace::steps::Recording;

/// How a rate is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Copies side by side; 1 for the trace as it is.
    pub copies: u32,
    /// The share of them that stays; none for all.
    pub share: Option<f64>,
}

/// How to come from one rate to another: by thinning, or by as few copies as are enough, thinned. None where that are more
/// copies than 32 bits count, or a rate is not above zero.
pub fn scaling(rate: f64, wanted: f64) -> Option<Scaling> {
    let ratio = wanted / rate;
    if !(ratio > 0.0 && ratio < f64::from(u32::MAX)) {
        return None;
    }
    // A rate that is met to a part in a billion is met.
    let copies = (ratio - 1e-9).ceil().max(1.0);
    let share = ratio / copies;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 2^32")]
    let copies = copies as u32;
    Some(Scaling { copies, share: (share < 1.0 - 1e-9).then_some(share) })
}

impl Recording {
    /// Keeps each session with this probability, whole; what belongs to no session is one of its own. Of a Poisson process a
    /// Poisson process is left.
    #[must_use]
    pub fn thin(self, share: f64, seed: u64) -> Self {
        let mut stream = Stream::named(seed, "trace/thin");
        let mut sessions: BTreeMap<u32, bool> = BTreeMap::new();
        self.keep(|row| match row.session {
            Some(session) => *sessions.entry(session).or_insert_with(|| stream.uniform() < share),
            None => stream.uniform() < share,
        })
    }

    /// So many copies side by side, the first as it is and each other one moved by a random time; what is moved beyond the
    /// end comes in at the begin. None when that are more than [`MAX_ROWS`] requests.
    ///
    /// The requests of a copy are those of other users: their sessions and blocks are none of another copy. With the same
    /// blocks every prompt of a copy would be in the cache already. A session that is cut at the end is two sessions, the
    /// part at the begin being one that was on its way.
    pub fn superpose(self, copies: u32, seed: u64) -> Option<Self> {
        let rows = self.requests.rows.len();
        let total = u64::from(copies).saturating_mul(u64::try_from(rows).unwrap_or(u64::MAX));
        if total > MAX_ROWS {
            return None;
        }
        let mut stream = Stream::named(seed, "trace/superpose");
        let blocks =
            self.requests.rows.iter().flat_map(|row| &row.blocks).max().map_or(0, |most| most.saturating_add(1));
        let mut sessions = Numbers::default();
        let (mut moved, mut parents, mut severed) = (Vec::new(), Vec::new(), self.severed);
        for copy in 0..copies {
            let shift = Nanos::from_micros(if copy == 0 { 0 } else { stream.below(self.length.0.div_euclid(1_000)) });
            let is_wrapped = |row: &Request| row.at + shift >= self.length;
            let begin = moved.len();
            for row in &self.requests.rows {
                let wrapped = is_wrapped(row);
                let parent = row.parent.and_then(|parent| usize::try_from(parent).ok());
                let alike =
                    |at: &usize| self.requests.rows.get(*at).is_some_and(|parent| is_wrapped(parent) == wrapped);
                let kept = parent.filter(alike).and_then(|parent| begin.checked_add(parent));
                severed = severed.saturating_add(u64::from(parent.is_some() && kept.is_none()));
                parents.push(kept);
                let number = |block: &u64| u64::from(copy).saturating_mul(blocks).saturating_add(*block);
                moved.push(Request {
                    at: (row.at + shift).since(if wrapped { self.length } else { Nanos::ZERO }),
                    session: row.session.map(|session| sessions.of((copy, wrapped, session))),
                    blocks: row.blocks.iter().map(number).collect(),
                    ..row.clone()
                });
            }
        }
        let mut requests = self.requests;
        requests.rows = in_order(moved, &parents);
        Some(Self { requests, severed, ..self })
    }
}

/// Rows by their instants; those of one instant stay in their order. `parents` are positions before.
fn in_order(rows: Vec<Request>, parents: &[Option<usize>]) -> Vec<Request> {
    let mut rows: Vec<(usize, Request)> = rows.into_iter().enumerate().collect();
    rows.sort_by_key(|(_, row)| row.at);
    let mut places: Vec<u32> = vec![0; rows.len()];
    for (place, (before, _)) in (0_u32..).zip(&rows) {
        if let Some(known) = places.get_mut(*before) {
            *known = place;
        }
    }
    let linked = |(before, row): (usize, Request)| {
        let parent = parents.get(before).copied().flatten();
        Request { parent: parent.and_then(|parent| places.get(parent).copied()), ..row }
    };
    rows.into_iter().map(linked).collect()
}

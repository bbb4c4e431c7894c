//! Sources that write down ticks, such as Mooncake's of three seconds, have bursts in them that never arrived.

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::trace::shape;
use crate::trace::steps::Recording;

impl Recording {
    /// Moves requests that share an instant to random ones between it and the next, their order kept; but no further than
    /// the trace's usual tick, so that silence stays silence. Gives how many it moved.
    pub fn spread(&mut self, seed: u64) -> u64 {
        let mut stream = Stream::named(seed, "trace/spread");
        let tick = shape::ticks(&self.requests).step;
        let mut next: Vec<Nanos> = self
            .requests
            .rows
            .chunk_by(|one, next| one.at == next.at)
            .filter_map(|one| Some(one.first()?.at))
            .collect();
        next.push(self.length);
        let (mut ends, mut moved) = (next.into_iter().skip(1), 0_u64);
        for together in self.requests.rows.chunk_by_mut(|one, next| one.at == next.at) {
            let Some(end) = ends.next() else { break };
            let Some(start) = together.first().map(|row| row.at).filter(|_| together.len() > 1) else { continue };
            let room = end.since(start).min(tick).0.div_euclid(1_000);
            let mut places: Vec<u64> = together.iter().map(|_| stream.below(room)).collect();
            places.sort_unstable();
            for (row, place) in together.iter_mut().zip(places) {
                row.at = start + Nanos::from_micros(place);
                moved = moved.saturating_add(1);
            }
        }
        moved
    }
}

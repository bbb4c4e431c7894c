//! How late the program was with its reads: a histogram that many connections fill at once.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::units::Nanos;

/// Classes a doubling, as a power of two: a quantile is right within an eighth.
const CLASSES_LOG2: u32 = 3;
const CLASSES: usize = 1 << CLASSES_LOG2;
/// Doublings from 1 ns on: up to 292 years.
const DOUBLINGS: usize = 63;

/// Counts of durations, in classes that grow with them.
#[derive(Debug)]
pub(super) struct Lag {
    counts: Vec<AtomicU64>,
}

impl Default for Lag {
    fn default() -> Self {
        Self { counts: (0..DOUBLINGS * CLASSES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Lag {
    /// Counts a duration.
    pub(super) fn note(&self, lag: Nanos) {
        if let Some(count) = self.counts.get(class(lag)).or(self.counts.last()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The 99th percentile of what was counted since the last call, as the upper end of its class; none without counts.
    pub(super) fn take_p99(&self) -> Option<Nanos> {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = total.saturating_sub(total.checked_div(100)?);
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        (total > 0).then(|| counts.iter().position(reached).map(upper_end))?
    }
}

/// The class of a duration: its leading bits.
fn class(lag: Nanos) -> usize {
    let ns = lag.0.max(1);
    let doubling = ns.ilog2();
    let within =
        if doubling >= CLASSES_LOG2 { ns >> (doubling - CLASSES_LOG2) } else { ns << (CLASSES_LOG2 - doubling) };
    let within = usize::try_from(within).unwrap_or(CLASSES).saturating_sub(CLASSES);
    usize::try_from(doubling).unwrap_or(DOUBLINGS) * CLASSES + within
}

/// The end of a class.
fn upper_end(class: usize) -> Nanos {
    let (doubling, within) = (class >> CLASSES_LOG2, class & (CLASSES - 1));
    let parts = u128::try_from(CLASSES + within + 1).unwrap_or(u128::MAX);
    Nanos(u64::try_from((parts << doubling.min(DOUBLINGS)) >> CLASSES_LOG2).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_within_an_eighth_and_counts_start_anew() {
        let lag = Lag::default();
        assert_eq!(lag.take_p99(), None);
        (1..=1_000).for_each(|us| lag.note(Nanos::from_micros(us)));
        let p99 = lag.take_p99().unwrap().as_ms();
        assert!((0.990..=0.990 * 1.125).contains(&p99), "{p99}");
        assert_eq!(lag.take_p99(), None);
    }

    #[test]
    fn every_duration_has_a_class_that_holds_it() {
        for ns in (0..63).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            let end = upper_end(class(Nanos(ns)));
            assert!(end.0 >= ns && end.0 <= ns + (ns >> 3) + 1, "{ns} in a class up to {end:?}");
        }
    }
}

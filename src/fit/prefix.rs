//! Shared prefixes that give a plan the prompts in common that a trace has.

use crate::fit::real;
use crate::spec::workload::SharedPrefix;
use crate::trace::shape::Reuse;

/// Most groups of a workload.
const MOST_GROUPS: u32 = 100_000;

/// What the prompts of some requests share with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    /// Mean tokens of a prompt that are in others, too.
    pub(super) tokens: f64,
    /// Mean tokens that an earlier request had.
    pub(super) known: f64,
}

impl Shared {
    pub(super) fn of(reuse: &[Reuse]) -> Self {
        let mean = |of: fn(&Reuse) -> u32| reuse.iter().map(of).map(f64::from).sum::<f64>() / real(reuse.len().max(1));
        Self { tokens: mean(|one| one.shared), known: mean(|one| one.known) }
    }

    /// The prefix of requests whose shortest prompt has `least` tokens: as long as what a prompt shares in the mean, in so many
    /// groups that measured requests meet a prefix of an earlier one as often as in the trace. None where that is next
    /// to nothing.
    pub(super) fn prefix(self, least: u32, (warmup, requests): (f64, f64)) -> Option<SharedPrefix> {
        let tokens = self.tokens.round().min(f64::from(least) - 1.0);
        if self.known < 1.0 || tokens < 1.0 {
            return None;
        }
        let wanted = (self.known / tokens).min(1.0);
        // Fewer groups are met again sooner: the most that are met often enough.
        let (mut enough, mut beyond) = (1, MOST_GROUPS.saturating_add(1));
        while beyond - enough > 1 {
            let middle = u32::midpoint(enough, beyond);
            if met(middle, warmup, requests) >= wanted { enough = middle } else { beyond = middle }
        }
        Some(SharedPrefix { groups: enough, tokens: whole(tokens) })
    }
}

/// The expected share of measured requests whose group an earlier request had, each group being equally likely.
fn met(groups: u32, warmup: f64, requests: f64) -> f64 {
    let groups = f64::from(groups);
    let unmet = |requests: f64| libm::pow(1.0 - 1.0 / groups, requests);
    1.0 - groups / requests * (unmet(warmup) - unmet(warmup + requests))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 2^32")]
fn whole(tokens: f64) -> u32 {
    tokens as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_as_many_as_meet_often_enough() {
        // One group is met by all but the first of all; without warm-up that is one of ten.
        assert!((met(1, 0.0, 10.0) - 0.9).abs() < 1e-12 && (met(1, 5.0, 10.0) - 1.0).abs() < 1e-12);
        let shared = |tokens, known| Shared { tokens, known };
        let prefix = shared(100.0, 50.0).prefix(1_000, (0.0, 200.0)).unwrap();
        assert_eq!(prefix.tokens, 100);
        assert!(met(prefix.groups, 0.0, 200.0) >= 0.5 && met(prefix.groups + 1, 0.0, 200.0) < 0.5);
        assert_eq!(shared(100.0, 100.0).prefix(1_000, (20.0, 200.0)), Some(SharedPrefix { groups: 1, tokens: 100 }));
        // A prefix is shorter than every prompt.
        assert_eq!(shared(100.0, 90.0).prefix(60, (20.0, 200.0)).unwrap().tokens, 59);
        assert_eq!(
            [shared(100.0, 0.5).prefix(60, (20.0, 200.0)), shared(9.0, 5.0).prefix(1, (20.0, 200.0))],
            [None; 2]
        );
        // What is hardly ever met again has more groups than a workload.
        assert!(shared(100.0, 1.0).prefix(1_000, (0.0, 1_000.0)).unwrap().groups > 40_000);
    }
}

//! Draws of token counts, stratified: of every twenty consecutive requests, one takes its length from
//! each twentieth of the distribution, in random order. Any part of a run then sees the same mix of
//! lengths, so that a trend inside a run speaks of the target and not of the plan.

use crate::base::rng::Stream;
use crate::plan::normal;
use crate::spec::workload::Lengths;

/// Requests in which every part of the distribution occurs once.
const STRATA: u32 = 20;

/// The lengths of consecutive requests.
pub(super) struct Draws<'a> {
    lengths: &'a Lengths,
    stream: Stream,
    /// Strata that the present block still lacks.
    left: Vec<u32>,
}

impl<'a> Draws<'a> {
    pub(super) const fn new(lengths: &'a Lengths, stream: Stream) -> Self {
        Self { lengths, stream, left: Vec::new() }
    }

    /// The length of the next request.
    pub(super) fn next(&mut self) -> u32 {
        if self.left.is_empty() {
            self.left = (0..STRATA).collect();
            self.stream.shuffle(&mut self.left);
        }
        let stratum = self.left.pop().unwrap_or_default();
        quantile(self.lengths, (f64::from(stratum) + self.stream.uniform()) / f64::from(STRATA))
    }
}

/// The length below which the share `at` (in `[0, 1)`) of the distribution lies.
fn quantile(lengths: &Lengths, at: f64) -> u32 {
    match lengths {
        Lengths::Fixed(tokens) => *tokens,
        Lengths::Uniform { min, max } => {
            let (low, high) = (f64::from(*min), f64::from(*max));
            whole(low + at * (high - low + 1.0)).min(*max)
        }
        Lengths::LogNormal { median, sigma, min, max } => whole(log_normal(*median, *sigma, (*min, *max), at).round()),
        Lengths::Table(rows) => pick(rows, at),
        // The trace tells it.
        Lengths::Traced => 1,
    }
}

/// Quantile of the log-normal distribution truncated to `bounds`. Where it has next to no mass between
/// them, the nearer bound.
fn log_normal(median: f64, sigma: f64, bounds: (u32, u32), at: f64) -> f64 {
    let (low, high) = (f64::from(bounds.0), f64::from(bounds.1).max(f64::from(bounds.0)));
    let middle = libm::log(median);
    let share_below = |length: f64| normal::cdf((libm::log(length) - middle) / sigma);
    let (from, to) = (share_below(low), share_below(high));
    let share = from + at * (to - from);
    if to - from < 1e-12 || share <= 0.0 || share >= 1.0 {
        return if median < low { low } else { median.clamp(low, high) };
    }
    libm::exp(middle + sigma * normal::quantile(share)).clamp(low, high)
}

/// The row of a table at a share of the total weight.
fn pick(rows: &[(u32, f64)], at: f64) -> u32 {
    let total: f64 = rows.iter().map(|(_, weight)| weight).sum();
    let mut left = at * total;
    for (tokens, weight) in rows {
        left -= weight;
        if left < 0.0 {
            return *tokens;
        }
    }
    // Rounding may leave a remainder of zero after the last row.
    rows.last().map_or(0, |(tokens, _)| *tokens)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and NaN becomes 0")]
fn whole(tokens: f64) -> u32 {
    tokens as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(lengths: &Lengths) -> Vec<u32> {
        let mut draws = Draws::new(lengths, Stream::named(11, "lengths"));
        (0..20_000).map(|_| draws.next()).collect()
    }

    fn mean(sample: &[u32]) -> f64 {
        sample.iter().copied().map(f64::from).sum::<f64>() / 20_000.0
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert!(sample(&Lengths::Fixed(128)).iter().all(|n| *n == 128));
        let uniform = sample(&Lengths::Uniform { min: 10, max: 30 });
        assert!((mean(&uniform) - 20.0).abs() < 0.05, "{}", mean(&uniform));
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&10), Some(&30)));
        // The mean of a log-normal is median * exp(sigma^2 / 2); these bounds hold all but 1e-6 of it.
        let wide = sample(&Lengths::LogNormal { median: 500.0, sigma: 0.4, min: 50, max: 5_000 });
        assert!((mean(&wide) / (500.0 * 0.08_f64.exp()) - 1.0).abs() < 0.005, "{}", mean(&wide));
        let table = sample(&Lengths::Table(vec![(100, 3.0), (1_000, 1.0)]));
        assert!((mean(&table) - 325.0).abs() < 1.0, "{}", mean(&table));
    }

    #[test]
    fn every_twenty_requests_have_the_same_mix_in_another_order() {
        let lengths = Lengths::Uniform { min: 1, max: 2_000 };
        let mut orders = Vec::new();
        for block in sample(&lengths).chunks_exact(20).take(50) {
            let strata: Vec<u32> = block.iter().map(|n| (n - 1).div_euclid(100)).collect();
            let mut sorted = strata.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
            orders.push(strata);
        }
        assert_ne!(orders[0], orders[1]);
    }

    #[test]
    fn truncation_does_not_pile_up_at_the_bounds() {
        let cut = sample(&Lengths::LogNormal { median: 100.0, sigma: 1.0, min: 50, max: 200 });
        assert!(cut.iter().all(|n| (50..=200).contains(n)));
        let at_bounds = cut.iter().filter(|n| matches!(n, 50 | 200)).count();
        assert!(at_bounds < 400, "{at_bounds}");
    }

    #[test]
    fn bounds_that_the_distribution_never_reaches_end_at_the_nearest() {
        let far = |min, max| Lengths::LogNormal { median: 10.0, sigma: 0.01, min, max };
        assert_eq!(quantile(&far(1_000, 2_000), 0.5), 1_000);
        assert_eq!(quantile(&far(1, 2), 0.5), 2);
    }
}

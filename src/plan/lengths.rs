//! Draws of token counts.

use crate::base::rng::Stream;
use crate::spec::workload::Lengths;

/// Draws outside a log-normal's bounds are repeated at most this often; the last one is then moved to
/// the nearest bound. Bounds that hold 1 % of the distribution exhaust it once in 23,000 draws.
const REDRAWS: u32 = 1_000;

/// One token count.
pub(super) fn draw(lengths: &Lengths, stream: &mut Stream) -> u32 {
    match lengths {
        Lengths::Fixed(tokens) => *tokens,
        Lengths::Uniform { min, max } => {
            u32::try_from(stream.between(u64::from(*min), u64::from(*max))).unwrap_or(*max)
        }
        Lengths::LogNormal { median, sigma, min, max } => {
            let (low, high) = (f64::from(*min), f64::from(*max));
            let mut tokens = (median * stream.log_normal(*sigma)).round();
            for _ in 0..REDRAWS {
                if (low..=high).contains(&tokens) {
                    break;
                }
                tokens = (median * stream.log_normal(*sigma)).round();
            }
            whole(tokens).clamp(*min, (*max).max(*min))
        }
        Lengths::Table(rows) => pick(rows, stream),
    }
}

/// A length with probability proportional to its weight.
fn pick(rows: &[(u32, f64)], stream: &mut Stream) -> u32 {
    let total: f64 = rows.iter().map(|(_, weight)| weight).sum();
    let mut left = stream.uniform() * total;
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
        let mut stream = Stream::named(11, "lengths");
        (0..20_000).map(|_| draw(lengths, &mut stream)).collect()
    }

    fn mean(sample: &[u32]) -> f64 {
        sample.iter().copied().map(f64::from).sum::<f64>() / 20_000.0
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        assert!(sample(&Lengths::Fixed(128)).iter().all(|n| *n == 128));
        let uniform = sample(&Lengths::Uniform { min: 10, max: 30 });
        assert!((mean(&uniform) - 20.0).abs() < 0.2, "{}", mean(&uniform));
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&10), Some(&30)));
        // The mean of a log-normal is median * exp(sigma^2 / 2); these bounds hold all but 1e-6 of it.
        let wide = sample(&Lengths::LogNormal { median: 500.0, sigma: 0.4, min: 50, max: 5_000 });
        assert!((mean(&wide) / (500.0 * 0.08_f64.exp()) - 1.0).abs() < 0.02, "{}", mean(&wide));
        let table = sample(&Lengths::Table(vec![(100, 3.0), (1_000, 1.0)]));
        assert!((mean(&table) - 325.0).abs() < 10.0, "{}", mean(&table));
    }

    #[test]
    fn truncation_redraws_and_does_not_pile_up_at_the_bounds() {
        let cut = sample(&Lengths::LogNormal { median: 100.0, sigma: 1.0, min: 50, max: 200 });
        assert!(cut.iter().all(|n| (50..=200).contains(n)));
        let at_bounds = cut.iter().filter(|n| matches!(n, 50 | 200)).count();
        assert!(at_bounds < 400, "{at_bounds}");
    }

    #[test]
    fn bounds_that_the_distribution_never_reaches_end_at_the_nearest() {
        let far = Lengths::LogNormal { median: 10.0, sigma: 0.01, min: 1_000, max: 2_000 };
        assert_eq!(draw(&far, &mut Stream::named(1, "far")), 1_000);
    }
}

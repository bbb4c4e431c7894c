//! Draws of token counts, stratified: of every twenty consecutive requests, one takes its length from
//! each twentieth of the distribution, in random order. Any part of a run then sees the same mix of
//! lengths, so that a trend inside a run speaks of the target and not of the plan.

use std::collections::BTreeMap;

use crate::base::rng::Stream;
use crate::plan::normal;
use crate::spec::workload::{Class, LengthRow, Lengths, Range};

/// Requests in which every part of the distribution occurs once.
const STRATA: u32 = 20;
/// Parts of a stratum of a table.
const PARTS: u32 = 8;
/// The largest share of a row.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON;

/// Where in a distribution consecutive requests lie.
struct Strata {
    stream: Stream,
    /// Strata that the present block still lacks.
    left: Vec<u32>,
}

impl Strata {
    const fn new(stream: Stream) -> Self {
        Self { stream, left: Vec::new() }
    }

    /// The stratum of the next request.
    fn stratum(&mut self) -> u32 {
        if self.left.is_empty() {
            self.left = (0..STRATA).collect();
            self.stream.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or_default()
    }

    /// The share of the distribution that lies below the next request, in `[0, 1)`.
    fn next(&mut self) -> f64 {
        (f64::from(self.stratum()) + self.stream.uniform()) / f64::from(STRATA)
    }
}

/// The lengths of consecutive requests.
pub(super) struct Draws<'a> {
    lengths: &'a Lengths,
    strata: Strata,
}

impl<'a> Draws<'a> {
    pub(super) const fn new(lengths: &'a Lengths, stream: Stream) -> Self {
        Self { lengths, strata: Strata::new(stream) }
    }

    /// The length of the next request.
    pub(super) fn next(&mut self) -> u32 {
        quantile(self.lengths, self.strata.next())
    }
}

/// The lengths of prompts and answers of consecutive requests.
pub(super) enum Pairs<'a> {
    /// Each by itself.
    Apart(Draws<'a>, Draws<'a>),
    /// From one table.
    Joint(Joint<'a>),
}

impl<'a> Pairs<'a> {
    /// `stream` gives the stream of a purpose.
    pub(super) fn new(class: &'a Class, stream: impl Fn(&str) -> Stream) -> Self {
        if class.lengths.is_empty() {
            let prompts = Draws::new(&class.prompt_tokens, stream("lengths"));
            return Self::Apart(prompts, Draws::new(&class.output_tokens, stream("output-lengths")));
        }
        Self::Joint(Joint { rows: &class.lengths, strata: Strata::new(stream("lengths")), left: BTreeMap::new() })
    }

    /// The lengths of the next request.
    pub(super) fn next(&mut self) -> (u32, u32) {
        match self {
            Self::Apart(prompts, outputs) => (prompts.next(), outputs.next()),
            Self::Joint(table) => table.next(),
        }
    }
}

/// A table in the order of its prompts. Its strata are short in prompts and long in answers, so that each has strata of its
/// own, which it takes in turn.
pub(super) struct Joint<'a> {
    rows: &'a [LengthRow],
    strata: Strata,
    /// By stratum, the parts of it that it still lacks.
    left: BTreeMap<u32, Vec<u32>>,
}

impl Joint<'_> {
    fn next(&mut self) -> (u32, u32) {
        let stratum = self.strata.stratum();
        let left = self.left.entry(stratum).or_default();
        if left.is_empty() {
            *left = (0..PARTS).collect();
            self.strata.stream.shuffle(left);
        }
        let part = f64::from(left.pop().unwrap_or_default()) + self.strata.stream.uniform();
        let at = (f64::from(stratum) + part / f64::from(PARTS)) / f64::from(STRATA);
        let (row, inside) = pick(self.rows, |row| row.weight, at);
        let output = self.strata.stream.uniform();
        row.map_or((1, 1), |row| (within(row.prompt, inside), within(row.output, output)))
    }
}

/// The length below which the share `at` (in `[0, 1)`) of the distribution lies.
fn quantile(lengths: &Lengths, at: f64) -> u32 {
    match lengths {
        Lengths::Fixed(tokens) => *tokens,
        Lengths::Uniform { min, max } => within(Range { min: *min, max: *max }, at),
        Lengths::LogNormal { median, sigma, min, max } => whole(log_normal(*median, *sigma, (*min, *max), at).round()),
        Lengths::Table(rows) => pick(rows, |(_, weight)| *weight, at).0.map_or(0, |(tokens, _)| *tokens),
        Lengths::Ranges(ranges) => {
            let (range, inside) = pick(ranges, |(_, weight)| *weight, at);
            range.map_or(0, |(range, _)| within(*range, inside))
        }
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

/// The length at a share of a range.
fn within(Range { min, max }: Range, at: f64) -> u32 {
    let (low, high) = (f64::from(min), f64::from(max));
    whole(low + at * (high - low + 1.0)).min(max)
}

/// The row of a table at a share of the total weight, and how far into the row that is.
fn pick<T>(rows: &[T], weight: impl Fn(&T) -> f64, at: f64) -> (Option<&T>, f64) {
    let total: f64 = rows.iter().map(&weight).sum();
    let mut left = at * total;
    for row in rows {
        let of_row = weight(row);
        left -= of_row;
        if left < 0.0 {
            return (Some(row), (1.0 + left / of_row).clamp(0.0, BELOW_ONE));
        }
    }
    // Rounding may leave a remainder of zero after the last row.
    (rows.last(), BELOW_ONE)
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

    fn row(prompt: [u32; 2], output: [u32; 2], weight: f64) -> LengthRow {
        let [prompt, output] = [prompt, output].map(|[min, max]| Range { min, max });
        LengthRow { prompt, output, weight }
    }

    fn pairs(rows: Vec<LengthRow>, count: usize) -> Vec<(u32, u32)> {
        let class = Class::joint(rows);
        let mut pairs = Pairs::new(&class, |purpose| Stream::named(7, purpose));
        (0..count).map(|_| pairs.next()).collect()
    }

    #[test]
    fn prompts_and_answers_of_a_table_come_together_and_every_twenty_have_its_shares() {
        let rows = vec![row([10, 19], [900, 999], 3.0), row([100, 199], [5, 5], 1.0), row([100, 199], [50, 59], 1.0)];
        let drawn = pairs(rows, 20_000);
        for block in drawn.chunks_exact(20) {
            let of = |wanted: fn(&(u32, u32)) -> bool| block.iter().filter(|pair| wanted(pair)).count();
            let short = of(|(prompt, output)| (10..20).contains(prompt) && (900..1_000).contains(output));
            let long =
                of(|(prompt, output)| (100..200).contains(prompt) && (*output == 5 || (50..60).contains(output)));
            assert_eq!((short, long, of(|(_, output)| *output == 5)), (12, 8, 4));
        }
        // Rows that are smaller than a twentieth have their shares in eight times as many.
        let fine = (0..40).map(|n| row([50, 50], [10 + n, 10 + n], 1.0)).collect();
        for block in pairs(fine, 1_600).chunks_exact(160) {
            assert!((10..50).all(|tokens| block.iter().filter(|(_, output)| *output == tokens).count() == 4));
        }
        // Inside a row every length comes equally often, on both sides.
        let short: Vec<&(u32, u32)> = drawn.iter().filter(|(prompt, _)| *prompt < 20).collect();
        for length in 10..20 {
            let found = short.iter().filter(|(prompt, _)| *prompt == length).count();
            assert!((1_050..1_350).contains(&found), "{length}: {found} of {}", short.len());
        }
        let outputs: Vec<u32> = short.iter().map(|(_, output)| *output).collect();
        assert_eq!((outputs.iter().min(), outputs.iter().max()), (Some(&900), Some(&999)));
        let mean = outputs.iter().copied().map(f64::from).sum::<f64>() / 12_000.0;
        assert!((mean - 949.5).abs() < 1.5, "{mean}");
    }

    #[test]
    fn a_share_lies_in_one_row_and_in_one_place_of_it() {
        let rows = [("a", 1.0), ("b", 3.0)];
        for (at, name, inside) in [(0.0, "a", 0.0), (0.125, "a", 0.5), (0.25, "b", 0.0), (0.625, "b", 0.5)] {
            let (row, found) = pick(&rows, |(_, weight)| *weight, at);
            assert_eq!((row.unwrap().0, found), (name, inside));
        }
        assert!(pick(&rows, |(_, weight)| *weight, 1.0).1 < 1.0);
        assert_eq!(
            quantile(&Lengths::Ranges(vec![(Range { min: 5, max: 8 }, 1.0), (Range { min: 9, max: 9 }, 1.0)]), 0.3),
            7
        );
    }
}

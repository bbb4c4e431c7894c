//! A table of prompt and output lengths from pairs of them: bins of prompts, and within each bins of their answers.
//!
//! A bin draws all lengths of its range equally often, so that bins make a distribution function of straight pieces. Where such
//! a piece is farthest from what was seen, in its distribution or in its mean, it is cut at the place where it is
//! farthest, until the table has its rows: the way in which Douglas and Peucker (1973) simplify a line.
//!
//! No row stands for fewer than [`FEWEST`] requests, and the ends of ranges have three digits, so that no row of the table is a
//! request of the trace. A length that is frequent by itself has a row by itself.

use std::ops::Range as Places;

use crate::fit::real;
use crate::spec::workload::{LengthRow, Range};

/// Fewest requests of a row.
pub(super) const FEWEST: usize = 5;
/// Rows of a whole workload.
const ALL_ROWS: usize = 192;
/// Fewest and most rows of a cell.
const OF_A_CELL: [usize; 2] = [24, 96];
/// Rows for each bin of prompts, in the mean.
const OUTPUTS: usize = 5;
/// The longest length of a workload.
const LONGEST: u32 = 1_000_000;

/// Most rows of each of so many cells.
pub(super) fn rows_of_a_cell(cells: usize) -> usize {
    ALL_ROWS.checked_div(cells).unwrap_or(ALL_ROWS).clamp(OF_A_CELL[0], OF_A_CELL[1])
}

/// The table of these prompts and answers, of at most so many rows.
pub(super) fn of(pairs: &[(u32, u32)], most: usize) -> Vec<LengthRow> {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    let (prompts, outputs): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    let scale = mean(&prompts);
    let bins = cut(vec![Bin::of(prompts, scale)], most.div_ceil(OUTPUTS));
    let mut begin = 0_usize;
    let scale = mean(&outputs);
    let mut parts = Vec::new();
    for bin in &bins {
        let end = begin.saturating_add(bin.sorted.len());
        let mut answers = outputs.get(begin..end).unwrap_or_default().to_vec();
        answers.sort_unstable();
        parts.push(Bin { group: parts.len(), ..Bin::of(answers, scale) });
        begin = end;
    }
    let row = |part: &Bin| {
        let (prompt, output) = (range(&bins.get(part.group)?.sorted)?, range(&part.sorted)?);
        Some(LengthRow { prompt, output, weight: real(part.sorted.len()) })
    };
    cut(parts, most).iter().filter_map(row).collect()
}

/// Some lengths in order, and what is lost when each of their range is drawn equally often.
struct Bin {
    sorted: Vec<u32>,
    /// The bin of prompts to which they belong.
    group: usize,
    /// The mean to which differences of means are relative.
    scale: f64,
    /// The largest difference of the distributions, or that of the means, in requests.
    error: f64,
    /// Where the distributions differ most, between two different lengths; none where the bin cannot be cut.
    place: Option<usize>,
}

impl Bin {
    fn of(sorted: Vec<u32>, scale: f64) -> Self {
        let (first, last) = (sorted.first().copied().unwrap_or(0), sorted.last().copied().unwrap_or(0));
        let (low, wide) = (f64::from(first), f64::from(last.saturating_sub(first)) + 1.0);
        let all = real(sorted.len());
        let (mut error, mut place) = (0.0, None);
        for (below, pair) in (1_usize..).zip(sorted.windows(2)) {
            let &[one, next] = pair else { continue };
            if one == next || below < FEWEST || sorted.len().saturating_sub(below) < FEWEST {
                continue;
            }
            let seen = real(below) / all;
            let drawn = [f64::from(one) + 1.0, f64::from(next)].map(|length| (length - low) / wide);
            let far = drawn.iter().map(|drawn| (seen - drawn).abs()).fold(0.0, f64::max);
            if place.is_none() || far > error {
                (error, place) = (far, Some(below));
            }
        }
        let of_means = (mean(&sorted) - f64::midpoint(low, f64::from(last))).abs() / scale;
        Self { group: 0, scale, error: all * error.max(of_means), place, sorted }
    }

    /// The two bins that it is when it is cut.
    fn halves(&self) -> Option<[Self; 2]> {
        let (low, high) = self.sorted.split_at_checked(self.place?)?;
        Some([low, high].map(|half| Self { group: self.group, ..Self::of(half.to_vec(), self.scale) }))
    }
}

/// Cuts the bin that loses most, again and again, until there are so many; a cut bin's halves stand in its place.
fn cut(mut bins: Vec<Bin>, most: usize) -> Vec<Bin> {
    while bins.len() < most {
        let worst = bins.iter().enumerate().filter(|(_, bin)| bin.place.is_some() && bin.error > 0.0);
        let worst = worst.max_by(|(_, one), (_, other)| one.error.total_cmp(&other.error)).map(|(at, _)| at);
        let halves = worst.and_then(|at| Some((at, bins.get(at)?.halves()?)));
        let Some((at, halves)) = halves else { break };
        bins.splice(at..=at, halves);
    }
    bins
}

/// Cuts sorted values into so many bins of about equally many, each between two different values.
pub(super) fn bins(values: &[u32], most: usize) -> Vec<Places<usize>> {
    let mut bins = Vec::new();
    let mut begin = 0_usize;
    for number in 1..=most {
        let end = border(values, number.saturating_mul(values.len()).div_euclid(most));
        let rest = values.len().saturating_sub(end);
        if end.saturating_sub(begin) >= FEWEST && (rest >= FEWEST || rest == 0) {
            bins.push(begin..end);
            begin = end;
        }
    }
    if begin < values.len() {
        bins.push(begin..values.len());
    }
    bins
}

/// The place nearest to `wanted` before which and at which values differ.
fn border(values: &[u32], wanted: usize) -> usize {
    let Some(value) = values.get(wanted) else { return values.len() };
    let below = values.partition_point(|other| other < value);
    let above = values.partition_point(|other| other <= value);
    if wanted.saturating_sub(below) <= above.saturating_sub(wanted) { below } else { above }
}

fn mean(values: &[u32]) -> f64 {
    values.iter().copied().map(f64::from).sum::<f64>() / real(values.len().max(1))
}

/// The range of sorted lengths: one that is alone as it is, else ends of three digits.
fn range(sorted: &[u32]) -> Option<Range> {
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    if min == max {
        return Some(Range { min, max });
    }
    let step = |length: u32| 10_u32.pow(length.checked_ilog10().unwrap_or(0).saturating_sub(2));
    let min = min.div_euclid(step(min)).saturating_mul(step(min));
    let max = max.div_ceil(step(max)).saturating_mul(step(max)).min(LONGEST);
    Some(Range { min, max })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_hold_their_shares_and_never_cut_through_equal_values() {
        let values: Vec<u32> = (1..=20).collect();
        assert_eq!(bins(&values, 2), [0..10, 10..20]);
        // A value that half of them have is a bin of its own.
        let values: Vec<u32> = (1..=10).chain([50; 20]).chain(51..=60).collect();
        assert_eq!(bins(&values, 4), [0..10, 10..30, 30..40]);
        assert_eq!(bins(&[7; 9], 4).as_slice(), std::slice::from_ref(&(0..9)));
        assert_eq!(bins(&[1, 2, 3], 3).as_slice(), std::slice::from_ref(&(0..3)), "too few to be cut");
    }

    #[test]
    fn ranges_have_three_digits_and_hold_what_they_came_from() {
        let found = |min, max| range(&[min, max]).map(|Range { min, max }| [min, max]);
        assert_eq!(found(7, 999), Some([7, 999]));
        assert_eq!(found(1_234, 5_671), Some([1_230, 5_680]));
        assert_eq!(found(123_456, 999_999), Some([123_000, 1_000_000]));
        assert_eq!(found(12_345, 12_345), Some([12_345, 12_345]));
    }

    #[test]
    fn a_small_table_by_hand() {
        // Ten short prompts with long answers, and twenty long prompts with the answer 7, half of which are 2000 tokens long.
        let short = (0..10).map(|n| (10 + n, 100 + n));
        let long = (0..10).map(|n| (3_000 + n, 7)).chain([(2_000, 7); 10]);
        let pairs: Vec<(u32, u32)> = short.chain(long).collect();
        let row = |prompt: [u32; 2], output: [u32; 2], weight| {
            let [prompt, output] = [prompt, output].map(|[min, max]| Range { min, max });
            LengthRow { prompt, output, weight }
        };
        let table =
            [row([10, 19], [100, 109], 10.0), row([2_000, 2_000], [7, 7], 10.0), row([3_000, 3_010], [7, 7], 10.0)];
        assert_eq!(of(&pairs, 12), table);
        // Where nothing is lost, more rows are none.
        assert_eq!(of(&pairs, 96), table);
        assert_eq!(rows_of_a_cell(3), 64);
    }

    proptest! {
        #[test]
        fn a_table_holds_every_pair_and_no_row_is_one_of_few(
            pairs in prop::collection::vec((1_u32..5_000, 1_u32..900), FEWEST..400), most in 1_usize..120,
        ) {
            let table = of(&pairs, most);
            prop_assert!(table.len() <= most, "{} of {most}", table.len());
            prop_assert!((table.iter().map(|row| row.weight).sum::<f64>() - real(pairs.len())).abs() < 1e-9);
            for (prompt, output) in pairs {
                let holds = |range: Range, tokens| (range.min..=range.max).contains(&tokens);
                prop_assert!(table.iter().any(|row| holds(row.prompt, prompt) && holds(row.output, output)));
            }
            prop_assert!(table.iter().all(|row| row.weight >= 5.0));
        }
    }
}

//! The search for the largest load at which something still holds, with few and noisy trials.
//!
//! It begins where it is told, doubles the load until a trial misses or halves it until one holds, and then asks where the
//! answer tells most ([`Threshold`]). A trial that misses by chance is one answer among others and ends nothing.

use crate::stats::threshold::Threshold;

/// The chance that the capacity lies on the wrong side of one end of the interval.
const TAIL: f64 = 0.05;
/// An interval whose ends are at most this ratio apart is narrow enough.
const NARROW: f64 = 1.1;
/// The step of the search for a first load that holds and a first that misses.
const FACTOR: f64 = 2.0;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest load that may be tried; positive.
    pub from: f64,
    /// The largest.
    pub to: f64,
    /// The first one.
    pub start: f64,
    /// Whether loads are whole numbers.
    pub whole: bool,
    /// Trials at most.
    pub trials: u32,
}

/// So far beyond the largest load that held and the smallest that was missed a trial may go.
const MARGIN: f64 = 1.25;

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    range: Range,
    known: Threshold,
    tried: u32,
    /// The largest load that a trial answered.
    reached: Option<f64>,
    /// The smallest load that could not be offered.
    ceiling: Option<f64>,
    /// The largest that held and the smallest that was missed.
    held: Option<f64>,
    missed: Option<f64>,
}

/// What is known of the capacity: with the chance of 5 % each it is smaller than `lower`, or larger than `upper`.
///
/// The interval holds under the model of [`Threshold`]: answers turn from one to the other along a logistic curve over the
/// logarithm of the load, and trials err independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// None where it may be below the range.
    pub lower: Option<f64>,
    /// The median; none without both ends.
    pub estimate: Option<f64>,
    /// None where it may be above the range, or above what can be offered.
    pub upper: Option<f64>,
}

impl Search {
    /// Nothing was tried yet. `start` is brought into the range.
    pub fn new(range: Range) -> Self {
        let range = Range { start: range.start.clamp(range.from, range.to), ..range };
        let known = Threshold::between(range.from, range.to);
        Self { range, known, tried: 0, reached: None, ceiling: None, held: None, missed: None }
    }

    /// The load to try next; none when enough is known, or the trials are used up.
    pub fn next(&self) -> Option<f64> {
        let top = self.top()?;
        if self.tried >= self.range.trials || self.is_decided(top) {
            return None;
        }
        let load = match (self.held, self.missed) {
            (None, None) => self.range.start.min(top),
            (Some(held), None) if held < top => (held * FACTOR).min(top),
            (None, Some(missed)) if missed > self.range.from => (missed / FACTOR).max(self.range.from),
            _ => {
                let [low, high] = self.around();
                self.known.most_telling(low.clamp(self.range.from, top), high.clamp(self.range.from, top))
            }
        };
        let load = if self.range.whole { load.round() } else { three_digits(load) };
        Some(load.clamp(self.range.from, top))
    }

    /// Takes an answer: at this load it held, or not.
    pub fn learn(&mut self, load: f64, held: bool) {
        self.tried = self.tried.saturating_add(1);
        self.known.learn(load, held);
        self.reached = Some(self.reached.map_or(load, |reached| reached.max(load)));
        if held {
            self.held = Some(self.held.map_or(load, |held| held.max(load)));
        } else {
            self.missed = Some(self.missed.map_or(load, |missed| missed.min(load)));
        }
    }

    /// Takes that this load could not be offered: nothing is known of it, and nothing as large is tried again.
    pub fn cannot_offer(&mut self, load: f64) {
        self.tried = self.tried.saturating_add(1);
        self.ceiling = Some(self.ceiling.map_or(load, |ceiling| ceiling.min(load)));
    }

    /// Takes a trial that says nothing of any load.
    pub fn wasted(&mut self) {
        self.tried = self.tried.saturating_add(1);
    }

    /// Takes that no load below this one is worth a trial.
    pub fn nothing_below(&mut self, load: f64) {
        self.range.from = self.range.from.max(load).min(self.range.to);
    }

    /// Whether what can be offered, and not the range, is what bounds the search above.
    pub fn is_capped(&self) -> bool {
        self.ceiling.is_some()
    }

    /// What is known now; nothing before the first answer.
    pub fn capacity(&self) -> Capacity {
        let nothing = Capacity { lower: None, estimate: None, upper: None };
        let Some(reached) = self.reached else { return nothing };
        // Beyond what was reached nothing was seen.
        let top = if self.is_capped() { reached } else { self.range.to };
        let [low, middle, high] = [TAIL, 0.5, 1.0 - TAIL].map(|chance| self.known.quantile(chance));
        let least = |load: f64| if self.range.whole { load.floor() } else { load };
        let most = |load: f64| if self.range.whole { load.ceil() } else { load };
        let lower = (low >= self.range.from).then(|| least(low.min(top)));
        let upper = (high <= top).then(|| most(high.max(self.range.from)));
        Capacity { lower, estimate: lower.and(upper).map(|_| least(middle)), upper }
    }

    /// The loads around the border as far as it was seen: more load than that is a burden to the target and tells little.
    fn around(&self) -> [f64; 2] {
        let seen = [self.held, self.missed].map(|load| load.unwrap_or(self.range.start));
        [seen[0].min(seen[1]) / MARGIN, seen[0].max(seen[1]) * MARGIN]
    }

    /// The largest load that may be tried; none when even the smallest cannot be offered.
    fn top(&self) -> Option<f64> {
        let Some(ceiling) = self.ceiling else { return Some(self.range.to) };
        let below = match self.reached {
            Some(reached) if ceiling / reached <= NARROW || (self.range.whole && ceiling - reached <= 1.0) => reached,
            Some(reached) => (reached * ceiling).sqrt(),
            None => ceiling / FACTOR,
        };
        let below = if self.range.whole { below.floor() } else { below };
        (below >= self.range.from).then_some(below.min(self.range.to))
    }

    /// Whether more trials would tell little: the interval is narrow, or the capacity lies outside what may be tried.
    fn is_decided(&self, top: f64) -> bool {
        let [low, high] = [TAIL, 1.0 - TAIL].map(|chance| self.known.quantile(chance));
        let narrow = high / low <= NARROW || (self.range.whole && high.ceil() - low.floor() <= 1.0);
        let above = self.reached.is_some_and(|reached| reached >= top) && self.known.above(top) >= 1.0 - TAIL;
        narrow || above || self.known.above(self.range.from) <= TAIL
    }
}

/// The nearest number of three digits: a load that people can write down, far finer than any answer.
pub fn three_digits(load: f64) -> f64 {
    let unit = 10_f64.powf(load.log10().floor() - 2.0);
    // Dividing by a power of ten gives the nearest double of the decimal number, multiplying by its inverse does not.
    if unit < 1.0 { (load / unit).round() / unit.recip().round() } else { (load / unit).round() * unit }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::rng::Stream;

    const RANGE: Range = Range { from: 1.0, to: 1_000.0, start: 8.0, whole: false, trials: 16 };

    /// Searches with these answers, and gives the end with the loads that were tried.
    fn search(range: Range, mut held: impl FnMut(f64) -> Option<bool>) -> (Capacity, Vec<f64>) {
        let (mut search, mut tried) = (Search::new(range), Vec::new());
        while let Some(load) = search.next() {
            tried.push(load);
            match held(load) {
                Some(held) => search.learn(load, held),
                None => search.cannot_offer(load),
            }
        }
        (search.capacity(), tried)
    }

    #[test]
    fn a_sharp_border_is_found_between_its_neighbours() {
        let (found, tried) = search(RANGE, |load| Some(load <= 77.0));
        let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
        assert!(lower <= 77.0 && upper >= 77.0 && upper / lower <= 1.2, "{found:?}");
        assert_eq!(&tried[..5], [8.0, 16.0, 32.0, 64.0, 128.0]);
        assert!(tried.len() <= 16, "{tried:?}");
        let (found, tried) = search(Range { start: 500.0, ..RANGE }, |load| Some(load <= 77.0));
        assert!(found.lower.unwrap() <= 77.0 && found.upper.unwrap() >= 77.0, "{found:?}");
        assert_eq!(&tried[..4], [500.0, 250.0, 125.0, 62.5]);
    }

    #[test]
    fn whole_loads_end_at_neighbours() {
        let range = Range { from: 1.0, to: 4_096.0, start: 4.0, whole: true, trials: 16 };
        for border in [1.0, 2.0, 3.0, 7.0, 40.0] {
            let (found, tried) = search(range, |load| Some(load <= border));
            assert!(tried.iter().all(|load| load.fract() < 1e-12));
            assert!(found.lower.unwrap_or(0.0) <= border && found.upper.unwrap() > border, "{border}: {found:?}");
            assert!(border > 9.0 || found.upper.unwrap() - found.lower.unwrap_or(0.0) <= 2.0, "{border}: {found:?}");
        }
    }

    #[test]
    fn a_border_outside_the_range_is_a_bound_and_no_value() {
        let (above, tried) = search(RANGE, |_| Some(true));
        assert_eq!((above.lower, above.estimate, above.upper), (Some(1_000.0), None, None));
        assert!(tried.len() < 16 && tried.ends_with(&[1_000.0, 1_000.0]), "said more than once: {tried:?}");
        let (below, tried) = search(RANGE, |_| Some(false));
        assert!(below.lower.is_none() && below.estimate.is_none(), "{below:?}");
        assert!(below.upper == Some(1.0) && tried.ends_with(&[1.0, 1.0]), "{below:?} {tried:?}");
    }

    #[test]
    fn what_cannot_be_offered_is_no_answer() {
        let (found, tried) = search(RANGE, |load| (load < 100.0).then_some(true));
        assert!(found.upper.is_none() && found.estimate.is_none(), "{found:?}");
        assert!((60.0..100.0).contains(&found.lower.unwrap()), "{found:?} {tried:?}");
        let (found, tried) = search(RANGE, |load| (load < 100.0).then_some(load <= 77.0));
        assert!(found.lower.unwrap() <= 77.0 && found.upper.unwrap() >= 77.0, "{found:?} {tried:?}");
        let (nothing, tried) = search(RANGE, |_| None);
        assert_eq!((nothing.lower, nothing.upper, tried), (None, None, vec![8.0, 4.0, 2.0, 1.0]));
    }

    #[test]
    fn loads_have_three_digits() {
        let shown: Vec<String> =
            [0.012_345, 1.2345, 12.345, 999.9, 3_456.0].map(|load| three_digits(load).to_string()).into();
        assert_eq!(shown, ["0.0123", "1.23", "12.3", "1000", "3460"]);
    }

    #[test]
    fn trials_are_at_most_as_many_as_allowed() {
        let mut noise = Stream::named(1, "coin");
        let (_, tried) = search(Range { trials: 7, ..RANGE }, |_| Some(noise.uniform() < 0.5));
        assert!(tried.len() <= 7);
        let mut search = Search::new(Range { trials: 1, ..RANGE });
        search.wasted();
        assert_eq!(search.next(), None);
        let mut search = Search::new(RANGE);
        search.learn(8.0, false);
        search.nothing_below(8.0);
        assert_eq!(search.next(), Some(8.0), "once more, and not less");
    }

    /// How often intervals hold the load at which the noise-free value meets the limit of 1, of 200.
    fn covered(name: &str, border: f64, value: impl Fn(f64, &mut Stream) -> f64) -> (usize, f64) {
        let (mut covered, mut ratios) = (0, Vec::new());
        for seed in 0..200 {
            let mut noise = Stream::named(seed, name);
            let (found, tried) = search(RANGE, |load| Some(value(load, &mut noise) <= 1.0));
            assert!(tried.len() <= 16);
            let holds =
                found.lower.is_none_or(|lower| lower <= border) && found.upper.is_none_or(|upper| upper >= border);
            covered += usize::from(holds);
            ratios.push(found.upper.unwrap_or(1_000.0) / found.lower.unwrap_or(1.0));
        }
        ratios.sort_unstable_by(f64::total_cmp);
        (covered, ratios[100])
    }

    #[test]
    fn intervals_hold_the_border_of_noisy_rising_curves() {
        // A power of the load, with noise of a few to many percent: the limit is met at 50.
        let power =
            |power: f64, sd: f64| move |load: f64, noise: &mut Stream| (load / 50.0).powf(power) * noise.log_normal(sd);
        // A queue that explodes at 60 (M/M/1: 1 / (1 - load / 60)), scaled to meet the limit at 50.
        let queue = |load: f64, noise: &mut Stream| {
            let wait = if load < 60.0 { 1.0 / (1.0 - load / 60.0) } else { f64::INFINITY };
            wait / 6.0 * noise.log_normal(0.3)
        };
        // The same power with one trial in fifty that goes wrong, either way.
        let mishaps = |load: f64, noise: &mut Stream| {
            if noise.uniform() < 0.04 {
                if noise.uniform() < 0.5 { 0.0 } else { 9.0 }
            } else {
                (load / 50.0).powi(2) * noise.log_normal(0.1)
            }
        };
        let at_least = |name: &str, least: usize, (covered, ratio): (usize, f64), widest: f64| {
            println!("{name}: {covered} of 200, ratio {ratio:.3}");
            assert!(covered >= least && ratio <= widest, "{name}: {covered} of 200, ratio {ratio:.3}");
        };
        at_least("sharp", 180, covered("sharp", 50.0, power(3.0, 0.01)), 1.2);
        at_least("usual", 180, covered("usual", 50.0, power(2.0, 0.1)), 1.3);
        at_least("queue", 180, covered("queue", 50.0, queue), 1.4);
        at_least("mishaps", 180, covered("mishaps", 50.0, mishaps), 1.4);
        at_least("noisy", 180, covered("noisy", 50.0, power(1.0, 0.2)), 2.0);
        // Twice the load moves the value no more than two trials of one load differ: sixteen answers are few for that.
        at_least("flat", 170, covered("flat", 50.0, power(0.5, 0.2)), 2.5);
    }

    proptest! {
        #[test]
        fn every_search_ends_in_its_range(seed in 0_u64..1_000, border in 0.1_f64..10_000.0, whole in any::<bool>(), start in 0.1_f64..2_000.0) {
            let mut noise = Stream::named(seed, "any");
            let range = Range { start, whole, ..RANGE };
            let (found, tried) = search(range, |load| Some(load * noise.log_normal(0.1) <= border));
            prop_assert!(!tried.is_empty() && tried.len() <= 16);
            prop_assert!(tried.iter().all(|load| (1.0..=1_000.0).contains(load)));
            if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
                let estimate = found.estimate.unwrap();
                prop_assert!(lower <= estimate && estimate <= upper);
            }
        }
    }
}

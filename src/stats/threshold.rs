//! Where on a scale an answer turns from yes to no, from few and noisy answers: the threshold of a psychometric function.
//!
//! The method is that of psychophysics. A level `x` is answered with yes with the chance
//! `m + (1 - 2 m) / (1 + (x / threshold)^(1 / spread))`: a logistic curve over `ln x`, with a share `m` of answers that have
//! nothing to do with the level. Threshold and spread are unknown; what is known of them is a grid of chances (Watson
//! and Pelli 1983, QUEST, Perception and Psychophysics 33). The next level is the one whose answer is expected to leave the
//! least entropy of both (Kontsevich and Tyler 1999, Vision Research 39).

use std::f64::consts::SQRT_2;

/// How gradually answers turn, as the scale of the logistic curve over `ln x`: from 5 % to 95 % it takes six times as much.
/// From a step to a load that is missed now and then at a fifth of the threshold.
const SPREADS: [f64; 7] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];

/// How likely each spread is before the first answer: the wider ones a little more, by this factor from one to the next.
/// It is chosen so that intervals keep their word for wide ones, too: few answers always look sharper than they are.
const WIDER: f64 = SQRT_2;

/// The share of answers that have nothing to do with the level: something else happened.
const MISHAP: f64 = 0.02;

/// Distance of the grid's points, as a difference of logarithms: 2 %.
const STEP: f64 = 0.02;

/// The threshold may lie so far beyond either end, as a difference of logarithms: more levels than that nobody asks for.
const BEYOND: f64 = 1.0;

/// Levels that are considered as the next one.
const CANDIDATES: u32 = 16;

/// What is known of a threshold.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// Logarithm of the first point.
    first: f64,
    /// For each point the chances of the spreads; all together 1.
    chances: Vec<[f64; SPREADS.len()]>,
}

impl Threshold {
    /// A threshold of which nothing is known but that it is about between these levels, both positive and in order: all
    /// ratios are as likely.
    pub fn between(low: f64, high: f64) -> Self {
        let span = (high / low).ln().max(0.0) + 2.0 * BEYOND;
        let mut before = [1.0; SPREADS.len()];
        (1_i32..).zip(before.iter_mut().skip(1)).for_each(|(number, chance)| *chance = WIDER.powi(number));
        let mut chances = Vec::new();
        let mut at = 0.0;
        // Beyond any sane range the grid ends, and with it the loop.
        while at <= span.min(1e3) {
            chances.push(before);
            at += STEP;
        }
        let mut known = Self { first: low.ln() - BEYOND, chances };
        known.normalise();
        known
    }

    /// Takes an answer at a level: yes, or no.
    pub fn learn(&mut self, level: f64, yes: bool) {
        let likelihood: Vec<[f64; SPREADS.len()]> = self.points().map(|point| yes_at(level.ln() - point)).collect();
        for (chances, of_yes) in self.chances.iter_mut().zip(likelihood) {
            for (chance, of_yes) in chances.iter_mut().zip(of_yes) {
                *chance *= if yes { of_yes } else { 1.0 - of_yes };
            }
        }
        self.normalise();
    }

    /// The level below which the threshold lies with this chance.
    pub fn quantile(&self, chance: f64) -> f64 {
        let mut below = 0.0;
        for (point, at_point) in self.points().zip(self.marginal()) {
            if below + at_point >= chance && at_point > 0.0 {
                // A point stands for the stretch around it.
                return (point + STEP * ((chance - below) / at_point - 0.5)).exp();
            }
            below += at_point;
        }
        self.points().last().unwrap_or(self.first).exp()
    }

    /// The chance that the threshold lies above a level.
    pub fn above(&self, level: f64) -> f64 {
        let inside = |point: f64| ((point - level.ln()) / STEP + 0.5).clamp(0.0, 1.0);
        self.points().zip(self.marginal()).map(|(point, chance)| chance * inside(point)).sum()
    }

    /// The level from `low` to `high` whose answer is expected to tell most about the threshold.
    pub fn most_telling(&self, low: f64, high: f64) -> f64 {
        let (from, to) = (self.quantile(0.01).clamp(low, high).ln(), self.quantile(0.99).clamp(low, high).ln());
        let at = |number: u32| from + (to - from) * f64::from(number) / f64::from(CANDIDATES);
        let entropies = (0..=CANDIDATES).map(|number| (at(number), self.entropy_after(at(number))));
        let best = entropies.min_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map_or(low, |(level, _)| level.exp()).clamp(low, high)
    }

    /// The expected entropy of threshold and spread after an answer at this logarithm of a level, up to a constant.
    fn entropy_after(&self, level: f64) -> f64 {
        // With a total of t, t times the entropy of the shares is t ln t - sum of c ln c.
        let x_ln_x = |x: f64| if x > 0.0 { x * x.ln() } else { 0.0 };
        let [mut all_yes, mut all_no, mut sum] = [0.0; 3];
        for (point, chances) in self.points().zip(&self.chances) {
            for (chance, of_yes) in chances.iter().zip(yes_at(level - point)) {
                let (yes, no) = (chance * of_yes, chance * (1.0 - of_yes));
                all_yes += yes;
                all_no += no;
                sum += x_ln_x(yes) + x_ln_x(no);
            }
        }
        x_ln_x(all_yes) + x_ln_x(all_no) - sum
    }

    fn points(&self) -> impl Iterator<Item = f64> + use<> {
        let first = self.first;
        // As many points as the grid has: a zip ends it.
        (0_u32..u32::try_from(self.chances.len()).unwrap_or(u32::MAX)).map(move |n| first + STEP * f64::from(n))
    }

    fn marginal(&self) -> impl Iterator<Item = f64> {
        self.chances.iter().map(|chances| chances.iter().sum())
    }

    fn normalise(&mut self) {
        let total: f64 = self.marginal().sum();
        self.chances.iter_mut().flatten().for_each(|chance| *chance /= total);
    }
}

/// The chance of a yes for each spread, so far above the threshold as a difference of logarithms.
fn yes_at(above: f64) -> [f64; SPREADS.len()] {
    SPREADS.map(|spread| MISHAP + (1.0 - 2.0 * MISHAP) / (1.0 + (above / spread).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_before_the_first_answer() {
        let known = Threshold::between(1.0, 100.0);
        assert!((known.quantile(0.5) - 10.0).abs() < 0.1, "{}", known.quantile(0.5));
        assert!((known.above(10.0) - 0.5).abs() < 0.01);
        let range = 100_f64.ln() + 2.0;
        assert!((known.above(100.0) - 1.0 / range).abs() < 0.01, "beyond the end by a factor of e");
        assert!((known.quantile(0.0).ln() + 1.0).abs() < 0.04);
    }

    #[test]
    fn answers_move_the_threshold_and_contradictions_widen_it() {
        let mut known = Threshold::between(1.0, 100.0);
        for _ in 0..3 {
            known.learn(10.0, true);
            known.learn(20.0, false);
        }
        let (low, high) = (known.quantile(0.05), known.quantile(0.95));
        assert!(low > 9.0 && high < 22.0, "{low} to {high}");
        assert!((known.above(known.quantile(0.3)) - 0.7).abs() < 1e-9, "quantiles and chances agree");
        let sure = known.clone();
        known.learn(10.0, false);
        assert!(known.quantile(0.95) / known.quantile(0.05) > high / low);
        assert!(known.quantile(0.05) < sure.quantile(0.05));
    }

    #[test]
    fn the_next_level_is_where_the_threshold_may_be() {
        let mut known = Threshold::between(1.0, 100.0);
        let first = known.most_telling(1.0, 100.0);
        assert!((5.0..20.0).contains(&first), "{first}");
        known.learn(10.0, true);
        known.learn(20.0, false);
        let next = known.most_telling(1.0, 100.0);
        assert!((11.0..18.0).contains(&next), "{next}");
        assert!((known.most_telling(1.0, 12.0) - 12.0).abs() < 1e-9, "no further than allowed");
    }
}

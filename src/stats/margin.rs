//! How much worse is too much, on the scale of the logarithms.

use crate::base::names::Direction;

/// A margin as a policy states it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// Which way is harm.
    pub direction: Direction,
    /// The relative margin `m`: 0.05 is 5 %.
    pub relative: f64,
    /// A difference that is too small to matter whatever the ratio, in the unit of the measured value (ms).
    /// Counts only where lower is better.
    pub floor: Option<f64>,
}

impl Margin {
    /// The margin `M` on the scale of `y`, for a baseline whose `y` is `base`.
    ///
    /// Lower is better: `ln(1 + max(m, floor / exp(base)))`. Higher is better: `-ln(1 - m)`, because 5 % less
    /// throughput is a ratio of 0.95 and not of 1 / 1.05. Two-sided: `ln(1 + m)` either way.
    pub fn log(&self, base: f64) -> f64 {
        match self.direction {
            Direction::LowerIsBetter => {
                self.floor.map_or(self.relative, |floor| self.relative.max(floor / base.exp())).ln_1p()
            }
            Direction::HigherIsBetter => -(-self.relative).ln_1p(),
            Direction::TwoSided => self.relative.ln_1p(),
        }
    }
}

/// The relative change that a distance on the scale of `y` means: the inverse of [`Margin::log`] without a floor.
/// Positive is harm; a share of what there was, 0.05 is 5 %.
pub fn relative(direction: Direction, log: f64) -> f64 {
    match direction {
        Direction::LowerIsBetter | Direction::TwoSided => log.exp_m1(),
        Direction::HigherIsBetter => -(-log).exp_m1(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_follow_the_direction_and_the_larger_floor_wins() {
        let margin = |direction, floor| Margin { direction, relative: 0.05, floor };
        let near = |margin: Margin, base: f64, expected: f64| {
            let found = margin.log(base);
            assert!((found - expected).abs() < 1e-12, "{margin:?}: {found} for {expected}");
        };
        let base = 20.0_f64.ln();
        near(margin(Direction::LowerIsBetter, None), base, 1.05_f64.ln());
        near(margin(Direction::LowerIsBetter, Some(0.5)), base, 1.05_f64.ln());
        near(margin(Direction::LowerIsBetter, Some(2.0)), base, 1.1_f64.ln());
        near(margin(Direction::HigherIsBetter, Some(2.0)), base, -(0.95_f64.ln()));
        near(margin(Direction::TwoSided, Some(2.0)), base, 1.05_f64.ln());
        for direction in [Direction::LowerIsBetter, Direction::HigherIsBetter, Direction::TwoSided] {
            assert!((relative(direction, margin(direction, None).log(base)) - 0.05).abs() < 1e-15);
        }
    }
}

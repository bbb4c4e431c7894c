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
    /// What was added to the measured value before its logarithm was taken, in its unit: 0 for values that are never near
    /// zero.
    pub start: f64,
}

impl Margin {
    /// The margin `M` on the scale of `y`, for a baseline whose `y` is `base`.
    ///
    /// Lower is better: `ln(1 + max(m, floor / exp(base)))`, where the share `m` is of the value without its start. Higher is better: `-ln(1 - m)`, because 5 % less
    /// throughput is a ratio of 0.95 and not of 1 / 1.05. Two-sided: `ln(1 + m)` either way.
    pub fn log(&self, base: f64) -> f64 {
        match self.direction {
            Direction::LowerIsBetter => {
                let relative = self.relative * (1.0 - self.start / base.exp());
                self.floor.map_or(relative, |floor| relative.max(floor / base.exp())).ln_1p()
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
        let margin = |direction, floor| Margin { direction, relative: 0.05, floor, start: 0.0 };
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
        // 5 % of 20 with a start of 1 is 1 of 21; of nothing with a floor of 1 it is the floor.
        let started = Margin { start: 1.0, ..margin(Direction::LowerIsBetter, Some(0.5)) };
        near(started, 21.0_f64.ln(), (22.0_f64 / 21.0).ln());
        near(started, 0.0, 1.5_f64.ln());
        for direction in [Direction::LowerIsBetter, Direction::HigherIsBetter, Direction::TwoSided] {
            assert!((relative(direction, margin(direction, None).log(base)) - 0.05).abs() < 1e-15);
        }
    }
}

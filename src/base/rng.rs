//! Seeded random streams. Every random number of servegate comes from a named stream, so a draw
//! added in one place never shifts the draws of another.
//!
//! The distributions are written here and not taken from a crate, because stored plans must stay
//! valid: a library may change the values it draws in a minor version. Logarithms and their kin are `libm`'s, which gives
//! the same bits on every machine; those of the standard library are the system's.

use std::f64::consts::TAU;

use rand_core::Rng as _;
use rand_pcg::Pcg64;

use crate::base::digest::Hasher;

/// An endless sequence of random numbers, fixed by a seed and a name.
pub struct Stream(Pcg64);

impl Stream {
    /// The stream called `name` under `seed`. Names are paths such as `arrivals/c8`.
    pub fn named(seed: u64, name: &str) -> Self {
        let mut hasher = Hasher::default();
        hasher.field(&seed.to_le_bytes());
        hasher.field(name.as_bytes());
        let text = String::from(hasher.finish());
        // Two disjoint halves of the digest: the state and the sequence of the generator.
        let half = |range: std::ops::Range<usize>| {
            text.get(range).and_then(|digits| u128::from_str_radix(digits, 16).ok()).unwrap_or_default()
        };
        Self(Pcg64::new(half(7..39), half(39..71)))
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`, on a grid of 2^-53.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in `0..n`; zero for `n = 0`. Lemire's multiply-shift; its bias is below 2^-32 for 32-bit ranges.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// Exponential with mean 1, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -libm::log1p(-self.uniform())
    }

    /// Standard normal, by the Box-Muller transform (one of its two values is used).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * libm::cos(TAU * self.uniform())
    }

    /// Log-normal with median 1 and standard deviation `sigma` of the logarithm.
    pub fn log_normal(&mut self, sigma: f64) -> f64 {
        libm::exp(sigma * self.normal())
    }

    /// Gamma with this shape (above 0) and scale 1. Marsaglia and Tsang, A simple method for generating gamma
    /// variables, ACM TOMS 26 (2000): rejection from a transformed normal, boosted where the shape is below 1.
    ///
    /// A rejection that falls out differently would shift all draws behind it.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::pow(self.above_zero(), 1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let radius = (-2.0 * libm::log(self.above_zero())).sqrt();
            let normal = radius * libm::cos(TAU * self.uniform());
            let root = 1.0 + c * normal;
            let cube = root * root * root;
            if root > 0.0 && libm::log(self.above_zero()) < 0.5 * normal * normal + d - d * cube + d * libm::log(cube) {
                return d * cube;
            }
        }
    }

    /// Uniform in `(0, 1]`.
    fn above_zero(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// A uniformly random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
            let other = usize::try_from(self.below(bound)).unwrap_or(last);
            items.swap(last, other);
        }
    }

    /// A uniformly random element; none of an empty slice.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len().try_into().ok()?)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..200_000 {
            let x = draw();
            sum += x;
            squares += x * x;
        }
        let mean = sum / 200_000.0;
        (mean, squares / 200_000.0 - mean * mean)
    }

    #[test]
    fn the_same_name_gives_the_same_draws_and_another_name_others() {
        // Pinned: a change of these numbers would change every stored plan.
        let mut stream = Stream::named(1, "arrivals/c8");
        let draws = [stream.bits(), stream.bits()];
        assert_eq!(draws, [1_367_436_800_360_439_356, 15_227_345_185_819_953_877]);
        let mut again = Stream::named(1, "arrivals/c8");
        assert_eq!([again.bits(), again.bits()], draws);
        assert_ne!(Stream::named(1, "arrivals/c9").bits(), draws[0]);
        assert_ne!(Stream::named(2, "arrivals/c8").bits(), draws[0]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut stream = Stream::named(7, "moments");
        for (draw, mean, variance) in [
            (Stream::uniform as fn(&mut Stream) -> f64, 0.5, 1.0 / 12.0),
            (Stream::exponential, 1.0, 1.0),
            (Stream::normal, 0.0, 1.0),
        ] {
            let (m, v) = moments(|| draw(&mut stream));
            assert!((m - mean).abs() < 0.01 && (v - variance).abs() < 0.02, "{m} {v}");
        }
    }

    #[test]
    fn gamma_has_its_moments_and_the_same_bits_everywhere() {
        for shape in [0.1, 0.5, 1.0, 2.5, 40.0] {
            let mut stream = Stream::named(8, "gamma");
            let (m, v) = moments(|| stream.gamma(shape));
            // Five standard errors: of the mean, and of the variance (fourth moment: 3 k^2 + 6 k).
            let n = 200_000.0_f64;
            assert!((m - shape).abs() < 5.0 * (shape / n).sqrt(), "{shape}: {m}");
            assert!((v - shape).abs() < 5.0 * ((2.0 * shape * shape + 6.0 * shape) / n).sqrt(), "{shape}: {v}");
        }
        let mut stream = Stream::named(1, "gamma");
        let bits = [stream.gamma(0.5), stream.gamma(4.0)].map(f64::to_bits);
        assert_eq!(bits, [4_590_755_607_320_608_425, 4_607_338_443_469_667_355]);
    }

    #[test]
    fn ranges_hold_their_ends() {
        let mut stream = Stream::named(3, "ranges");
        let mut seen = [0; 3];
        for _ in 0..300 {
            seen[usize::try_from(stream.between(5, 7) - 5).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| *n > 60), "{seen:?}");
        assert_eq!(stream.below(0), 0);
        let mut order: Vec<u32> = (0..20).collect();
        stream.shuffle(&mut order);
        assert_ne!(order, (0..20).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}

//! A probability that a test reports.

/// A number in `[0, 1]`, never NaN.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PValue(f64);

impl PValue {
    /// Certain under the hypothesis: no evidence against it.
    pub const ONE: Self = Self(1.0);
    /// Impossible under the hypothesis.
    pub const ZERO: Self = Self(0.0);

    /// The p-value `p`; `None` outside `[0, 1]` and for NaN.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Self(p))
    }

    /// The p-value nearest to a computed number; one that could not be computed is no evidence, so NaN becomes 1.
    pub(super) fn nearest(p: f64) -> Self {
        Self(if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) })
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probabilities_are_p_values() {
        assert_eq!(PValue::new(1.0), Some(PValue::ONE));
        assert_eq!([f64::NAN, -0.1, 1.1, f64::INFINITY].map(PValue::new), [None; 4]);
        assert_eq!([f64::NAN, -0.1, 1.1].map(PValue::nearest), [PValue::ONE, PValue::ZERO, PValue::ONE]);
    }
}

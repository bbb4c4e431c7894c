//! The rate and the burstiness of a window.

use crate::base::units::Nanos;
use crate::fit::{Unfit, real};
use crate::stats::dispersion::coefficient_of_variation;
use crate::trace::request::Request;

/// How requests of an open loop arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Requests per second.
    pub rate: f64,
    /// The shape of gamma gaps: one over the square of their coefficient of variation. None where chance alone would explain
    /// the distance from 1, which is Poisson.
    pub burstiness: Option<f64>,
}

/// The bounds of `rate` in a workload.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=10_000.0;
/// The bounds of `burstiness`.
const BURSTINESS: [f64; 2] = [0.05, 100.0];
/// So near to 1 nobody sees a difference.
const NEAR: f64 = 0.05;

impl Arrivals {
    /// Of the requests of a window of this length.
    pub(super) fn of(rows: &[Request], length: Nanos) -> Result<Self, Unfit> {
        let rate = real(rows.len()) / length.as_secs();
        if !RATES.contains(&rate) {
            return Err(Unfit::Rate { rate: format!("{rate:.6}") });
        }
        let next = rows.iter().skip(1);
        let gaps: Vec<f64> = rows.iter().zip(next).map(|(one, next)| next.at.since(one.at).as_secs()).collect();
        let cv = coefficient_of_variation(&gaps).unwrap_or(1.0);
        let shape = (1.0 / (cv * cv)).clamp(BURSTINESS[0], BURSTINESS[1]);
        // Of exponential gaps the coefficient of variation has the standard error 1 / sqrt(n), and the shape twice that.
        let noise = 2.0 * 2.0 / real(gaps.len().max(1)).sqrt();
        Ok(Self { rate, burstiness: ((shape - 1.0).abs() > noise.max(NEAR)).then_some(shape) })
    }
}

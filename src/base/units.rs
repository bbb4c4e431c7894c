//! Newtypes for time, so that a number cannot lose its unit.

use std::fmt;
use std::ops::Add;

/// Nanoseconds: an instant on a run's monotonic origin, or the distance between two such instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nothing elapsed; the origin itself.
    pub const ZERO: Self = Self(0);
    /// Later than every instant that can be measured.
    pub const MAX: Self = Self(u64::MAX);

    /// Whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Milliseconds to the nearest nanosecond; negative and non-finite values become zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and NaN becomes 0")]
    pub fn from_ms(ms: f64) -> Self {
        Self((ms * 1e6).round() as u64)
    }

    /// Seconds to the nearest nanosecond; negative and non-finite values become zero.
    pub fn from_seconds(seconds: f64) -> Self {
        Self::from_ms(seconds * 1e3)
    }

    /// Milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, which is 104 days")]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    pub fn as_secs(self) -> f64 {
        self.as_ms() / 1e3
    }

    /// The distance from `earlier` to `self`, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The nearest whole microsecond: the resolution in which times are stored, so that a run that
    /// was read back equals the run that was measured.
    #[must_use]
    pub const fn to_stored_resolution(self) -> Self {
        Self(self.0.saturating_add(500) - self.0.saturating_add(500) % 1_000)
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// At most four or five digits, no zeros behind the last one that counts: `250 us`, `12.5 ms`, `3 s`, `600 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.as_ms();
        // The borders are where a number rounds to 1000 of its unit.
        let (value, decimals, unit) = if ms < 0.999_5 {
            (ms * 1e3, 0, "us")
        } else if ms < 999.995 {
            (ms, 2, "ms")
        } else {
            (ms / 1e3, if ms < 99_995.0 { 2 } else { 1 }, "s")
        };
        let text = format!("{value:.decimals$}");
        let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        write!(f, "{text} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_to_the_nearest_and_never_wrap() {
        assert_eq!(Nanos::from_ms(1.000_000_6), Nanos(1_000_001));
        assert_eq!(Nanos::from_ms(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_ms(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos(5).since(Nanos(7)), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(1_499).to_stored_resolution(), Nanos(1_000));
        assert_eq!(Nanos(1_500).to_stored_resolution(), Nanos(2_000));
    }

    #[test]
    fn durations_read_like_a_person_would_write_them() {
        for (nanos, text) in [
            (Nanos::ZERO, "0 us"),
            (Nanos(1_400), "1 us"),
            (Nanos::from_micros(100), "100 us"),
            (Nanos(999_600), "1 ms"),
            (Nanos::from_micros(12_500), "12.5 ms"),
            (Nanos::from_millis(300), "300 ms"),
            (Nanos(999_996_000), "1 s"),
            (Nanos::from_millis(1_500), "1.5 s"),
            (Nanos::from_secs(3), "3 s"),
            (Nanos::from_secs(600), "600 s"),
            (Nanos::from_millis(100_250), "100.2 s"),
        ] {
            assert_eq!(nanos.to_string(), text);
        }
    }
}

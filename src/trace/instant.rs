//! Instants in traces: seconds, milliseconds, nanoseconds, and dates with or without a zone.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::base::units::Nanos;

/// The latest instant, in seconds: what nanoseconds in 64 bits hold.
const LATEST: f64 = 1.8e10;
/// Characters of a date and a separator: a sign behind them belongs to a zone.
const DATE: usize = 11;

/// Seconds since any origin; none when negative or too late.
pub(super) fn seconds(seconds: f64) -> Option<Nanos> {
    (0.0..=LATEST).contains(&seconds).then(|| Nanos::from_seconds(seconds))
}

/// Milliseconds since any origin; none when negative or too late.
pub(super) fn millis(ms: f64) -> Option<Nanos> {
    (0.0..=LATEST * 1e3).contains(&ms).then(|| Nanos::from_ms(ms))
}

/// A date and a time of day with up to nine digits of a second, `T` or a space between them, and a zone or none:
/// without one it counts as UTC, which makes no difference for the distance between two rows.
pub(super) fn date(text: &str) -> Option<Nanos> {
    let zoned = text.get(DATE..).is_some_and(|time| time.contains(['Z', 'z', '+', '-']));
    let stamp = if zoned {
        text.parse::<Timestamp>().ok()?
    } else {
        TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?
    };
    u64::try_from(stamp.as_nanosecond()).ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_trace_are_read_to_the_nanosecond() {
        let second = 1_700_158_546_u64;
        for (text, nanos) in [
            ("2023-11-16 18:15:46.6805900", 680_590_000),
            ("2023-11-16 18:15:46", 0),
            ("2023-11-16T18:15:46.680590", 680_590_000),
            ("2023-11-16 18:15:46.680590+00:00", 680_590_000),
            ("2023-11-16T19:15:46.680590+01:00", 680_590_000),
            ("2023-11-16T18:15:46.680590001Z", 680_590_001),
        ] {
            assert_eq!(date(text), Some(Nanos(second * 1_000_000_000 + nanos)), "{text}");
        }
        let accents = "\u{e9}".repeat(6);
        for text in ["", "now", "1969-12-31 23:59:59", "2023-02-30 00:00:00", "18:15:46", &accents] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_become_the_nearest_nanosecond() {
        assert_eq!(seconds(5.892_654_999_999_999_5), Some(Nanos(5_892_655_000)));
        assert_eq!(millis(3_000.0), Some(Nanos::from_secs(3)));
        assert_eq!([seconds(-1e-9), seconds(f64::NAN), seconds(2e10), millis(-1.0)], [None; 4]);
    }
}

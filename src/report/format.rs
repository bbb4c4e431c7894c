//! How numbers are written in every report: one rule for each kind of number.

use crate::base::names::Metric;

/// What stands where a number is missing or undefined.
pub const MISSING: &str = "n/a";

/// A number with three significant digits; the digits before the point are never cut.
pub fn number(x: f64) -> String {
    let size = x.abs();
    if x.is_nan() {
        MISSING.to_owned()
    } else if x.is_infinite() {
        x.to_string()
    } else if size < f64::MIN_POSITIVE {
        "0".to_owned()
    } else if !(1e-4..1e7).contains(&size) {
        format!("{x:.2e}")
    } else {
        // 99.95 is the first number that rounds to three digits without a decimal.
        let (mut decimals, mut limit) = (0_usize, 99.95);
        while size < limit && decimals < 6 {
            limit /= 10.0;
            decimals += 1;
        }
        format!("{x:.decimals$}")
    }
}

/// A value of the metric with its unit: `12.3 ms`, `1840 tokens/s`, and `1.2 %` for a share.
pub fn value(metric: Metric, x: f64) -> String {
    if x.is_nan() {
        MISSING.to_owned()
    } else if metric.unit() == "share" {
        format!("{} %", unsigned(metric, x))
    } else {
        format!("{} {}", number(x), metric.unit())
    }
}

/// A change of the metric: `+14.5 %`; for shares a difference in points, `+1.2 pp`.
pub fn change(metric: Metric, x: f64) -> String {
    if x.is_nan() { MISSING.to_owned() } else { format!("{} {}", signed(metric, x), metric.change_unit()) }
}

/// The 90 % interval of a change, in the unit of [`change`]: `[+12.1, +16.9]`.
pub fn interval(metric: Metric, low: f64, high: f64) -> String {
    format!("[{}, {}]", signed(metric, low), signed(metric, high))
}

/// A size of harm, such as a margin: `5.0 %` or `1.0 pp`.
pub fn harm(metric: Metric, x: Option<f64>) -> String {
    match x {
        Some(x) if !x.is_nan() => format!("{} {}", unsigned(metric, x), metric.change_unit()),
        _ => MISSING.to_owned(),
    }
}

/// A p-value: three decimals, `<0.001` below that.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        Some(p) if p.is_nan() => MISSING.to_owned(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
        None => MISSING.to_owned(),
    }
}

/// One decimal, or two where it is no share, and always a sign, but no sign for what rounds to zero.
fn signed(metric: Metric, change: f64) -> String {
    let (shown, places) = metric.change_shown(change);
    if shown.is_nan() {
        return MISSING.to_owned();
    }
    if shown.is_finite() && shown.abs() >= 1e6 {
        return format!("{shown:+.1e}");
    }
    let text = format!("{shown:+.places$}");
    let size = text.trim_start_matches(['+', '-']);
    if size.bytes().all(|b| matches!(b, b'0' | b'.')) { size.to_owned() } else { text }
}

fn unsigned(metric: Metric, change: f64) -> String {
    signed(metric, change).trim_start_matches('+').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.123_45, "0.123"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (-1_840.4, "-1840"),
            (123_456.7, "123457"),
            (1e9, "1.00e9"),
            (2e-7, "2.00e-7"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(number(x), text, "{x}");
        }
        assert_eq!(value(Metric::Tpot, 14.08), "14.1 ms");
        assert_eq!(value(Metric::ErrorRate, 0.0123), "1.2 %");
        assert_eq!(value(Metric::Ttft, f64::NAN), "n/a");
    }

    #[test]
    fn changes_have_one_decimal_and_a_sign_and_shares_are_points() {
        assert_eq!(change(Metric::Tpot, 0.145), "+14.5 %");
        assert_eq!(change(Metric::Tpot, -0.000_1), "0.0 %");
        assert_eq!(change(Metric::ErrorRate, 0.012), "+1.2 pp");
        assert_eq!(change(Metric::Tpot, f64::INFINITY), "+inf %");
        assert_eq!(change(Metric::Tpot, 1e300), "+1.0e302 %");
        assert_eq!(interval(Metric::Tpot, 0.121, f64::NAN), "[+12.1, n/a]");
        assert_eq!(change(Metric::TtftSlope, 1.254), "+1.25 ms/1k tokens");
        assert_eq!(change(Metric::TtftSlope, -0.001), "0.00 ms/1k tokens");
        assert_eq!(harm(Metric::TtftSlope, Some(2.0)), "2.00 ms/1k tokens");
        assert_eq!(harm(Metric::Tpot, Some(0.05)), "5.0 %");
        assert_eq!(harm(Metric::ErrorRate, None), "n/a");
    }

    #[test]
    fn small_p_values_are_bounded_not_zero() {
        assert_eq!(p_value(Some(0.0)), "<0.001");
        assert_eq!(p_value(Some(0.034_4)), "0.034");
        assert_eq!(p_value(Some(f64::NAN)), "n/a");
        assert_eq!(p_value(None), "n/a");
    }
}

//! Student's t distribution, with the inputs on which statrs panics kept away from it.

use statrs::distribution::{Continuous as _, ContinuousCDF as _, StudentsT};

/// Above this many degrees of freedom t is normal to six digits.
const MOST_DF: f64 = 1e6;

/// `P(T <= t)`; `df` is clamped to `[1, 1e6]`; NaN for NaN.
pub fn cdf(t: f64, df: f64) -> f64 {
    // By symmetry the small tail is computed, not the difference of a large one from 1.
    sf(-t, df)
}

/// `P(T > t)`, exact far into the tail; `df` is clamped to `[1, 1e6]`; NaN for NaN.
pub fn sf(t: f64, df: f64) -> f64 {
    distribution(df).filter(|_| !t.is_nan()).map_or(f64::NAN, |student| student.sf(t))
}

/// The `t` that is exceeded with probability `tail`; `df` is clamped to `[1, 1e6]`.
///
/// `+inf` for a tail of 0 and below, `-inf` for 1 and above, NaN for NaN.
pub fn upper_quantile(tail: f64, df: f64) -> f64 {
    if tail <= 0.0 {
        f64::INFINITY
    } else if tail >= 1.0 {
        f64::NEG_INFINITY
    } else if tail > 0.5 {
        -upper_quantile(1.0 - tail, df)
    } else {
        distribution(df).filter(|_| !tail.is_nan()).map_or(f64::NAN, |student| solve(&student, tail))
    }
}

/// The `t >= 0` with `sf(t) = tail`: Newton's method inside a bracket. The inverse of statrs 0.19 is not used: it
/// panics or does not return for small tails and for many degrees of freedom.
fn solve(student: &StudentsT, tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student.sf(high) > tail {
        (low, high) = (high, 2.0 * high);
    }
    let mut t = f64::midpoint(low, high);
    for _ in 0..100 {
        let excess = student.sf(t) - tail;
        if excess > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let newton = t + excess / student.pdf(t);
        let next = if low <= newton && newton <= high { newton } else { f64::midpoint(low, high) };
        let step = (next - t).abs();
        t = next;
        if step <= f64::EPSILON * t {
            break;
        }
    }
    t
}

fn distribution(df: f64) -> Option<StudentsT> {
    // `clamp` keeps NaN, which statrs refuses.
    StudentsT::new(0.0, 1.0, df.clamp(1.0, MOST_DF)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-10, "{found} for {expected}");
    }

    #[test]
    fn values_are_those_of_scipy() {
        // scipy 1.17.1: df, isf(0.05), isf(1e-4), sf(2), sf(6).
        for (df, q95, q9999, sf2, sf6) in [
            (1.0, 6.313_751_514_675_037, 3_183.098_757_118_502, 0.147_583_617_650_433_26, 0.052_568_456_711_253_44),
            (2.5, 2.558_218_614_135_935_5, 34.867_969_321_116_306, 0.078_695_747_878_982_95, 0.007_640_864_942_761_449),
            (7.3, 1.882_930_017_956_430_8, 6.850_381_320_312_414, 0.041_970_519_667_051_565, 2.308_722_389_373_933e-4),
            (
                200.0,
                1.652_508_100_910_876_9,
                3.789_120_788_747_759,
                0.023_426_593_093_535_484,
                4.557_560_174_405_173e-9,
            ),
        ] {
            close(upper_quantile(0.05, df), q95);
            close(upper_quantile(1e-4, df), q9999);
            close(sf(2.0, df), sf2);
            close(sf(6.0, df), sf6);
            close(cdf(-6.0, df), sf6);
            close(cdf(2.0, df), 1.0 - sf2);
        }
    }

    #[test]
    fn no_input_panics_or_hangs() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0, 0.5, 1.0, 1.7, 12.0, 1e6, 1e8, 1e300];
        for df in odd {
            for x in odd.into_iter().chain([1e-300, 1e-12, 1e-5, 1.0 - 1e-12]) {
                for p in [cdf(x, df), sf(x, df)] {
                    assert_eq!(p.is_nan(), x.is_nan() || df.is_nan(), "{x} {df} {p}");
                    assert!(p.is_nan() || (0.0..=1.0).contains(&p), "{x} {df} {p}");
                }
                let quantile = upper_quantile(x, df);
                let known = x <= 0.0 || x >= 1.0 || !df.is_nan() && !x.is_nan();
                assert_eq!(quantile.is_nan(), !known, "{x} {df}: {quantile}");
            }
        }
        assert_eq!((sf(f64::INFINITY, 3.0), cdf(f64::INFINITY, 3.0)), (0.0, 1.0));
    }

    #[test]
    fn the_quantile_is_the_inverse_of_the_tail() {
        for df in [1.0, 1.3, 2.0, 4.7, 13.5, 60.0, 1e3, 1e6] {
            for tail in [1e-100, 1e-12, 1e-9, 1e-4, 0.001, 0.05, 0.3, 0.6, 0.95, 1.0 - 1e-9] {
                let found = sf(upper_quantile(tail, df), df);
                assert!((found / tail - 1.0).abs() < 1e-9, "{df} {tail} {found}");
            }
        }
    }
}

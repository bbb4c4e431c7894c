//! What the schedules are, as statistics: rate, index of dispersion, independence of the gaps. Seeds are fixed, and
//! every tolerance is four standard errors of what is estimated.

use std::f64::consts::LN_2;

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::plan::arrivals::due;
use crate::spec::workload::{Burst, Load};

/// Arrivals in seconds.
fn arrivals(load: Load, count: u32) -> Vec<f64> {
    let instants = due(load, count, &mut Stream::named(5, "arrivals"));
    assert!(instants.is_sorted(), "{load:?}");
    instants.into_iter().map(|instant| instant.unwrap().as_secs()).collect()
}

fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// Arrivals in each of so many windows of this length.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand windows")]
fn counts(arrivals: &[f64], window: f64, windows: usize) -> Vec<f64> {
    assert!(arrivals.last().unwrap() > &(window * real(windows)), "too few arrivals for the windows");
    let mut counts = vec![0.0; windows];
    for at in arrivals {
        if let Some(count) = counts.get_mut((at / window) as usize) {
            *count += 1.0;
        }
    }
    counts
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = real(values.len());
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n)
}

fn gaps(arrivals: &[f64]) -> Vec<f64> {
    arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Whether the gaps know nothing of each other: autocorrelations at the first ten lags.
fn assert_independent(gaps: &[f64], what: &str) {
    let (mean, variance) = moments(gaps);
    for lag in 1..=10 {
        let products = gaps.iter().zip(&gaps[lag..]).map(|(one, other)| (one - mean) * (other - mean));
        let correlation = products.sum::<f64>() / real(gaps.len()) / variance;
        assert!(correlation.abs() < 4.0 / real(gaps.len()).sqrt(), "{what}: lag {lag}: {correlation}");
    }
}

/// Whether these are the arrivals of a Poisson process of rate 1: gaps with mean 1 and variance 1 (the standard
/// error of the variance of an exponential is the square root of 8 / n), independent, and half of them below ln 2.
fn assert_unit_poisson(arrivals: &[f64], what: &str) {
    let gaps = gaps(arrivals);
    let n = real(gaps.len());
    let (mean, variance) = moments(&gaps);
    assert!((mean - 1.0).abs() < 4.0 / n.sqrt(), "{what}: mean {mean}");
    assert!((variance - 1.0).abs() < 4.0 * (8.0 / n).sqrt(), "{what}: variance {variance}");
    let short = real(gaps.iter().filter(|gap| **gap < LN_2).count()) / n;
    assert!((short - 0.5).abs() < 4.0 * 0.5 / n.sqrt(), "{what}: {short} below the median");
    assert_independent(&gaps, what);
}

#[test]
fn random_arrivals_have_their_rate_and_dispersion_and_independent_gaps() {
    // The index of dispersion of counts in long windows is the squared coefficient of variation of a gap.
    let gamma = |burstiness| Load::Gamma { rate: 20.0, burstiness };
    for (load, index) in [
        (Load::Poisson { rate: 20.0 }, 1.0),
        (gamma(1.0), 1.0),
        (gamma(0.25), 4.0),
        (gamma(0.5), 2.0),
        (gamma(4.0), 0.25),
    ] {
        let arrivals = arrivals(load, 105_000);
        // 2,000 windows of 50 arrivals each.
        let (mean, variance) = moments(&counts(&arrivals, 2.5, 2_000));
        let windows = 2_000.0_f64;
        assert!((mean - 50.0).abs() < 4.0 * (50.0 * index / windows).sqrt(), "{load:?}: {mean}");
        assert!((variance / mean / index - 1.0).abs() < 4.0 * (2.0 / windows).sqrt() + 0.02, "{load:?}: {variance}");
        assert_independent(&gaps(&arrivals), &format!("{load:?}"));
    }
    assert_unit_poisson(&arrivals(Load::Poisson { rate: 1.0 }, 50_000), "poisson");
    assert_unit_poisson(&arrivals(gamma(1.0), 50_000).iter().map(|at| at * 20.0).collect::<Vec<_>>(), "gamma of 1");
}

#[test]
fn constant_arrivals_are_evenly_spaced_for_hours() {
    let (mean, variance) = moments(&counts(&arrivals(Load::Constant { rate: 20.0 }, 42_000), 1.0, 2_000));
    assert!((mean - 20.0).abs() < 1e-9 && variance.abs() < 1e-9, "{mean} {variance}");
    let thirds = due(Load::Constant { rate: 3.0 }, 36_001, &mut Stream::named(5, "thirds"));
    assert_eq!(thirds[1], Some(Nanos::from_micros(333_333)));
    assert_eq!(thirds[36_000], Some(Nanos::from_secs(12_000)));
}

/// The expected number of arrivals up to an instant, summed from the rate itself in small steps.
fn expected(rate: impl Fn(f64) -> f64, arrivals: &[f64]) -> Vec<f64> {
    const STEP: f64 = 0.001;
    let (mut clock, mut sum) = (0.0, 0.0);
    let to_instant = |at: &f64| {
        while clock + STEP <= *at {
            sum += rate(clock + STEP / 2.0) * STEP;
            clock += STEP;
        }
        sum + rate(f64::midpoint(clock, *at)) * (at - clock)
    };
    arrivals.iter().map(to_instant).collect()
}

#[test]
fn arrivals_of_a_changing_rate_are_poisson_on_the_clock_of_that_rate() {
    let ramp = |from: f64, to: f64, over: f64| move |at: f64| from + (to - from) * (at / over).min(1.0);
    let up = Load::Ramp { from: 2.0, to: 40.0, over: Nanos::from_secs(600) };
    assert_unit_poisson(&expected(ramp(2.0, 40.0, 600.0), &arrivals(up, 20_000)), "up");
    let down = Load::Ramp { from: 40.0, to: 2.0, over: Nanos::from_secs(600) };
    assert_unit_poisson(&expected(ramp(40.0, 2.0, 600.0), &arrivals(down, 14_000)), "down");
    let level = Load::Ramp { from: 9.0, to: 9.0, over: Nanos::from_secs(60) };
    assert_unit_poisson(&expected(ramp(9.0, 9.0, 60.0), &arrivals(level, 14_000)), "level");

    let burst = Burst::Rate { rate: 60.0, length: Nanos::from_secs(2) };
    let bursts = Load::Bursts { rate: 5.0, every: Nanos::from_secs(10), burst };
    let rate = |at: f64| if at.rem_euclid(10.0) < 8.0 { 5.0 } else { 60.0 };
    assert_unit_poisson(&expected(rate, &arrivals(bursts, 20_000)), "bursts");

    let on_off = Load::OnOff { rate: 20.0, on: Nanos::from_secs(3), off: Nanos::from_secs(5) };
    let rate = |at: f64| if at.rem_euclid(8.0) < 3.0 { 20.0 } else { 0.0 };
    let instants = arrivals(on_off, 20_000);
    assert!(instants.iter().all(|at| at.rem_euclid(8.0) <= 3.0), "silent while off");
    assert_unit_poisson(&expected(rate, &instants), "on and off");
}

#[test]
fn a_ramp_ends_at_its_rate_and_stays() {
    let load = Load::Ramp { from: 10.0, to: 50.0, over: Nanos::from_secs(100) };
    let arrivals = arrivals(load, 30_000);
    // 3,000 arrivals are expected within the ramp, and 50 a second behind it.
    let within = real(arrivals.iter().filter(|at| **at < 100.0).count());
    assert!((within - 3_000.0).abs() < 4.0 * 3_000.0_f64.sqrt(), "{within}");
    let behind: Vec<f64> = arrivals.iter().map(|at| at - 100.0).filter(|at| *at >= 0.0).collect();
    let (mean, variance) = moments(&counts(&behind, 1.0, 500));
    assert!((mean - 50.0).abs() < 4.0 * (50.0 / 500.0_f64).sqrt(), "{mean}");
    assert!((variance / mean - 1.0).abs() < 4.0 * (2.0 / 500.0_f64).sqrt(), "{variance}");
}

#[test]
fn bursts_of_requests_come_on_time_and_beside_the_others() {
    let burst = Burst::Requests(25);
    let load = Load::Bursts { rate: 4.0, every: Nanos::from_secs(10), burst };
    let instants = arrivals(load, 13_000);
    let is_burst = |at: &&f64| at.rem_euclid(10.0) < 1e-9 && **at > 0.0;
    let whole = instants.last().unwrap().div_euclid(10.0) - 1.0;
    let bursts = counts(&instants.iter().filter(is_burst).map(|at| at - 10.0 + 0.5).collect::<Vec<_>>(), 10.0, 190);
    assert!(whole > 190.0 && bursts.iter().all(|n| (n - 25.0).abs() < 1e-9), "{bursts:?}");
    let others: Vec<f64> = instants.iter().filter(|at| !is_burst(at)).map(|at| at * 4.0).collect();
    assert_unit_poisson(&others, "beside the bursts");
    // The first burst comes after one period.
    assert_eq!(instants.iter().position(|at| is_burst(&at)).map(|at| instants[at]), Some(10.0));
}

#[test]
fn instants_are_never_due_at_the_start_and_a_closed_loop_has_none() {
    let instants = due(Load::Poisson { rate: 5_000.0 }, 5_000, &mut Stream::named(6, "order"));
    assert!(instants.is_sorted() && instants[0] > Some(Nanos::ZERO));
    let none = |load| due(load, 2, &mut Stream::named(6, "none"));
    assert_eq!(none(Load::Closed { concurrency: 8 }), [None, None]);
    assert_eq!(none(Load::Idle { pause: Nanos::from_secs(1) }), [None, None]);
}

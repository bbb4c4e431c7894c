//! The comparison of runs that were measured in pairs, close in time: a t-test on the differences inside the pairs.
//! What moves the machine from pair to pair moves both runs of a pair, and drops out.

use crate::stats::history::Noise;
use crate::stats::moderated::{Comparison, Effect, NotEstimable, Samples, compare, flags};
use crate::stats::sample::mean;

/// Compares pair by pair: run `i` of the candidate belongs to run `i` of the baseline, all of whose runs, controls
/// or one stored session, are of the candidate's session.
///
/// `d_i = y_candidate,i - y_baseline,i`, `D = mean(d)`, `V = s^2 / J` with the variance `s^2` of the `d_i` (Student
/// 1908, the paired t-test) shrunk towards twice that of a run in the history (Smyth 2004), `nu = d0 + J - 1`.
/// Runs that are in [`Samples::stored`] share one boot a side, whose two unknown effects join `V`.
pub fn compare_pairs(samples: &Samples<'_>, noise: &Noise, censored: f64) -> Comparison {
    match compare(samples, noise, censored) {
        Comparison::Estimated(effect) => match by_pairs(samples, effect, noise, censored) {
            Ok(effect) => Comparison::Estimated(effect),
            Err(reason) => Comparison::NotEstimable(reason),
        },
        other @ (Comparison::CandidateUnobservable { .. } | Comparison::NotEstimable(_)) => other,
    }
}

/// The estimate of the whole sides, with its difference and precision from the pairs.
fn by_pairs(samples: &Samples<'_>, whole: Effect, noise: &Noise, censored: f64) -> Result<Effect, NotEstimable> {
    let seen = |y: &f64| if y.is_finite() { *y } else { censored };
    let baseline: Vec<f64> = samples.stored.iter().flatten().chain(samples.controls).map(seen).collect();
    if baseline.len() != samples.candidate.len() {
        return Err(NotEstimable::Numeric);
    }
    let pairs = samples.candidate.iter().map(seen).zip(&baseline);
    let differences: Vec<f64> = pairs.map(|(candidate, baseline)| candidate - baseline).collect();
    let design = whole.design.by_pairs(&differences, noise.run).ok_or(NotEstimable::NoVariance)?;
    let precision = design.precision().ok_or(NotEstimable::Numeric)?;
    let infinite = samples.candidate.iter().chain(samples.stored.iter().flatten()).chain(samples.controls);
    let flags = flags(&design, &precision, infinite.copied().any(f64::is_infinite));
    Ok(Effect { base: mean(&baseline), difference: mean(&differences), precision, design, flags })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::names::Direction;
    use crate::base::rng::Stream;
    use crate::stats::history::{RunPrior, SessionPrior};
    use crate::stats::margin::Margin;
    use crate::stats::moderated::Flag;
    use crate::stats::p_value::PValue;
    use crate::stats::power::{Needed, Risk};

    const MARGIN: Margin = Margin { direction: Direction::LowerIsBetter, relative: 0.05, floor: None, start: 0.0 };

    fn run(controls: &[f64], candidate: &[f64], noise: &Noise) -> Comparison {
        compare_pairs(&Samples { stored: &[], controls, candidate }, noise, 11.0)
    }

    fn effect(controls: &[f64], candidate: &[f64], noise: &Noise) -> Effect {
        let Comparison::Estimated(effect) = run(controls, candidate, noise) else { panic!("nothing estimated") };
        effect
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    const A: [f64; 5] = [5.30, 5.34, 5.28, 5.39, 5.33];
    const B: [f64; 5] = [5.41, 5.42, 5.37, 5.50, 5.43];

    #[test]
    fn the_differences_alone_give_the_mean_and_its_error() {
        // d = 0.11, 0.08, 0.09, 0.11, 0.10: mean 0.098, sum of squares 0.00068.
        let found = effect(&A, &B, &Noise::default());
        near(found.difference, 0.098);
        near(found.base, 5.328);
        near(found.precision.variance(), 0.000_68 / 4.0 / 5.0);
        near(found.precision.df, 4.0);
        assert_eq!(found.flags, []);
        let judged = found.judge(&MARGIN);
        // t = (0.098 - ln 1.05) / 0.00583095 = 8.43945 on 4 degrees of freedom.
        assert!(judged.p_fail.get() < 0.001 && judged.p_fail.get() > 0.0003, "{judged:?}");
    }

    #[test]
    fn the_history_of_single_runs_counts_twice_in_a_difference() {
        let noise = Noise { run: RunPrior { variance: 0.000_4, df: 6.0 }, session: SessionPrior::default() };
        let found = effect(&A, &B, &noise);
        near(found.precision.variance(), (6.0 * 2.0 * 0.000_4 + 0.000_68) / 10.0 / 5.0);
        near(found.precision.df, 10.0);
    }

    #[test]
    fn passes_without_a_restart_keep_the_two_unknown_effects_of_their_boots() {
        let samples = Samples { stored: &[A.to_vec()], controls: &[], candidate: &B };
        let Comparison::Estimated(found) = compare_pairs(&samples, &Noise::default(), 11.0) else { panic!() };
        near(found.difference, 0.098);
        near(found.precision.variance(), 2.0 * 0.02 * 0.02 + 0.000_68 / 20.0);
        assert_eq!(found.flags, [Flag::SessionVarianceAssumed]);
    }

    #[test]
    fn fewer_than_three_pairs_decide_nothing_and_sides_of_different_size_are_no_pairs() {
        let found = effect(&A[..2], &B[..2], &Noise::default());
        assert!(!found.may_fail() && !found.may_pass(), "{:?}", found.flags);
        let three = effect(&A[..3], &B[..3], &Noise::default());
        assert!(three.may_fail() && three.may_pass(), "{:?}", three.flags);
        assert_eq!(run(&A[..1], &B[..1], &Noise::default()), Comparison::NotEstimable(NotEstimable::NoVariance));
        assert_eq!(run(&A, &B[..4], &Noise::default()), Comparison::NotEstimable(NotEstimable::Numeric));
    }

    #[test]
    fn a_run_among_failed_requests_counts_at_the_time_out_and_forbids_a_pass() {
        let b = [5.3, f64::INFINITY, 5.3, 5.4, 5.3];
        let found = effect(&A, &b, &Noise::default());
        assert!(found.flags.contains(&Flag::Censored) && !found.may_pass());
        let most = [f64::INFINITY, f64::INFINITY, f64::INFINITY, 5.4, 5.3];
        assert_eq!(run(&A, &most, &Noise::default()), Comparison::CandidateUnobservable { runs: 5 });
    }

    #[test]
    fn a_plan_of_pairs_grows_both_sides() {
        let design = effect(&A, &B, &Noise::default()).design;
        let risk = Risk { alpha: 0.05, beta: 0.2 };
        assert_eq!(design.needed_to_pass(0.5, risk), Needed::Runs(3), "never fewer than three");
        let Needed::Runs(tight) = design.needed_to_pass(0.008, risk) else { panic!() };
        assert!(tight > 5 && tight < 60, "{tight}");
    }

    /// Gates whose truth lies on the margin, in a session that drifts by 3 % from pair to pair and 1 % inside one.
    fn errors(pairs: usize, gates: u64) -> (f64, f64) {
        let (mut fails, mut passes) = (0.0, 0.0);
        for seed in 0..gates {
            let mut stream = Stream::named(seed, "paired");
            let (mut a, mut b, mut level) = (vec![], vec![], 5.3);
            for at in 0..pairs {
                level += 0.03 * stream.normal();
                let first = 0.005 * if at % 2 == 0 { -1.0 } else { 1.0 };
                a.push(level + first + 0.02 * stream.normal());
                b.push(level - first + 1.05_f64.ln() + 0.02 * stream.normal());
            }
            let judged = effect(&a, &b, &Noise::default()).judge(&MARGIN);
            fails += f64::from(u8::from(judged.p_fail.get() <= 0.05));
            passes += f64::from(u8::from(judged.p_pass.get() <= 0.05));
        }
        let gates = f64::from(u32::try_from(gates).unwrap());
        (fails / gates, passes / gates)
    }

    #[test]
    fn both_errors_are_held_in_a_session_that_drifts() {
        // An even number of pairs cancels the drift inside them; a standard error of 0.35 points at 4,000 gates.
        for pairs in [4, 6, 8] {
            let (fails, passes) = errors(pairs, 4_000);
            assert!(fails <= 0.065 && passes <= 0.065, "{pairs} pairs: {fails}, {passes}");
            assert!(fails >= 0.03 && passes >= 0.03, "{pairs} pairs lose power: {fails}, {passes}");
        }
    }

    proptest! {
        #[test]
        fn what_a_pair_shares_drops_out_and_exchanged_sides_exchange_the_sign(
            pairs in prop::collection::vec((5.0..5.5, 5.0..5.5, -2.0..2.0), 3..9),
        ) {
            let a: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
            let b: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
            let moved = |side: &[f64]| -> Vec<f64> { side.iter().zip(&pairs).map(|(y, pair)| y + pair.2).collect() };
            let (still, moved) = (effect(&a, &b, &Noise::default()), effect(&moved(&a), &moved(&b), &Noise::default()));
            prop_assert!((still.difference - moved.difference).abs() < 1e-9);
            prop_assert!((still.precision.variance() - moved.precision.variance()).abs() < 1e-9);
            let back = effect(&b, &a, &Noise::default());
            prop_assert!((still.difference + back.difference).abs() < 1e-9);
            prop_assert!((still.precision.variance() - back.precision.variance()).abs() < 1e-12);
        }

        #[test]
        fn no_numbers_panic(
            controls in prop::collection::vec(prop::num::f64::ANY, 0..4),
            candidate in prop::collection::vec(prop::num::f64::ANY, 0..4), censored in prop::num::f64::ANY,
            variance in prop::num::f64::ANY, df in prop::num::f64::ANY,
        ) {
            let noise = Noise { run: RunPrior { variance, df }, session: SessionPrior::default() };
            let samples = Samples { stored: &[], controls: &controls, candidate: &candidate };
            let judged = compare_pairs(&samples, &noise, censored).judge(&MARGIN);
            prop_assert!(judged.is_none_or(|judged| PValue::new(judged.p_fail.get()).is_some()));
        }
    }
}

//! Tests of the comparison: reference values, laws, the degenerate cases, and its errors on simulated noise.

use proptest::prelude::*;

use crate::base::names::Direction;
use crate::base::rng::Stream;
use crate::stats::design::Design;
use crate::stats::history::{Noise, RunPrior, SessionPrior};
use crate::stats::margin::Margin;
use crate::stats::moderated::{Comparison, Effect, Flag, Judgement, NotEstimable, Samples, compare};
use crate::stats::p_value::PValue;

const TIME_OUT: f64 = 60_000.0;

fn noise(run_variance: f64, run_df: f64) -> Noise {
    Noise { run: RunPrior { variance: run_variance, df: run_df }, session: SessionPrior::default() }
}

fn margin(relative: f64) -> Margin {
    Margin { direction: Direction::LowerIsBetter, relative, floor: None, start: 0.0 }
}

fn run(stored: &[Vec<f64>], controls: &[f64], candidate: &[f64], noise: &Noise) -> Comparison {
    compare(&Samples { stored, controls, candidate }, noise, TIME_OUT.ln())
}

fn effect(stored: &[Vec<f64>], controls: &[f64], candidate: &[f64], noise: &Noise) -> Effect {
    let Comparison::Estimated(effect) = run(stored, controls, candidate, noise) else { panic!("nothing estimated") };
    effect
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
}

const BASE: [f64; 6] = [5.301, 5.287, 5.322, 5.294, 5.31, 5.305];
const CANDIDATE: [f64; 5] = [5.352, 5.361, 5.338, 5.371, 5.349];

fn stored() -> Vec<Vec<f64>> {
    vec![vec![5.3, 5.31], vec![5.33, 5.34], vec![5.29, 5.3]]
}

/// The history of `history::tests::three_releases_of_two_sessions`.
fn known() -> Noise {
    Noise {
        run: RunPrior { variance: 0.000_166_666_666_666_665_98, df: 6.0 },
        session: SessionPrior { variance: 0.000_351_587_301_587_306_6, df: 7.0, assumed: false },
    }
}

#[test]
fn without_history_and_session_effect_it_is_the_test_of_welch() {
    // scipy 1.17.1, `ttest_ind(equal_var=False)` on logs.
    let found = effect(&[], &BASE, &CANDIDATE, &noise(0.0, 0.0));
    near(found.difference, 0.051_033_333_333_333_71);
    near(found.precision.standard_error(), 0.007_503_406_633_730_546);
    near(found.precision.df, 8.589_325_774_838_87);
    near(found.ratio(), 1.052_357_971_297_610_8);
    let (low, high) = found.limits(0.05);
    near(low, 0.037_203_489_552_468_11);
    near(high, 0.064_863_177_114_199_3);
    for (relative, p_fail) in
        [(0.02, 0.001_350_603_504_005_867), (0.05, 0.386_040_930_346_402), (0.1, 0.999_862_701_466_961_4)]
    {
        let judged = found.judge(&margin(relative));
        near(judged.p_fail.get(), p_fail);
        near(judged.p_pass.get(), 1.0 - p_fail);
        near(judged.log_margin, relative.ln_1p());
    }
}

#[test]
fn history_moderates_both_variances() {
    // scipy 1.17.1.
    let found = effect(&[], &BASE, &CANDIDATE, &noise(0.000_48, 5.0));
    near(found.precision.standard_error(), 0.010_943_212_000_545_774);
    near(found.precision.df, 14.0);
    near(found.judge(&margin(0.05)).p_fail.get(), 0.420_268_001_708_742_5);
    let one = effect(&[], &BASE, &[5.352], &noise(0.000_48, 5.0));
    near(one.difference, 0.048_833_333_333_333_506);
    near(one.precision.df, 6.118_715_231_905_703);
    near(one.tails(Direction::LowerIsBetter, 1.05_f64.ln()).0, 0.499_283_488_963_618_2);
}

#[test]
fn a_stored_baseline_with_and_without_controls() {
    // The reference implementation of the specification (numpy 2.4.6, scipy 1.17.1).
    let candidate = [5.41, 5.4, 5.42, 5.39, 5.41];
    let alone = effect(&stored(), &[], &candidate, &known());
    near(alone.ratio(), 1.098_925_993_537_025_7);
    near(alone.precision.standard_error(), 0.022_814_016_855_419_644);
    near(alone.precision.df, 8.589_940_317_518_208);
    near(alone.judge(&margin(0.05)).p_fail.get(), 0.039_263_980_210_105_85);
    assert!(alone.flags.is_empty());
    let controlled = effect(&stored(), &[5.36, 5.35], &candidate, &known());
    near(controlled.ratio(), 1.057_320_370_919_618_8);
    near(controlled.precision.standard_error(), 0.009_156_420_198_543_458);
    near(controlled.precision.df, 21.579_448_507_481_644);
    near(controlled.judge(&margin(0.05)).p_fail.get(), 0.228_100_067_625_931_9);
}

#[test]
fn controls_that_contradict_the_store_set_it_aside() {
    let stored = [vec![5.3, 5.31], vec![5.3, 5.31], vec![5.29, 5.3]];
    let found = effect(&stored, &[5.4, 5.41], &[5.41, 5.4, 5.42, 5.39, 5.41], &known());
    assert_eq!(found.flags, [Flag::EnvironmentDrift]);
    near(found.ratio(), 1.001_000_500_166_708_6);
    near(found.precision.standard_error(), 0.009_507_891_459_203_738);
    near(found.precision.df, 14.0);
    near(found.judge(&margin(0.05)).p_pass.get(), 9.262_040_988_076_413e-5);
}

#[test]
fn runs_among_failed_requests() {
    let inf = f64::INFINITY;
    let some = effect(&stored(), &[5.36, 5.35], &[5.41, 5.4, inf, 5.39, 5.41], &known());
    assert_eq!(some.flags, [Flag::Censored]);
    assert_eq!(some.judge(&margin(0.05)).p_pass, PValue::ONE);
    let most = run(&stored(), &[5.36, 5.35], &[5.41, inf, inf, inf, 5.41], &known());
    assert_eq!(most, Comparison::CandidateUnobservable { runs: 5 });
    let judged = most.judge(&margin(0.05)).unwrap();
    assert_eq!((judged.p_fail, judged.p_pass), (PValue::ZERO, PValue::ONE));
    let two = run(&stored(), &[], &[inf, inf], &known()).judge(&margin(0.05)).unwrap();
    assert_eq!(two.p_fail, PValue::ONE, "two runs never fail");
    let unobservable = Comparison::NotEstimable(NotEstimable::BaselineUnobservable);
    assert_eq!(run(&[vec![5.3, inf], vec![5.3, inf]], &[], &CANDIDATE, &known()), unobservable);
    assert_eq!(
        run(&stored(), &[inf, 5.3], &[inf, inf, inf], &known()),
        unobservable,
        "the environment failed, not the change"
    );
    assert_eq!(run(&[vec![inf]], &[], &[inf], &known()), unobservable);
}

#[test]
fn few_runs_may_pass_with_history_and_never_fail() {
    let flags = |stored: &[Vec<f64>], candidate: &[f64], noise: &Noise| effect(stored, &[], candidate, noise).flags;
    assert_eq!(flags(&stored(), &[5.3], &known()), [Flag::TooFewToFail], "d0 is 6");
    let assumed = Flag::SessionVarianceAssumed;
    assert_eq!(flags(&stored(), &[5.3], &noise(0.0002, 5.9)), [assumed, Flag::TooFewToFail, Flag::TooFewToPass]);
    assert_eq!(flags(&[vec![5.3, 5.31]], &[5.3, 5.31], &noise(0.0, 0.0)), [assumed, Flag::Weak, Flag::TooFewToFail]);
    assert_eq!(flags(&stored(), &[5.3, 5.3, 5.31], &noise(0.0, 0.0)), [assumed]);
    let far = effect(&[], &BASE, &[9.0, 9.0], &noise(0.0, 0.0)).judge(&margin(0.05));
    assert_eq!(far.p_fail, PValue::ONE);
}

#[test]
fn what_cannot_be_compared_is_a_value() {
    let reason = |stored: &[Vec<f64>], controls: &[f64], candidate: &[f64], noise: &Noise| {
        let found = run(stored, controls, candidate, noise);
        let Comparison::NotEstimable(reason) = found else { panic!("{found:?}") };
        reason
    };
    let none = noise(0.0, 0.0);
    assert_eq!(reason(&[vec![]], &[], &CANDIDATE, &known()), NotEstimable::NoBaseline);
    assert_eq!(reason(&stored(), &[], &[], &known()), NotEstimable::NoCandidate);
    assert_eq!(reason(&[vec![5.3], vec![5.3]], &[], &CANDIDATE, &none), NotEstimable::NoVariance);
    assert_eq!(reason(&stored(), &[], &[5.3], &none), NotEstimable::NoVariance);
    for bad in [f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(reason(&stored(), &[], &[5.3, bad], &known()), NotEstimable::Numeric);
    }
    assert_eq!(reason(&[], &[5.3], &[5.3], &noise(0.0004, 0.5)), NotEstimable::Numeric, "half a degree of freedom");
    assert_eq!(reason(&stored(), &[], &CANDIDATE, &noise(f64::NAN, 6.0)), NotEstimable::Numeric);
    let censored = Samples { stored: &stored(), controls: &[], candidate: &[5.3, 5.3, f64::INFINITY] };
    assert_eq!(compare(&censored, &known(), f64::INFINITY), Comparison::NotEstimable(NotEstimable::Numeric));
}

#[test]
fn identical_runs_pass_and_the_floor_keeps_the_variance_above_zero() {
    // scipy 1.17.1 with a floor of 0.2 %.
    let found = effect(&[], &[5.3; 4], &[5.4; 4], &noise(0.0, 0.0));
    near(found.precision.standard_error(), 0.001_414_213_562_373_095);
    let p_fail = found.judge(&margin(0.05)).p_fail.get();
    assert!((p_fail / 1.479_239_372_759_804_3e-8 - 1.0).abs() < 1e-6, "{p_fail}");
    let same = effect(&[vec![5.3; 2], vec![5.3; 2], vec![5.3; 2]], &[5.3; 2], &[5.3; 3], &noise(0.0, 0.0));
    assert!(same.judge(&margin(0.05)).p_pass.get() < 0.01);
}

#[test]
fn a_two_sided_check_is_harmed_either_way() {
    // scipy 1.17.1: two one-sided Welch tests on logs, bounds of 8 % either way.
    let two_sided = Margin { direction: Direction::TwoSided, relative: 0.08, floor: None, start: 0.0 };
    near(effect(&[], &BASE, &CANDIDATE, &noise(0.0, 0.0)).judge(&two_sided).p_pass.get(), 0.003_869_311_959_916_12);
    let longer = effect(&[], &BASE, &BASE.map(|y| y + 0.2), &noise(0.0, 0.0)).judge(&two_sided);
    let shorter = effect(&[], &BASE, &BASE.map(|y| y - 0.2), &noise(0.0, 0.0)).judge(&two_sided);
    for judged in [longer, shorter] {
        assert!(judged.p_fail.get() < 1e-5 && judged.p_pass.get() > 0.99, "{judged:?}");
    }
}

#[test]
fn a_plan_expects_the_variance_of_the_store_and_the_history() {
    let plan = Design::planned(&stored(), &known(), 2, 3).unwrap();
    // Moderated: (6 * 0.0001667 + 3 * 0.00005) / 9.
    assert!((plan.baseline_variance - 0.001_15 / 9.0).abs() < 1e-9);
    assert_eq!((plan.stored.as_slice(), plan.controls, plan.candidate), ([2, 2, 2].as_slice(), 2, 3));
    assert_eq!(Design::planned(&[vec![5.3]], &noise(0.0, 0.0), 2, 3), None);
    assert_eq!(Design::planned(&[vec![5.3, f64::INFINITY]], &known(), 2, 3), None, "no variance is not the floor");
}

/// How often one of 4,000 simulated comparisons gives a p-value at or below 5 %: (failed, passed).
fn errors(name: &str, session_sd: f64, controls: usize, shift: f64) -> (f64, f64) {
    let mut stream = Stream::named(11, name);
    let known = Noise {
        run: RunPrior { variance: 0.0004, df: 12.0 },
        session: SessionPrior { variance: session_sd * session_sd, df: 100.0, assumed: false },
    };
    let mut counts = (0, 0);
    for _ in 0..4_000 {
        let mut runs = |number: usize, shift: f64| -> Vec<f64> {
            let session = shift + session_sd * stream.normal();
            (0..number).map(|_| session + 0.02 * stream.normal()).collect()
        };
        let stored: Vec<Vec<f64>> = (0..3).map(|_| runs(2, 0.0)).collect();
        let here = runs(controls + 4, 0.0);
        let (controls, candidate) = here.split_at(controls);
        let candidate: Vec<f64> = candidate.iter().map(|y| y + shift).collect();
        let judged = effect(&stored, controls, &candidate, &known).judge(&margin(0.05));
        counts.0 += u32::from(judged.p_fail.get() <= 0.05);
        counts.1 += u32::from(judged.p_pass.get() <= 0.05);
    }
    (f64::from(counts.0) / 4_000.0, f64::from(counts.1) / 4_000.0)
}

#[test]
fn at_the_margin_both_errors_are_five_percent() {
    let margin = 1.05_f64.ln();
    // The standard error of a share of 5 % of 4,000 is 0.34 points.
    for (name, session_sd, controls) in [("same level", 0.0, 0), ("stored", 0.02, 0), ("controls", 0.02, 2)] {
        let (failed, passed) = errors(name, session_sd, controls, margin);
        for share in [failed, passed] {
            assert!((0.035..=0.062).contains(&share), "{name}: {failed} {passed}");
        }
    }
    let (failed, passed) = errors("unchanged", 0.02, 5, 0.0);
    assert!(failed < 0.002 && passed > 0.85, "{failed} {passed}");
}

fn runs(number: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(4.9..5.1, number)
}

fn agree(a: &Judgement, b: &Judgement) -> bool {
    (a.p_fail.get() - b.p_fail.get()).abs() < 1e-6 && (a.p_pass.get() - b.p_pass.get()).abs() < 1e-6
}

proptest! {
    #[test]
    fn the_unit_of_the_values_does_not_matter(
        stored in prop::collection::vec(runs(1..4), 0..4), controls in runs(2..4), candidate in runs(3..6),
        scale in -9.0..9.0,
    ) {
        let moved = |ys: &[f64]| ys.iter().map(|y| y + scale).collect::<Vec<f64>>();
        let there: Vec<Vec<f64>> = stored.iter().map(|runs| moved(runs)).collect();
        let a = effect(&stored, &controls, &candidate, &known());
        let b = effect(&there, &moved(&controls), &moved(&candidate), &known());
        prop_assume!(a.flags == b.flags);
        prop_assert!((a.difference - b.difference).abs() < 1e-9);
        prop_assert!(agree(&a.judge(&margin(0.05)), &b.judge(&margin(0.05))));
    }

    #[test]
    fn swapping_the_sides_mirrors_the_difference(a in runs(3..6), b in runs(3..6)) {
        let (there, back) = (effect(&[], &a, &b, &known()), effect(&[], &b, &a, &known()));
        prop_assert!((there.difference + back.difference).abs() < 1e-12);
        prop_assert!((there.precision.variance() - back.precision.variance()).abs() < 1e-15);
        let two_sided = Margin { direction: Direction::TwoSided, relative: 0.03, floor: None, start: 0.0 };
        prop_assert!(agree(&there.judge(&two_sided), &back.judge(&two_sided)));
    }

    #[test]
    fn a_wider_margin_passes_more_and_fails_less(
        stored in prop::collection::vec(runs(1..4), 1..4), candidate in runs(1..6),
        tight in 0.001..0.4, more in 0.0..0.4, direction in 0_usize..3,
    ) {
        let direction = [Direction::LowerIsBetter, Direction::HigherIsBetter, Direction::TwoSided][direction];
        let found = effect(&stored, &[], &candidate, &known());
        let at = |relative| found.judge(&Margin { direction, relative, floor: None, start: 0.0 });
        let (tight, wide) = (at(tight), at(tight + more));
        prop_assert!(wide.p_pass.get() <= tight.p_pass.get() + 1e-12);
        prop_assert!(wide.p_fail.get() >= tight.p_fail.get() - 1e-12);
        prop_assert!(!(tight.p_pass.get() <= 0.05 && tight.p_fail.get() <= 0.05));
    }

    #[test]
    fn the_limits_and_the_tests_say_the_same(
        stored in prop::collection::vec(runs(1..4), 1..4), candidate in runs(3..6), relative in 0.001..0.2,
    ) {
        let found = effect(&stored, &[], &candidate, &known());
        let (low, high) = found.limits(0.05);
        let judged = found.judge(&margin(relative));
        prop_assert_eq!(judged.p_fail.get() < 0.05, low > judged.log_margin);
        prop_assert_eq!(judged.p_pass.get() < 0.05, high < judged.log_margin);
    }

    #[test]
    fn no_numbers_panic(
        stored in prop::collection::vec(prop::collection::vec(prop::num::f64::ANY, 0..3), 0..3),
        controls in prop::collection::vec(prop::num::f64::ANY, 0..3),
        candidate in prop::collection::vec(prop::num::f64::ANY, 0..4), censored in prop::num::f64::ANY,
        variance in prop::num::f64::ANY, df in prop::num::f64::ANY, relative in prop::num::f64::ANY,
    ) {
        let noise = Noise { run: RunPrior { variance, df }, session: SessionPrior { variance, df, assumed: false } };
        let samples = Samples { stored: &stored, controls: &controls, candidate: &candidate };
        if let Some(judged) = compare(&samples, &noise, censored).judge(&margin(relative)) {
            prop_assert!(PValue::new(judged.p_fail.get()).is_some() && PValue::new(judged.p_pass.get()).is_some());
        }
    }
}

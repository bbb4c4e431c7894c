//! Every reference case of the primitives of this module, read from the design documents where they are at hand.
//!
//! The file is no part of the repository; without it the test passes and the values in the unit tests stand alone.

use std::path::PathBuf;

use serde_json::Value;
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::base::names::Direction;
use crate::stats::design::Design;
use crate::stats::error_rate::{Count, Counts, Share, error_rates, lower_limit};
use crate::stats::history::{Noise, RunPrior, SessionPrior, noise};
use crate::stats::holm::holm;
use crate::stats::margin::relative;
use crate::stats::moderated::{Comparison, Effect, Flag, Samples, compare};
use crate::stats::p_value::PValue;
use crate::stats::power::Risk;
use crate::stats::quantile::{quantile, tail05};
use crate::stats::student;

/// One case of the file, and whether its tolerance is relative.
struct Case<'a> {
    value: &'a Value,
    relative: bool,
}

fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

impl<'a> Case<'a> {
    fn input(&self, key: &str) -> &'a Value {
        &self.value["input"][key]
    }

    fn given(&self, key: &str) -> f64 {
        number(self.input(key))
    }

    fn list(&self, key: &str) -> Vec<f64> {
        numbers(self.input(key))
    }

    /// Checks one expected value; one that the case does not state is not checked.
    fn check(&self, key: &str, found: f64) {
        let Some(expected) = self.value["expected"].get(key).map(number) else { return };
        let tolerance = number(&self.value["tolerance"]) * if self.relative { expected.abs() } else { 1.0 };
        let close = (found - expected).abs() <= tolerance || found.total_cmp(&expected).is_eq();
        assert!(close, "{} {} {key}: {found} for {expected}", self.value["primitive"], self.value["name"]);
    }

    fn check_tests(&self, effect: &Effect, log_margin: f64) {
        let (p_fail, p_pass) = effect.tails(Direction::LowerIsBetter, log_margin);
        self.check("D", effect.difference);
        self.check("ratio", effect.ratio());
        self.check("se", effect.precision.standard_error());
        self.check("df", effect.precision.df);
        self.check("p_fail", p_fail);
        self.check("p_pass", p_pass);
    }
}

fn controls_only(base: &[f64], candidate: &[f64], run: RunPrior) -> Effect {
    let noise = Noise { run, session: SessionPrior::default() };
    let samples = Samples { stored: &[], controls: base, candidate };
    let Comparison::Estimated(effect) = compare(&samples, &noise, f64::NAN) else { panic!("nothing estimated") };
    effect
}

fn reference() -> Option<Value> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    #[expect(clippy::disallowed_methods, reason = "a test may be told where the design documents are")]
    let shared = std::env::var("SERVEGATE_SHARED").map_or_else(|_| beside(), PathBuf::from);
    let text = std::fs::read_to_string(shared.join("design/stats_reference.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn every_reference_case_of_these_primitives_holds() {
    let Some(reference) = reference() else { return };
    let cases = reference["cases"].as_array().unwrap();
    let history = &cases.iter().find(|case| case["primitive"] == "history").unwrap()["input"]["groups"];
    let history = learned(history);
    let checked = cases.iter().filter(|value| {
        let relative = value["note"].as_str().is_some_and(|note| note.starts_with("relative"));
        check(&Case { value, relative }, &history)
    });
    assert_eq!(checked.count(), 65);
}

fn learned(groups: &Value) -> Noise {
    let mut releases: Vec<(&str, Vec<Vec<f64>>)> = Vec::new();
    for group in groups.as_array().unwrap() {
        let (release, runs) = (group[0].as_str().unwrap(), numbers(&group[2]));
        match releases.iter_mut().find(|(name, _)| *name == release) {
            Some((_, sessions)) => sessions.push(runs),
            None => releases.push((release, vec![runs])),
        }
    }
    let releases: Vec<Vec<Vec<f64>>> = releases.into_iter().map(|(_, sessions)| sessions).collect();
    noise(&releases, &[], SessionPrior::default())
}

/// Checks a case; false when it belongs to a primitive that is not here.
fn check(case: &Case<'_>, history: &Noise) -> bool {
    match case.value["primitive"].as_str().unwrap() {
        "quantile_type7" => case.check("q", quantile(&mut case.list("x"), case.given("p")).unwrap()),
        "tail_gm" => case.check("log_gm", tail05(&mut case.list("x"), f64::NAN).unwrap()),
        "student_t_dist" => {
            let df = case.given("df");
            for (key, tail) in [("q95", 0.05), ("q99", 0.01), ("q9999", 1e-4)] {
                case.check(key, student::upper_quantile(tail, df));
            }
            case.check("sf_2", student::sf(2.0, df));
            case.check("sf_6", student::sf(6.0, df));
        }
        "normal_quantile" => {
            // The t distribution at its most degrees of freedom stands for the normal one, to 2e-5.
            let (p, expected) = (case.given("p"), number(&case.value["expected"]["z"]));
            assert!((student::upper_quantile(1.0 - p, f64::INFINITY) - expected).abs() < 2e-5);
        }
        "welch_t" | "three_way_log_welch" | "moderated_log_welch" | "tost" => check_two_samples(case),
        "history" | "session_var" => check_history(case, history),
        "pooled_prior" => {
            let groups = case.input("groups").as_array().unwrap();
            let releases: Vec<Vec<Vec<f64>>> = groups.iter().map(|group| vec![numbers(group)]).collect();
            let found = noise(&releases, &[], SessionPrior::default());
            case.check("s0sq", found.run.variance);
            case.check("d0", found.run.df);
        }
        "design_test" => check_design(case, history),
        "holm" => check_holm(case, &case.list("p"), "adjusted"),
        "gate_verdict" => {
            let tests = case.input("tests").as_array().unwrap();
            check_holm(case, &tests.iter().map(|test| number(&test["p_fail"])).collect::<Vec<_>>(), "holm");
        }
        "newcombe_difference" | "dispersion" | "error_rate_test" => check_rates(case),
        "binomial_interval" => {
            let side = Share { rate: case.given("k") / case.given("n"), requests: case.given("n") };
            let z = Normal::standard().inverse_cdf(f64::midpoint(1.0, case.given("conf")));
            let expected = numbers(&case.value["expected"]["wilson"]);
            assert!(
                (side.score_limit(z) - expected[0]).abs() < 1e-9 && (side.score_limit(-z) - expected[1]).abs() < 1e-9
            );
        }
        "power" => check_power(case),
        _ => return false,
    }
    true
}

fn check_two_samples(case: &Case<'_>) {
    let input = &case.value["input"];
    let list = |keys: [&str; 2]| keys.into_iter().find_map(|key| input.get(key)).map(numbers).unwrap();
    let (base, candidate) = (list(["y", "y_base"]), list(["x", "y_cand"]));
    let prior = |key| input.get(key).map_or(0.0, number);
    let effect = controls_only(&base, &candidate, RunPrior { variance: prior("s0sq"), df: prior("d0") });
    let Some(margin) = input.get("margin").map(number) else {
        let (lo, hi) = effect.limits(0.05);
        let (greater, less) = effect.tails(Direction::LowerIsBetter, 0.0);
        case.check("diff", effect.difference);
        case.check("lo", lo);
        case.check("hi", hi);
        case.check("t", effect.difference / effect.precision.standard_error());
        case.check("df", effect.precision.df);
        match input.get("alternative").and_then(Value::as_str) {
            Some("greater") => case.check("p", greater),
            Some("less") => case.check("p", less),
            _ => case.check("p", 2.0 * greater.min(less)),
        }
        return;
    };
    case.check_tests(&effect, margin.ln_1p());
    case.check("p", effect.tails(Direction::TwoSided, margin.ln_1p()).1);
}

fn check_history(case: &Case<'_>, history: &Noise) {
    let nothing = noise(&[], &[], SessionPrior::default());
    let found = if case.value["primitive"] == "history" { history } else { &nothing };
    case.check("s0sq", found.run.variance);
    case.check("d0", found.run.df);
    case.check("session_var_used", found.session.variance);
    case.check("session_df_used", found.session.df);
}

fn check_design(case: &Case<'_>, history: &Noise) {
    let stored: Vec<Vec<f64>> = case.input("stored").as_object().unwrap().values().map(numbers).collect();
    let (controls, candidate) = (case.list("anchors"), case.list("cand"));
    let samples = Samples { stored: &stored, controls: &controls, candidate: &candidate };
    match compare(&samples, history, 60_000.0_f64.ln()) {
        // The numbers of this case suppose that slow runs are quarantined, which is not done here.
        Comparison::Estimated(effect) if effect.flags.contains(&Flag::Censored) => {
            assert!(!effect.may_pass());
        }
        Comparison::Estimated(effect) => case.check_tests(&effect, case.given("margin").ln_1p()),
        Comparison::CandidateUnobservable { .. } => case.check("p_fail", 0.0),
        Comparison::NotEstimable(reason) => panic!("{reason:?}"),
    }
}

fn check_holm(case: &Case<'_>, p: &[f64], key: &str) {
    let p: Vec<PValue> = p.iter().map(|&p| PValue::new(p).unwrap()).collect();
    let expected = numbers(&case.value["expected"][key]);
    for (found, expected) in holm(&p).into_iter().zip(expected) {
        assert!((found.get() - expected).abs() < 1e-12, "{found:?} for {expected}");
    }
}

fn check_rates(case: &Case<'_>) {
    let input = &case.value["input"];
    if input.get("k1").is_some() {
        let effect = input.get("deff").map_or(1.0, number);
        let share = |k, n| Share { rate: case.given(k) / case.given(n), requests: case.given(n) / effect };
        let z = Normal::standard().inverse_cdf(1.0 - case.given("alpha"));
        case.check("lo", lower_limit(share("k1", "n1"), share("k0", "n0"), z));
        case.check("hi", lower_limit(share("k1", "n1"), share("k0", "n0"), -z));
        return;
    }
    let runs = |key: &str| -> Vec<Count> {
        let counts = input[key].as_array();
        let attempted = input["n"].as_u64().unwrap();
        counts.into_iter().flatten().map(|k| Count { failed: k.as_u64().unwrap(), attempted }).collect()
    };
    if input.get("k").is_some() {
        // The same counts on both sides have the dispersion of one.
        let side = runs("k");
        let counts = Counts { baseline: &side, candidate: &side, history: &[] };
        case.check("deff", error_rates(&counts, 0.01, 0.05).unwrap().design_effect);
        return;
    }
    let (baseline, candidate, history) = (runs("k_base"), runs("k_cand"), runs("k_hist"));
    let counts = Counts { baseline: &baseline, candidate: &candidate, history: &history };
    let found = error_rates(&counts, case.given("delta"), case.given("alpha")).unwrap();
    case.check("deff", found.design_effect);
    case.check("lower", found.lower);
    case.check("upper", found.upper);
    let verdict = match (found.p_fail.get() < 0.05, found.p_pass.get() < 0.05) {
        (true, _) => "FAIL",
        (_, true) => "PASS",
        _ => "INCONCLUSIVE",
    };
    assert_eq!(case.value["expected"]["verdict"], verdict);
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers of runs")]
fn check_power(case: &Case<'_>) {
    let variance = case.given("sigma").powi(2);
    let design = Design {
        stored: vec![],
        controls: case.given("R_base") as usize,
        candidate: case.given("R_cand") as usize,
        baseline_variance: variance,
        candidate_variance: variance,
        prior_df: case.given("d0"),
        session: SessionPrior::default(),
        drifted: false,
        pair_variance: None,
    };
    let risk = Risk { alpha: case.given("alpha"), beta: case.given("beta") };
    let precision = design.precision().unwrap();
    let percent = |log: Option<f64>| relative(Direction::LowerIsBetter, log.unwrap());
    case.check("se", precision.standard_error());
    case.check("df", precision.df);
    case.check("mde_fail", percent(design.minimum_detectable(case.given("margin").ln_1p(), risk)));
    case.check("certifiable_margin", percent(design.certifiable(risk)));
}

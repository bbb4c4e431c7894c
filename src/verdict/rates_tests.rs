//! How often the whole gate is wrong, by seeded simulation at run level: bounds on the worlds whose figures
//! `benches/rates.rs` prints for `docs/statistics.md`.
//!
//! World: run sd 2 %, session sd 2 %, a baseline of 3 sessions of 2 runs, 5 candidate runs, 3 controls; TTFT within
//! 10 % and TPOT within 5 % in two cells.

use std::collections::BTreeMap;

use crate::base::names::{Metric, Statistic};
use crate::compare::synthetic::policy::in_all_cells;
use crate::compare::synthetic::{Shape, Sides, Traffic};
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::Verdict;

/// The share of `gates` gates that end in each verdict.
fn shares(gates: u32, change: impl Fn(&str, &mut Traffic)) -> BTreeMap<Verdict, f64> {
    let policy = in_all_cells(&[(Metric::Ttft, Statistic::P50, 0.1), (Metric::Tpot, Statistic::P50, 0.05)]);
    let traffic = Traffic { requests: 30, tokens: 2, ..Traffic::default() };
    let mut shares = BTreeMap::new();
    for seed in 0..u64::from(gates) {
        let shape = Shape { run_sd: 0.02, session_sd: 0.02, seed, traffic, ..Shape::default() };
        let sides = Sides::new(shape, &change);
        let verdict = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).verdict;
        *shares.entry(verdict).or_insert(0.0) += 1.0 / f64::from(gates);
    }
    shares
}

fn share(shares: &BTreeMap<Verdict, f64>, verdict: Verdict) -> f64 {
    shares.get(&verdict).copied().unwrap_or_default()
}

fn all_on_the_margin(_: &str, t: &mut Traffic) {
    (t.ttft, t.tpot) = (t.ttft * 1.1, t.tpot * 1.05);
}

fn one_on_the_margin(cell: &str, t: &mut Traffic) {
    (t.ttft, t.tpot) = (t.ttft * 0.7, t.tpot * if cell == "c1" { 1.05 } else { 0.7 });
}

fn slower_in_one_cell(cell: &str, t: &mut Traffic) {
    t.tpot *= if cell == "c1" { 1.15 } else { 0.9 };
}

#[test]
fn all_effects_on_their_margins_fail_in_at_most_one_of_twenty_gates() {
    let found = shares(400, all_on_the_margin);
    assert!(share(&found, Verdict::Fail) <= 0.065 && share(&found, Verdict::Pass) <= 0.01, "{found:?}");
}

#[test]
fn one_effect_on_its_margin_passes_in_at_most_one_of_twenty_gates() {
    let found = shares(400, one_on_the_margin);
    assert!(share(&found, Verdict::Pass) <= 0.065 && share(&found, Verdict::Fail) <= 0.065, "{found:?}");
}

#[test]
fn unchanged_candidates_pass_and_strong_regressions_fail() {
    let same = shares(80, |_, _| {});
    assert!(share(&same, Verdict::Fail) < f64::EPSILON && share(&same, Verdict::Pass) > 0.8, "{same:?}");
    let slower = shares(80, slower_in_one_cell);
    assert!(share(&slower, Verdict::Fail) > 0.95 && share(&slower, Verdict::Pass) < f64::EPSILON, "{slower:?}");
}

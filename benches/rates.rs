//! How often the whole gate is wrong, by seeded simulation at run level: the table of `docs/statistics.md`.
//!
//! World: run sd 2 %, session sd 2 %, a baseline of 3 sessions of 2 runs, 5 candidate runs, 3 controls; TTFT within
//! 10 % and TPOT within 5 % in two cells. `verdict::rates_tests` pins the same worlds on fewer gates.
//!
//! `cargo bench --bench rates`

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, reason = "a measurement may end")]

use std::collections::BTreeMap;

use servegate::base::names::{Metric, Statistic};
use servegate::verdict::case::Case;
use servegate::verdict::judge::judge;
use servegate::verdict::judgement::Verdict;
use servegate::{artifact, base, compare, plan, spec};

#[path = "../src/compare/synthetic/mod.rs"]
#[expect(dead_code, reason = "the tests of the library use more of it")]
mod synthetic;

use synthetic::policy::in_all_cells;
use synthetic::{Shape, Sides, Traffic};

const GATES: u32 = 2_000;

type Change = fn(&str, &mut Traffic);

const WORLDS: [(&str, Change); 4] = [
    ("none", |_, _| {}),
    ("all four exactly on their margins", |_, t| (t.ttft, t.tpot) = (t.ttft * 1.1, t.tpot * 1.05)),
    ("one exactly on its margin, the others 30 % better", |cell, t| {
        (t.ttft, t.tpot) = (t.ttft * 0.7, t.tpot * if cell == "c1" { 1.05 } else { 0.7 });
    }),
    ("TPOT 15 % worse in one cell, 10 % better in the other", |cell, t| {
        t.tpot *= if cell == "c1" { 1.15 } else { 0.9 };
    }),
];

fn main() {
    let policy = in_all_cells(&[(Metric::Ttft, Statistic::P50, 0.1), (Metric::Tpot, Statistic::P50, 0.05)]);
    let traffic = Traffic { requests: 30, tokens: 2, ..Traffic::default() };
    println!("{GATES} gates each");
    println!("| true effects | fail | pass | inconclusive |\n|---|---|---|---|");
    for (name, change) in WORLDS {
        let mut counts = BTreeMap::new();
        for seed in 0..u64::from(GATES) {
            let shape = Shape { run_sd: 0.02, session_sd: 0.02, seed, traffic, ..Shape::default() };
            let sides = Sides::new(shape, change);
            let verdict = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).verdict;
            *counts.entry(verdict).or_insert(0_u32) += 1;
        }
        let share = |verdict| 100.0 * f64::from(counts.get(&verdict).copied().unwrap_or_default()) / f64::from(GATES);
        let [fail, pass, open] = [Verdict::Fail, Verdict::Pass, Verdict::Inconclusive].map(share);
        println!("| {name} | {fail:.2} % | {pass:.2} % | {open:.2} % |");
    }
}

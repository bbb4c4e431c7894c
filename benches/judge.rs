//! One decision over a million token gaps and 20 checks: the whole of `verdict::judge`, nothing cached.
//!
//! `cargo bench --bench judge`

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]

use std::hint::black_box;

use servegate::base::names::{Metric, Statistic};
use servegate::base::rng::Stream;
use servegate::base::units::Nanos;
use servegate::verdict::case::Case;
use servegate::verdict::judge::judge;
use servegate::{artifact, base, compare, plan, spec};

#[path = "support/meter.rs"]
mod meter;
#[path = "../src/compare/synthetic/mod.rs"]
#[expect(dead_code, reason = "the tests of the library use more of it")]
mod synthetic;

use meter::{Meter, median};
use synthetic::policy::in_all_cells;
use synthetic::{Shape, Sides, Traffic};

const ROUNDS: usize = 5;
const TOKENS: u32 = 256;

fn main() {
    println!("{}; medians of {ROUNDS}", meter::load());
    println!("| gaps in memory | checks | wall | processor | peak memory of the process, runs included |");
    println!("|---|---|---|---|---|");
    // 14 runs of 2 cells: a million gaps in the whole decision, then nearly so many in every run. Peaks only rise,
    // so the small one goes first.
    for requests in [140, 1_960] {
        row(requests);
    }
}

fn row(requests: u32) {
    let traffic = Traffic { requests, tokens: TOKENS, ..Traffic::default() };
    let shape = Shape { run_sd: 0.02, session_sd: 0.02, traffic, ..Shape::default() };
    let mut sides = Sides::new(shape, |_, _| {});
    scatter(&mut sides);
    let gaps: usize = sides.all().flat_map(|run| &run.records).map(|record| record.chunks.len() - 1).sum();
    let statistics = [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::Tail05];
    let checks = [Metric::Itl, Metric::ChunkGap].map(|metric| statistics.map(|statistic| (metric, statistic, 0.1)));
    let policy = in_all_cells(checks.as_flattened());
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let meter = Meter::start();
        let judgement = judge(&[Case { policy: &policy, evidence: sides.evidence() }]);
        costs.push(meter.stop());
        // 20 of the policy and two guards in each cell; none may have been left out.
        assert_eq!(judgement.policies[0].checks.len(), 24);
        assert!(judgement.policies[0].findings.is_empty(), "{:?}", judgement.policies[0].findings);
        black_box(judgement);
    }
    let [wall, cpu] = [0, 1].map(|i| median(costs.iter().map(|cost| cost[i])));
    let peak = meter::peak_mb();
    println!("| {gaps} | {} | {wall:.2} s | {cpu:.2} s | {peak:.0} MB |", policy.checks.len());
}

/// Gives every gap a scatter of its own, as a real engine's have: made-up runs repeat a few values, and selecting among
/// few values would be too easy.
fn scatter(sides: &mut Sides) {
    let mut stream = Stream::named(1, "gaps");
    for record in sides.all().flat_map(|run| &mut run.records) {
        let mut at = record.chunks[0].at;
        let gap = record.chunks[1].at.since(at).as_ms();
        for chunk in &mut record.chunks[1..] {
            at = (at + Nanos::from_ms(gap * stream.log_normal(0.08))).to_stored_resolution();
            chunk.at = at;
        }
        record.end = at;
    }
}

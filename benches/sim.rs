//! How fast the simulated engine is in virtual time, with everything that a demo does to a run: prompts composed,
//! streams spoken and decoded, records made.
//!
//! `cargo bench --bench sim`

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]

use std::convert::Infallible;
use std::sync::Arc;

use servegate::artifact::record::Record;
use servegate::base::names::Api;
use servegate::base::units::Nanos;
use servegate::loadgen::codec::Codec;
use servegate::loadgen::pass::pass;
use servegate::plan::build;
use servegate::sim::Deployment;
use servegate::sim::noise::Noise;
use servegate::sim::profile::Profile;
use servegate::sim::transport::SimTransport;
use servegate::spec::workload::{Cell, Class, Lengths, Load, Phase, Prompts, Workload};
use servegate::wire::dialect::{self, Template};
use servegate::wire::transport::Transport as _;

#[path = "support/meter.rs"]
mod meter;

use meter::{Meter, median};

const ROUNDS: usize = 3;
const TOKENS: u32 = 256;

fn main() {
    println!("{}; medians of {ROUNDS}", meter::load());
    println!("| concurrency | output tokens | tokens/s of wall time | processor a token | virtual / wall time |");
    println!("|---|---|---|---|---|");
    for concurrency in [1, 8, 64] {
        let requests = 20 * concurrency.max(8);
        let found: Vec<[f64; 3]> = (0..ROUNDS).map(|_| measure(concurrency, requests)).collect();
        let [wall, cpu, virtual_secs] = [0, 1, 2].map(|i| median(found.iter().map(|figures| figures[i])));
        let tokens = f64::from(requests * TOKENS);
        let (rate, each) = (tokens / wall, cpu / tokens * 1e6);
        println!("| {concurrency} | {tokens} | {rate:.0} | {each:.2} us | {:.0} |", virtual_secs / wall);
    }
    println!("peak memory {:.0} MB", meter::peak_mb());
}

/// Wall time, processor time and virtual time of one pass, in seconds.
fn measure(concurrency: u32, requests: u32) -> [f64; 3] {
    let cell = Cell {
        name: "c".to_owned(),
        phase: Phase::Steady,
        load: Load::Closed { concurrency },
        requests,
        warmup: concurrency,
        trace: None,
        session: None,
        classes: vec![Class::only(Lengths::Fixed(512), Lengths::Fixed(TOKENS))],
        max_connections: None,
        timeout: Nanos::from_secs(600),
        stall_timeout: Nanos::from_secs(60),
    };
    let workload = Workload {
        name: "bench".to_owned(),
        description: String::new(),
        prompts: Prompts::Text,
        caches: None,
        seed: 1,
        cells: vec![cell],
    };
    let plan = build(&workload);
    let profile = Profile::h100_8b();
    let dialect = dialect::of(Api::Chat);
    let extra = serde_json::Map::from_iter([("ignore_eos".to_owned(), true.into())]);
    let codec = Codec {
        dialect,
        template: Template::new(&dialect, profile.model, &extra),
        run: "r".to_owned(),
        api_key: None,
        tokenizer: None,
    };
    let mut transport = SimTransport::new(&Deployment::new(profile, Noise::seeded(1, 1)), Arc::default());
    let mut records = 0_u32;
    let mut sink = |record: Record| {
        assert!(record.is_success());
        records += 1;
        Ok::<(), Infallible>(())
    };
    let meter = Meter::start();
    let passed = pass(&[&plan.cells[0]], &codec, &mut transport, &mut sink, &mut |_| {}).unwrap();
    let [wall, cpu] = meter.stop();
    assert_eq!((passed.stop, records), (None, requests));
    [wall, cpu, transport.now().as_secs()]
}

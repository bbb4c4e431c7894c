//! What a plan of 100,000 requests costs: drawn from what cells say, and from a trace with blocks of prompts.
//!
//! `cargo bench --bench plan`; with a name of a case only that one, for its peak of memory.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "lengths of prompts, and no more than 100,000 requests"
)]

use std::collections::VecDeque;
use std::fmt::Write as _;

use servegate::base::rng::Stream;
use servegate::plan::build_with;
use servegate::plan::replay::{Traces, fit};
use servegate::spec::read_workload;
use servegate::trace::normal;

#[path = "support/meter.rs"]
mod meter;

use meter::{Meter, median};

const ROUNDS: usize = 5;
const REQUESTS: u32 = 100_000;

/// A name, the keys of the cell, and the text of its trace.
type Case = (&'static str, &'static str, fn() -> Option<String>);

fn main() {
    println!("{}; medians of {ROUNDS}; {REQUESTS} requests", meter::load());
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let cases: [Case; 4] = [
        (
            "drawn",
            "rate: 50/s, prompt_tokens: {log_normal: {median: 1500, sigma: 1, min: 10, max: 30000}}, output_tokens: {uniform: {min: 1, max: 500}}",
            || None,
        ),
        ("blocks-of-512", "trace: t.jsonl", || Some(trace(512, 12_000.0))),
        ("blocks-of-16", "trace: t.jsonl", || Some(trace(16, 1_000.0))),
        ("sessions", "trace: t.jsonl", || Some(sessions())),
    ];
    for (name, keys, text) in cases {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            measure(name, keys, text().as_ref());
        }
    }
}

fn measure(name: &str, keys: &str, trace: Option<&String>) {
    let measured = REQUESTS - 20;
    let text =
        format!("servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, requests: {measured}, {keys}}}\n");
    let (mut costs, mut parts, before) = (Vec::new(), 0, meter::peak_mb());
    for _ in 0..ROUNDS {
        let meter = Meter::start();
        let mut workload = read_workload("w.yaml", &text).unwrap().value;
        let read = |text: &String| ("t.jsonl".to_owned(), normal::read("t.jsonl", text.as_bytes()).unwrap());
        let traces: Traces = trace.into_iter().map(read).collect();
        fit(&mut workload, &traces).unwrap();
        let plan = build_with(&workload, &traces);
        costs.push(meter.stop());
        assert_eq!(plan.cells[0].requests.len() + plan.cells[0].warmup.len(), REQUESTS as usize);
        parts = plan.cells[0].requests.iter().map(|request| request.prompt.prefix.len()).sum();
    }
    let [wall, cpu] = [0, 1].map(|at| median(costs.iter().map(|cost| cost[at])));
    let file = trace.map_or(0, String::len) >> 20;
    println!(
        "{name}: wall {wall:.2} s, processor {cpu:.2} s, peak memory {:.0} MB ({before:.0} MB before it; trace {file} MiB, {parts} shared parts)",
        meter::peak_mb()
    );
}

/// Prompts of this mean length whose blocks form trees: each begins with a part of one of the thousand before it.
fn trace(block: u32, mean: f64) -> String {
    let mut stream = Stream::named(1, "trace");
    let mut text = format!("{{\"servegate_trace\":1,\"source\":\"mooncake\",\"block_tokens\":{block}}}\n");
    let (mut prompts, mut fresh): (VecDeque<Vec<u64>>, u64) = (VecDeque::new(), 0);
    for at in 0..REQUESTS {
        let tokens = (mean * stream.exponential()).clamp(20.0, 120_000.0) as u32;
        let blocks = tokens.div_ceil(block) as usize;
        let mut numbers = stream.choose(prompts.make_contiguous()).cloned().unwrap_or_default();
        numbers.truncate((blocks as f64 * stream.uniform() * 0.7) as usize);
        while numbers.len() < blocks {
            numbers.push(fresh);
            fresh += 1;
        }
        let written: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let (at_us, written) = (u64::from(at) * 20_000, written.join(","));
        let row =
            format!("{{\"at_us\":{at_us},\"prompt_tokens\":{tokens},\"output_tokens\":100,\"blocks\":[{written}]}}");
        writeln!(text, "{row}").unwrap();
        if prompts.len() == 1_000 {
            prompts.pop_front();
        }
        prompts.push_back(numbers);
    }
    text
}

/// Sessions of eight turns without blocks.
fn sessions() -> String {
    let mut text = "{\"servegate_trace\":1,\"source\":\"burstgpt\"}\n".to_owned();
    for at in 0..REQUESTS {
        let (turn, session) = (at / (REQUESTS / 8), at % (REQUESTS / 8));
        let parent = if turn == 0 { String::new() } else { format!(",\"parent\":{}", at - REQUESTS / 8) };
        writeln!(
            text,
            "{{\"at_us\":{},\"prompt_tokens\":{},\"output_tokens\":100,\"session\":{session},\"turn\":{}{parent}}}",
            u64::from(at) * 20_000,
            200 * (turn + 1),
            turn + 1
        )
        .unwrap();
    }
    text
}

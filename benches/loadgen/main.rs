//! What the load generator adds to what it measures, against a precise server in a process of its own on this host, next
//! to a bare timer, and what it costs next to a bare reader of the same bytes.
//!
//! `cargo bench --bench loadgen`: every case in a fresh process, three times; medians. The measured path and the server
//! are those of `servegate selfcheck` (`loadgen::selfcheck`).

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

mod bare;
#[path = "../support/meter.rs"]
mod meter;

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use servegate::loadgen::selfcheck::{Case, FIRST, Found, measure, server};

use meter::{Meter, median};

const ROUNDS: usize = 3;
/// Streams, and ms between the events of one. `loadgen client 10000 1000` is a case by itself: it takes minutes.
const CASES: [(u32, u64); 6] = [(1, 20), (10, 20), (64, 20), (100, 20), (256, 20), (1_000, 50)];

/// What is printed, in the order in which [`client`] gives it.
const FIGURES: [&str; 24] = [
    "events a second",
    "sent - due, p50, us",
    "sent - due, p99, us",
    "TTFT overhead, p50, us",
    "TTFT overhead, p99, us",
    "event stamped - event written, p50, us",
    "event stamped - event written, p99, us",
    "gap - gap as written, p50 of the absolute error, us",
    "gap - gap as written, p99 of the absolute error, us",
    "TPOT - TPOT as written, p50 of the absolute error, us",
    "TPOT - TPOT as written, p99 of the absolute error, us",
    "event written - event due (the server's own lateness), p50, us",
    "event written - event due (the server's own lateness), p99, us",
    "a bare timer's lateness meanwhile, p50, us",
    "a bare timer's lateness meanwhile, p99, us",
    "read - arrived in the kernel, p99, us",
    "client: processor an event, us",
    "bare reader: processor an event, us",
    "client / bare reader",
    "client: processor, cores",
    "server: processor, cores",
    "client: peak memory, MB",
    "reads without a kernel stamp",
    "wall time, s",
];

fn main() {
    // `cargo bench` adds an argument of its own.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |place: usize| arguments[place].parse().unwrap();
    let case =
        |place| Case { streams: u32::try_from(number(place)).unwrap(), gap: Duration::from_millis(number(place + 1)) };
    match arguments.first().map(String::as_str) {
        Some("serve") => {
            let gap = Duration::from_millis(number(1));
            server::serve(FIRST, gap, &mut std::io::stdin(), std::io::stdout()).unwrap();
        }
        Some("client") => {
            let figures = client(case(1));
            println!("{}", figures.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
        }
        Some("bare") => println!("{}", bare::processor_an_event(serving(case(1)), case(1))),
        _ => table(),
    }
}

fn itself(arguments: &[String]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

fn serving(case: Case) -> Command {
    itself(&["serve".to_owned(), case.gap.as_millis().to_string()])
}

fn table() {
    println!("{}; medians of {ROUNDS}", meter::load());
    let mut columns = Vec::new();
    for (streams, gap) in CASES {
        let figures = |what: &str| -> Vec<f64> {
            let out = itself(&[what.to_owned(), streams.to_string(), gap.to_string()]).output().unwrap();
            let text = String::from_utf8(out.stdout).unwrap();
            text.split_whitespace().map(|figure| figure.parse().unwrap()).collect()
        };
        let round = |_| {
            let mut found = figures("client");
            assert_eq!(found.len(), FIGURES.len() - 2, "{streams} streams: the client failed");
            let bare = figures("bare")[0];
            let ratio = found[16] / bare;
            found.splice(17..17, [bare, ratio]);
            found
        };
        let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
        columns.push((0..FIGURES.len()).map(|i| median(rounds.iter().map(|found| found[i]))).collect::<Vec<_>>());
    }
    let row = |cells: &[String]| println!("| {} |", cells.join(" | "));
    let heads = CASES.iter().map(|(streams, gap)| format!("{streams} at {gap} ms"));
    row(&["streams".to_owned()].into_iter().chain(heads).collect::<Vec<_>>());
    row(&vec!["---".to_owned(); CASES.len() + 1]);
    for (place, name) in FIGURES.iter().enumerate() {
        let decimals = if name.contains("cores") || name.contains('/') {
            2
        } else {
            usize::from(name.contains("an event") || name.contains("TPOT") || name.contains("wall"))
        };
        let cells = columns.iter().map(|column| format!("{:.decimals$}", column[place]));
        row(&[(*name).to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    println!("{}", meter::load());
}

/// One pass against a server of its own.
fn client(case: Case) -> Vec<f64> {
    let mut cost = [0.0; 4];
    let mut around = |server: &Child, work: &mut dyn FnMut()| {
        let (meter, before) = (Meter::start(), processor_of(server));
        work();
        let [wall, cpu] = meter.stop();
        cost = [wall, cpu, processor_of(server) - before, meter::peak_mb()];
    };
    let found = measure(case, serving(case), &std::sync::Arc::default(), &mut around).unwrap();
    let Found { events, sent, ttft, stamp, gap, tpot, server, timer, timer_processor, client } = found;
    let ([wall, cpu, served, peak], events) = (cost, events as f64);
    let cpu = cpu - timer_processor.as_secs_f64();
    let mut figures = vec![events / wall];
    for pair in [sent, ttft, stamp, gap, tpot, server, timer] {
        figures.extend([pair.p50, pair.p99]);
    }
    figures.push(client.read_lag_p99_us.map_or(f64::NAN, |lag| lag as f64));
    figures.extend([cpu / events * 1e6, cpu / wall, served / wall, peak, client.unaided_reads as f64, wall]);
    figures
}

/// Processor time of another process, in seconds, from the kernel's ticks of 10 ms.
pub(crate) fn processor_of(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

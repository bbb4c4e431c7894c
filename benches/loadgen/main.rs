//! What the load generator adds to what it measures, against a precise server in a process of its own on this host.
//!
//! `cargo bench --bench loadgen`: every case in a fresh process, three times; medians. The measured path is the one of
//! a run: a plan, `loadgen::pass`, HTTP over sockets, decoding, records encoded. Server and client share one monotonic
//! clock; the server keeps the instants of its own writes and hands them over after the end.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]
#![expect(clippy::cast_precision_loss, reason = "microseconds and counts are far below 2^53")]

#[path = "../support/meter.rs"]
mod meter;
mod server;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use servegate::artifact::codec::CodecError;
use servegate::artifact::codec::write::RecordWriter;
use servegate::artifact::record::Record;
use servegate::base::names::Api;
use servegate::base::units::Nanos;
use servegate::loadgen::codec::Codec;
use servegate::loadgen::http::{HttpTarget, HttpTransport};
use servegate::loadgen::pass::pass;
use servegate::plan::build;
use servegate::plan::request::PlannedCell;
use servegate::spec::workload::{Cell, Lengths, Load, Phase, Workload};
use servegate::wire::dialect::{self, Template};
use servegate::wire::transport::Transport as _;

use meter::{Meter, median};
use server::monotonic;

const ROUNDS: usize = 3;
/// Streams, and ms between the events of one: 50, 500, 5,000, 20,000 and 50,000 events a second.
const CASES: [(u32, u64); 5] = [(1, 20), (10, 20), (100, 20), (1_000, 50), (1_000, 20)];
const FIRST: Duration = Duration::from_millis(100);
const TOKENS: u32 = 64;

/// What is printed, in the order in which [`client`] gives it.
const FIGURES: [&str; 18] = [
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
    "client: processor an event, us",
    "client: processor, cores",
    "server: processor, cores",
    "client: peak memory, MB",
    "client: events decoded",
];

fn main() {
    // `cargo bench` adds an argument of its own.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |place: usize| arguments[place].parse().unwrap();
    match arguments.first().map(String::as_str) {
        Some("serve") => server::serve(FIRST, Duration::from_millis(number(1))),
        Some("client") => {
            let figures = client(u32::try_from(number(1)).unwrap(), number(2));
            println!("{}", figures.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
        }
        _ => table(),
    }
}

fn itself(arguments: [String; 3]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

fn table() {
    println!("{}; medians of {ROUNDS}", meter::load());
    let mut columns = Vec::new();
    for (streams, gap) in CASES {
        let round = |_| {
            let client = itself(["client".to_owned(), streams.to_string(), gap.to_string()]).output().unwrap();
            let text = String::from_utf8(client.stdout).unwrap();
            let figures: Vec<f64> = text.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
            assert_eq!(figures.len(), FIGURES.len(), "{streams} streams: the client failed");
            figures
        };
        let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
        columns.push((0..FIGURES.len()).map(|i| median(rounds.iter().map(|found| found[i]))).collect::<Vec<_>>());
    }
    let row = |cells: &[String]| println!("| {} |", cells.join(" | "));
    let heads = CASES.iter().map(|(streams, gap)| format!("{streams} at {gap} ms"));
    row(&["streams".to_owned()].into_iter().chain(heads).collect::<Vec<_>>());
    row(&vec!["---".to_owned(); CASES.len() + 1]);
    for (place, name) in FIGURES.iter().enumerate() {
        let decimals =
            if name.contains("cores") { 2 } else { usize::from(name.contains("an event") || name.contains("TPOT")) };
        let cells = columns.iter().map(|column| format!("{:.decimals$}", column[place]));
        row(&[(*name).to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    println!("{}", meter::load());
}

fn planned(streams: u32) -> PlannedCell {
    let cell = Cell {
        name: "c".to_owned(),
        phase: Phase::Steady,
        load: Load::Closed { concurrency: streams },
        requests: (streams * 4).clamp(10, 3_000),
        warmup: streams,
        prompt_tokens: Lengths::Fixed(16),
        output_tokens: Lengths::Fixed(TOKENS),
        shared_prefix: None,
        max_connections: None,
        timeout: Nanos::from_secs(60),
        stall_timeout: Nanos::from_secs(30),
    };
    let workload = Workload { name: "bench".to_owned(), description: String::new(), seed: 1, cells: vec![cell] };
    build(&workload).cells.remove(0)
}

/// One pass against a server of its own.
fn client(streams: u32, gap: u64) -> Vec<f64> {
    let mut server = itself(["serve".to_owned(), gap.to_string(), String::new()]).spawn().unwrap();
    let mut log = BufReader::new(server.stdout.take().unwrap());
    let mut address = String::new();
    log.read_line(&mut address).unwrap();
    let target = HttpTarget { url: format!("http://{}", address.trim()), api_key: None, ca_file: None };
    let mut transport = HttpTransport::connect(&target, std::sync::Arc::default()).unwrap();
    let origin = origin(&transport);
    let cell = planned(streams);
    let dialect = dialect::of(Api::Completions);
    let extra = serde_json::Map::from_iter([("ignore_eos".to_owned(), true.into())]);
    let codec = Codec { dialect, template: Template::new(&dialect, "m", &extra), api_key: None };
    let mut writer = RecordWriter::new(std::io::sink()).unwrap();
    let mut records = Vec::new();
    let mut sink = |record: Record| {
        writer.write(&record)?;
        records.push(record);
        Ok::<(), CodecError>(())
    };
    let (meter, before) = (Meter::start(), processor_of(&server));
    let passed = pass(&[&cell], &codec, &mut transport, &mut sink, &mut |_| {}).unwrap();
    let ([wall, cpu], served, peak) = (meter.stop(), processor_of(&server) - before, meter::peak_mb());
    assert_eq!(passed.stop, None);
    drop((transport, server.stdin.take()));
    let (events, written) = written(log);
    assert!(server.wait().unwrap().success());
    let mut found = Differences::default();
    for record in &records {
        assert!(record.is_success(), "{:?}: {:?}", record.outcome, record.detail);
        let seed = cell.requests[usize::try_from(record.request).unwrap()].prompt.seed & 0x7fff_ffff;
        found.take(record, &written[&seed], origin, gap);
    }
    let Differences { send, ttft, stamp, gap, tpot, server } = &mut found;
    let mut figures = vec![events / wall];
    for values in [send, ttft, stamp, gap, tpot, server] {
        figures.extend(percentiles(values));
    }
    let decoded = records.iter().map(|record| record.chunks.len()).sum::<usize>() as f64;
    figures.extend([cpu / events * 1e6, cpu / wall, served / wall, peak, decoded]);
    figures
}

/// The instant of the shared clock at which the transport's time began: the best of many looks.
fn origin(transport: &HttpTransport) -> i64 {
    let look = |_| {
        let (before, now, after) = (monotonic(), transport.now().0, monotonic());
        (after - before, signed(before + (after - before) / 2) - signed(now))
    };
    (0..1_000).map(look).min().unwrap().1
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap()
}

/// Processor time of another process, in seconds, from the kernel's ticks of 10 ms.
fn processor_of(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// What the server wrote when: by seed, the instant of the reading and those of the events.
fn written(log: impl std::io::BufRead) -> (f64, BTreeMap<u64, Vec<u64>>) {
    let mut lines = log.lines().map(Result::unwrap);
    let events = lines.next().unwrap().parse().unwrap();
    let numbers = |line: String| line.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u64>>();
    (events, lines.map(numbers).map(|numbers| (numbers[0], numbers[1..].to_vec())).collect())
}

/// What the client recorded against what the server did, in us.
#[derive(Default)]
struct Differences {
    send: Vec<f64>,
    ttft: Vec<f64>,
    stamp: Vec<f64>,
    gap: Vec<f64>,
    tpot: Vec<f64>,
    server: Vec<f64>,
}

impl Differences {
    fn take(&mut self, record: &Record, written: &[u64], origin: i64, gap: u64) {
        let us = |ns: i64| ns as f64 / 1e3;
        let (read, written) = (signed(written[0]), &written[1..]);
        assert_eq!(record.chunks.len(), written.len());
        self.send.push(us(signed(record.sent.since(record.due).0)));
        let served = signed(written[0]) - read;
        self.ttft.push(us(signed(record.chunks[0].at.since(record.due).0) - served));
        let pairs: Vec<[i64; 2]> =
            record.chunks.iter().zip(written).map(|(chunk, at)| [origin + signed(chunk.at.0), signed(*at)]).collect();
        self.stamp.extend(pairs.iter().map(|[stamped, at]| us(stamped - at)));
        let error = |pair: &[[i64; 2]]| us((pair[1][0] - pair[0][0]) - (pair[1][1] - pair[0][1])).abs();
        self.gap.extend(pairs.windows(2).map(error));
        let ends = [pairs[0], pairs[pairs.len() - 1]];
        self.tpot.push(error(&ends) / (pairs.len() - 1) as f64);
        let first = read + i64::try_from(FIRST.as_nanos()).unwrap();
        let due = |n: usize| first + signed(gap * 1_000_000 * u64::try_from(n).unwrap());
        self.server.extend(written.iter().enumerate().map(|(n, at)| us(signed(*at) - due(n))));
    }
}

/// Median and 99th percentile.
fn percentiles(values: &mut [f64]) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [values.len() / 2, values.len() * 99 / 100].map(|place| values[place])
}

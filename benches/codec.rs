//! How large a stored run is, and how fast it is written and read: 50,000 requests of 256 tokens.
//!
//! `cargo bench --bench codec`

#![expect(clippy::print_stdout, reason = "a table is what it is for")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::integer_division, reason = "a measurement may end")]

use std::fs::File;
use std::io::{BufReader, BufWriter};

use servegate::artifact::codec::read::read;
use servegate::artifact::codec::write::RecordWriter;
use servegate::artifact::record::{Chunk, Outcome, Record, TokenSource};
use servegate::base::digest::Digest;
use servegate::base::rng::Stream;
use servegate::base::units::Nanos;

#[path = "support/meter.rs"]
mod meter;

use meter::{Meter, median};

const ROUNDS: usize = 3;
const REQUESTS: u32 = 50_000;
const TOKENS: u32 = 256;

fn main() {
    println!("{}; medians of {ROUNDS}", meter::load());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.jsonl.zst");
    let (mut writes, mut reads, mut stored) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let meter = Meter::start();
        let mut making = [0.0; 2];
        let mut writer = RecordWriter::new(BufWriter::new(File::create(&path).unwrap())).unwrap();
        let mut maker = Maker::new();
        for request in 0..REQUESTS {
            let made = Meter::start();
            let record = maker.record(request);
            making = add(making, made.stop(), 1.0);
            writer.write(&record).unwrap();
        }
        stored = writer.finish().unwrap().bytes;
        writes.push(add(meter.stop(), making, -1.0));
    }
    let writing_peak = meter::peak_mb();
    for _ in 0..ROUNDS {
        let meter = Meter::start();
        let records = read(BufReader::new(File::open(&path).unwrap())).unwrap();
        reads.push(meter.stop());
        let mut maker = Maker::new();
        assert!((0..REQUESTS).zip(&records).all(|(request, record)| maker.record(request) == *record));
    }
    let text = std::io::copy(&mut zstd::Decoder::new(File::open(&path).unwrap()).unwrap(), &mut std::io::sink());
    let [text, stored] = [text.unwrap(), stored].map(|bytes| f64::from(u32::try_from(bytes).unwrap()));
    let tokens = f64::from(REQUESTS) * f64::from(TOKENS);
    println!("{REQUESTS} requests of {TOKENS} tokens: text {:.1} MB, stored {:.1} MB", text / 1e6, stored / 1e6);
    println!("{:.2} bytes a token, {:.0} bytes a request", stored / tokens, stored / f64::from(REQUESTS));
    for (what, costs, peak) in [("write", writes, writing_peak), ("read", reads, meter::peak_mb())] {
        let [wall, cpu] = [0, 1].map(|i| median(costs.iter().map(|cost| cost[i])));
        println!("{what}: wall {wall:.2} s, processor {cpu:.2} s, peak memory {peak:.0} MB");
    }
}

fn add(one: [f64; 2], other: [f64; 2], factor: f64) -> [f64; 2] {
    [one[0] + factor * other[0], one[1] + factor * other[1]]
}

/// Makes the requests, with gaps of about 12 ms that scatter by 8 % as those of a real engine do.
struct Maker {
    stream: Stream,
    due: Nanos,
}

impl Maker {
    fn new() -> Self {
        Self { stream: Stream::named(1, "records"), due: Nanos::ZERO }
    }

    fn micros(&mut self, median_us: f64, sigma: f64) -> Nanos {
        Nanos::from_ms(median_us * self.stream.log_normal(sigma) / 1e3).to_stored_resolution()
    }

    fn record(&mut self, request: u32) -> Record {
        self.due = self.due + self.micros(20_000.0, 0.8);
        let sent = self.due + self.micros(40.0, 0.3);
        let first = sent + self.micros(60_000.0, 0.4);
        let mut at = first;
        let mut chunks = vec![Chunk { at, tokens: Some(1) }];
        for _ in 1..TOKENS {
            at = at + self.micros(12_000.0, 0.08);
            chunks.push(Chunk { at, tokens: Some(1) });
        }
        Record {
            cell: "c8".to_owned(),
            request,
            class: None,
            turn: None,
            due: self.due,
            sent,
            connect: None,
            tls: None,
            head: Some(first),
            first_byte: Some(first),
            first_answer: Some(first),
            reads: TOKENS,
            chunks,
            end: at + self.micros(100.0, 0.3),
            prompt_tokens: Some(512),
            cached_tokens: Some(0),
            output_tokens: Some(TOKENS),
            reasoning_tokens: None,
            tokens_from: TokenSource::Usage,
            doubt: None,
            text_bytes: 4 * u64::from(TOKENS),
            text_digest: Some(Digest::of(&request.to_le_bytes()).into()),
            finish: Some("length".to_owned()),
            outcome: Outcome::Ok,
            detail: None,
        }
    }
}

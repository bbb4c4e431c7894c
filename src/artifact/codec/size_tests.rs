//! How large and how fast the stored form is. Not part of the ordinary tests: the figures of `docs/formats.md`.

use std::hint::black_box;
use std::time::Instant;

use crate::artifact::codec::manifest::tests::manifest_of;
use crate::artifact::codec::read::read;
use crate::artifact::codec::write::RecordWriter;
use crate::artifact::metrics::Question;
use crate::artifact::metrics::cell::CellData;
use crate::artifact::record::{Chunk, Outcome, Record, TokenSource};
use crate::artifact::run::Run;
use crate::base::names::{Metric, Statistic};
use crate::base::rng::Stream;
use crate::base::units::Nanos;

/// Requests of 256 tokens each, with gaps of about 12 ms that scatter by 8 % as those of a real engine do.
fn requests(count: u32) -> Vec<Record> {
    let mut stream = Stream::named(1, "records");
    let mut micros =
        |median_us: f64, sigma: f64| Nanos::from_ms(median_us * stream.log_normal(sigma) / 1e3).to_stored_resolution();
    let mut due = Nanos::ZERO;
    (0..count)
        .map(|request| {
            due = due + micros(20_000.0, 0.8);
            let sent = due + micros(40.0, 0.3);
            let mut at = sent + micros(60_000.0, 0.4);
            let first = at;
            let mut chunks = vec![Chunk { at, tokens: Some(1) }];
            for _ in 1..256 {
                at = at + micros(12_000.0, 0.08);
                chunks.push(Chunk { at, tokens: Some(1) });
            }
            Record {
                cell: "c8".to_owned(),
                request,
                due,
                sent,
                first_byte: Some(first),
                first_answer: Some(first),
                chunks,
                end: at + micros(100.0, 0.3),
                prompt_tokens: Some(512),
                cached_tokens: Some(0),
                output_tokens: Some(256),
                reasoning_tokens: None,
                tokens_from: TokenSource::Usage,
                finish: Some("length".to_owned()),
                outcome: Outcome::Ok,
                detail: None,
            }
        })
        .collect()
}

#[test]
#[ignore = "a measurement; docs/formats.md has the command"]
fn size_and_speed_of_50_000_requests_of_256_tokens() {
    let records = requests(50_000);
    let tokens = 256.0 * 50_000.0;
    let start = Instant::now();
    let mut writer = RecordWriter::new(Vec::new()).unwrap();
    for record in &records {
        writer.write(record).unwrap();
    }
    let sealed = writer.finish().unwrap();
    let encoded = start.elapsed();
    let start = Instant::now();
    let back = read(&*sealed.sink).unwrap();
    let decoded = start.elapsed();
    assert!(back == records);
    let text = zstd::decode_all(&*sealed.sink).unwrap().len();
    let [mb, stored] = [text, sealed.sink.len()].map(|bytes| f64::from(u32::try_from(bytes).unwrap()) / 1e6);
    println!("text {mb:.1} MB, stored {stored:.1} MB, {:.2} bytes a token", stored * 1e6 / tokens);
    println!("encode {:.2} s, decode {:.2} s", encoded.as_secs_f64(), decoded.as_secs_f64());
}

#[test]
#[ignore = "a measurement; docs/formats.md has the command"]
fn speed_of_20_checks_on_a_million_gaps() {
    let records = requests(3_922);
    let run = Run { manifest: manifest_of(&records), records };
    let start = Instant::now();
    let mut cell = CellData::of(&run, "c8");
    for _ in 0..2 {
        for metric in [Metric::Itl, Metric::ChunkGap] {
            for statistic in [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::Tail05] {
                let question = Question { metric, statistic, limits: &[], timeout: Nanos::from_secs(60) };
                black_box(cell.summary(&question).unwrap());
            }
        }
    }
    println!("20 checks on {} gaps: {:.2} s", 3_922 * 255, start.elapsed().as_secs_f64());
}

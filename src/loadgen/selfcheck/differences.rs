//! What the client recorded against what the server did.

use std::time::Duration;

use crate::artifact::record::Record;
use crate::artifact::run::ClientEvidence;
use crate::loadgen::selfcheck::clock::Ticked;
use crate::loadgen::selfcheck::{FIRST, Found, Pair};
use crate::stats::quantile::quantile;

/// Differences of all requests, in us.
pub(super) struct Differences {
    origin: i64,
    gap: i64,
    sent: Vec<f64>,
    ttft: Vec<f64>,
    stamp: Vec<f64>,
    gaps: Vec<f64>,
    tpot: Vec<f64>,
    server: Vec<f64>,
}

impl Differences {
    /// `origin` is the instant of the shared clock at which the client's time began, in ns.
    pub(super) fn new(origin: i64, gap: Duration) -> Self {
        let gap = i64::try_from(gap.as_nanos()).unwrap_or(i64::MAX);
        let [sent, ttft, stamp, gaps, tpot, server] = [const { Vec::new() }; 6];
        Self { origin, gap, sent, ttft, stamp, gaps, tpot, server }
    }

    /// Takes a record and what the server wrote for it: the instant of the reading and those of the events. None when
    /// they are not of one request.
    pub(super) fn take(&mut self, record: &Record, written: &[u64]) -> Option<()> {
        let (read, written) = written.split_first()?;
        if record.chunks.len() != written.len() {
            return None;
        }
        let read = signed(*read);
        let pairs: Vec<[i64; 2]> = record
            .chunks
            .iter()
            .zip(written)
            .map(|(chunk, at)| [self.origin.saturating_add(signed(chunk.at.0)), signed(*at)])
            .collect();
        let (first, last) = (pairs.first()?, pairs.last()?);
        self.sent.push(us(signed(record.sent.since(record.due).0)));
        let waited = signed(record.first_content()?.since(record.due).0);
        self.ttft.push(us(waited - (first[1] - read)));
        self.stamp.extend(pairs.iter().map(|[stamped, at]| us(stamped - at)));
        let error = |from: &[i64; 2], to: &[i64; 2]| us((to[0] - from[0]) - (to[1] - from[1])).abs();
        self.gaps.extend(pairs.iter().zip(pairs.iter().skip(1)).map(|(from, to)| error(from, to)));
        let gaps = u32::try_from(pairs.len().checked_sub(1).filter(|gaps| *gaps > 0)?).ok()?;
        self.tpot.push(error(first, last) / f64::from(gaps));
        let mut due = read.saturating_add(i64::try_from(FIRST.as_nanos()).unwrap_or(i64::MAX));
        for [_, at] in &pairs {
            self.server.push(us(at - due));
            due = due.saturating_add(self.gap);
        }
        Some(())
    }

    /// The percentiles of all that was taken.
    pub(super) fn found(mut self, events: u64, mut timer: Ticked, client: ClientEvidence) -> Found {
        Found {
            events,
            sent: pair(&mut self.sent),
            ttft: pair(&mut self.ttft),
            stamp: pair(&mut self.stamp),
            gap: pair(&mut self.gaps),
            tpot: pair(&mut self.tpot),
            server: pair(&mut self.server),
            timer: pair(&mut timer.late),
            timer_processor: timer.processor,
            client,
        }
    }
}

fn pair(values: &mut [f64]) -> Pair {
    let mut at = |level| quantile(values, level).unwrap_or(f64::NAN);
    Pair { p50: at(0.5), p99: at(0.99) }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of one host's uptime are below 2^53 for 100 days")]
fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

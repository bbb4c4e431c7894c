//! What a run tells about its own validity, as data. Whether it may be judged is decided in `verdict`; the limits
//! stand here beside the numbers they bound (product rules 8 and 9, and section 4.12 of the decision rule).

use std::collections::BTreeMap;

use crate::artifact::metrics::cell::CellData;
use crate::artifact::record::{Doubt, Outcome, Record, TokenSource, cached_share};
use crate::artifact::run::{CellEvidence, Run};
use crate::artifact::server::{ServerEvidence, TokenBalance};
use crate::base::names::Metric;
use crate::base::units::Nanos;
use crate::stats::error_rate::Count;
use crate::stats::quantile::quantile;
use crate::stats::steady::drift;

/// The share of the planned requests that must have been attempted.
pub const LEAST_ATTEMPTED: f64 = 0.98;
/// The share of invalid records that is tolerated.
pub const MOST_INVALID: f64 = 0.001;
/// The send lag that no run may reach, in ms.
pub const SEND_LAG_CEILING_MS: f64 = 5.0;
/// The send lag that every run may have, in ms.
pub const SEND_LAG_FLOOR_MS: f64 = 1.0;
/// The share of the median TTFT that the send lag may have above the floor.
pub const SEND_LAG_SHARE: f64 = 0.01;

/// The evidence of one run and cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellValidity {
    /// Name of the cell.
    pub cell: String,
    /// Measured requests of the plan.
    pub planned: usize,
    /// Measured requests that left a record.
    pub attempted: usize,
    /// Records that claim success without content or tokens.
    pub invalid: usize,
    /// Requests with content in the very microsecond they were due: no network is that fast.
    pub zero_latencies: usize,
    /// Failed requests, as [`failures`] counts them.
    pub failures: Count,
    /// How many requests ended how; outcomes that did not occur are absent.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// In how many answers the accounts of the tokens contradict each other; kinds that did not occur are absent.
    pub doubts: BTreeMap<Doubt, usize>,
    /// Successes whose output tokens are an estimate: content chunks were counted.
    pub estimated: usize,
    /// Successes whose output tokens are those of their text, by the tokenizer file.
    pub of_text: usize,
    /// 99th percentile of sent - due, in ms, of the requests that did not wait for a connection; none without one.
    pub send_lag_p99_ms: Option<f64>,
    /// What the send lag must stay below, in ms: the larger of 1 ms and 1 % of the median TTFT, at most 5 ms.
    pub send_lag_limit_ms: f64,
    /// ln(median of the last third / median of the first third) of TTFT by due order; none with too few values.
    pub ttft_drift: Option<f64>,
    /// The same of TPOT.
    pub tpot_drift: Option<f64>,
    /// Mean prompt tokens, over the requests that know them.
    pub prompt_tokens_mean: Option<f64>,
    /// The share of prompt tokens that came from the prefix cache: as the server counted, else as its answers say.
    pub cache_hit_share: Option<f64>,
    /// Requests that were sent a second time, because the server was closing the connection that they were sent over.
    pub resent: usize,
    /// What the server counted.
    pub server: Option<ServerEvidence>,
    /// Its output tokens beside ours.
    pub tokens: Option<TokenBalance>,
}

impl CellValidity {
    /// The evidence of `cell`; none when the run's manifest does not name it. `timeout` is the cell's.
    pub fn of(run: &Run, cell: &str, timeout: Nanos) -> Option<Self> {
        let evidence = run.manifest.cells.iter().find(|evidence| evidence.name == cell)?;
        let data = CellData::of(run, cell);
        let records = data.records();
        let (mut outcomes, mut doubts) = (BTreeMap::new(), BTreeMap::new());
        for record in records {
            *outcomes.entry(record.outcome).or_default() += 1;
            if let Some(doubt) = record.doubt {
                *doubts.entry(doubt).or_default() += 1;
            }
        }
        let mut lags = own_lags(records, evidence);
        let median_ttft = quantile(&mut data.times(Metric::Ttft), 0.5).unwrap_or_default();
        let steady = |metric| drift(&data.times(metric), timeout.as_ms());
        let window_us = evidence.window_end_us.saturating_sub(evidence.window_start_us);
        let counted = |by| records.iter().filter(|record| record.is_success() && record.tokens_from == by).count();
        let at_once = |record: &&&Record| record.first_content() == Some(record.due);
        Some(Self {
            cell: cell.to_owned(),
            planned: usize::try_from(evidence.planned).unwrap_or(usize::MAX),
            attempted: records.len(),
            invalid: records.iter().filter(|record| record.is_invalid()).count(),
            zero_latencies: records.iter().filter(at_once).count(),
            failures: failures(records),
            outcomes,
            doubts,
            estimated: counted(TokenSource::Chunks),
            of_text: counted(TokenSource::Tokenizer),
            send_lag_p99_ms: quantile(&mut lags, 0.99),
            send_lag_limit_ms: (SEND_LAG_SHARE * median_ttft).clamp(SEND_LAG_FLOOR_MS, SEND_LAG_CEILING_MS),
            ttft_drift: steady(Metric::Ttft),
            tpot_drift: steady(Metric::Tpot),
            prompt_tokens_mean: mean(records.iter().filter_map(|record| record.prompt_tokens)),
            cache_hit_share: evidence.server.and_then(|it| it.cache_hit_share()).or_else(|| cached_share(records)),
            resent: usize::try_from(evidence.resent).unwrap_or(usize::MAX),
            server: evidence.server,
            tokens: evidence.server.and_then(|server| TokenBalance::of(&server, records, window_us)),
        })
    }

    /// Attempted requests as a share of the planned ones; 0 when none was planned.
    pub fn attempted_share(&self) -> f64 {
        share(self.attempted, self.planned)
    }

    /// Whether nearly all planned requests were attempted.
    pub fn is_whole(&self) -> bool {
        self.attempted_share() >= LEAST_ATTEMPTED
    }

    /// Whether the load generator kept its own schedule. A cell without records shows nothing: false. So does one
    /// in which every request waited for a connection, but that is its cap's doing: true.
    pub fn kept_schedule(&self) -> bool {
        self.send_lag_p99_ms.map_or(self.attempted > 0, |lag| lag < self.send_lag_limit_ms)
    }

    /// Invalid records as a share of the attempted requests; 0 when there is none.
    pub fn invalid_share(&self) -> f64 {
        share(self.invalid, self.attempted)
    }

    /// Whether records that contradict themselves are few.
    pub fn is_consistent(&self) -> bool {
        self.invalid_share() <= MOST_INVALID
    }

    /// Answers that count: those of which a share may be in doubt.
    pub fn answers(&self) -> usize {
        self.outcomes.get(&Outcome::Ok).copied().unwrap_or_default()
    }

    /// Requests that ended like this, of all.
    pub fn ended(&self, outcome: Outcome) -> Count {
        counted(self.outcomes.get(&outcome).copied().unwrap_or_default(), self.attempted)
    }

    /// In so many answers the accounts of the tokens contradict each other like this.
    pub fn doubtful(&self, doubt: Doubt) -> usize {
        self.doubts.get(&doubt).copied().unwrap_or_default()
    }

    /// Share of the attempted requests that ended like this.
    pub fn outcome_share(&self, outcome: Outcome) -> f64 {
        share(self.outcomes.get(&outcome).copied().unwrap_or_default(), self.attempted)
    }
}

/// The lags of the load generator itself in ms. The time to connect, TLS included, is the target's and the network's.
/// The largest ones are left out, as many as requests waited at a connection cap, which is the workload's doing, or were
/// sent a second time, which is the server's. Such a wait counts as latency and not as a fault of the client.
fn own_lags(records: &[&Record], evidence: &CellEvidence) -> Vec<f64> {
    let lag = |record: &&Record| record.sent.since(record.due).since(record.connect.unwrap_or_default());
    let mut lags: Vec<Nanos> = records.iter().map(lag).collect();
    lags.sort_unstable();
    let waited = evidence.connections.map_or(0, |connections| connections.waited).saturating_add(evidence.resent);
    let own = lags.len().saturating_sub(usize::try_from(waited).unwrap_or(usize::MAX));
    lags.into_iter().take(own).map(Nanos::as_ms).collect()
}

/// Requests that failed, successes without content or tokens among them, of those that were asked of the target: what the
/// load generator's own host refused was not.
pub fn failures(records: &[&Record]) -> Count {
    let asked = || records.iter().filter(|record| record.outcome != Outcome::ClientFault);
    counted(asked().filter(|record| !record.is_success()).count(), asked().count())
}

fn counted(failed: usize, attempted: usize) -> Count {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    Count { failed: number(failed), attempted: number(attempted) }
}

/// `part` of `whole`; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^53")]
pub fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn mean(values: impl Iterator<Item = u32>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + f64::from(value), count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::manifest::tests::manifest_of;
    use crate::artifact::codec::samples::{refused, streamed};
    use crate::artifact::run::ConnectionCap;

    #[test]
    fn waiting_at_a_connection_cap_is_not_the_load_generators_lag() {
        let records: Vec<Record> = (0..300)
            .map(|n| {
                let record = streamed(n, u64::from(n) * 10, 40, 10, 5);
                let wait = if n < 200 { Nanos::from_millis(30) } else { Nanos::from_micros(100) };
                Record { sent: record.due + wait, ..record }
            })
            .collect();
        let mut run = Run { manifest: manifest_of(&records), records };
        let of = |run: &Run| CellValidity::of(run, "c8", Nanos::from_secs(10)).unwrap();
        assert!(!of(&run).kept_schedule());
        for (waited, right) in [(198, false), (200, true), (300, true)] {
            let cap = ConnectionCap { waited, ..ConnectionCap::of(4) };
            run.manifest.cells[0].connections = Some(cap);
            assert_eq!(of(&run).kept_schedule(), right, "{waited}");
        }
    }

    #[test]
    fn neither_connecting_nor_a_second_send_is_the_load_generators_lag() {
        let ms = Nanos::from_millis;
        let records = |own: Nanos, connect: Option<Nanos>| -> Vec<Record> {
            let late =
                |record: Record| Record { sent: record.due + own + connect.unwrap_or_default(), connect, ..record };
            (0..300).map(|n| late(streamed(n, u64::from(n) * 10, 80, 10, 5))).collect()
        };
        assert!(of(records(Nanos::ZERO, Some(ms(50)))).kept_schedule());
        assert!(!of(records(ms(6), Some(ms(50)))).kept_schedule(), "what is left is its own");
        assert!(!of(records(ms(6), None)).kept_schedule());
        let records = records(ms(6), None);
        let mut run = Run { manifest: manifest_of(&records), records };
        run.manifest.cells[0].resent = 300;
        let found = CellValidity::of(&run, "c8", Nanos::from_secs(10)).unwrap();
        assert!(found.kept_schedule() && found.resent == 300);
    }

    fn of(records: Vec<Record>) -> CellValidity {
        let run = Run { manifest: manifest_of(&records), records };
        CellValidity::of(&run, "c8", Nanos::from_secs(10)).unwrap()
    }

    #[test]
    fn a_healthy_cell_shows_nothing() {
        let found = of((0..300).map(|n| streamed(n, u64::from(n) * 10, 40, 10, 5)).collect());
        assert!(found.is_whole() && found.kept_schedule() && found.is_consistent());
        assert_eq!((found.ttft_drift, found.tpot_drift), (Some(0.0), Some(0.0)));
        assert_eq!((found.prompt_tokens_mean, found.zero_latencies), (Some(512.0), 0));
        assert!((found.outcome_share(Outcome::Ok) - 1.0).abs() < 1e-12);
        assert!((found.send_lag_limit_ms - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_late_load_generator_is_seen() {
        let late = |lag_us: u64, ttft_ms: u64| {
            of((0..300)
                .map(|n| {
                    let record = streamed(n, u64::from(n) * 10, ttft_ms, 10, 5);
                    Record { sent: record.due + Nanos::from_micros(lag_us), ..record }
                })
                .collect())
        };
        assert!(late(900, 50).kept_schedule());
        assert!(!late(1_100, 50).kept_schedule());
        // 1 % of 300 ms are 3 ms; 1 % of 2 s would be 20 ms, and 5 ms is the end.
        assert!(late(2_900, 300).kept_schedule());
        assert!(late(4_900, 2_000).kept_schedule());
        assert!(!late(5_000, 2_000).kept_schedule());
    }

    #[test]
    fn a_cell_that_slows_down_drifts() {
        let found =
            of((0..300).map(|n| streamed(n, u64::from(n) * 10, if n < 150 { 40 } else { 80 }, 10, 5)).collect());
        assert!((found.ttft_drift.unwrap() - 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(found.tpot_drift, Some(0.0));
    }

    #[test]
    fn failures_and_contradictions_are_counted_apart() {
        let mut records: Vec<_> = (0..96).map(|n| streamed(n, 0, 40, 10, 5)).collect();
        records.extend((96..100).map(|n| refused(n, 0)));
        records[0].output_tokens = None;
        let found = of(records.clone());
        assert_eq!((found.invalid, found.outcomes[&Outcome::Shed]), (1, 4));
        assert!(!found.is_consistent());
        assert!((found.outcome_share(Outcome::Shed) - 0.04).abs() < 1e-12);
        let mut run = Run { manifest: manifest_of(&records), records };
        run.manifest.cells[0].planned = 103;
        let found = CellValidity::of(&run, "c8", Nanos::from_secs(1)).unwrap();
        assert!(!found.is_whole());
        assert_eq!(CellValidity::of(&run, "c9", Nanos::from_secs(1)), None);
    }
}

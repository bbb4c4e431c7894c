//! The stored result of `servegate selfcheck`: up to which load this host's numbers may be trusted.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::artifact::codec::{MAX_TEXT, record_text};
use crate::artifact::validity::SEND_LAG_CEILING_MS;
use crate::base::units::Nanos;
use crate::cli::error::CliError;
use crate::loadgen::drive::needed_connections;
use crate::loadgen::host;
use crate::plan::request::{Plan, PlannedCell};
use crate::spec::workload;
use crate::store::files::{read_bounded, write_atomic};
use crate::wire::transport::StampSource;

/// Where the result is kept, in the folder that servegate is started in.
pub(crate) const FILE: &str = "servegate-selfcheck.json";
/// Version of the file.
const FORMAT: u32 = 1;
/// Largest file that is read.
const MAX: u64 = 1 << 20;
/// A host is trusted under a load while the median of TTFT is wrong by less than this ...
const MOST_TTFT_US: f64 = 1_000.0;
/// ... and nearly every instant by less than this.
const MOST_STAMP_US: f64 = 1_000.0;
/// ... and nearly every request is sent as early as any run must send it.
const MOST_SENT_US: f64 = 1_000.0 * SEND_LAG_CEILING_MS;
/// No answer of a language model is expected to be whole in less.
const SHORTEST_ANSWER: Nanos = Nanos::from_millis(100);

/// What a host may be trusted with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trust {
    format: u32,
    servegate: String,
    /// Name of the host: a result of another one says nothing.
    host: String,
    /// The most streams at once; 0 when none were exact enough.
    pub(crate) streams: u32,
    /// What was measured, lightest load first.
    pub(crate) loads: Vec<Load>,
}

/// What was measured under one load: median and 99th percentile, in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) streams: u32,
    pub(crate) gap_ms: u64,
    pub(crate) sent_us: [f64; 2],
    pub(crate) ttft_us: [f64; 2],
    pub(crate) stamp_us: [f64; 2],
    pub(crate) chunk_gap_us: [f64; 2],
    pub(crate) tpot_us: [f64; 2],
    pub(crate) server_us: [f64; 2],
    pub(crate) timer_us: [f64; 2],
    pub(crate) stamps: StampSource,
    pub(crate) steal: Option<f64>,
}

impl Load {
    /// Whether the numbers of a run under this load may be believed.
    pub(crate) fn is_trusted(&self) -> bool {
        let [ttft, stamp, sent] = [self.ttft_us[0].abs(), self.stamp_us[1], self.sent_us[1]];
        ttft < MOST_TTFT_US && stamp < MOST_STAMP_US && sent < MOST_SENT_US
    }
}

impl Trust {
    /// From the loads, lightest first: trusted up to the last before the first that is not.
    pub(crate) fn of(loads: Vec<Load>) -> Self {
        let streams = loads.iter().take_while(|load| load.is_trusted()).last().map_or(0, |load| load.streams);
        Self { format: FORMAT, servegate: env!("CARGO_PKG_VERSION").to_owned(), host: host_name(), streams, loads }
    }

    /// The result that is kept for this host; none when there is none, or it is of another host or version.
    fn read(path: &Path) -> Result<Option<Self>, CliError> {
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_bounded(path, MAX).map_err(|error| CliError::failed(error.to_string()))?;
        let trust: Self = serde_json::from_slice(&bytes).map_err(|error| {
            CliError::failed(format!("{}: {error}", path.display())).hint("run `servegate selfcheck` again")
        })?;
        let current =
            trust.format == FORMAT && trust.servegate == env!("CARGO_PKG_VERSION") && trust.host == host_name();
        Ok(current.then_some(trust))
    }

    /// The most streams that were tried.
    fn tried(&self) -> u32 {
        self.loads.iter().map(|load| load.streams).max().unwrap_or(0)
    }

    /// Refuses a plan with more streams at once than this host was exact with, or than were tried.
    fn admit(&self, plan: &Plan) -> Result<(), CliError> {
        let Some((cell, needed)) = plan
            .cells
            .iter()
            .map(|cell| (cell, expected(cell)))
            .filter(|(_, needed)| *needed > self.streams)
            .max_by_key(|(_, needed)| *needed)
        else {
            return Ok(());
        };
        let (name, streams, tried) = (&cell.name, self.streams, self.tried());
        if streams < tried {
            let message = format!(
                "cell {name} keeps more requests in flight than this host is exact with ({streams} by `servegate selfcheck`, \
                 and it may have {needed})"
            );
            return Err(CliError::failed(message).hint(
                "measure from a host with more processors to spare, repeat `servegate selfcheck` on a quiet one, or lower the \
                 load (of an open loop, `max_connections`)",
            ));
        }
        let message = format!(
            "cell {name} may have {needed} requests in flight, and `servegate selfcheck` tried this host with {tried} at most"
        );
        Err(CliError::failed(message).hint(format!(
            "run `servegate selfcheck --streams {needed}`, or lower the load (of an open loop, `max_connections`)"
        )))
    }
}

/// Whether this host can measure the plan: room for its records, connections for it, and no more load than it is exact under.
pub(crate) fn admit(plan: &Plan) -> Result<(), CliError> {
    fits(plan)?;
    let most = plan.cells.iter().map(needed_connections).max().unwrap_or(0);
    host::make_room(u64::try_from(most).unwrap_or(u64::MAX)).map_err(|error| CliError::failed(error.to_string()))?;
    Trust::read(Path::new(FILE))?.map_or(Ok(()), |trust| trust.admit(plan))
}

/// Refuses a plan whose records a run could not store: it would end hours later.
fn fits(plan: &Plan) -> Result<(), CliError> {
    let requests = plan.cells.iter().flat_map(|cell| &cell.requests);
    let text = requests.map(|request| record_text(request.output_tokens)).fold(0_u64, u64::saturating_add);
    if text <= MAX_TEXT {
        return Ok(());
    }
    let message = format!(
        "the records of one run would be about {} MiB of text, and no more than {} MiB are stored",
        text >> 20,
        MAX_TEXT >> 20
    );
    Err(CliError::failed(message)
        .hint("lower `requests` or `output_tokens`, or split the cells into several workloads"))
}

/// The most streams at once that this host may be trusted with; none where there is no result of it.
pub(crate) fn trusted_streams() -> Result<Option<u32>, CliError> {
    Ok(Trust::read(Path::new(FILE))?.map(|trust| trust.streams))
}

/// Requests in flight of a closed loop.
fn closed(load: &workload::Load) -> Option<u32> {
    if let workload::Load::Closed { concurrency } = load { Some(*concurrency) } else { None }
}

/// Requests that a cell has in flight at once, as far as it is known before the target has answered. Of an open loop:
/// what its cap allows, or what is due before any answer can have ended. How many there are is seen in the run.
fn expected(cell: &PlannedCell) -> u32 {
    if !cell.load.is_open() {
        return closed(&cell.load).unwrap_or(1);
    }
    let mut due: Vec<Nanos> =
        cell.warmup.iter().chain(&cell.requests).map(|request| request.due.unwrap_or_default()).collect();
    due.sort_unstable();
    let within = |(place, start): (usize, &Nanos)| {
        let behind = due.get(place..).unwrap_or_default();
        behind.partition_point(|due| due.since(*start) < SHORTEST_ANSWER)
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    match cell.max_connections {
        Some(cap) => cap.min(number(due.len())),
        None => number(due.iter().enumerate().map(within).max().unwrap_or(0)),
    }
}

/// Keeps a result.
pub(crate) fn store(path: &Path, trust: &Trust) -> Result<(), CliError> {
    let mut bytes = serde_json::to_vec_pretty(trust).map_err(|error| CliError::failed(error.to_string()))?;
    bytes.push(b'\n');
    write_atomic(path, &bytes).map_err(|error| CliError::failed(error.to_string()))
}

/// The host's name and its processors.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} ({cores} processors)", name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::host::make_room;
    use crate::plan;
    use crate::spec::read_workload;

    fn load(streams: u32, ttft: f64, stamp: f64) -> Load {
        let none = [0.0; 2];
        Load {
            streams,
            gap_ms: 20,
            sent_us: none,
            ttft_us: [ttft, ttft],
            stamp_us: [1.0, stamp],
            chunk_gap_us: none,
            tpot_us: none,
            server_us: none,
            timer_us: none,
            stamps: StampSource::Kernel,
            steal: None,
        }
    }

    #[test]
    fn a_host_is_trusted_up_to_the_last_load_before_the_first_that_is_not_exact() {
        let trust = Trust::of(vec![
            load(1, 100.0, 50.0),
            load(64, 999.0, 999.0),
            load(256, 1_001.0, 10.0),
            load(512, 1.0, 1.0),
        ]);
        assert_eq!(trust.streams, 64);
        assert_eq!(Trust::of(vec![load(1, 10.0, 1_000.0)]).streams, 0);
        let sent = |us| Trust::of(vec![Load { sent_us: [100.0, us], ..load(1, 10.0, 10.0) }]).streams;
        assert_eq!((sent(4_999.0), sent(5_000.0)), (1, 0));
        let plan = |concurrency: u32| {
            let text = format!(
                "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, concurrency: {concurrency}, requests: 2000, \
                 prompt_tokens: 8, output_tokens: 4}}\n"
            );
            plan::build(&read_workload("w.yaml", &text).unwrap().value)
        };
        trust.admit(&plan(64)).unwrap();
        let error = trust.admit(&plan(65)).unwrap_err();
        assert!(error.message().contains("than this host is exact with (64 by"), "{}", error.message());
        make_room(8).unwrap();
    }

    /// A plan of one cell with these keys, 40 requests and no warm-up.
    fn planned(keys: &str) -> Plan {
        let text = format!(
            "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, {keys}, requests: 40, warmup: 0, prompt_tokens: 8, \
             output_tokens: 4}}\n"
        );
        plan::build(&read_workload("w.yaml", &text).unwrap().value)
    }

    #[test]
    fn what_was_never_tried_is_refused_and_says_how_to_try_it() {
        let all_good = Trust::of(vec![load(1, 1.0, 1.0), load(8, 1.0, 1.0)]);
        all_good.admit(&planned("concurrency: 8")).unwrap();
        let error = all_good.admit(&planned("concurrency: 9")).unwrap_err();
        assert!(error.message().contains("tried this host with 8 at most"), "{}", error.message());
        assert!(error.hints()[0].contains("selfcheck --streams 9`"), "{:?}", error.hints());
    }

    #[test]
    fn an_open_loop_is_refused_where_its_cap_or_its_rate_alone_is_too_much() {
        let trust = Trust::of(vec![load(1, 1.0, 1.0), load(8, 1.0, 1.0)]);
        let refused = |keys: &str| trust.admit(&planned(keys)).is_err();
        // At least a tenth of a second each: 70/s are 7 at once, 400/s are 40.
        assert!(!refused("rate: 70/s, arrivals: constant"));
        assert!(refused("rate: 400/s, arrivals: constant"));
        assert!(!refused("rate: 400/s, arrivals: constant, max_connections: 8"));
        assert!(refused("rate: 70/s, arrivals: constant, max_connections: 9"), "it may come to that");
        assert!(refused("rate: 2/s, arrivals: constant, max_connections: 3000"));
        assert_eq!(expected(&planned("rate: 2/s, arrivals: constant, max_connections: 3000").cells[0]), 40);
    }

    #[test]
    fn a_plan_whose_records_cannot_be_stored_is_refused_before_it_is_measured() {
        let plan = |requests: u32, tokens: u32| {
            let text = format!(
                "servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: c, concurrency: 8, requests: {requests}, \
                 prompt_tokens: 8, output_tokens: {tokens}}}\n"
            );
            plan::build(&read_workload("w.yaml", &text).unwrap().value)
        };
        fits(&plan(200_000, 256)).unwrap();
        let error = fits(&plan(300_000, 256)).unwrap_err();
        assert!(error.message().contains("612 MiB of text, and no more than 512 MiB"), "{}", error.message());
    }

    #[test]
    fn a_result_of_another_host_or_version_says_nothing_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert!(Trust::read(&path).unwrap().is_none());
        let trust = Trust::of(vec![load(1, 1.0, 1.0)]);
        store(&path, &trust).unwrap();
        assert_eq!(Trust::read(&path).unwrap().unwrap().streams, 1);
        store(&path, &Trust { host: "elsewhere".to_owned(), ..trust.clone() }).unwrap();
        assert!(Trust::read(&path).unwrap().is_none());
        fs::write(&path, "{").unwrap();
        assert!(Trust::read(&path).unwrap_err().message().contains(FILE));
    }
}

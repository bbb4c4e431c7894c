//! The stored result of `servegate selfcheck`: up to which load this host's numbers may be trusted.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cli::error::CliError;
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
        self.ttft_us[0].abs() < MOST_TTFT_US && self.stamp_us[1] < MOST_STAMP_US
    }
}

impl Trust {
    /// From the loads, lightest first: trusted up to the last before the first that is not.
    pub(crate) fn of(loads: Vec<Load>) -> Self {
        let streams = loads.iter().take_while(|load| load.is_trusted()).last().map_or(0, |load| load.streams);
        Self { format: FORMAT, servegate: env!("CARGO_PKG_VERSION").to_owned(), host: host(), streams, loads }
    }

    /// The result that is kept for this host; none when there is none, or it is of another host or version.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, CliError> {
        if !path.exists() {
            return Ok(None);
        }
        let bytes = read_bounded(path, MAX).map_err(|error| CliError::failed(error.to_string()))?;
        let trust: Self = serde_json::from_slice(&bytes).map_err(|error| {
            CliError::failed(format!("{}: {error}", path.display())).hint("run `servegate selfcheck` again")
        })?;
        let current = trust.format == FORMAT && trust.servegate == env!("CARGO_PKG_VERSION") && trust.host == host();
        Ok(current.then_some(trust))
    }

    /// Refuses a plan with more streams at once than this host was exact with.
    pub(crate) fn admit(&self, plan: &Plan) -> Result<(), CliError> {
        let streams = |load: &workload::Load| match load {
            workload::Load::Closed { concurrency } => Some(*concurrency),
            workload::Load::Poisson { .. } | workload::Load::Constant { .. } => None,
        };
        let most = self.loads.iter().map(|load| load.streams).max().unwrap_or(0);
        // Beyond what was tried nobody knows; the run's own checks judge it.
        let beyond = |cell: &&PlannedCell| streams(&cell.load).is_some_and(|streams| streams > self.streams && self.streams < most);
        match plan.cells.iter().find(beyond) {
            Some(cell) => {
                let message = format!(
                    "cell {} keeps more requests in flight than this host is exact with ({} by `servegate selfcheck`)",
                    cell.name, self.streams
                );
                Err(CliError::failed(message)
                    .hint("measure from a host with more processors to spare, or repeat `servegate selfcheck` on a quiet one"))
            }
            None => Ok(()),
        }
    }
}

/// Keeps a result.
pub(crate) fn store(path: &Path, trust: &Trust) -> Result<(), CliError> {
    let mut bytes = serde_json::to_vec_pretty(trust).map_err(|error| CliError::failed(error.to_string()))?;
    bytes.push(b'\n');
    write_atomic(path, &bytes).map_err(|error| CliError::failed(error.to_string()))
}

/// The host's name and its processors.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} ({cores} processors)", name.trim())
}

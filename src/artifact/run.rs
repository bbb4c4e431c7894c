//! A run: one pass of the workload over all its cells on a fresh boot, with its manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::conditions::Conditions;
use crate::artifact::record::Record;
use crate::artifact::server::ServerEvidence;
use crate::base::digest::{Digest, ShortDigest};
use crate::base::names::{Api, CacheMode, Side};
use crate::wire::transport::StampSource;

/// Version of the stored format. An older reader refuses a newer run; a newer reader reads older ones.
pub const FORMAT: u32 = 1;

/// A run in memory.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is.
    pub manifest: Manifest,
    /// One per measured request, in the order of their ends.
    pub records: Vec<Record>,
}

/// What a run is, without its records. Stored as `manifest.json`, written last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// Version of servegate that measured.
    pub servegate: String,
    /// Which deployment.
    pub side: Side,
    /// Release it measured.
    pub release: String,
    /// Session: one allocation of hardware at one time.
    pub session: String,
    /// Position among the session's runs, from 0.
    pub sequence: u32,
    /// Start, RFC 3339 in UTC, to the millisecond.
    pub started: String,
    /// Name of the workload.
    pub workload: String,
    /// Fingerprint of the plan.
    pub plan: Digest,
    /// Whether the deployment was restarted for this run. If not, the session effect is unknown.
    pub restarted: bool,
    /// From the restart command's start to the first answer of the readiness check, in ms.
    pub time_to_ready_ms: Option<f64>,
    /// Dialect of the target.
    pub api: Api,
    /// Whether output lengths were forced (`ignore_eos` or the like), so that a shorter answer is a fault.
    pub forced_length: bool,
    /// SHA-256 of the tokenizer file that counts the answers for which the server does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Digest>,
    /// What carried the requests: `http` in real time, or `simulated` in virtual time.
    pub clock: ClockKind,
    /// What kept the server's caches from answering with what earlier runs had left; none: the workload declares nothing,
    /// and they were left as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheMode>,
    /// The salt of the prompts, where they were salted: with the workload it gives every prompt of the run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<ShortDigest>,
    /// The most streams at once that `servegate selfcheck` found its host exact with; none where there was no result of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_streams: Option<u32>,
    /// What the numbers depend on.
    pub conditions: Conditions,
    /// Definition ids of the metrics.
    pub definitions: BTreeMap<String, String>,
    /// The cells in the order they were visited.
    pub cells: Vec<CellEvidence>,
    /// False when the run was interrupted.
    pub complete: bool,
    /// Digest of the records' stored bytes.
    pub records: Digest,
    /// Number of records.
    pub record_count: u64,
    /// What the answers say, where it was kept; in a file of its own that stays where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Texts>,
}

/// The texts that were kept of a run's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Texts {
    /// Digest of the stored bytes.
    pub digest: Digest,
    /// Answers in the file.
    pub answers: u64,
    /// Answers that are not, or of which only the beginning is, because there was no more room.
    pub cut: u64,
}

/// What carried the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// HTTP in real time.
    Http,
    /// The simulated engine in virtual time.
    Simulated,
}

/// What one cell of a run tells about its own validity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellEvidence {
    /// Name of the cell, with the phase unless it is the steady one: `c8`, `c8/burst`.
    pub name: String,
    /// Measured requests of the plan.
    pub planned: u32,
    /// Measured requests that were sent.
    pub attempted: u32,
    /// The first measured request's due instant, in microseconds of the run.
    pub window_start_us: u64,
    /// The end of the last measured request.
    pub window_end_us: u64,
    /// What the load generator tells about itself; absent before the cell was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientEvidence>,
    /// What a connection cap did; none without a cap, and in a recovered run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionCap>,
    /// What the server counted meanwhile; none when it was not asked or did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerEvidence>,
    /// Measured requests that were sent a second time, because the server was closing the connection that they were sent
    /// over first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resent: u32,
    /// Why the server's counters could not be read although they were before; then `server` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters_unread: Option<String>,
}

impl CellEvidence {
    /// What is known of a cell before it is measured.
    pub fn planned(name: &str, planned: u32) -> Self {
        Self {
            name: name.to_owned(),
            planned,
            attempted: 0,
            window_start_us: 0,
            window_end_us: 0,
            client: None,
            connections: None,
            server: None,
            resent: 0,
            counters_unread: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What the load generator and its host tell about themselves in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientEvidence {
    /// Where the instants of arriving bytes come from.
    pub stamps: StampSource,
    /// Reads without a stamp of the kernel.
    pub unaided_reads: u64,
    /// 99th percentile of the time from the arrival of bytes to their reading, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_lag_p99_us: Option<u64>,
    /// How often the wall clock was set.
    pub clock_steps: u64,
    /// How long the name of the host, or of its proxy, took to resolve, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_us: Option<u64>,
    /// How the host fared; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostEvidence>,
}

/// How the load generator's host fared in a cell, as shares of all its processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEvidence {
    /// Processors.
    pub cores: u32,
    /// Not idle.
    pub busy: f64,
    /// Taken by the hypervisor for others.
    pub steal: f64,
    /// Used by the load generator itself.
    pub own: f64,
}

/// A connection cap of an open loop, and the measured requests that had to wait for it. Their latency counts from
/// the instant they were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionCap {
    /// Connections allowed.
    pub most: u32,
    /// Measured requests that were due while all connections were in use.
    pub waited: u32,
    /// The sum of their waits.
    pub total_wait_us: u64,
    /// The longest of them.
    pub longest_wait_us: u64,
}

impl ConnectionCap {
    /// A cap that held nothing up yet.
    pub const fn of(most: u32) -> Self {
        Self { most, waited: 0, total_wait_us: 0, longest_wait_us: 0 }
    }
}

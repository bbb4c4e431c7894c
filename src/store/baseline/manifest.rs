//! `baseline.json`: what a baseline consists of and who approved it; written for reviewers of a diff.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::artifact::run::{ClockKind, Manifest};
use crate::base::digest::Digest;
use crate::base::names::{Api, CacheMode, Condition, Side};
use crate::store::baseline::BaselineError;
use crate::store::baseline::noise::NoiseEntry;
use crate::store::files::{FileError, checked_name, read_bounded};

/// Version of the format of baselines and their history.
pub const FORMAT: u32 = 1;
/// Largest `baseline.json`, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Name of the present manifest of a release.
pub(super) const CURRENT: &str = "baseline.json";

/// A baseline without its records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineManifest {
    /// Version of the format.
    pub format: u32,
    /// Name of the workload.
    pub workload: String,
    /// The approved release.
    pub release: String,
    /// Who approved it.
    pub approved_by: String,
    /// When, RFC 3339 in UTC.
    pub approved_at: String,
    /// Why, where the change needs a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How it came to be.
    pub provenance: Provenance,
    /// What all its runs have in common.
    pub identity: Identity,
    /// Its runs by session.
    pub sessions: BTreeMap<String, Vec<RunEntry>>,
    /// How far its runs and sessions scatter, for people; decisions compute it from the runs.
    pub noise: Vec<NoiseEntry>,
    /// Digest of the baseline that was active before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
}

/// How a baseline came to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of servegate that stored it.
    pub servegate: String,
    /// The verdict of the measurement against the baseline before, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Digest of that judgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Digest>,
}

/// What the runs of one release have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Fingerprint of the plan.
    pub plan: Digest,
    /// What carried the requests.
    pub clock: ClockKind,
    /// Dialect of the target.
    pub api: Api,
    /// Whether output lengths were forced.
    pub forced_length: bool,
    /// Whether each run had a boot of its own.
    pub restarted: bool,
    /// What kept the server's caches from answering with what earlier runs had left; none: they were left as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheMode>,
    /// Definition ids of the metrics.
    pub definitions: BTreeMap<String, String>,
    /// Conditions, without those that are only recorded.
    pub conditions: BTreeMap<Condition, String>,
}

impl Identity {
    /// The identity of a run.
    pub(super) fn of(run: &Manifest) -> Self {
        let conditions = run.conditions.iter().filter(|(condition, _)| !condition.is_nuisance());
        Self {
            plan: run.plan,
            clock: run.clock,
            api: run.api,
            forced_length: run.forced_length,
            restarted: run.restarted,
            caches: run.caches,
            definitions: run.definitions.clone(),
            conditions: conditions.map(|(condition, known)| (*condition, known.value.clone())).collect(),
        }
    }

    /// What kept the caches from answering, for people.
    pub fn caches_shown(&self) -> &'static str {
        self.caches.map_or("undeclared", CacheMode::id)
    }

    /// The first thing besides conditions in which two identities differ.
    pub(super) fn difference_of_method(&self, other: &Self) -> Option<String> {
        let json = |value: &Self| {
            [
                ("the plan", value.plan.short()),
                ("the clock", format!("{:?}", value.clock).to_lowercase()),
                ("the API", value.api.to_string()),
                ("`forced_length`", value.forced_length.to_string()),
                ("`restarted`", value.restarted.to_string()),
                ("`caches`", value.caches_shown().to_owned()),
            ]
        };
        let simple = json(self).into_iter().zip(json(other)).find(|(ours, theirs)| ours != theirs);
        if let Some(((what, ours), (_, theirs))) = simple {
            return Some(format!("{what} ({ours}, {theirs})"));
        }
        let keys = self.definitions.keys().chain(other.definitions.keys());
        let changed = |key: &&String| self.definitions.get(*key) != other.definitions.get(*key);
        keys.into_iter().find(changed).map(|metric| format!("the definition of `{metric}`"))
    }

    /// The first thing in which two identities differ.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let value = |of: &Self, condition| of.conditions.get(&condition).map_or("unknown", String::as_str).to_owned();
        let condition = || {
            let changed = |condition: &&Condition| self.conditions.get(condition) != other.conditions.get(condition);
            let condition = *Condition::ALL.iter().find(changed)?;
            Some(format!("{condition} (`{}`, `{}`)", value(self, condition), value(other, condition)))
        };
        self.difference_of_method(other).or_else(condition)
    }
}

/// A run of a baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEntry {
    /// Digest of its manifest; its folder is `runs/<first 12 digits>`.
    pub id: Digest,
    /// Position among the session's runs.
    pub sequence: u32,
    /// Which deployment it measured at the time.
    pub side: Side,
    /// When it started.
    pub started: String,
    /// Number of its records.
    pub records: u64,
}

impl BaselineManifest {
    /// The bytes of the file.
    pub(super) fn encode(&self, path: &Path) -> Result<Vec<u8>, BaselineError> {
        let damaged =
            |error: serde_json::Error| BaselineError::Damaged { path: path.to_owned(), what: error.to_string() };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(damaged)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<(Digest, Self), BaselineError> {
        let bytes = read_bounded(path, MAX_BYTES)?;
        Ok((Digest::of(&bytes), Self::decode(path, &bytes)?))
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Self, BaselineError> {
        check_version(path, bytes)?;
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged(path))?;
        let sessions = manifest.sessions.keys().map(|session| ("session", session));
        for (what, name) in
            [("workload", &manifest.workload), ("release", &manifest.release)].into_iter().chain(sessions)
        {
            checked_name(what, name).map_err(|error| wrong(path, error.to_string()))?;
        }
        let started = manifest.sessions.values().flatten().map(|run| ("started", &run.started));
        for (what, text) in [("approved_at", &manifest.approved_at)].into_iter().chain(started) {
            checked_time(what, text).map_err(|what| wrong(path, what))?;
        }
        Ok(manifest)
    }

    /// Why it is not the manifest of this release, when it is not.
    pub(super) fn stranger(&self, workload: &str, release: &str) -> Option<String> {
        ((self.workload.as_str(), self.release.as_str()) != (workload, release))
            .then(|| format!("its manifest is of release `{}` of workload `{}`", self.release, self.workload))
    }

    /// The manifest of `release` with this digest: the present file or a superseded one.
    pub(super) fn find(release: &Path, digest: &Digest) -> Result<Option<Self>, BaselineError> {
        for path in versions(release) {
            let bytes = match read_bounded(&path, MAX_BYTES) {
                Err(error) if error.is_missing() => continue,
                bytes => bytes?,
            };
            if Digest::of(&bytes) == *digest {
                return Self::decode(&path, &bytes).map(Some);
            }
        }
        Ok(None)
    }
}

/// Checks a time of a stored file.
pub(super) fn checked_time(what: &str, text: &str) -> Result<(), String> {
    let shown = || text.chars().take(40).flat_map(char::escape_default).collect::<String>();
    text.parse::<jiff::Timestamp>()
        .map(drop)
        .map_err(|_no_time| format!("`{what}` is not a time in RFC 3339: `{}`", shown()))
}

fn wrong(path: &Path, what: String) -> BaselineError {
    BaselineError::Damaged { path: path.to_owned(), what }
}

/// Refuses a newer format before its unknown keys are stumbled over.
pub(super) fn check_version(path: &Path, bytes: &[u8]) -> Result<(), BaselineError> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }

    let Version { format } = serde_json::from_slice(bytes).map_err(damaged(path))?;
    if format > FORMAT {
        return Err(BaselineError::Newer { path: path.to_owned(), found: format });
    }
    Ok(())
}

/// A file that is not what it should be.
pub(super) fn damaged(path: &Path) -> impl Fn(serde_json::Error) -> BaselineError {
    let path = path.to_owned();
    move |error| BaselineError::Damaged {
        path: path.clone(),
        what: error.to_string().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(300).collect(),
    }
}

/// Every manifest file of a release: the present one, then the superseded ones, oldest first.
pub(super) fn versions(release: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let superseded = (1..).map(superseded).map(|name| release.join(name)).take_while(|path| path.exists());
    std::iter::once(release.join(CURRENT)).chain(superseded.collect::<Vec<_>>())
}

/// Name of the n-th superseded manifest of a release.
pub(super) fn superseded(n: u32) -> String {
    format!("baseline.{n}.json")
}

/// The bytes of the present manifest; none when there is no file.
pub(super) fn current(release: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match read_bounded(&release.join(CURRENT), MAX_BYTES) {
        Err(error) if error.is_missing() => Ok(None),
        bytes => bytes.map(Some),
    }
}

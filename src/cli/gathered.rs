//! The runs that a judgement rests on, read from their folders.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::artifact::conditions::{Conditions, Source};
use crate::artifact::run::Run;
use crate::base::names::Condition;
use crate::cli::error::CliError;
use crate::store::baseline::{BaselineError, Baselines};
use crate::store::bundle::Part;
use crate::store::runs::read_run;

/// Releases before the active one whose runs tell about noise.
const EARLIER: usize = 11;
const SECONDS_PER_DAY: i64 = 86_400;

/// What is known of the release that is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    /// The release.
    pub(crate) release: String,
    /// Days since its approval, when it was judged.
    pub(crate) age_days: u32,
}

/// The runs of one suite by use, as folders and as data.
#[derive(Default)]
pub(crate) struct Gathered {
    /// The baseline's release.
    pub(crate) reference: Option<Reference>,
    /// The release under judgement, where the command named it; else it is that of the candidate's runs.
    pub(crate) candidate: Option<String>,
    /// The command that would make the candidate's runs the baseline although they are worse, where there can be one.
    pub(crate) rebase: Option<String>,
    /// Whether controls and candidate are compared pair by pair.
    pub(crate) paired: bool,
    /// Runs by use.
    pub(crate) runs: BTreeMap<Part, Vec<Run>>,
    /// Their folders, in the same order; empty when they come from a bundle.
    pub(crate) folders: BTreeMap<Part, Vec<PathBuf>>,
}

impl Gathered {
    /// Reads and verifies run folders for one use.
    pub(crate) fn read(&mut self, part: Part, folders: &[PathBuf]) -> Result<(), CliError> {
        for folder in folders {
            let run = read_run(folder).map_err(|error| CliError::failed(error.to_string()))?;
            self.runs.entry(part).or_default().push(run);
            self.folders.entry(part).or_default().push(folder.clone());
        }
        Ok(())
    }

    /// The active baseline of a workload, with the runs of earlier releases.
    pub(crate) fn active(store: &Baselines, workload: &str) -> Result<Option<Self>, CliError> {
        let failed = |error: BaselineError| CliError::failed(error.to_string());
        let Some(baseline) = store.load_active(workload).map_err(failed)? else { return Ok(None) };
        let mut gathered = Self {
            reference: Some(Reference { release: baseline.release.clone(), age_days: age_days(&baseline.approved_at) }),
            ..Self::default()
        };
        for earlier in store.load_earlier(workload, EARLIER).map_err(failed)? {
            let folders = store.run_folders(&earlier).map_err(failed)?;
            gathered.folders.entry(Part::History).or_default().extend(folders);
            gathered.runs.entry(Part::History).or_default().extend(earlier.into_runs());
        }
        gathered.folders.insert(Part::Baseline, store.run_folders(&baseline).map_err(failed)?);
        gathered.runs.insert(Part::Baseline, baseline.into_runs());
        Ok(Some(gathered))
    }

    /// What was declared of the baseline image: its controls are measured under the same conditions.
    pub(crate) fn declared(&self) -> Conditions {
        let run = self.part(Part::Baseline).first();
        let all = run.map(|run| run.manifest.conditions.clone()).unwrap_or_default();
        all.into_iter().filter(|(_, known)| known.source == Source::Declared).collect()
    }

    /// The values of [`Gathered::declared`].
    pub(crate) fn declared_values(&self) -> BTreeMap<Condition, String> {
        self.declared().into_iter().map(|(condition, known)| (condition, known.value)).collect()
    }

    /// The runs of one use.
    pub(crate) fn part(&self, part: Part) -> &[Run] {
        self.runs.get(&part).map_or(&[], Vec::as_slice)
    }

    /// Runs of earlier releases, one slice a release: they were stored release by release.
    pub(crate) fn history(&self) -> Vec<&[Run]> {
        self.part(Part::History).chunk_by(|a, b| a.manifest.release == b.manifest.release).collect()
    }
}

/// Whole days since an instant; an unreadable or future one counts as today, since the store checks both.
fn age_days(approved_at: &str) -> u32 {
    let seconds = |at: Timestamp| Timestamp::now().as_second().saturating_sub(at.as_second());
    let age = approved_at.parse::<Timestamp>().map_or(0, seconds);
    u32::try_from(age.div_euclid(SECONDS_PER_DAY)).unwrap_or(0)
}

//! Continuing a session that was interrupted or killed: its whole runs stay, the others are measured again.

use std::path::{Path, PathBuf};

use crate::base::names::{CacheMode, Caches, Side};
use crate::base::words::count;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::plan::request::Plan;
use crate::store::runs::remains::{Remains, remains, set_aside};
use crate::store::runs::{RunError, StoredRun};

/// What is continued.
pub(crate) struct Resumed {
    /// Name of the session.
    pub(crate) session: String,
    /// Its whole runs.
    pub(crate) kept: Vec<StoredRun>,
    broken: Vec<PathBuf>,
}

impl Resumed {
    /// Reads what is left of a session in its folder.
    pub(crate) fn find(folder: &Path, session: Option<&str>) -> Result<Self, CliError> {
        let Remains { session, whole, broken } = remains(folder, session).map_err(|error| failed(&error))?;
        Ok(Self { session, kept: whole, broken })
    }

    /// Checks that the runs that are there are of this plan and stand where they would be measured now.
    pub(crate) fn check(&self, plan: &Plan, runs: &[(Side, String)]) -> Result<(), CliError> {
        for StoredRun { path, manifest, .. } in &self.kept {
            let place = usize::try_from(manifest.sequence).ok().and_then(|at| runs.get(at));
            let number = u64::from(manifest.sequence) + 1;
            let differs = match place {
                _ if manifest.plan != plan.fingerprint => {
                    format!("it followed another plan than `{}` has now: the workload was changed", plan.workload)
                }
                _ if !declared(plan.caches, manifest.caches) => {
                    let shown = |mode: Option<&str>| mode.map_or("none".to_owned(), |mode| format!("`{mode}`"));
                    format!(
                        "its mode of caches is {}, and `{}` declares {} now: the workload was changed",
                        shown(manifest.caches.map(CacheMode::id)),
                        plan.workload,
                        shown(plan.caches.map(Caches::id))
                    )
                }
                Some((side, _)) if *side != manifest.side => format!("it is a {} and not a {side}", manifest.side),
                Some((_, release)) if *release != manifest.release => {
                    format!("it is of release `{}` and not of `{release}`", manifest.release)
                }
                Some(_) => continue,
                None => {
                    let wanted = u64::try_from(runs.len()).unwrap_or(u64::MAX);
                    format!("it is number {number} and the session is to have {}", count(wanted, "run"))
                }
            };
            return Err(CliError::usage(format!("cannot continue with run {}: {differs}", path.display()))
                .hint("give the options with which the session was started, or start a new session"));
        }
        Ok(())
    }

    /// Makes room for the runs that are measured again, and gives those that are kept.
    pub(crate) fn enter(self, terminal: &mut Terminal) -> Result<Vec<StoredRun>, CliError> {
        for run in &self.broken {
            let aside = set_aside(run).map_err(|error| failed(&error.into()))?;
            terminal.say(&format!(
                "{} is measured again; what there was of it is now {}",
                run.display(),
                aside.display()
            ));
        }
        terminal.say(&format!(
            "session {}: {} kept. It is one session only if the deployment still runs on the same hardware as before",
            self.session,
            count(u64::try_from(self.kept.len()).unwrap_or(u64::MAX), "whole run")
        ));
        Ok(self.kept)
    }
}

/// Whether the mode is one that the workload declares.
fn declared(caches: Option<Caches>, mode: Option<CacheMode>) -> bool {
    match (caches, mode) {
        (Some(caches), Some(mode)) => caches.admits(mode),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn failed(error: &RunError) -> CliError {
    CliError::failed(error.to_string())
}

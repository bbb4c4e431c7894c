//! Deciding: evidence from run folders to a judgement, and the judgement to every output. Shared by all
//! commands that judge.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::artifact::run::Run;
use crate::cli::error::{CliError, Exit};
use crate::cli::folders;
use crate::cli::gathered::{Gathered, Reference};
use crate::cli::lock::Lock;
use crate::cli::suite::{LoadedPolicy, Suite};
use crate::cli::terminal::Terminal;
use crate::compare::evidence::{Baseline, Evidence};
use crate::report::view::{Context, ExitPolicy, View};
use crate::report::{self, terminal as final_table};
use crate::spec::target::Config;
use crate::store::bundle::{Contents, Part, remove_bundle, write_bundle};
use crate::store::files::{check_writable, write_atomic};
use crate::verdict::case::Case;
use crate::verdict::judge::judge;
use crate::verdict::judgement::{Judgement, Verdict};

/// Folder of the bundle in it.
const BUNDLE: &str = "bundle";
/// Folder of the measured runs in it.
const RUNS: &str = "runs";
/// Texts of a bundle.
pub(crate) const GATE_INDEX: &str = "gate.json";
pub(crate) const VERDICT: &str = "verdict.json";

/// What a verdict does to the exit code.
#[derive(Clone, Copy, Debug, Default, ValueEnum, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExitPolicyArg {
    /// Everything but pass and warn blocks
    #[default]
    Strict,
    /// A verdict exits 0, and every output says so
    Advisory,
}

impl From<ExitPolicyArg> for ExitPolicy {
    fn from(arg: ExitPolicyArg) -> Self {
        match arg {
            ExitPolicyArg::Strict => Self::Strict,
            ExitPolicyArg::Advisory => Self::Advisory,
        }
    }
}

/// Judges every policy of every suite. `trouble` is what kept the measurement from being complete.
pub(crate) fn decide(suites: &[(Suite, Gathered)], trouble: Option<&CliError>) -> Judgement {
    let histories: Vec<Vec<&[Run]>> = suites.iter().map(|(_, gathered)| gathered.history()).collect();
    let mut cases = Vec::new();
    for ((suite, gathered), history) in suites.iter().zip(&histories) {
        let baseline = gathered.reference.as_ref().map(|reference| Baseline {
            release: &reference.release,
            age_days: reference.age_days,
            runs: gathered.part(Part::Baseline),
        });
        let evidence = Evidence {
            plan: &suite.plan,
            baseline,
            controls: gathered.part(Part::Control),
            candidate: gathered.part(Part::Candidate),
            history,
            paired: gathered.paired,
        };
        cases.extend(suite.policies.iter().map(|loaded| Case { policy: &loaded.policy, evidence }));
    }
    let mut judgement = judge(&cases);
    if let Some(candidate) = suites.iter().find_map(|(_, gathered)| gathered.candidate.clone()) {
        judgement.candidate = candidate;
    }
    match trouble {
        Some(error) if error.is_of_conditions() => judgement.not_comparable("condition-differs", error.message()),
        Some(error) if is_missing_baseline(error) => judgement.not_comparable("baseline-missing", error.message()),
        Some(error) => judgement.not_measured(error.message()),
        None => judgement,
    }
}

/// Whether that is what kept the gate from measuring.
fn is_missing_baseline(error: &CliError) -> bool {
    error.exit() == Exit::Verdict(Verdict::NotComparable) && !error.is_of_conditions()
}

/// Removes old reports where what may name their folder cannot be read, as far as the folder is known.
pub(crate) fn forget(out: Option<&Path>) {
    let out = folders::out(out, &Config::default());
    let outputs = Outputs { out: &out, exit_policy: ExitPolicyArg::default() };
    if let Err(error) = outputs.remove_reports() {
        tracing::warn!("{}", error.message());
    }
}

/// Where reports go, and how the verdict counts.
pub(crate) struct Outputs<'a> {
    /// Folder of the reports.
    pub(crate) out: &'a Path,
    /// What the verdict does to the exit code.
    pub(crate) exit_policy: ExitPolicyArg,
}

/// What a bundle says besides its runs, so that another machine can judge it again.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateIndex {
    /// What the verdict did to the exit code.
    pub(crate) exit_policy: ExitPolicyArg,
    /// Report files as they were named.
    pub(crate) files: Vec<String>,
    /// What kept the measurement from being complete.
    pub(crate) trouble: Option<String>,
    /// Whether that was a missing baseline.
    #[serde(default)]
    pub(crate) baseline_missing: bool,
    /// Whether the declared conditions of the sides were what kept it from beginning.
    #[serde(default)]
    pub(crate) conditions_differ: bool,
    /// The release under judgement, where the command named it.
    #[serde(default)]
    pub(crate) candidate: Option<String>,
    /// The suites, in order.
    pub(crate) suites: Vec<SuiteIndex>,
}

/// One suite of a bundle.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuiteIndex {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Its file.
    pub(crate) file: TextIndex,
    /// The traces that it replays; their names are those by which the workload names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) traces: Vec<TextIndex>,
    /// Its policies.
    pub(crate) policies: Vec<TextIndex>,
    /// The baseline it was compared with.
    pub(crate) reference: Option<Reference>,
    /// The command that would make the candidate's runs the baseline.
    #[serde(default)]
    pub(crate) rebase: Option<String>,
    /// Whether controls and candidate were compared pair by pair.
    #[serde(default)]
    pub(crate) paired: bool,
}

/// A user's file in a bundle.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextIndex {
    /// Path as the user named it: it stands in the reports.
    pub(crate) name: String,
    /// Path inside the bundle.
    pub(crate) text: String,
}

impl Outputs<'_> {
    /// Removes what an earlier decision left, so that an old green file can never be taken for this one,
    /// and finds out before anything is measured whether the folder can be written and nobody else does.
    pub(crate) fn prepare(&self) -> Result<Lock, CliError> {
        check_writable(self.out).map_err(|error| CliError::failed(error.to_string()))?;
        let lock = Lock::take(self.out)?;
        self.remove_reports()?;
        remove_bundle(&self.out.join(BUNDLE)).map_err(|error| CliError::failed(error.to_string()))?;
        Ok(lock)
    }

    /// Removes the reports of an earlier decision where there are any, before it is known whether there can be new ones.
    pub(crate) fn remove_reports(&self) -> Result<(), CliError> {
        let old = report::FORMATS.iter().filter_map(|format| format.file).map(|file| self.out.join(file));
        for path in old.filter(|path| path.exists()) {
            fs::remove_file(&path)
                .map_err(|error| CliError::failed(format!("cannot remove the old {}: {error}", path.display())))?;
        }
        Ok(())
    }

    /// Removes the runs of an earlier session of this name, for a command whose runs anybody can make again.
    pub(crate) fn remove_runs(&self, workload: &str, session: &str) -> Result<(), CliError> {
        let folder = self.runs(workload, session);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CliError::failed(format!("cannot remove the old {}: {error}", folder.display())))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The folder for runs that are measured for this decision. Each session has its own: naming it later names what
    /// was judged together, and nothing of an earlier decision.
    pub(crate) fn runs(&self, workload: &str, session: &str) -> PathBuf {
        self.out.join(RUNS).join(workload).join(session)
    }

    /// Writes every report and the bundle, prints the final table, and gives the exit. When one of them cannot be written,
    /// none stays: half a decision could be taken for a whole one.
    pub(crate) fn publish(
        &self,
        suites: &[(Suite, Gathered)],
        judgement: &Judgement,
        trouble: Option<&CliError>,
        terminal: &mut Terminal,
    ) -> Result<Exit, CliError> {
        let mut files: Vec<String> =
            report::FORMATS.iter().filter_map(|format| format.file).map(|f| self.file(f)).collect();
        files.push(self.file(BUNDLE));
        let context = context(self.exit_policy, files.clone(), suites);
        let view = View::new(judgement, &context);
        let rendered = report::render(&view).map_err(|error| CliError::failed(error.to_string()))?;
        let verdict = rendered.iter().find(|(name, _)| *name == VERDICT).map(|(_, bytes)| bytes.clone());
        let verdict = verdict.unwrap_or_default();
        let index = index(suites, self.exit_policy, files, trouble);
        let contents = contents(suites, &index, verdict.clone())?;
        // The bundle first: a report without its evidence would be one that nobody can check.
        write_bundle(&self.out.join(BUNDLE), &contents).map_err(|error| CliError::failed(error.to_string()))?;
        for (name, bytes) in &rendered {
            write_atomic(&self.out.join(name), bytes).map_err(|error| {
                drop(self.remove_reports());
                CliError::failed(error.to_string())
            })?;
        }
        if terminal.json() {
            terminal.data(&verdict)?;
        } else {
            let colour = terminal.colour();
            terminal.data(final_table::render(&view, colour).as_bytes())?;
        }
        Ok(if view.exit_code == 0 { Exit::Success } else { Exit::Verdict(judgement.verdict) })
    }

    fn file(&self, name: &str) -> String {
        self.out.join(name).display().to_string()
    }
}

/// What a report says besides the judgement.
pub(crate) fn context(exit_policy: ExitPolicyArg, files: Vec<String>, suites: &[(Suite, Gathered)]) -> Context {
    let rebase = |(suite, gathered): &(Suite, Gathered)| Some((suite.workload.name.clone(), gathered.rebase.clone()?));
    let rebase = suites.iter().filter_map(rebase).collect();
    Context { exit_policy: exit_policy.into(), version: env!("CARGO_PKG_VERSION").to_owned(), files, rebase }
}

fn index(
    suites: &[(Suite, Gathered)],
    exit_policy: ExitPolicyArg,
    files: Vec<String>,
    trouble: Option<&CliError>,
) -> GateIndex {
    let suite = |(suite, gathered): &(Suite, Gathered)| {
        let name = &suite.workload.name;
        let policy = |(at, loaded): (usize, &LoadedPolicy)| TextIndex {
            name: loaded.source.name.clone(),
            text: format!("policies/{name}-{at}.yaml"),
        };
        let trace =
            |(at, path): (usize, &String)| TextIndex { name: path.clone(), text: format!("traces/{name}-{at}.jsonl") };
        SuiteIndex {
            workload: name.clone(),
            file: TextIndex { name: suite.source.name.clone(), text: format!("workloads/{name}.yaml") },
            traces: suite.traces.keys().enumerate().map(trace).collect(),
            policies: suite.policies.iter().enumerate().map(policy).collect(),
            reference: gathered.reference.clone(),
            rebase: gathered.rebase.clone(),
            paired: gathered.paired,
        }
    };
    GateIndex {
        exit_policy,
        files,
        trouble: trouble.map(|error| error.message().to_owned()),
        baseline_missing: trouble.is_some_and(is_missing_baseline),
        conditions_differ: trouble.is_some_and(CliError::is_of_conditions),
        candidate: suites.iter().find_map(|(_, gathered)| gathered.candidate.clone()),
        suites: suites.iter().map(suite).collect(),
    }
}

fn contents(suites: &[(Suite, Gathered)], index: &GateIndex, verdict: Vec<u8>) -> Result<Contents, CliError> {
    let mut contents = Contents::default();
    let mut json = serde_json::to_vec_pretty(index).map_err(|error| CliError::failed(error.to_string()))?;
    json.push(b'\n');
    contents.texts.insert(GATE_INDEX.to_owned(), json);
    contents.texts.insert(VERDICT.to_owned(), verdict);
    for ((suite, gathered), entry) in suites.iter().zip(&index.suites) {
        contents.texts.insert(entry.file.text.clone(), suite.source.text.clone().into_bytes());
        for (bytes, file) in suite.traces.values().zip(&entry.traces) {
            contents.texts.insert(file.text.clone(), bytes.clone());
        }
        for (loaded, file) in suite.policies.iter().zip(&entry.policies) {
            contents.texts.insert(file.text.clone(), loaded.source.text.clone().into_bytes());
        }
        for (part, folders) in &gathered.folders {
            contents.runs.entry(*part).or_default().extend(folders.iter().cloned());
        }
    }
    Ok(contents)
}

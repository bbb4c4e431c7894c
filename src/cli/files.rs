//! The user's files: policies, the workloads they name, and `servegate.yaml`. Problems of all files are
//! reported together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::error::{CliError, Finding};
use crate::cli::reach::hopeless;
use crate::cli::suite::{LoadedPolicy, Source, Suite};
use crate::cli::terminal::Terminal;
use crate::cli::traces::{self, TraceFiles};
use crate::plan::request::Plan;
use crate::spec::target::{Config, Target};
use crate::spec::workload::Workload;
use crate::spec::{self, PolicyDraft, Reading};

/// The config file that is read when none is named.
const CONFIG: &str = "servegate.yaml";

/// Findings of several files, and what was right in them.
#[derive(Default)]
pub(crate) struct Reader {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
    suites: Vec<(PathBuf, Suite)>,
    /// Workload files that have findings, which are said once.
    refused: BTreeSet<PathBuf>,
    /// Policies that are refused, with those of their checks that are right.
    partial: Vec<(usize, LoadedPolicy)>,
}

impl Reader {
    /// Reads a workload file, once, though a policy may use it too.
    pub(crate) fn workload_file(&mut self, path: &Path, source: Source) {
        self.suite_of(path, source);
    }

    /// Reads a workload with the traces that it names, from beside it or as a bundle kept them, and plans it.
    fn workload(&mut self, source: Source, kept: Option<TraceFiles>) -> Option<Suite> {
        let mut workload = self.take(&source, spec::read_workload(&source.name, &source.text))?;
        let traces = kept.map_or_else(|| traces::beside(&workload, &source), Ok);
        match traces.and_then(|traces| Ok((traces::plan(&mut workload, &traces)?, traces))) {
            Ok((plan, traces)) => Some(Suite { workload, source, traces, plan, policies: Vec::new() }),
            Err(diagnostics) => {
                self.refuse(&source, diagnostics);
                None
            }
        }
    }

    /// Reads a config file.
    pub(crate) fn config(&mut self, source: &Source) -> Option<Config> {
        self.take(source, spec::read_config(&source.name, &source.text))
    }

    /// Keeps the findings of a reading and gives what was right.
    fn take<T>(&mut self, source: &Source, reading: Result<Reading<T>, Vec<Diagnostic>>) -> Option<T> {
        match reading {
            Ok(reading) => {
                self.warnings.extend(source.findings(reading.warnings));
                Some(reading.value)
            }
            Err(diagnostics) => {
                self.refuse(source, diagnostics);
                None
            }
        }
    }

    /// Reads a policy file and the workload that it names.
    pub(crate) fn policy(&mut self, source: Source) {
        let draft = spec::read_policy(&source.name, &source.text);
        let Some(path) = draft.workload().map(|path| beside(&source.name, path)) else {
            self.errors.extend(source.findings(draft.into_findings()));
            return;
        };
        match self.suite(&path) {
            Ok(Some(suite)) => self.bind(source, draft, suite),
            Ok(None) => self.errors.extend(source.findings(draft.into_findings())),
            Err(error) => self.errors.extend(source.findings(draft.without_workload(error.message()))),
        }
    }

    /// The position of the suite of the workload at `path`; none when its file has findings.
    fn suite(&mut self, path: &Path) -> Result<Option<usize>, CliError> {
        match self.known(path) {
            Some(at) => Ok(at),
            None => Ok(self.suite_of(path, Source::read(path)?)),
        }
    }

    /// The suite of a workload file that was read; inside none when it has findings.
    #[expect(clippy::option_option, reason = "not read, read and refused, read and right are three things")]
    fn known(&self, path: &Path) -> Option<Option<usize>> {
        let key = real(path);
        let at = self.suites.iter().position(|(known, _)| *known == key);
        at.map(Some).or_else(|| self.refused.contains(&key).then_some(None))
    }

    fn suite_of(&mut self, path: &Path, source: Source) -> Option<usize> {
        if let Some(known) = self.known(path) {
            return known;
        }
        let Some(suite) = self.workload(source, None) else {
            self.refused.insert(real(path));
            return None;
        };
        self.suites.push((real(path), suite));
        Some(self.suites.len().saturating_sub(1))
    }

    fn bind(&mut self, source: Source, draft: PolicyDraft, at: usize) {
        let Some((_, suite)) = self.suites.get(at) else { return };
        let partial = draft.right_checks(&suite.workload);
        let bound = draft.bind(&suite.workload);
        let policy = self.take(&source, bound);
        match (policy, partial, self.suites.get_mut(at)) {
            (Some(policy), _, Some((_, suite))) => suite.policies.push(LoadedPolicy { policy, source }),
            (None, Some(policy), _) => self.partial.push((at, LoadedPolicy { policy, source })),
            _ => {}
        }
    }

    /// Adds findings of another kind of file.
    pub(crate) fn refuse(&mut self, source: &Source, diagnostics: Vec<Diagnostic>) {
        self.errors.extend(source.findings(diagnostics));
    }

    /// Refuses the checks that can never pass.
    pub(crate) fn refuse_hopeless(&mut self) {
        let whole = self.suites.iter().flat_map(|(_, suite)| suite.policies.iter().map(move |policy| (suite, policy)));
        let partial = self.partial.iter().filter_map(|(at, policy)| Some((&self.suites.get(*at)?.1, policy)));
        let found = whole.chain(partial).flat_map(|(suite, policy)| hopeless(suite, policy, Severity::Error));
        self.errors.extend(found);
    }

    /// All that was found, errors first.
    pub(crate) fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.errors, self.warnings)
    }

    /// The suites, if nothing is refused; two workloads of one name would share a folder of baselines and are.
    pub(crate) fn suites(self, terminal: &mut Terminal) -> Result<Vec<Suite>, CliError> {
        for finding in &self.warnings {
            terminal.say(&finding.diagnostic.to_string());
        }
        if !self.errors.is_empty() {
            return Err(CliError::invalid(self.errors));
        }
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for (_, suite) in &self.suites {
            if let Some(other) = names.insert(&suite.workload.name, &suite.source.name) {
                let name = &suite.workload.name;
                let message = format!("two workload files are called `{name}`: {other} and {}", suite.source.name);
                return Err(CliError::usage(message).hint("give each workload a name of its own"));
            }
        }
        let suites: Vec<Suite> =
            self.suites.into_iter().map(|(_, suite)| suite).filter(|suite| !suite.policies.is_empty()).collect();
        distinct(&suites)?;
        for suite in &suites {
            for finding in suite.policies.iter().flat_map(|policy| hopeless(suite, policy, Severity::Warning)) {
                terminal.say(&finding.diagnostic.to_string());
            }
        }
        Ok(suites)
    }
}

/// Two policies of one name could not be told apart in a report, and one policy given twice is judged once.
fn distinct(suites: &[Suite]) -> Result<(), CliError> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for LoadedPolicy { policy, source } in suites.iter().flat_map(|suite| &suite.policies) {
        let Some(other) = names.insert(&policy.name, &source.name) else { continue };
        let (name, file) = (&policy.name, &source.name);
        let real = |file: &str| fs::canonicalize(file).ok();
        return Err(if real(other).is_some_and(|other| real(file) == Some(other)) {
            CliError::usage(format!("the policy {file} is given twice")).hint("name each policy once")
        } else {
            CliError::usage(format!("two policies are called `{name}`: {other} and {file}"))
                .hint("give each policy a name of its own: it tells its checks apart in the reports")
        });
    }
    Ok(())
}

/// A path without links, where there is something.
pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_missing| path.to_owned())
}

/// A path written in a file counts from that file's folder.
fn beside(file: &str, path: &str) -> PathBuf {
    Path::new(file).parent().unwrap_or_else(|| Path::new("")).join(path)
}

/// Policies from their files, grouped by workload.
pub(crate) fn suites(policies: &[PathBuf], terminal: &mut Terminal) -> Result<Vec<Suite>, CliError> {
    let mut reader = Reader::default();
    for path in policies {
        reader.policy(Source::read(path)?);
    }
    reader.suites(terminal)
}

/// A suite from texts that are at hand, and the traces that its workload names.
pub(crate) fn suite(workload: Source, traces: TraceFiles, policies: Vec<Source>) -> Result<Suite, CliError> {
    let mut reader = Reader::default();
    let Some(suite) = reader.workload(workload, Some(traces)) else { return Err(CliError::invalid(reader.errors)) };
    reader.suites.push((PathBuf::new(), suite));
    for policy in policies {
        let draft = spec::read_policy(&policy.name, &policy.text);
        reader.bind(policy, draft, 0);
    }
    let suite = reader.suites.pop().filter(|_| reader.errors.is_empty());
    suite.map(|(_, suite)| suite).ok_or_else(|| CliError::invalid(reader.errors))
}

/// One workload with its plan, for commands without a policy.
pub(crate) fn workload(path: &Path, terminal: &mut Terminal) -> Result<(Workload, Plan), CliError> {
    let mut reader = Reader::default();
    let suite = reader.workload(Source::read(path)?, None);
    let (errors, warnings) = reader.into_findings();
    for finding in warnings {
        terminal.say(&finding.diagnostic.to_string());
    }
    let suite = suite.ok_or_else(|| CliError::invalid(errors))?;
    Ok((suite.workload, suite.plan))
}

/// The config file: the one named, or `servegate.yaml` where there is one.
pub(crate) fn config(path: Option<&Path>) -> Result<Config, CliError> {
    let path = match path {
        Some(path) => path,
        None if Path::new(CONFIG).exists() => Path::new(CONFIG),
        None => return Ok(Config::default()),
    };
    let source = Source::read(path)?;
    let mut reader = Reader::default();
    let mut config = reader.config(&source).ok_or_else(|| CliError::invalid(reader.into_findings().0))?;
    for target in config.targets.values_mut() {
        anchor(target, &source.name);
    }
    Ok(config)
}

/// Lets the paths of a target count from the folder of the file in which they stand. A program without a `/` is
/// looked for in the `PATH`.
fn anchor(target: &mut Target, file: &str) {
    let program = target.restart.as_mut().and_then(|restart| restart.command.first_mut());
    let program = program.filter(|program| program.contains('/'));
    let tokenizer = target.tokenizer.as_mut().map(|tokenizer| &mut tokenizer.path);
    let paths = program.into_iter().chain(&mut target.ca_file).chain(tokenizer);
    for path in paths {
        *path = beside(file, path).display().to_string();
    }
}

/// The target with this name.
pub(crate) fn target(config: &Config, name: &str) -> Result<Target, CliError> {
    config.targets.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = config.targets.keys().map(String::as_str).collect();
        let error = CliError::usage(format!("no target `{}` in the config file", name.escape_debug()));
        if known.is_empty() {
            error.hint("write one into servegate.yaml (docs/targets.md), or use --url and --model")
        } else {
            error.hint(format!("targets there are: {}", known.join(", ")))
        }
    })
}

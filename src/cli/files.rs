//! The user's files: policies, the workloads they name, and `servegate.yaml`. Problems of all files are
//! reported together.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::error::{CliError, Finding};
use crate::cli::reach::hopeless;
use crate::cli::suite::{LoadedPolicy, Source, Suite};
use crate::cli::terminal::Terminal;
use crate::plan::request::Plan;
use crate::plan::{self};
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
}

impl Reader {
    /// Reads a workload file.
    pub(crate) fn workload(&mut self, source: &Source) -> Option<Workload> {
        self.take(source, spec::read_workload(&source.name, &source.text))
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
        let key = fs::canonicalize(path).unwrap_or_else(|_missing| path.to_owned());
        if let Some(at) = self.suites.iter().position(|(known, _)| *known == key) {
            return Ok(Some(at));
        }
        let source = Source::read(path)?;
        let Some(workload) = self.workload(&source) else { return Ok(None) };
        let plan = plan::build(&workload);
        self.suites.push((key, Suite { workload, source, plan, policies: Vec::new() }));
        Ok(Some(self.suites.len().saturating_sub(1)))
    }

    fn bind(&mut self, source: Source, draft: PolicyDraft, at: usize) {
        let Some(bound) = self.suites.get(at).map(|(_, suite)| draft.bind(&suite.workload)) else { return };
        let policy = self.take(&source, bound);
        if let (Some(policy), Some((_, suite))) = (policy, self.suites.get_mut(at)) {
            suite.policies.push(LoadedPolicy { policy, source });
        }
    }

    /// Adds findings of another kind of file.
    pub(crate) fn refuse(&mut self, source: &Source, diagnostics: Vec<Diagnostic>) {
        self.errors.extend(source.findings(diagnostics));
    }

    /// Refuses the checks that can never pass.
    pub(crate) fn refuse_hopeless(&mut self) {
        let found = self.suites.iter().flat_map(|(_, suite)| hopeless(suite, Severity::Error));
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
        for finding in suites.iter().flat_map(|suite| hopeless(suite, Severity::Warning)) {
            terminal.say(&finding.diagnostic.to_string());
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

/// A suite from texts that are at hand.
pub(crate) fn suite(workload: Source, policies: Vec<Source>) -> Result<Suite, CliError> {
    let mut reader = Reader::default();
    let Some(value) = reader.workload(&workload) else { return Err(CliError::invalid(reader.errors)) };
    let plan = plan::build(&value);
    let suite = Suite { workload: value, source: workload, plan, policies: Vec::new() };
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
    let workload = reader.workload(&Source::read(path)?);
    let (errors, warnings) = reader.into_findings();
    for finding in warnings {
        terminal.say(&finding.diagnostic.to_string());
    }
    let workload = workload.ok_or_else(|| CliError::invalid(errors))?;
    let plan = plan::build(&workload);
    Ok((workload, plan))
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

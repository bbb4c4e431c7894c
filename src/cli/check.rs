//! `servegate check`: every problem of every file at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::base::diagnostic::{Diagnostic, Place, Severity};
use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::files::{Reader, real};
use crate::cli::suite::Source;
use crate::cli::terminal::Terminal;
use crate::spec::{self, FileKind};

/// Where files are looked for when none is named.
const DEFAULT: [&str; 2] = ["gate-policies", "servegate.yaml"];

/// Check policies, workloads and servegate.yaml; report every problem at once
///
/// Example: servegate check gate-policies servegate.yaml
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files, or folders with *.yaml files [default: gate-policies and servegate.yaml]
    paths: Vec<PathBuf>,
}

/// Reads everything and says what is wrong.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let mut files = Vec::new();
    if args.paths.is_empty() {
        for path in DEFAULT.map(Path::new).iter().filter(|path| path.exists()) {
            collect(path, &mut files)?;
        }
    }
    for path in &args.paths {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        let error = CliError::usage("there is no file to check");
        return Err(error.hint("name files or folders, or run it where gate-policies/ or servegate.yaml is"));
    }
    let mut known = BTreeSet::new();
    files.retain(|file| known.insert(real(file)));
    let mut reader = Reader::default();
    for file in &files {
        match Source::read(file) {
            Ok(source) => read(&mut reader, file, source),
            Err(error) => unreadable(&mut reader, file, &error),
        }
    }
    reader.refuse_hopeless();
    let (errors, warnings) = reader.into_findings();
    if terminal.json() {
        let all: Vec<&Diagnostic> = errors.iter().chain(&warnings).map(|finding| &finding.diagnostic).collect();
        terminal.data_json(&json!({ "files": files.len(), "findings": all }))?;
        return Ok(if errors.is_empty() { Exit::Success } else { Exit::InvalidFile });
    }
    for finding in &warnings {
        terminal.say(&spec::render(std::slice::from_ref(&finding.diagnostic), &finding.text, false));
    }
    if !errors.is_empty() {
        return Err(CliError::invalid(errors));
    }
    terminal.data(format!("{}, no problem\n", count(files.len(), "file")).as_bytes())?;
    Ok(Exit::Success)
}

fn read(reader: &mut Reader, file: &Path, source: Source) {
    match spec::kind_of(&source.name, &source.text) {
        Ok(FileKind::Policy) => reader.policy(source),
        Ok(FileKind::Workload) => reader.workload_file(file, source),
        Ok(FileKind::Config) => drop(reader.config(&source)),
        Err(diagnostics) => reader.refuse(&source, diagnostics),
    }
}

/// A file that cannot be read is a problem among the others, so that it hides none of them.
fn unreadable(reader: &mut Reader, file: &Path, error: &CliError) {
    let source = Source { name: file.display().to_string(), text: String::new() };
    let place = Place { file: source.name.clone(), ..Place::default() };
    let finding = Diagnostic {
        code: "unreadable",
        severity: Severity::Error,
        place,
        key: String::new(),
        message: error.message().to_owned(),
        help: "name a UTF-8 text file that this user may read".to_owned(),
    };
    reader.refuse(&source, vec![finding]);
}

/// YAML files under a path, in order of their names.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed =
        |error: std::io::Error| CliError::unreadable(format!("cannot read the folder {}: {error}", path.display()));
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for entry in entries {
        let yaml = entry.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if entry.is_dir() || yaml {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

//! The traces that a workload replays: files beside it, held against its cells before anything is planned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::cli::suite::Source;
use crate::plan::replay::{Misfit, Traces, fit};
use crate::plan::request::Plan;
use crate::plan::{self};
use crate::spec::target::NamedFile;
use crate::spec::workload::Workload;
use crate::store::files::{FileError, read_bounded};
use crate::trace::normal::{self, NotReplayed};
use crate::trace::refused::Refused;

/// Largest trace of a workload, in bytes: a bundle keeps it as it is.
pub(crate) const MAX_FILE: u64 = 64 << 20;

/// Trace files by the path by which their workload names them.
pub(crate) type TraceFiles = BTreeMap<String, Vec<u8>>;

/// The files that a workload names, from beside its own.
///
/// # Errors
/// Findings for those that cannot be read.
pub(crate) fn beside(workload: &Workload, source: &Source) -> Result<TraceFiles, Vec<Diagnostic>> {
    let folder = Path::new(&source.name).parent().unwrap_or_else(|| Path::new(""));
    let (mut files, mut findings) = (TraceFiles::new(), Vec::new());
    for named in named(workload) {
        if files.contains_key(&named.path) {
            continue;
        }
        match bytes(folder, &named.path) {
            Ok(bytes) => drop(files.insert(named.path.clone(), bytes)),
            Err((message, help)) => findings.push(finding(named, "unreadable-trace", message, help)),
        }
    }
    if findings.is_empty() { Ok(files) } else { Err(findings) }
}

/// The plan of a workload with its traces. What checks must know of them is noted in the workload.
///
/// # Errors
/// Findings for traces that are wrong in themselves, or lack what their cells ask for.
pub(crate) fn plan(workload: &mut Workload, files: &TraceFiles) -> Result<Plan, Vec<Diagnostic>> {
    let (mut traces, mut findings) = (Traces::new(), Vec::new());
    for named in named(workload) {
        if traces.contains_key(&named.path) {
            continue;
        }
        let read = files.get(&named.path).map(|bytes| normal::read(&named.path, bytes));
        match read {
            Some(Ok(trace)) => drop(traces.insert(named.path.clone(), trace)),
            Some(Err(error)) => findings.push(wrong(named, &error)),
            None => {
                let message = format!("the trace {} was not kept with the workload", named.path);
                findings.push(finding(named, "unreadable-trace", message, "use a bundle that holds it".to_owned()));
            }
        }
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let misfits = |misfits: Vec<Misfit>| misfits.into_iter().map(misfit).collect::<Vec<_>>();
    fit(workload, &traces).map_err(misfits)?;
    Ok(plan::build_with(workload, &traces))
}

fn named(workload: &Workload) -> impl Iterator<Item = &NamedFile> {
    workload.cells.iter().filter_map(|cell| Some(&cell.trace.as_ref()?.file))
}

/// The bytes of a file in a folder or below it, or what is wrong and what to do.
fn bytes(folder: &Path, path: &str) -> Result<Vec<u8>, (String, String)> {
    let mut place = PathBuf::from(folder);
    for step in path.split('/') {
        place.push(step);
        if place.is_symlink() {
            let message = format!("{} is a symbolic link, and what it leads to can change unseen", place.display());
            return Err((message, "put the file itself there".to_owned()));
        }
    }
    read_bounded(&place, MAX_FILE).map_err(|error| match error {
        FileError::TooLarge { path, limit } => {
            let message = format!("{} has more than {limit} bytes", path.display());
            (message, "cut it: `servegate workload replay TRACE --requests N -o FILE`".to_owned())
        }
        error @ (FileError::Io { .. }
        | FileError::NotAFile { .. }
        | FileError::NotAFolder { .. }
        | FileError::Name { .. }) => (error.to_string(), "the path counts from the workload's folder".to_owned()),
    })
}

/// A trace that is wrong in itself.
fn wrong(file: &NamedFile, error: &NotReplayed) -> Diagnostic {
    let help = match error {
        NotReplayed::Refused(Refused::Version { .. } | Refused::NotJson { .. } | Refused::NotATrace { .. }) => format!(
            "a workload replays servegate's normal form; make it: `servegate workload replay TRACE -o {}`",
            file.path
        ),
        NotReplayed::Refused(_) | NotReplayed::Faulty { .. } => {
            "write it anew from its source: `servegate workload replay TRACE -o FILE`".to_owned()
        }
    };
    finding(file, "wrong-trace", error.to_string(), help)
}

fn misfit(Misfit { file, code, message, help }: Misfit) -> Diagnostic {
    finding(&file, code, format!("{}: {message}", file.path), help)
}

fn finding(file: &NamedFile, code: &'static str, message: String, help: String) -> Diagnostic {
    let place = file.place.clone().unwrap_or_default();
    Diagnostic { code, severity: Severity::Error, place, key: file.key.clone(), message, help }
}

//! The part of a cell that names a trace.

use std::collections::BTreeMap;

use crate::spec::findings::{Fault, Findings};
use crate::spec::load_file::TRACE;
use crate::spec::target::NamedFile;
use crate::spec::text::quote;
use crate::spec::view::View;
use crate::spec::workload::Replay;

/// Keys that say what a trace says already, or what it has no room for.
const EXCLUDED: [(&str, &str); 5] = [
    ("prompt_tokens", "the trace tells the length of every prompt"),
    ("lengths", "the trace tells the length of every prompt"),
    ("classes", "the trace tells what its requests look like"),
    ("shared_prefix", "the trace tells what prompts share"),
    ("phases", "a trace is a time line of its own, without phases"),
];

/// The trace of a cell; none inside where it has none, none outside where it is wrong.
#[expect(clippy::option_option, reason = "no trace and a wrong trace are two things")]
pub(super) fn trace(view: &View<'_>, findings: &mut Findings) -> Option<Option<Replay>> {
    let key = TRACE.name;
    if !view.has(key) {
        return Some(None);
    }
    for (other, message) in EXCLUDED.into_iter().filter(|(other, _)| view.has(other)) {
        let fault = Fault::new("conflicting-keys", message, format!("remove `{other}`, or `trace`"));
        findings.error(&view.at(other), &view.key(other), fault);
    }
    let path = view.text(key)?;
    // Stored runs are judged again from a copy of the file, so that it must lie where the workload lies.
    if !path.split('/').all(is_plain) {
        let message = format!("{} leads out of the workload's folder", quote(&path));
        let help =
            "put the trace beside the workload file, or in a folder beside it, and write its path without `.` and `..`";
        findings.error(&view.at(key), &view.key(key), Fault::new("wrong-path", message, help));
        return None;
    }
    let place = Some(findings.place(&view.at(key)));
    Some(Some(Replay { file: NamedFile { path, key: view.key(key), place }, parts: BTreeMap::new() }))
}

/// A step of a path that leads nowhere but down.
fn is_plain(step: &str) -> bool {
    !matches!(step, "" | "." | "..")
}

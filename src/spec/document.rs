//! What every file has in common: the format version, the kind, and how a reading ends.

use std::fmt;

use crate::base::diagnostic::Diagnostic;
use crate::spec::findings::{Fault, Findings};
use crate::spec::reader::check_object;
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::text::{nearest, quote};
use crate::spec::value::FORMAT;
use crate::spec::yaml::{Node, Value, parse};

/// The kinds of files that people write; a file says its own under `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `gate-policies/*.yaml`.
    Policy,
    /// `gate-policies/workloads/*.yaml`.
    Workload,
    /// `servegate.yaml`.
    Config,
}

impl FileKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Policy, Self::Workload, Self::Config];

    /// The text form.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Workload => "workload",
            Self::Config => "config",
        }
    }

    /// The kind with this text form.
    pub fn from_id(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.id() == text)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// A file that was read without an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<T> {
    /// What the file says.
    pub value: T,
    /// Worth a look; nothing is refused.
    pub warnings: Vec<Diagnostic>,
}

impl<T> Reading<T> {
    /// The value if nothing was refused, else all findings. A missing value always comes with a finding.
    pub(super) fn end(value: Option<T>, findings: Findings) -> Result<Self, Vec<Diagnostic>> {
        match value {
            Some(value) if !findings.refused() => Ok(Self { value, warnings: findings.into_sorted() }),
            _ => Err(findings.into_sorted()),
        }
    }
}

/// The first key of every file.
pub(super) const VERSION: Field =
    Field { name: "servegate", kind: Kind::Version, need: Need::Required, doc: "the version of the file's format" };

/// What a file says it is, for a command that is given files of any kind.
///
/// # Errors
/// The findings when the text is not YAML, is from a newer format, or does not say its kind.
pub fn kind_of(file: &str, text: &str) -> Result<FileKind, Vec<Diagnostic>> {
    let mut findings = Findings::new(file);
    parse(text, &mut findings).and_then(|root| header(&root, &mut findings)).ok_or_else(|| findings.into_sorted())
}

/// The tree of a text that is a file of this kind, everything in it checked against the description.
/// None when it makes no sense to look closer.
pub(super) fn open(text: &str, kind: FileKind, object: &'static Object, findings: &mut Findings) -> Option<Node> {
    let root = parse(text, findings)?;
    let Value::Map(entries) = &root.value else {
        not_a_mapping(&root, findings);
        return None;
    };
    if let Some(found) = root.get("kind").and_then(Node::text).and_then(FileKind::from_id)
        && found != kind
    {
        let message = format!("this file is a {found}, and a {kind} is needed here");
        let fault = Fault::new("wrong-kind", message, format!("name a file with `kind: {kind}`"));
        findings.error(&root.get("kind")?.at, "kind", fault);
        return None;
    }
    if !readable_version(&root, findings) {
        return None;
    }
    check_object(&root, entries, "", object, findings);
    Some(root)
}

fn not_a_mapping(root: &Node, findings: &mut Findings) {
    let message = "the file is not a mapping of keys";
    findings.error(&root.at, "", Fault::new("wrong-type", message, format!("begin it with `servegate: {FORMAT}`")));
}

fn header(root: &Node, findings: &mut Findings) -> Option<FileKind> {
    if !matches!(root.value, Value::Map(_)) {
        not_a_mapping(root, findings);
        return None;
    }
    if !readable_version(root, findings) {
        return None;
    }
    let ids = || FileKind::ALL.iter().map(|kind| kind.id());
    let Some(node) = root.get("kind") else {
        let help = "add `kind: policy`, `kind: workload` or `kind: config`";
        findings.error(&root.at, "kind", Fault::new("missing-key", "the file does not say what it is", help));
        return None;
    };
    let text = node.text().unwrap_or_default();
    FileKind::from_id(text).or_else(|| {
        let help = nearest(text, ids())
            .map_or_else(|| "write `policy`, `workload` or `config`".to_owned(), |id| format!("did you mean `{id}`?"));
        let message = format!("{} is not a kind of file", quote(text));
        findings.error(&node.at, "kind", Fault::new("unknown-value", message, help));
        None
    })
}

/// Whether the file's format is one that this version reads. A missing version is a missing key, found with
/// the others; a newer one makes every other finding meaningless.
fn readable_version(root: &Node, findings: &mut Findings) -> bool {
    let Some(node) = root.get(VERSION.name) else { return true };
    let fault = match scalar::count(node.text().unwrap_or_default()) {
        Ok(FORMAT) => return true,
        Ok(version) if version > FORMAT => {
            let message = format!("the file has format {version}, and this servegate reads format {FORMAT}");
            Fault::new("newer-version", message, "use a newer servegate")
        }
        _ => Fault::new("wrong-version", "this is not a version of the format", format!("write `servegate: {FORMAT}`")),
    };
    findings.error(&node.at, VERSION.name, fault);
    false
}

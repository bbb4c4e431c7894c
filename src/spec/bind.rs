//! The second half of reading a policy: its references to the cells of its workload.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::diagnostic::Diagnostic;
use crate::base::names::{Role, Scale};
use crate::spec::document::Reading;
use crate::spec::findings::{Fault, Findings, Mark};
use crate::spec::load::Phase;
use crate::spec::policy::{Check, Policy};
use crate::spec::slice::Slice;
use crate::spec::text::{escape, list, nearest, quote};
use crate::spec::workload::{Cell, Class, Sure, Workload};

/// A policy as written, as far as it could be read, with all findings so far. [`PolicyDraft::bind`] is the only
/// way to a [`Policy`].
#[derive(Clone, Debug)]
pub struct PolicyDraft {
    /// Without checks.
    policy: Option<Policy>,
    entries: Vec<Entry>,
    workload: Option<(String, Mark)>,
    findings: Findings,
}

/// One item of `checks`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The check without its cell; none where it is wrong in itself.
    pub(super) check: Option<Check>,
    pub(super) role_is_default: bool,
    /// None where they cannot be read.
    pub(super) cells: Option<Cells>,
    /// None where it is no phase.
    pub(super) phase: Option<Phase>,
    pub(super) path: String,
    pub(super) at: Mark,
}

impl Entry {
    /// Whether nothing in it is wrong; its cells may still be unknown.
    pub(super) const fn is_right(&self) -> bool {
        self.check.is_some() && self.cells.is_some() && self.phase.is_some()
    }
}

/// Which cells a check is about.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    All,
    Named(Vec<NamedCell>),
}

/// The name of a cell in a policy, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct NamedCell {
    pub(super) name: String,
    pub(super) at: Mark,
    pub(super) path: String,
}

impl PolicyDraft {
    pub(super) const fn new(
        policy: Option<Policy>,
        entries: Vec<Entry>,
        workload: Option<(String, Mark)>,
        findings: Findings,
    ) -> Self {
        Self { policy, entries, workload, findings }
    }

    /// The path of the workload file, relative to the policy's folder; none if the policy does not name one.
    pub fn workload(&self) -> Option<&str> {
        self.workload.as_ref().map(|(path, _)| path.as_str())
    }

    /// Resolves the cells and returns the policy if nothing is wrong with it.
    ///
    /// # Errors
    /// Every problem of the file, those of the first reading included.
    pub fn bind(self, workload: &Workload) -> Result<Reading<Policy>, Vec<Diagnostic>> {
        let Self { policy, entries, mut findings, .. } = self;
        let checks = Binding::of(&entries, workload, &mut findings);
        let complete = entries.iter().all(Entry::is_right) && !checks.is_empty();
        let policy = policy.filter(|_| complete).map(|policy| Policy { checks, ..policy });
        Reading::end(policy, findings)
    }

    /// The policy with those of its checks that are right, whatever is wrong with others: for problems that can be told
    /// beside those of [`PolicyDraft::bind`]. None where the policy's own keys are wrong.
    pub fn right_checks(&self, workload: &Workload) -> Option<Policy> {
        let checks = Binding::of(&self.entries, workload, &mut self.findings.clone());
        self.policy.clone().map(|policy| Policy { checks, ..policy })
    }

    /// The findings when the workload file is not there, for this `reason` in words.
    pub fn without_workload(mut self, reason: &str) -> Vec<Diagnostic> {
        if let Some((path, at)) = &self.workload {
            let message = format!("the workload {} cannot be read: {}", quote(path), escape(reason, 200));
            let help = "the path counts from the policy's folder";
            self.findings.error(at, "workload", Fault::new("missing-workload", message, help));
        }
        self.findings.into_sorted()
    }

    /// The findings of the first reading alone, when the workload has findings of its own.
    pub fn into_findings(self) -> Vec<Diagnostic> {
        self.findings.into_sorted()
    }
}

struct Binding<'w> {
    workload: &'w Workload,
    /// The line of each check by its id.
    ids: BTreeMap<String, u32>,
    checks: Vec<Check>,
}

impl<'w> Binding<'w> {
    /// The checks of each entry in its cells.
    fn of(entries: &[Entry], workload: &'w Workload, findings: &mut Findings) -> Vec<Check> {
        let mut binding = Binding { workload, ids: BTreeMap::new(), checks: Vec::new() };
        for entry in entries {
            binding.entry(entry, findings);
        }
        binding.checks
    }

    fn entry(&mut self, entry: &Entry, findings: &mut Findings) {
        // Names are looked up though the phase is none: they are wrong for another reason.
        let phase = entry.phase.unwrap_or_default();
        let reference = entry.check.as_ref().and_then(Check::reference_phase);
        match &entry.cells {
            None => {}
            Some(Cells::All) => {
                let of_phase = || self.workload.cells.iter().filter(|cell| cell.phase == phase);
                let cells = || of_phase().filter(|cell| reference.is_none_or(|it| self.phase_of(cell, it).is_some()));
                if cells().next().is_none() {
                    let missing = reference.filter(|_| of_phase().next().is_some()).unwrap_or(phase);
                    findings.error(&entry.at, &entry.path, no_phase(missing, "no cell of the workload has"));
                }
                let slice = entry.check.as_ref().map(|check| &check.slice);
                let having: Vec<&Cell> =
                    cells().filter(|cell| slice.is_none_or(|slice| no_slice(slice, &[*cell]).is_none())).collect();
                if having.is_empty()
                    && let Some(fault) = slice.and_then(|slice| no_slice(slice, &cells().collect::<Vec<_>>()))
                {
                    findings.error(&entry.at, &entry.path, fault);
                }
                for cell in having {
                    self.check(entry, cell, (&entry.at, &entry.path), findings);
                }
            }
            Some(Cells::Named(names)) => {
                for (index, NamedCell { name, at, path }) in names.iter().enumerate() {
                    if names.iter().take(index).any(|earlier| earlier.name == *name) {
                        continue; // a repeated entry, found already
                    }
                    let named = |wanted: &str| self.workload.cells.iter().find(|cell| cell.name == wanted);
                    match (named(&phase.of(name)), named(name)) {
                        (Some(cell), _) => self.check(entry, cell, (at, path), findings),
                        (None, Some(_)) => {
                            let which = format!("cell {} of the workload does not have", quote(name));
                            findings.error(at, path, no_phase(phase, &which));
                        }
                        (None, None) => findings.error(at, path, unknown_cell(name, self.workload)),
                    }
                }
            }
        }
    }

    fn check(&mut self, entry: &Entry, cell: &Cell, (at, path): (&Mark, &str), findings: &mut Findings) {
        let Some(check) = entry.check.clone().filter(|_| entry.is_right()) else { return };
        if let Some(fault) = no_slice(&check.slice, &[cell]) {
            findings.error(at, path, fault);
            return;
        }
        let reference = check.reference_phase().map(|phase| (phase, self.phase_of(cell, phase)));
        if let Some((phase, None)) = reference {
            let which = format!("cell {} of the workload does not have", quote(Phase::cell(&cell.name)));
            findings.error(at, path, no_phase(phase, &which));
            return;
        }
        let reference = reference.and_then(|(_, cell)| cell);
        let mut check = Check { cell: cell.name.clone(), reference: reference.map(|cell| cell.name.clone()), ..check };
        let id = check.id();
        if let Some(line) = self.ids.get(&id) {
            let message = format!("{} is already checked on line {line}", quote(&id));
            findings.error(at, path, Fault::new("duplicate-check", message, "keep one of the two"));
            return;
        }
        self.ids.insert(id, at.line);
        if let Some(fault) = undefined(&check, cell) {
            findings.error(at, path, fault);
        }
        if check.role != Role::Advisory
            && let Some(fault) =
                [Some(cell), reference].into_iter().flatten().find_map(|cell| undecidable(&check, cell))
        {
            if entry.role_is_default && check.role == Role::Guard {
                check.role = Role::Advisory;
                findings.warning(at, path, fault);
            } else {
                findings.error(at, path, fault);
            }
        }
        self.checks.push(check);
    }

    /// Another phase of the same cell.
    fn phase_of(&self, cell: &Cell, phase: Phase) -> Option<&'w Cell> {
        let name = phase.of(Phase::cell(&cell.name));
        self.workload.cells.iter().find(|cell| cell.name == name)
    }
}

fn no_phase(phase: Phase, which: &str) -> Fault {
    let help = format!("add it to the cell: `phases: {{{phase}: ...}}`, or remove the key that names it");
    Fault::new("unknown-phase", format!("{which} a phase `{phase}`"), help)
}

fn unknown_cell(name: &str, workload: &Workload) -> Fault {
    let names = || workload.cells.iter().filter(|cell| cell.phase == Phase::Steady).map(|cell| cell.name.as_str());
    let message = format!("the workload {} has no cell {}", quote(&workload.name), quote(name));
    let help = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its cells are {}", list(names())),
    };
    Fault::new("unknown-cell", message, help)
}

/// What the requests of a check are sure to have.
fn sure(check: &Check, cell: &Cell) -> Sure {
    cell.sure(check.slice.class.as_deref())
}

/// No cell has such a part.
fn no_slice(slice: &Slice, cells: &[&Cell]) -> Option<Fault> {
    let which = || list(cells.iter().map(|cell| cell.name.as_str()));
    let wanted = slice.class.as_deref();
    let has = |cell: &Cell| wanted.is_none_or(|class| cell.class_names().contains(class));
    if let Some(class) = wanted.filter(|_| !cells.iter().any(|cell| has(cell))) {
        let known: BTreeSet<&str> = cells.iter().flat_map(|cell| cell.class_names()).collect();
        let help = match nearest(class, known.iter().copied()) {
            _ if known.is_empty() && cells.iter().all(|cell| cell.trace.is_some()) => {
                "remove `class`: the trace names no classes".to_owned()
            }
            _ if known.is_empty() => "remove `class`, or give the cell `classes`".to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the classes there are {}", list(known.iter().copied())),
        };
        let message = format!("{} is no class of {}", quote(class), which());
        return Some(Fault::new("unknown-class", message, help));
    }
    if let Some(turns) = slice.turn
        && !cells.iter().any(|cell| cell.session.as_ref().is_some_and(|session| turns.from <= session.turns.most()))
    {
        let message = format!("no session of {} has a turn {turns}", which());
        let help = "choose turns that there are, or give the cell a `session`";
        return Some(Fault::new("impossible-check", message, help));
    }
    let range = slice.context?;
    // The lengths of a trace are those of all its classes.
    let of_check =
        |cell: &Cell, class: &Class| cell.trace.is_some() || wanted.is_none() || class.name.as_deref() == wanted;
    let reached = |cell: &Cell| {
        has(cell) && cell.classes.iter().any(|class| of_check(cell, class) && class.prompt_tokens.reaches(range))
    };
    // How far contexts grow only the plan knows.
    let grows = |cell: &Cell| cell.session.as_ref().is_some_and(|session| range.from <= session.max_context);
    (!cells.iter().any(|cell| grows(cell) || reached(cell))).then(|| {
        let message = format!("no prompt of {} has a length in `{range}`", which());
        Fault::new("impossible-check", message, "choose a range in which there are `prompt_tokens`")
    })
}

/// Times between tokens need two tokens.
fn undefined(check: &Check, cell: &Cell) -> Option<Fault> {
    (check.metric.needs_two_tokens() && sure(check, cell).long_answers == 0).then(|| {
        let message =
            format!("`{}` needs two output tokens, and {} may have one", check.metric, quote(&check.subject()));
        Fault::new("impossible-check", message, "make the cell's `output_tokens` longer, or use `e2e`")
    })
}

/// Too few values for the statistic to decide anything (`docs/statistics.md` section 2).
fn undecidable(check: &Check, cell: &Cell) -> Option<Fault> {
    // How many prompts have a length is only known of the plan; `servegate check` counts them there.
    let Sure { requests, long_answers, gaps } = sure(check, cell);
    let planned = match check.metric.scale() {
        Scale::PerRequest if check.metric.needs_two_tokens() => long_answers,
        // How many are refused nobody knows: at most all.
        Scale::PerRequest | Scale::PerRefusal | Scale::PerRun | Scale::Proportion => requests,
        Scale::PerGap => gaps,
    };
    let needed = u64::try_from(check.statistic.floor()).unwrap_or(u64::MAX);
    (planned < needed).then(|| {
        let values = match check.metric.scale() {
            Scale::PerGap => "token gaps",
            Scale::PerRequest if check.metric.needs_two_tokens() => "requests with two output tokens",
            Scale::PerRequest | Scale::PerRefusal | Scale::PerRun | Scale::Proportion => "requests",
        };
        let id = check.id();
        let message = format!(
            "{} needs {needed} {values} in a run to decide anything, and {} plans {planned}",
            quote(&id),
            match (check.slice.class.is_some(), cell.name == check.cell) {
                (true, _) => "the class".to_owned(),
                (false, true) => "the cell".to_owned(),
                (false, false) => quote(&cell.name),
            }
        );
        Fault::new(
            "too-few-requests",
            message,
            "raise the cell's `requests`, take a lower quantile, or write `role: advisory`",
        )
    })
}

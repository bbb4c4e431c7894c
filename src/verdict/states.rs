//! What stands before the verdict of each check: its tests, or why it has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::Run;
use crate::base::names::Role;
use crate::compare::effect::{Measured, Unmeasured, measure};
use crate::compare::evidence::Selection;
use crate::spec::policy::{Check, Decision};
use crate::spec::slice::Slice;
use crate::stats::moderated::NotEstimable;
use crate::verdict::judgement::{Finding, Verdict};
use crate::verdict::rules::Screening;
use crate::verdict::subjects::Subject;
use crate::verdict::trial::{Trial, trial};

/// What stands before the verdict of a check.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It is not judged by its numbers.
    Blocked {
        /// The verdict instead.
        verdict: Verdict,
        /// Why.
        reason: String,
        /// For an inconclusive one: what would decide it.
        to_decide: Option<String>,
    },
    /// It was measured and tested.
    Tried(Box<Tried>),
}

/// A check that was measured.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    /// What was measured.
    pub(super) measured: Measured,
    /// Its tests.
    pub(super) trial: Trial,
}

impl State {
    pub(super) fn blocked(verdict: Verdict, reason: &str) -> Self {
        Self::Blocked { verdict, reason: reason.to_owned(), to_decide: None }
    }

    fn undecided(reason: &str, to_decide: &str) -> Self {
        let (reason, to_decide) = (reason.to_owned(), Some(to_decide.to_owned()));
        Self::Blocked { verdict: Verdict::Inconclusive, reason, to_decide }
    }
}

/// Measures and tests every check that no finding blocks. A guard whose statistic rests on too few values becomes
/// advisory; answers that became longer block what depends on their length.
pub(super) fn states(screening: &Screening<'_>, subjects: &mut [Subject], findings: &[Finding]) -> Vec<State> {
    let case = screening.case;
    let mut selections: BTreeMap<(String, bool), Selection<'_>> = BTreeMap::new();
    let decision = &case.policy.decision;
    let mut state = |subject: &mut Subject| {
        if let Some(finding) = blocking(findings, &subject.check) {
            return State::blocked(finding.verdict, &finding.reference());
        }
        let planned = |name: &str| case.evidence.plan.cells.iter().find(|cell| cell.name == name);
        let reference = subject.check.reference.as_deref().map(planned);
        let (Some(cell), false) = (planned(&subject.check.cell), matches!(reference, Some(None))) else {
            return State::blocked(Verdict::Error, "not judged: cell-unknown");
        };
        let (slice, reference) = (&subject.check.slice, reference.flatten());
        let counts = |run: &Run| [Some(cell), reference].into_iter().flatten().all(|cell| screening.counts(run, cell));
        let select = || case.evidence.select(cell, (slice, reference), counts);
        let runs = selections.entry((subject.check.subject(), reference.is_some())).or_insert_with(select);
        let single = single(runs);
        match measure(runs, &subject.check, decision, cell.timeout) {
            Ok(measured) => tested(subject, measured, (decision, single)),
            Err(reason) => unmeasured(subject, reason),
        }
    };
    let mut states: Vec<State> = subjects.iter_mut().map(&mut state).collect();
    block_by_length(decision, subjects, &mut states);
    states
}

/// The first of the worst findings about everything or about a cell of the check. A broken invariant fails the gate by itself and
/// says nothing against the numbers: the checks are judged beside it.
fn blocking<'a>(findings: &'a [Finding], check: &Check) -> Option<&'a Finding> {
    let here = |finding: &&Finding| {
        let is_here = finding.cell.as_deref().is_none_or(|found| check.cells().any(|cell| cell == found));
        finding.verdict != Verdict::Fail && is_here
    };
    findings.iter().filter(here).rev().max_by_key(|finding| finding.verdict)
}

fn unmeasured(subject: &Subject, reason: Unmeasured) -> State {
    match reason {
        Unmeasured::Missing(none) if subject.check.role == Role::Required => {
            State::blocked(Verdict::Error, &format!("a run has no value: {none}"))
        }
        Unmeasured::Missing(none) => State::undecided(
            &format!("a run has no value, and the check is not a required one: {none}"),
            "runs that have a value of this metric",
        ),
        Unmeasured::NoScatter => State::undecided(
            "from one run a side nobody knows how failures scatter between runs",
            "a second run on either side",
        ),
    }
}

/// The sides that do not show how far their runs scatter: none of their sessions has two.
fn single(runs: &Selection<'_>) -> &'static str {
    let shows = |session: &[CellData<'_>]| session.len() > 1;
    let baseline = runs.stored.iter().any(|session| shows(session)) || shows(&runs.controls);
    match (baseline, shows(&runs.candidate)) {
        (true, _) => "the candidate",
        (false, true) => "the baseline",
        (false, false) => "either side",
    }
}

/// `single` names the sides without two runs in one session.
fn tested(subject: &mut Subject, measured: Measured, (decision, single): (&Decision, &str)) -> State {
    let floor = subject.check.statistic.floor();
    if let Measured::Ratio(ratio) = &measured
        && ratio.fewest < floor
    {
        let few = format!("{} needs {floor} values in each run and has {}", subject.check.statistic, ratio.fewest);
        if subject.check.role == Role::Required {
            return State::blocked(Verdict::Error, &few);
        }
        subject.demote(few);
    }
    let blocked = |verdict, reason| State::blocked(verdict, reason);
    match trial(&subject.check, &measured, decision) {
        Ok(trial) => State::Tried(Box::new(Tried { measured, trial })),
        Err(NotEstimable::NoBaseline) => blocked(Verdict::NotComparable, "no run of the baseline counts"),
        Err(NotEstimable::NoCandidate) => blocked(Verdict::Error, "no run of the candidate counts"),
        Err(NotEstimable::BaselineUnobservable) => blocked(
            Verdict::NotComparable,
            "in half or more of the baseline's runs this statistic lies among failed requests: there is no value to \
             compare with",
        ),
        Err(NotEstimable::NoVariance) => State::undecided(
            &format!(
                "no session of {single} has two runs that count, and there is no history: nobody knows how far its runs scatter"
            ),
            &format!("a second run of {single} in one session, or an earlier release in the history"),
        ),
        Err(NotEstimable::Numeric) => blocked(Verdict::Error, "a number is not finite"),
    }
}

/// Where answers are shown longer than allowed, the same work was not done: what depends on the length of an answer
/// is not comparable there, nor in any part of a cell where it is. Times per token still are.
fn block_by_length(decision: &Decision, subjects: &[Subject], states: &mut [State]) {
    let longer = |state: &State| match state {
        State::Tried(tried) => tried.trial.p_longer.is_some_and(|p| p.get() <= decision.alpha_fail),
        State::Blocked { .. } => false,
    };
    let parts: BTreeSet<(&str, &Slice)> = subjects
        .iter()
        .zip(states.iter())
        .filter(|(_, state)| longer(state))
        .map(|(subject, _)| (subject.check.cell.as_str(), &subject.check.slice))
        .collect();
    let whole = Slice::default();
    let longer = |check: &Check| {
        check.cells().any(|cell| [&check.slice, &whole].iter().any(|slice| parts.contains(&(cell, *slice))))
    };
    for (subject, state) in subjects.iter().zip(states) {
        if subject.check.metric.depends_on_length() && longer(&subject.check) && matches!(state, State::Tried(_)) {
            *state = State::blocked(
                Verdict::NotComparable,
                "answers are shown longer than allowed, so the work was not the same",
            );
        }
    }
}

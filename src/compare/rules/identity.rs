//! The runs are what they claim: different runs, of one release a side, in the order of their measurement.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::run::{ClockKind, Run};
use crate::base::names::Side;
use crate::compare::evidence::{Evidence, name};
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;

/// No run counts twice. In virtual time two runs may have equal records; in real time they cannot.
pub(super) fn duplicates(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let (mut places, mut records) = (BTreeSet::new(), BTreeSet::new());
    let mut twice = |run: &Run| {
        let m = &run.manifest;
        let copied = m.clock == ClockKind::Http && m.record_count > 0 && !records.insert(m.records);
        !places.insert((m.session.clone(), m.sequence)) || copied
    };
    let found = evidence.all().filter(|(_, run)| twice(run));
    let message =
        |(side, run)| format!("{} is given twice: one run is one piece of evidence; give it once", name(side, run));
    found.map(|found| whole("run-duplicate", message(found))).collect()
}

/// One release a side, and the controls are of the baseline's.
pub(super) fn releases(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let candidate = evidence.candidate.first().map(|run| run.manifest.release.as_str());
    let stranger = |(side, run): &(Side, &Run)| {
        let expected = if *side == Side::Candidate { candidate } else { evidence.baseline_release() };
        expected != Some(run.manifest.release.as_str())
    };
    let message = |(side, run): (Side, &Run)| {
        format!("{} is of another release than the rest of its side: judge one release at a time", name(side, run))
    };
    evidence.all().find(stranger).map(message).map(|m| whole("releases-mixed", m)).into_iter().collect()
}

/// Candidate and controls share one session: that is what controls are for, and what one session effect means.
pub(super) fn sessions(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let first = evidence.candidate.iter().chain(evidence.controls).next();
    let session = first.map(|run| run.manifest.session.as_str());
    let fresh = evidence.all().filter(|(side, _)| *side != Side::Baseline);
    let message = |(side, run): (Side, &Run)| {
        format!("{} is of another session than the other runs of today: measure them in one session", name(side, run))
    };
    let mut strangers = fresh.filter(|(_, run)| Some(run.manifest.session.as_str()) != session);
    strangers.next().map(message).map(|m| whole("sessions-mixed", m)).into_iter().collect()
}

/// Runs come in the order they were measured, and controls lie among the candidate's runs: measured in two blocks,
/// a drift of the machine looks like a difference of the sides.
pub(super) fn order(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let mut last: BTreeMap<(Side, &str), u32> = BTreeMap::new();
    let mut found = vec![];
    for (side, run) in evidence.all() {
        let previous = last.insert((side, run.manifest.session.as_str()), run.manifest.sequence);
        if previous.is_some_and(|previous| previous > run.manifest.sequence) {
            let message =
                format!("{} comes after a later one: give runs in the order they were measured", name(side, run));
            found.push(whole("runs-out-of-order", message));
        }
    }
    let span = |runs: &[Run]| {
        let order = || runs.iter().map(|run| run.manifest.sequence);
        (runs.len() > 1).then(|| order().min().zip(order().max())).flatten()
    };
    if let (Some(control), Some(candidate)) = (span(evidence.controls), span(evidence.candidate))
        && (control.1 < candidate.0 || candidate.1 < control.0)
    {
        let message = "all controls were measured on one side of all candidate runs: a drift of the machine would look \
                       like an effect; spread them (candidate, control, candidate, ...)";
        found.push(whole("controls-not-interleaved", message.to_owned()));
    }
    found
}

//! What a reader must know and no check says.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::run::Run;
use crate::base::names::Role;
use crate::compare::conditions::differences;
use crate::stats::moderated::Flag;
use crate::verdict::case::Case;
use crate::verdict::gaps::gaps;
use crate::verdict::rules::{Screening, own_notes, resent_notes, token_notes};
use crate::verdict::states::State;
use crate::verdict::subjects::Subject;
use crate::verdict::words::count;

/// The notes of a policy, in a fixed order.
pub(super) fn notes(screening: &Screening<'_>, subjects: &[Subject], states: &[State]) -> Vec<String> {
    let case = &screening.case;
    let flagged = flagged(subjects, states);
    let checks = |flag: Flag| flagged.get(&flag).map(|ids| ids.join(", "));
    let decision = &case.policy.decision;
    let mut notes = vec![];
    if !case.evidence.restarted() {
        let controls =
            if case.evidence.paired || !case.evidence.controls.is_empty() || case.evidence.candidate.is_empty() {
                ""
            } else {
                "; no control of the baseline can be measured then, whatever was asked for"
            };
        notes.push(format!(
            "the deployment was not restarted between passes: all passes of the baseline are one session with an unknown \
             effect (K = 1), so only large differences can be shown{controls}"
        ));
    }
    if case.evidence.paired {
        notes.push(
            "compared pair by pair: the controls are the reference, each measured next to the candidate run that it is \
             compared with"
                .to_owned(),
        );
    }
    if flagged.contains_key(&Flag::SessionVarianceAssumed) {
        let (sd, df) = (100.0 * decision.session_sd, decision.session_sd_df);
        let why = if case.evidence.restarted() {
            "no release was measured in two sessions"
        } else {
            "without restarts the sessions of the baseline count as one, and no earlier release was measured in two"
        };
        notes.push(format!("{why}: the session sd is assumed to be {sd} % ({df} df)"));
    }
    if let Some(ids) = checks(Flag::EnvironmentDrift) {
        notes.push(format!(
            "environment drift: the controls contradict the stored baseline, which is set aside as stale for {ids}; \
             refresh it"
        ));
    }
    if let Some(ids) = checks(Flag::Weak) {
        notes.push(format!(
            "weak: no more than two runs on a side and no history, so both errors may reach 7 % instead of 5 %: {ids}"
        ));
    }
    notes.extend(gaps(case));
    notes.extend(screening.left_out());
    notes.extend(own_notes(&screening.seen));
    notes.extend(token_notes(screening));
    notes.extend(at_once(screening));
    notes.extend(resent_notes(screening));
    notes.extend(waited(case));
    notes.extend(one_sided(case));
    notes.extend(versions(case));
    if !case.policy.checks.iter().any(|check| check.role == Role::Required) {
        notes.push("no check is required: a pass says only that no guard was shown worse".to_owned());
    }
    notes
}

/// The ids of the checks that raise each flag.
fn flagged(subjects: &[Subject], states: &[State]) -> BTreeMap<Flag, Vec<String>> {
    let mut flagged: BTreeMap<Flag, Vec<String>> = BTreeMap::new();
    for (subject, state) in subjects.iter().zip(states) {
        if let State::Tried(tried) = state {
            for flag in &tried.trial.flags {
                flagged.entry(*flag).or_default().push(subject.check.id());
            }
        }
    }
    flagged
}

/// Content in the microsecond in which the request was due: no network is that fast.
fn at_once(screening: &Screening<'_>) -> Option<String> {
    let zero: usize = screening.seen.iter().filter_map(|seen| Some(seen.validity.as_ref()?.zero_latencies)).sum();
    (zero > 0).then(|| format!("{} had an answer at once, which counts as 1 us", count(zero, "request")))
}

/// Requests that were due while a connection cap was reached: their latency holds a wait of the workload's making.
fn waited(case: &Case<'_>) -> Option<String> {
    let mut cells: BTreeMap<&str, u64> = BTreeMap::new();
    for cell in case.evidence.all().flat_map(|(_, run)| &run.manifest.cells) {
        let is_checked = case.policy.checks.iter().any(|check| check.cell == cell.name);
        if let Some(connections) = cell.connections.filter(|connections| is_checked && connections.waited > 0) {
            *cells.entry(&cell.name).or_default() += u64::from(connections.waited);
        }
    }
    let list: Vec<String> = cells.iter().map(|(cell, waited)| format!("{waited} at {cell}")).collect();
    (!list.is_empty()).then(|| {
        format!("requests waited for a connection (`max_connections`), as part of their latency: {}", list.join(", "))
    })
}

/// Conditions that only one side knows: not shown to differ, and not shown to agree.
fn one_sided(case: &Case<'_>) -> Option<String> {
    let differences = differences(&case.evidence, &case.policy.treatment);
    let unknown = differences.iter().filter(|found| found.baseline.is_none() != found.candidate.is_none());
    let names: Vec<&str> = unknown.map(|found| found.condition.id()).collect();
    (!names.is_empty() && case.evidence.baseline_release().is_some())
        .then(|| format!("known on one side only, so not compared: {}", names.join(", ")))
}

fn versions(case: &Case<'_>) -> Option<String> {
    let version =
        |run: &Run| run.manifest.servegate.chars().take(32).flat_map(char::escape_default).collect::<String>();
    let versions: BTreeSet<String> = case.evidence.all().map(|(_, run)| version(run)).collect();
    let list: Vec<String> = versions.into_iter().collect();
    (list.len() > 1)
        .then(|| format!("measured by different versions of servegate ({}) with equal definitions", list.join(", ")))
}

//! The gate: policies and their evidence to one judgement.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::conditions::differences;
use crate::compare::evidence::Evidence;
use crate::verdict::case::Case;
use crate::verdict::decide::{contribution, decide};
use crate::verdict::failures::unguarded;
use crate::verdict::family::{Corrected, correct};
use crate::verdict::judgement::{CheckJudgement, Design, Finding, Judgement, PolicyJudgement, Verdict};
use crate::verdict::notes::notes;
use crate::verdict::rules::{self, Screening};
use crate::verdict::sentence::sentence;
use crate::verdict::states::{State, states};
use crate::verdict::subjects::{Subject, subjects};

/// Judges. Pure: the same cases give the same judgement.
pub fn judge(cases: &[Case<'_>]) -> Judgement {
    let policies: Vec<PolicyJudgement> = cases.iter().map(of_policy).collect();
    let candidate = cases.iter().find_map(|case| case.evidence.candidate.first());
    Judgement {
        verdict: policies.iter().map(|policy| policy.verdict).max().unwrap_or(Verdict::Error),
        candidate: candidate.map_or_else(|| "unknown".to_owned(), |run| run.manifest.release.clone()),
        policies,
    }
}

fn of_policy(case: &Case<'_>) -> PolicyJudgement {
    let mut subjects = subjects(case.policy);
    if let Some(sentence) = rules::does_not_apply(case) {
        let state = State::blocked(Verdict::NotApplicable, "the policy does not apply");
        let own = subjects.iter().filter(|subject| !subject.implied);
        let checks = own.map(|subject| decide(subject, &state, Corrected::NONE, case)).collect();
        return PolicyJudgement { verdict: Verdict::NotApplicable, sentence, ..assemble(case, vec![], checks) };
    }
    let screening = Screening::of(case);
    let findings = rules::findings(&screening);
    let states = states(&screening, &mut subjects, &findings);
    let corrected = correct(&subjects, &states);
    let judged = subjects.iter().zip(&states).zip(corrected);
    let checks = judged.map(|((subject, state), corrected)| decide(subject, state, corrected, case));
    let mut judgement = assemble(case, findings, checks.collect());
    judgement.notes = notes(&screening, &subjects, &states);
    let tried = |(subject, state): (&Subject, &State)| {
        !subject.implied && subject.may_block() && matches!(state, State::Tried(_))
    };
    if judgement.verdict <= Verdict::Pass && !subjects.iter().zip(&states).any(tried) {
        let message = "no check that may block was evaluated: nothing judged is not a pass; give the policy a required \
                       check whose metric this target has";
        let code = "nothing-evaluated";
        judgement.findings.push(Finding { verdict: Verdict::Error, code, cell: None, message: message.to_owned() });
        judgement.verdict = Verdict::Error;
    }
    let warnings = unguarded(&screening, &subjects, &judgement.checks);
    if !warnings.is_empty() {
        judgement.verdict = judgement.verdict.max(Verdict::Warn);
        judgement.findings.extend(warnings);
    }
    judgement.sentence = sentence(&judgement, case.policy.decision.alpha_fail);
    judgement
}

/// The judgement without its words.
fn assemble(case: &Case<'_>, findings: Vec<Finding>, checks: Vec<CheckJudgement>) -> PolicyJudgement {
    let mut counts = BTreeMap::new();
    for check in &checks {
        *counts.entry(check.verdict).or_default() += 1;
    }
    // A finding about one cell reaches the gate through the checks of that cell, by their roles.
    let whole = findings.iter().filter(|finding| finding.cell.is_none()).map(|finding| finding.verdict);
    let contributed = checks.iter().filter_map(|check| contribution(check.role, check.verdict));
    PolicyJudgement {
        policy: case.policy.name.clone(),
        place: case.policy.place.clone(),
        workload: case.evidence.plan.workload.clone(),
        verdict: whole.chain(contributed).max().unwrap_or(Verdict::Pass),
        sentence: String::new(),
        counts,
        design: design(&case.evidence),
        differences: differences(&case.evidence, &case.policy.treatment),
        findings,
        notes: vec![],
        checks,
    }
}

fn design(evidence: &Evidence<'_>) -> Design {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let stored = evidence.baseline.map_or(&[][..], |baseline| baseline.runs);
    let sessions: BTreeSet<&str> = stored.iter().map(|run| run.manifest.session.as_str()).collect();
    Design {
        baseline: evidence.baseline_release().map(str::to_owned),
        baseline_sessions: number(sessions.len()),
        baseline_runs: number(stored.len()),
        controls: number(evidence.controls.len()),
        candidate_runs: number(evidence.candidate.len()),
        restarted: evidence.restarted(),
        caches: evidence.candidate.first().and_then(|run| run.manifest.caches),
        plan: evidence.plan.fingerprint.short(),
    }
}

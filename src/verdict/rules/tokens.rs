//! The tokens of an answer are counted once, and rightly: where its accounts contradict each other, a metric per token
//! means nothing. What proves a count wrong keeps a run from counting; what has a harmless explanation is a note.

use std::collections::BTreeMap;

use crate::artifact::record::{Doubt, Outcome, Record};
use crate::artifact::run::Run;
use crate::artifact::validity::{CellValidity, share};
use crate::base::names::Side;
use crate::plan::request::Form;
use crate::verdict::rules::{Fault, Screening, Seen};

/// The share of answers that may contradict themselves in one way; a single one always may.
const MOST_DOUBTFUL: f64 = 0.01;
/// The share of requests of a baseline or control that may miss a forced length: beyond it, its median is a failure.
const MOST_SHORT: f64 = 0.5;

/// No explanation makes these right: the answer is not the one that was asked for, or the usage is not its count.
const PROOFS: [(Doubt, &str); 4] = [
    (
        Doubt::MoreThanWanted,
        "see whether the server knows the length under another name (docs/targets.md, interfaces), and whether its usage \
         counts several choices or attempts",
    ),
    (
        Doubt::MoreChunksThanWanted,
        "make the server send usage, or give the target a `tokenizer`: chunks are no tokens there",
    ),
    (Doubt::FewerThanListed, "see what the server or its gateway reports as usage"),
    (
        Doubt::FewerThanText,
        "see whether `tokenizer` of the target is the file of the model that answers, and what the server or its gateway \
         reports as usage",
    ),
];

/// Contradictions that a sound server may show, each with what follows from it.
const ODDITIES: [(Doubt, &str); 4] = [
    (
        Doubt::FewerThanChunks,
        "a proxy may split chunks, so chunk gaps, cadence and ITL are the proxy's; or the usage is of another request",
    ),
    (
        Doubt::MoreThanText,
        "special tokens have no text (a model that is kept from ending writes many), and `tokenizer` may be another model's; \
         else the usage counts what was not sent",
    ),
    (Doubt::MoreThanListed, "tokens without text may not be listed; what a single chunk holds is then uncertain"),
    (
        Doubt::HiddenReasoning,
        "TPOT divides by tokens that came before the first content: it is too small, and TTFT holds their time",
    ),
];

/// The accounts of the tokens do not prove each other wrong.
pub(super) fn contradicted(_: &Run, validity: &CellValidity) -> Option<Fault> {
    let answers = validity.answers();
    let broken = |(doubt, _): &&(Doubt, &str)| {
        let doubtful = validity.doubtful(*doubt);
        doubtful > 1 && share(doubtful, answers) > MOST_DOUBTFUL
    };
    PROOFS.iter().find(broken).map(|(doubt, fix)| Fault {
        code: "tokens-contradict",
        seen: format!("has {} of {answers} answers in which {doubt}", validity.doubtful(*doubt)),
        fix,
    })
}

/// A forced length was reached by most requests of what is compared with. Of a candidate, a length that is not reached
/// is a failure that the error rate shows.
pub(super) fn length_not_forced(run: &Run, validity: &CellValidity) -> Option<Fault> {
    let short = validity.outcomes.get(&Outcome::WrongLength).copied().unwrap_or_default();
    let many = run.manifest.side != Side::Candidate && share(short, validity.attempted) > MOST_SHORT;
    many.then(|| Fault {
        code: "length-not-forced",
        seen: format!(
            "has {short} of {} answers that are shorter than the length they were forced to",
            validity.attempted
        ),
        fix: "the server does not honour `ignore_eos` or the least number of tokens: docs/targets.md says what each \
              interface takes; without them lengths are not forced",
    })
}

/// What the token counts tell that does not keep a run from counting: one sentence a kind.
pub(in crate::verdict) fn notes(screening: &Screening<'_>) -> Vec<String> {
    let mut notes = vec![];
    let counted = |of: fn(&CellValidity) -> usize| spots(screening, |seen| seen.validity.as_ref().map(of));
    if let Some(spots) = counted(|validity| validity.estimated) {
        notes.push(format!(
            "output tokens are an estimate (the server sent no usage, and content chunks were counted) in {spots}: let it \
             send usage"
        ));
    }
    if let Some(spots) = counted(|validity| validity.of_text) {
        notes.push(format!(
            "output tokens are those of the text (the server sent no usage, and the tokenizer file counted) in {spots}: tokens \
             without text are not among them"
        ));
    }
    if let Some(spots) = spots(screening, other_prompts) {
        notes.push(format!(
            "prompts-exact: the server counted other prompt tokens than the ids that were sent in {spots}: it puts tokens of \
             its own around them, or cuts them"
        ));
    }
    if let Some(spots) = spots(screening, |seen| Some(count(seen, cached_beyond_prompt))) {
        notes.push(format!(
            "the usage counts more cached prompt tokens than prompt tokens, in {spots}: one of the two is no count of this \
             prompt, and all of it is taken for cached; see what the server or its gateway reports as usage"
        ));
    }
    for (doubt, meaning) in ODDITIES {
        let doubtful = |seen: &Seen<'_>| Some(seen.validity.as_ref()?.doubtful(doubt));
        if let Some(spots) = spots(screening, doubtful) {
            notes.push(format!("{doubt}, in {spots}: {meaning}"));
        }
    }
    notes
}

fn count(seen: &Seen<'_>, of: fn(&Record) -> bool) -> usize {
    seen.run.records.iter().filter(|record| record.cell == seen.cell.name && of(record)).count()
}

fn cached_beyond_prompt(record: &Record) -> bool {
    record.outcome.is_ok() && record.cached_tokens.zip(record.prompt_tokens).is_some_and(|(part, all)| part > all)
}

/// Answers whose prompt was sent as token ids and counted as another number of tokens.
fn other_prompts(seen: &Seen<'_>) -> Option<usize> {
    let planned: BTreeMap<u32, u32> = (seen.cell.requests.iter())
        .filter(|request| matches!(request.prompt.form, Form::Ids(_)))
        .map(|request| (request.number, request.prompt.words))
        .collect();
    let other = |record: &&Record| {
        let counts = record.prompt_tokens.zip(planned.get(&record.request));
        record.cell == seen.cell.name && record.outcome.is_ok() && counts.is_some_and(|(found, sent)| found != *sent)
    };
    (!planned.is_empty()).then(|| seen.run.records.iter().filter(other).count())
}

/// The sides and cells in which more than the tolerated share of the answers are counted by `of`, with that share.
fn spots(screening: &Screening<'_>, of: impl Fn(&Seen<'_>) -> Option<usize>) -> Option<String> {
    let mut spots = vec![];
    for (cell, seen) in screening.cells() {
        for side in Side::ALL {
            let (part, whole) = seen.iter().filter(|seen| seen.side == *side).fold((0, 0), |(part, whole), seen| {
                let answers = seen.validity.as_ref().map_or(0, CellValidity::answers);
                (of(seen).unwrap_or_default().saturating_add(part), answers.saturating_add(whole))
            });
            let share = share(part, whole);
            if part > 1 && share > MOST_DOUBTFUL {
                spots.push(format!("{:.0} % of the answers of the {side} at {}", 100.0 * share, cell.name));
            }
        }
    }
    (!spots.is_empty()).then(|| spots.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::record::TokenSource;
    use crate::base::names::{Metric, Statistic};
    use crate::compare::synthetic::policy::in_all_cells;
    use crate::compare::synthetic::{Shape, Sides};
    use crate::verdict::case::Case;
    use crate::verdict::judge::judge;
    use crate::verdict::judgement::{PolicyJudgement, Verdict};

    /// Judges the usual sides after a change of every record of the candidate, or of the baseline and its controls.
    fn changed(candidate: bool, change: fn(&mut Record)) -> PolicyJudgement {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for run in sides.all().filter(|run| (run.manifest.side == Side::Candidate) == candidate) {
            run.records.iter_mut().for_each(change);
        }
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0)
    }

    fn codes(found: &PolicyJudgement) -> Vec<(Verdict, &str)> {
        let mut codes: Vec<_> = found.findings.iter().map(|finding| (finding.verdict, finding.code)).collect();
        codes.dedup();
        codes
    }

    #[test]
    fn a_count_that_is_proven_wrong_keeps_runs_from_counting() {
        let wrong = |doubt| codes_of(&changed(true, doubt));
        assert_eq!(wrong(|it| it.doubt = Some(Doubt::MoreThanWanted)), ["tokens-contradict"]);
        assert_eq!(wrong(|it| it.doubt = Some(Doubt::FewerThanListed)), ["tokens-contradict"]);
        assert_eq!(wrong(|it| it.doubt = Some(Doubt::FewerThanText)), ["tokens-contradict"]);
        let few = changed(true, |it| it.doubt = (it.request == 0).then_some(Doubt::MoreThanWanted));
        assert_eq!((few.verdict, codes(&few)), (Verdict::Pass, vec![]));
        let stored = changed(false, |it| it.doubt = Some(Doubt::MoreThanWanted));
        assert!(codes(&stored).contains(&(Verdict::NotComparable, "tokens-contradict")), "{:?}", codes(&stored));
    }

    fn codes_of(found: &PolicyJudgement) -> Vec<&'static str> {
        assert_eq!(found.verdict, Verdict::Error, "{:?}", found.findings);
        let mut codes: Vec<&'static str> = found.findings.iter().map(|finding| finding.code).collect();
        codes.dedup();
        codes
    }

    #[test]
    fn a_contradiction_with_a_harmless_explanation_is_one_note() {
        for (doubt, says) in [
            (Doubt::FewerThanChunks, "a proxy may split chunks"),
            (Doubt::MoreThanText, "special tokens have no text"),
            (Doubt::MoreThanListed, "tokens without text"),
            (Doubt::HiddenReasoning, "TPOT divides by tokens"),
        ] {
            let mut sides = Sides::new(Shape::default(), |_, _| {});
            sides.candidate.iter_mut().flat_map(|run| &mut run.records).for_each(|it| it.doubt = Some(doubt));
            let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
            let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
            let notes: Vec<_> = found.notes.iter().filter(|note| note.contains(says)).collect();
            assert_eq!((found.verdict, notes.len()), (Verdict::Pass, 1), "{:?}", found.notes);
            assert!(notes[0].contains("100 % of the answers of the candidate at c1"), "{}", notes[0]);
        }
        let estimate = changed(true, |it| it.tokens_from = TokenSource::Chunks);
        assert!(estimate.notes.iter().any(|note| note.starts_with("output tokens are an estimate")));
        // On both sides, or they are not comparable.
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        sides.all().flat_map(|run| &mut run.records).for_each(|it| it.tokens_from = TokenSource::Tokenizer);
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let counted = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
        let notes: Vec<_> = counted.notes.iter().filter(|note| note.starts_with("output tokens are")).collect();
        assert!(notes.len() == 1 && notes[0].contains("those of the text"), "{:?}", counted.notes);
    }

    #[test]
    fn prompts_of_token_ids_are_as_long_as_planned_or_a_note_says_so() {
        // The server of the synthetic runs counts 100 tokens a prompt.
        for (words, notes) in [(100, 0), (99, 1)] {
            let mut sides = Sides::new(Shape::default(), |_, _| {});
            for request in sides.plan.cells.iter_mut().flat_map(|cell| &mut cell.requests) {
                request.prompt.words = words;
                request.prompt.form = Form::Ids(32_000);
            }
            let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
            let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
            assert_eq!(found.verdict, Verdict::Pass);
            let exact = found.notes.iter().filter(|note| note.starts_with("prompts-exact"));
            assert_eq!(exact.count(), notes, "{:?}", found.notes);
        }
    }

    #[test]
    fn more_cached_tokens_than_the_prompt_has_are_named_and_taken_for_the_whole_prompt() {
        let lie: fn(&mut Record) = |it| it.cached_tokens = Some(9_999);
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        sides.all().flat_map(|run| &mut run.records).for_each(lie);
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
        let notes: Vec<_> = found.notes.iter().filter(|note| note.contains("more cached prompt tokens")).collect();
        assert!(notes.len() == 1 && notes[0].contains("100 % of the answers of the candidate"), "{:?}", found.notes);
        assert!(found.notes.iter().any(|note| note.starts_with("100 % of the prompt tokens")), "{:?}", found.notes);
        let one_side = changed(true, lie);
        let hits = one_side.findings.iter().find(|finding| finding.code == "cache-hits-differ");
        assert!(hits.unwrap().message.contains("0.0 % of the prompt tokens came"), "{:?}", one_side.findings);
        assert!(hits.unwrap().message.contains("and 100.0 % in the candidate"), "{:?}", one_side.findings);
        let sound = changed(true, |_| {});
        assert!(!sound.notes.iter().any(|note| note.contains("more cached prompt tokens")));
    }

    #[test]
    fn a_baseline_that_misses_its_forced_length_is_none_and_a_candidate_that_does_has_failed() {
        let short: fn(&mut Record) = |it| {
            if it.request % 4 > 0 {
                it.outcome = Outcome::WrongLength;
            }
        };
        let baseline = changed(false, short);
        assert!(codes(&baseline).contains(&(Verdict::NotComparable, "length-not-forced")), "{:?}", codes(&baseline));
        let candidate = changed(true, short);
        assert_eq!((candidate.verdict, codes(&candidate)), (Verdict::Fail, vec![]), "the error rate shows it");
    }
}

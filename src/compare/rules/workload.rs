//! The engine got the same work: prompts of the same length, served from the prefix cache as often.

use std::collections::BTreeMap;

use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::base::names::Condition;
use crate::base::words::apart;
use crate::compare::evidence::Evidence;
use crate::compare::rules::Mismatch;
use crate::spec::policy::Policy;

/// The largest relative difference of the mean prompt length: another tokenizer or chat template shows more.
const PROMPT_TOLERANCE: f64 = 0.01;
/// The largest difference of the share of answers whose prompt tokens are known.
const KNOWN_TOLERANCE: f64 = 0.03;
/// The largest difference of the share of prompt tokens that came from the prefix cache.
const CACHED_TOLERANCE: f64 = 0.03;

/// Mean prompt tokens agree, over the requests of which both sides know them.
pub(super) fn same_prompts(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    per_cell(
        evidence,
        |record| Some([f64::from(record.prompt_tokens?), 1.0]),
        |cell, baseline, candidate| {
            let [before, now] = apart([baseline, candidate], 1);
            ((candidate - baseline).abs() > PROMPT_TOLERANCE * baseline).then(|| Mismatch {
                code: "prompts-differ",
                cell: Some(cell.to_owned()),
                message: format!(
                    "the server counted {before} prompt tokens per request in the baseline and {now} in the candidate at \
                     {cell}: the same plan became different work; compare tokenizer and chat template"
                ),
            })
        },
    )
}

/// Prompt tokens are known of both sides, or of neither: what only one side tells cannot be compared.
pub(super) fn prompts_known(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let known = |record: &Record| {
        let known = f64::from(u8::from(record.prompt_tokens.is_some()));
        record.is_success().then_some([known, 1.0])
    };
    per_cell(evidence, known, |cell, baseline, candidate| {
        let [before, now] = apart([100.0 * baseline, 100.0 * candidate], 0);
        ((candidate - baseline).abs() > KNOWN_TOLERANCE).then(|| Mismatch {
            code: "prompts-unknown",
            cell: Some(cell.to_owned()),
            message: format!(
                "the server counted the prompt tokens of {before} % of the answers in the baseline and of {now} % in the \
                 candidate at {cell}: whether both got the same work is not known; make both sides send usage"
            ),
        })
    })
}

/// The share of cached prompt tokens agrees, unless prefix caching is what the change is about.
pub(super) fn same_cache_hits(evidence: &Evidence<'_>, policy: &Policy) -> Vec<Mismatch> {
    if policy.treatment.contains(&Condition::PrefixCaching) {
        return vec![];
    }
    // No more of a prompt than all of it is cached, whatever the usage counts.
    let tokens = |record: &Record| {
        let prompt = record.prompt_tokens?;
        Some([f64::from(record.cached_tokens?.min(prompt)), f64::from(prompt)])
    };
    per_cell(evidence, tokens, |cell, baseline, candidate| {
        let [before, now] = apart([100.0 * baseline, 100.0 * candidate], 1);
        ((candidate - baseline).abs() > CACHED_TOLERANCE).then(|| Mismatch {
            code: "cache-hits-differ",
            cell: Some(cell.to_owned()),
            message: format!(
                "{before} % of the prompt tokens came from the prefix cache in the baseline and {now} % in the candidate at \
                 {cell}: one side had less work; restart or warm both alike, or declare `prefix_caching` as treatment"
            ),
        })
    })
}

/// Applies `judge` to each cell's ratio of sums on the two sides, over the requests that both sides know. Paired by
/// request, so that failures do not change which prompts are averaged.
pub(super) fn per_cell(
    evidence: &Evidence<'_>,
    tokens: impl Fn(&Record) -> Option<[f64; 2]>,
    judge: impl Fn(&str, f64, f64) -> Option<Mismatch>,
) -> Vec<Mismatch> {
    let baseline = sums(evidence.reference(), &tokens);
    let candidate = sums(evidence.candidate.iter(), &tokens);
    let mut cells: BTreeMap<&str, [[f64; 2]; 2]> = BTreeMap::new();
    for (key, b) in &baseline {
        let Some(c) = candidate.get(key) else { continue };
        let [of_b, of_c] = cells.entry(key.0).or_default();
        for (total, sum) in [(of_b, b), (of_c, c)] {
            // Each request weighs the same on both sides, however many runs saw it.
            total[0] += sum[0] / sum[2];
            total[1] += sum[1] / sum[2];
        }
    }
    let ratio = |[part, whole]: [f64; 2]| (whole > 0.0).then(|| part / whole);
    cells.iter().filter_map(|(cell, [b, c])| judge(cell, ratio(*b)?, ratio(*c)?)).collect()
}

/// Per cell and request: the sums of the two numbers, and how many records they are of.
fn sums<'a>(
    runs: impl Iterator<Item = &'a Run>,
    tokens: impl Fn(&Record) -> Option<[f64; 2]>,
) -> BTreeMap<(&'a str, u32), [f64; 3]> {
    let mut sums: BTreeMap<(&str, u32), [f64; 3]> = BTreeMap::new();
    for record in runs.flat_map(|run| &run.records) {
        if let Some([part, whole]) = tokens(record) {
            let sum = sums.entry((&record.cell, record.request)).or_default();
            for (total, value) in sum.iter_mut().zip([part, whole, 1.0]) {
                *total += value;
            }
        }
    }
    sums
}

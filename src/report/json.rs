//! `verdict.json`: the whole answer for machines. The schema and what its version promises:
//! `docs/verdict-json.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::diagnostic::Place;
use crate::base::names::{Metric, Role, Statistic};
use crate::report::effects::{Column, Effects, Mark, Row};
use crate::report::view::{CheckView, ExitPolicy, PolicyView, View};
use crate::spec::workload::Phase;
use crate::verdict::judgement::{CheckJudgement, Design, Difference, Effect, Finding, Verdict};

/// Version of the schema. It rises when a field changes its meaning or goes; new fields do not raise it.
pub const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    servegate: &'a str,
    verdict: Verdict,
    exit_policy: ExitPolicy,
    exit_code: u8,
    sentence: &'a str,
    candidate: &'a str,
    policies: Vec<Policy<'a>>,
    effects: Vec<EffectRow<'a>>,
    next_steps: &'a [String],
    files: &'a [String],
}

#[derive(Serialize)]
struct Policy<'a> {
    #[serde(rename = "policy")]
    name: &'a str,
    place: &'a Place,
    workload: &'a str,
    verdict: Verdict,
    sentence: &'a str,
    counts: BTreeMap<Verdict, u32>,
    design: &'a Design,
    differences: &'a [Difference],
    findings: &'a [Finding],
    notes: &'a [String],
    checks: Vec<Check<'a>>,
}

#[derive(Serialize)]
struct Check<'a> {
    id: &'a str,
    metric: Metric,
    definition: &'static str,
    statistic: Statistic,
    unit: &'static str,
    cell: &'a str,
    against: Option<Phase>,
    role: Role,
    place: &'a Place,
    verdict: Verdict,
    blocks: bool,
    reason: &'a str,
    effect: Option<Effect>,
    margin: f64,
    margin_floor: Option<f64>,
    p_fail: Option<f64>,
    p_pass: Option<f64>,
    minimum_detectable: Option<f64>,
    to_decide: Option<&'a str>,
    undefined: Vec<String>,
}

#[derive(Serialize)]
struct EffectRow<'a> {
    metric: Metric,
    statistic: Statistic,
    cells: Vec<EffectCell<'a>>,
    sign_flip: Option<&'a str>,
    mean_over_cells_never_used: f64,
}

#[derive(Serialize)]
struct EffectCell<'a> {
    workload: &'a str,
    cell: &'a str,
    change: f64,
    low: f64,
    high: f64,
    mark: &'static str,
}

/// The document, with a line break at its end. The order of fields is fixed; a number that is not finite
/// is `null`, and the check's `undefined` says what it was.
///
/// # Errors
/// When the JSON writer fails; no view is known to make it fail.
pub fn render(view: &View<'_>) -> serde_json::Result<Vec<u8>> {
    let document = Document {
        format: FORMAT,
        servegate: &view.context.version,
        verdict: view.judgement.verdict,
        exit_policy: view.context.exit_policy,
        exit_code: view.exit_code,
        sentence: &view.headline,
        candidate: &view.judgement.candidate,
        policies: view.policies.iter().map(policy).collect(),
        effects: view.effects.rows.iter().map(|row| effect_row(row, &view.effects)).collect(),
        next_steps: &view.next_steps,
        files: &view.context.files,
    };
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn policy<'a>(view: &PolicyView<'a>) -> Policy<'a> {
    let policy = view.policy;
    let count = |verdict| (verdict, policy.counts.get(&verdict).copied().unwrap_or_default());
    Policy {
        name: &policy.policy,
        place: &policy.place,
        workload: &policy.workload,
        verdict: policy.verdict,
        sentence: &policy.sentence,
        counts: Verdict::ALL.into_iter().map(count).collect(),
        design: &policy.design,
        differences: &policy.differences,
        findings: &policy.findings,
        notes: &policy.notes,
        checks: view.checks.iter().map(check).collect(),
    }
}

fn check<'a>(view: &CheckView<'a>) -> Check<'a> {
    let check = view.check;
    Check {
        id: &check.id,
        metric: check.metric,
        definition: check.metric.definition(),
        statistic: check.statistic,
        unit: check.unit(),
        cell: &check.cell,
        against: check.against,
        role: check.role,
        place: &check.place,
        verdict: check.verdict,
        blocks: view.blocks,
        reason: &check.reason,
        effect: check.effect,
        margin: check.margin,
        margin_floor: check.margin_floor,
        p_fail: check.p_fail,
        p_pass: check.p_pass,
        minimum_detectable: check.minimum_detectable,
        to_decide: check.to_decide.as_deref(),
        undefined: undefined(check),
    }
}

/// Which numbers are written as `null` because they are not finite, and what they were.
fn undefined(check: &CheckJudgement) -> Vec<String> {
    let effect = check.effect;
    [
        ("effect.baseline", effect.map(|effect| effect.baseline)),
        ("effect.candidate", effect.map(|effect| effect.candidate)),
        ("effect.change", effect.map(|effect| effect.change)),
        ("effect.low", effect.map(|effect| effect.low)),
        ("effect.high", effect.map(|effect| effect.high)),
        ("margin", Some(check.margin)),
        ("p_fail", check.p_fail),
        ("p_pass", check.p_pass),
        ("minimum_detectable", check.minimum_detectable),
    ]
    .into_iter()
    .filter_map(|(name, number)| number.filter(|x| !x.is_finite()).map(|x| format!("{name} is {x}")))
    .collect()
}

fn effect_row<'a>(row: &'a Row, effects: &'a Effects) -> EffectRow<'a> {
    let cell = |(column, cell): (&'a Column, &Option<(Effect, Mark)>)| {
        let (effect, mark) = (*cell)?;
        Some(EffectCell {
            workload: &column.workload,
            cell: &column.cell,
            change: effect.change,
            low: effect.low,
            high: effect.high,
            mark: mark.id(),
        })
    };
    EffectRow {
        metric: row.metric,
        statistic: row.statistic,
        cells: effects.columns.iter().zip(&row.cells).filter_map(cell).collect(),
        sign_flip: row.flip.as_deref(),
        mean_over_cells_never_used: row.mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::view::Context;
    use crate::verdict::judgement::Judgement;

    fn rendered(judgement: &Judgement, context: &Context) -> String {
        String::from_utf8(render(&View::new(judgement, context)).unwrap()).unwrap()
    }

    #[test]
    fn the_document_is_as_documented() {
        insta::assert_snapshot!(rendered(&fixture::rich(), &fixture::context(ExitPolicy::Strict)));
    }

    #[test]
    fn numbers_that_are_not_finite_are_null_with_their_reason() {
        let mut judgement = fixture::rich();
        judgement.policies.truncate(1);
        judgement.policies[0].checks.truncate(1);
        let check = &mut judgement.policies[0].checks[0];
        check.effect.as_mut().unwrap().high = f64::INFINITY;
        check.p_fail = Some(f64::NAN);
        let text = rendered(&judgement, &fixture::context(ExitPolicy::Strict));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let check = &json["policies"][0]["checks"][0];
        assert!(check["effect"]["high"].is_null() && check["p_fail"].is_null());
        assert_eq!(check["undefined"], serde_json::json!(["effect.high is inf", "p_fail is NaN"]));
        assert_eq!(check["effect"]["change"], 0.145);
    }

    #[test]
    fn text_from_outside_comes_back_as_it_was() {
        let judgement = fixture::hostile(&fixture::hostile_texts(), Some(f64::NEG_INFINITY));
        let text = rendered(&judgement, &fixture::context(ExitPolicy::Strict));
        assert!(!text.chars().any(|c| c.is_ascii_control() && c != '\n'));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["policies"][0]["checks"][0]["id"], judgement.policies[0].checks[0].id);
        assert_eq!(json["candidate"], judgement.candidate);
    }
}

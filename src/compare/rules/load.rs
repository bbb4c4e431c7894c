//! The engine was under the same load: as many requests were really being served at once.

use crate::artifact::load::{LEAST_LOAD, LOAD_FLOOR, Slots};
use crate::artifact::run::Run;
use crate::base::words::apart;
use crate::compare::evidence::Evidence;
use crate::compare::rules::Mismatch;
use crate::plan::request::PlannedCell;
use crate::spec::policy::Policy;

/// In each cell with slots both sides had requests on the server for the same share of their time. Whose responses stay
/// open after their last content, or whose next request comes late, has fewer at once, and looks faster for it. An open
/// loop sends at its instants and counts from there, so what it sends late is in the numbers.
pub(super) fn same_load(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    evidence.plan.cells.iter().filter_map(|cell| differs(evidence, cell)).collect()
}

fn differs(evidence: &Evidence<'_>, cell: &PlannedCell) -> Option<Mismatch> {
    let of_side =
        |runs: &mut dyn Iterator<Item = &Run>| runs.filter_map(|run| Slots::of(run, cell)).reduce(Slots::plus);
    let baseline = of_side(&mut evidence.reference())?;
    let candidate = of_side(&mut evidence.candidate.iter())?;
    let ratio = candidate.share() / baseline.share();
    let apart_by = (candidate.missing() - baseline.missing()).abs();
    if (LEAST_LOAD..=LEAST_LOAD.recip()).contains(&ratio) || apart_by <= LOAD_FLOOR {
        return None;
    }
    let (less, of) = if ratio < 1.0 { (candidate, "candidate") } else { (baseline, "baseline") };
    let [before, now] = apart([100.0 * baseline.share(), 100.0 * candidate.share()], 0);
    Some(Mismatch {
        code: "load-differs",
        cell: Some(cell.name.clone()),
        message: format!(
            "the server had a request to work on for {before} % of the time of its slots in the baseline and for {now} % in \
             the candidate at {}: they were measured under different loads; in the {of}, {}",
            cell.name,
            cause(&less)
        ),
    })
}

/// Where most of the missing load went, and what to do.
pub fn cause(slots: &Slots) -> String {
    let Slots { held, connecting, late, .. } = *slots;
    let (time, what) = if held >= connecting && held >= late {
        let what = "responses stayed open after their last content: see why the server or a proxy does not end them, or \
                    whether tokens without text follow";
        (held, what)
    } else if connecting >= late {
        (connecting, "connections were being opened: let the server keep them alive")
    } else {
        (late, "the load generator was late with the next request: give it more CPU")
    };
    format!("for {:.0} % of the time {what}", 100.0 * time / slots.total())
}

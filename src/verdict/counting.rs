//! Where a run can never count, whatever it is compared with, and what else it tells about itself: for those who have just measured it, and for those
//! who are about to store it. The rules and the words are those of a decision.

use crate::artifact::run::Run;
use crate::plan::request::Plan;
use crate::verdict::rules::{Fault, fault, notes_of};

/// Cells of a run in which it does not count, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncounted {
    /// Names of the cells, in the order in which they were visited.
    pub cells: Vec<String>,
    /// The rule that it breaks, such as `client-saturated`.
    pub code: &'static str,
    /// What was seen: `sent requests 12.0 ms late (p99) where 1.0 ms are allowed`.
    pub seen: String,
    /// What to do: `give the load generator more CPU or less load`.
    pub fix: &'static str,
}

/// Every reason for which a run does not count somewhere. Empty: it counts in every cell that it visited. Without the plan
/// that it followed, caches that answered for too much are not seen.
pub fn uncounted(run: &Run, plan: Option<&Plan>) -> Vec<Uncounted> {
    let mut found: Vec<Uncounted> = Vec::new();
    for cell in &run.manifest.cells {
        let planned = plan.and_then(|plan| plan.cells.iter().find(|planned| planned.name == cell.name));
        let Some(Fault { code, seen, fix }) = fault(run, &cell.name, planned) else { continue };
        match found.iter_mut().find(|one| one.seen == seen && one.fix == fix) {
            Some(one) => one.cells.push(cell.name.clone()),
            None => found.push(Uncounted { cells: vec![cell.name.clone()], code, seen, fix }),
        }
    }
    found
}

/// What a run tells about its host, its load and its server that does not keep it from counting, in sentences.
pub fn noted(run: &Run, plan: &Plan) -> Vec<String> {
    notes_of(run, plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::manifest::tests::manifest_of;
    use crate::artifact::codec::samples::streamed;
    use crate::artifact::record::Record;
    use crate::base::units::Nanos;
    use crate::plan;
    use crate::spec::read_workload;

    fn run(records: Vec<Record>) -> Run {
        Run { manifest: manifest_of(&records), records }
    }

    fn healthy() -> Vec<Record> {
        (0..30).map(|n| streamed(n, u64::from(n) * 10, 40, 10, 5)).collect()
    }

    #[test]
    fn a_whole_punctual_run_counts_everywhere() {
        assert_eq!(uncounted(&run(healthy()), None), []);
    }

    #[test]
    fn what_does_not_keep_a_run_from_counting_is_said_of_it_alone() {
        let text = "servegate: 1\nkind: workload\nname: w\ncells:\n  - {name: c8, concurrency: 8, requests: 30, \
                    prompt_tokens: 8, output_tokens: 5}\n";
        let plan = plan::build(&read_workload("w.yaml", text).unwrap().value);
        assert_eq!(noted(&run(healthy()), &plan), [""; 0]);
        let held = healthy().into_iter().map(|one| Record { end: one.end + Nanos::from_millis(80), ..one });
        let mut held = run(held.collect());
        held.manifest.cells[0].counters_unread = Some("it answered 500".to_owned());
        let notes = noted(&held, &plan);
        assert_eq!((notes.len(), uncounted(&held, Some(&plan)).len()), (2, 0), "{notes:?}");
        assert!(notes[0].starts_with("load-low: of 8.0 requests at once 4.0 were being served"), "{}", notes[0]);
        assert!(notes[1].starts_with("counters-unreadable: "), "{}", notes[1]);
    }

    #[test]
    fn each_reason_is_said_once_with_its_cells() {
        let late = |record: Record| Record { sent: record.due + Nanos::from_millis(12), ..record };
        let mut records: Vec<Record> = healthy().into_iter().map(late).collect();
        let twins: Vec<Record> = records.iter().map(|one| Record { cell: "c1".to_owned(), ..one.clone() }).collect();
        records.extend(twins);
        let found = uncounted(&run(records), None);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].cells.join(" "), found[0].fix),
            ("c1 c8".to_owned(), "give the load generator more CPU or less load")
        );
        assert_eq!(found[0].seen, "sent requests 12.0 ms late (p99) where 1.0 ms are allowed");

        let mut short = run(healthy());
        short.manifest.cells[0].planned = 40;
        assert_eq!(uncounted(&short, None)[0].seen, "has 30 of 40 planned requests");
        short.manifest.complete = false;
        assert_eq!(uncounted(&short, None)[0].seen, "was interrupted");
        let mut hollow = run(healthy());
        hollow.records[3].output_tokens = None;
        assert!(uncounted(&hollow, None)[0].seen.ends_with(" without content or tokens"));
    }
}

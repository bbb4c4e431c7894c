//! The offered load was on the server. What is missing is said and keeps no run from counting: a server may always end
//! its responses late, and its sides are then alike. Where they are not, the comparison objects (`load-differs`).

use crate::artifact::load::{Slots, is_low, sent_in_schedule, waited};
use crate::base::names::Side;
use crate::base::words::apart;
use crate::compare::evidence::name;
use crate::compare::rules::load_cause;
use crate::plan::request::PlannedCell;
use crate::spec::workload::Load;
use crate::verdict::rules::{Seen, by_cell};

/// One sentence a side and cell, about the run that shows it most.
pub(super) fn notes(seen: &[Seen<'_>]) -> Vec<String> {
    let mut notes = vec![];
    for (cell, seen) in by_cell(seen) {
        for side in Side::ALL {
            let of_side: Vec<&Seen<'_>> = seen.iter().filter(|seen| seen.side == *side).collect();
            notes.extend(unserved(cell, &of_side));
            notes.extend(unsent(cell, &of_side));
        }
    }
    notes
}

fn unserved(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let slots = seen.iter().filter_map(|seen| Some((*seen, Slots::of(seen.run, cell)?)));
    let (worst, slots) = slots.min_by(|(_, one), (_, other)| one.share().total_cmp(&other.share()))?;
    let of = if let Load::Closed { concurrency } = cell.load { Some(concurrency) } else { cell.max_connections };
    let of = f64::from(of?);
    let [served, all] = apart([of * slots.share(), of], 1);
    slots.is_low().then(|| {
        format!(
            "load-low: of {all} requests at once {served} were being served on average in {} at {}: {}",
            name(worst.side, worst.run),
            cell.name,
            load_cause(&slots)
        )
    })
}

fn unsent(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let counts = seen.iter().filter_map(|seen| Some((*seen, sent_in_schedule(seen.run, cell)?)));
    let (worst, (in_time, all)) = counts.min_by_key(|(_, (in_time, _))| *in_time)?;
    let cause = match waited(worst.run, cell) {
        0 => "the load generator, or the opening of connections, was late".to_owned(),
        waited => format!("{waited} waited for a connection: raise `max_connections`, or lower the rate"),
    };
    is_low(in_time, all).then(|| {
        format!(
            "load-low: {in_time} of {all} requests were sent before the schedule ended in {} at {}; {cause} (latency counts \
             from the due instant all the same)",
            name(worst.side, worst.run),
            cell.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::record::Record;
    use crate::artifact::run::ConnectionCap;
    use crate::base::names::{Metric, Statistic};
    use crate::base::units::Nanos;
    use crate::compare::synthetic::policy::in_all_cells;
    use crate::compare::synthetic::{Shape, Sides};
    use crate::verdict::case::Case;
    use crate::verdict::judge::judge;
    use crate::verdict::judgement::{PolicyJudgement, Verdict};

    fn judged(sides: &Sides) -> PolicyJudgement {
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0)
    }

    /// Judges after a change of every record of the sides that are named.
    fn changed(which: &[Side], change: fn(&mut Record)) -> PolicyJudgement {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for run in sides.all().filter(|run| which.contains(&run.manifest.side)) {
            run.records.iter_mut().for_each(change);
            for cell in &mut run.manifest.cells {
                let ends = run.records.iter().filter(|record| record.cell == cell.name).map(|record| record.end);
                cell.window_end_us = ends.max().unwrap().0.div_euclid(1_000);
            }
        }
        judged(&sides)
    }

    fn codes(found: &PolicyJudgement) -> Vec<(Verdict, &str)> {
        let mut codes: Vec<_> = found.findings.iter().map(|finding| (finding.verdict, finding.code)).collect();
        codes.dedup();
        codes
    }

    fn low(found: &PolicyJudgement) -> Vec<&String> {
        found.notes.iter().filter(|note| note.starts_with("load-low")).collect()
    }

    /// Answers take 300 ms.
    const HELD: fn(&mut Record) = |it| it.end = it.end + Nanos::from_millis(300);

    #[test]
    fn responses_held_open_on_one_side_are_another_load() {
        let found = changed(&[Side::Candidate], HELD);
        assert_eq!(codes(&found), [(Verdict::NotComparable, "load-differs")]);
        let message = &found.findings[0].message;
        assert!(message.contains("for 100 % of the time of its slots in the baseline and for 50 %"), "{message}");
        assert!(message.contains("in the candidate, for 50 % of the time responses stayed open"), "{message}");
        let other_way = changed(&[Side::Baseline, Side::Control], HELD);
        assert_eq!(codes(&other_way), [(Verdict::NotComparable, "load-differs")]);
        assert!(
            other_way.findings[0].message.contains("in the baseline, for 50 % of the time responses"),
            "more load looks slower"
        );
    }

    #[test]
    fn responses_held_open_on_both_sides_are_judged_and_named() {
        let found = changed(Side::ALL, HELD);
        assert_eq!((found.verdict, codes(&found)), (Verdict::Pass, vec![]));
        let notes = low(&found);
        assert_eq!(notes.len(), 6, "three sides, two cells: {notes:?}");
        assert!(notes[0].contains("of 1.0 requests at once 0.5 were being served on average"), "{}", notes[0]);
        assert!(low(&changed(&[], HELD)).is_empty());
        let a_little: fn(&mut Record) = |it| it.end = it.end + Nanos::from_millis(20);
        let found = changed(&[Side::Candidate], a_little);
        assert!(codes(&found).is_empty() && low(&found).is_empty(), "{:?}", found.findings);
    }

    #[test]
    fn a_closed_loop_whose_requests_wait_for_new_connections_or_the_client_has_less_load() {
        // Below every limit of a send lag: a slow target allows 5 ms, and its slots lose nothing that counts.
        let late: fn(&mut Record) = |it| it.sent = (it.sent + Nanos::from_millis(4)).min(it.end);
        assert!(!codes(&changed(&[Side::Candidate], late)).contains(&(Verdict::NotComparable, "load-differs")));
        let slots = Slots { served: 1.0, held: 0.0, connecting: 0.5, late: 0.1, requests: 1.0 };
        assert!(
            load_cause(&slots).contains("31 % of the time connections were being opened"),
            "{}",
            load_cause(&slots)
        );
        let slots = Slots { connecting: 0.0, ..slots };
        assert!(
            load_cause(&slots).contains("for 9 % of the time the load generator was late"),
            "{}",
            load_cause(&slots)
        );
    }

    #[test]
    fn an_open_loop_that_falls_behind_its_schedule_is_named_and_judged() {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for cell in &mut sides.plan.cells {
            cell.load = Load::Constant { rate: 10.0 };
            cell.max_connections = Some(4);
        }
        assert!(low(&judged(&sides)).is_empty());
        for run in sides.all() {
            for cell in &mut run.manifest.cells {
                cell.connections = Some(ConnectionCap { waited: 40, ..ConnectionCap::of(4) });
            }
            for record in &mut run.records {
                let wait = record.due;
                record.sent = record.sent + wait;
                record.end = record.end + wait;
                record.chunks.iter_mut().for_each(|chunk| chunk.at = chunk.at + wait);
            }
        }
        let found = judged(&sides);
        assert!(!codes(&found).iter().any(|(_, code)| *code == "load-differs"), "{:?}", found.findings);
        let notes = low(&found);
        assert!(notes[0].contains("20 of 40 requests were sent before the schedule ended"), "{notes:?}");
        assert!(notes[0].contains("40 waited for a connection"), "{notes:?}");
    }
}

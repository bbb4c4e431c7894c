//! Every run was carried in the same way: clock, interface, and whether output lengths were forced.

use crate::artifact::run::{ClockKind, Run};
use crate::compare::evidence::Evidence;
use crate::compare::rules::{Mismatch, whole};
use crate::spec::policy::Policy;
use crate::wire::transport::StampSource;

pub(super) fn same_transport(evidence: &Evidence<'_>, _: &Policy) -> Vec<Mismatch> {
    let clock = |run: &Run| match run.manifest.clock {
        ClockKind::Http => Some("real time"),
        ClockKind::Simulated => Some("virtual time"),
    };
    let lengths = |run: &Run| Some(if run.manifest.forced_length { "forced" } else { "free" });
    let stamps = |run: &Run| match run.manifest.cells.iter().find_map(|cell| cell.client.as_ref()).map(|it| it.stamps) {
        Some(StampSource::Kernel) => Some("by the kernel"),
        Some(StampSource::Program) => Some("by the program"),
        Some(StampSource::Virtual) => Some("in virtual time"),
        // Unknown is not different.
        None => None,
    };
    [
        differs(evidence, "clock-differs", "the clock", clock, "a simulated run says nothing about a real deployment"),
        differs(
            evidence,
            "api-differs",
            "the interface",
            |run| Some(run.manifest.api.id()),
            "measure through one interface",
        ),
        differs(
            evidence,
            "stamps-differ",
            "where arriving bytes are stamped",
            stamps,
            "measure both sides on one host",
        ),
        differs(evidence, "forced-length-differs", "output lengths", lengths, "set `extra_body` alike on both targets"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn differs(
    evidence: &Evidence<'_>,
    code: &'static str,
    what: &str,
    value: impl Fn(&Run) -> Option<&'static str>,
    fix: &str,
) -> Option<Mismatch> {
    let mut values = evidence.all().filter_map(|(_, run)| value(run));
    let first = values.next()?;
    let other = values.find(|value| *value != first)?;
    Some(whole(code, format!("{what} differs between the runs ({first} and {other}): {fix}")))
}

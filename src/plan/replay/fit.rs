//! Whether a trace has what its cell asks for.

use std::collections::BTreeMap;

use crate::base::words::count;
use crate::plan::replay::prompts::Prompts;
use crate::plan::replay::{Traces, untold, used};
use crate::spec::target::NamedFile;
use crate::spec::workload::{Cell, Lengths, Sure, Workload};
use crate::trace::request::{Request, Requests};

/// Longest prompt or answer of a workload, in tokens.
const MAX_TOKENS: u32 = 1_000_000;
/// Most parts that the prompts of one cell share: 64 MB.
const MAX_PARTS: usize = 4_000_000;

/// Why a cell cannot replay its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The trace, and where it is named.
    pub file: NamedFile,
    /// Stable, kebab-case.
    pub code: &'static str,
    /// What is wrong, with the numbers.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// Holds every cell that replays a trace against it, and notes in the cell what checks must know of the trace. A cell
/// whose trace is not among `traces` is left as it is.
///
/// # Errors
/// Why cells cannot be planned, in their order.
pub fn fit(workload: &mut Workload, traces: &Traces) -> Result<(), Vec<Misfit>> {
    let mut misfits = Vec::new();
    for cell in &mut workload.cells {
        let Some(trace) = cell.trace.as_ref().and_then(|replay| traces.get(&replay.file.path)) else { continue };
        let found = misfit(cell, trace);
        let told = told(cell, trace);
        if let Some(replay) = &mut cell.trace {
            let file = || replay.file.clone();
            misfits.extend(found.map(|(code, message, help)| Misfit { file: file(), code, message, help }));
            replay.parts = told;
        }
    }
    if misfits.is_empty() { Ok(()) } else { Err(misfits) }
}

/// What checks must know: the measured requests by their class, and their answers.
fn told(cell: &Cell, trace: &Requests) -> BTreeMap<Option<String>, Sure> {
    let mut parts: BTreeMap<Option<String>, Sure> = BTreeMap::new();
    for row in used(cell, trace).iter().skip(usize::try_from(cell.warmup).unwrap_or(usize::MAX)) {
        let part = parts.entry(trace.class(row).map(str::to_owned)).or_default();
        *part = part.and(Sure::of(1, row.output_tokens.unwrap_or_else(|| untold(cell).least())));
    }
    parts
}

fn misfit(cell: &Cell, trace: &Requests) -> Option<(&'static str, String, String)> {
    let (rows, wanted) = (used(cell, trace), cell.warmup.saturating_add(cell.requests));
    let lacking = rows.iter().filter(|row| row.output_tokens.is_none()).count();
    let longest = rows.iter().map(|row| row.prompt_tokens.max(row.output_tokens.unwrap_or(0))).max().unwrap_or(0);
    if !trace.arrivals {
        let message = "the trace does not say when its requests arrived".to_owned();
        return Some((
            "trace-without-instants",
            message,
            "use `rate` or `concurrency` with `prompt_tokens` and `output_tokens`".to_owned(),
        ));
    }
    if u32::try_from(rows.len()).is_ok_and(|rows| rows < wanted) {
        let (has, warmup) = (count(rows.len(), "request"), cell.warmup);
        let message = format!(
            "the trace has {has}, and the cell needs {wanted}: {warmup} of warm-up and {} that are measured",
            cell.requests
        );
        return Some(("trace-too-short", message, "lower `requests` or `warmup`, or take a longer trace".to_owned()));
    }
    if lacking > 0 && *untold(cell) == Lengths::Traced {
        let message =
            format!("the trace does not tell the length of the answer of {lacking} of {} requests", rows.len());
        return Some((
            "missing-key",
            message,
            "add `output_tokens` to the cell: the lengths of those answers".to_owned(),
        ));
    }
    if lacking == 0 && *untold(cell) != Lengths::Traced {
        let message = "the trace tells the length of every answer, and `output_tokens` does too".to_owned();
        return Some(("conflicting-keys", message, "remove `output_tokens`".to_owned()));
    }
    if trace.block_tokens.is_none() && rows.iter().any(|row| !row.blocks.is_empty()) {
        let message = "the trace names blocks of prompts and not how many tokens a block has".to_owned();
        return Some(("missing-key", message, "add `block_tokens` to the first line of the trace".to_owned()));
    }
    if longest > MAX_TOKENS {
        let message = format!("a request of the trace has {longest} tokens, and a workload sends at most {MAX_TOKENS}");
        return Some((
            "out-of-range",
            message,
            "write the trace anew with `servegate workload replay`, which leaves such requests out".to_owned(),
        ));
    }
    too_many_parts(rows, trace).then(|| {
        let message = format!("the prompts of the trace share more than {MAX_PARTS} parts");
        ("too-large", message, "take fewer requests, or shorter sessions".to_owned())
    })
}

/// Whether the prompts would take more memory than a plan may. What shares blocks is counted as it is planned; a session
/// without blocks has one part more with every turn.
fn too_many_parts(rows: &[Request], trace: &Requests) -> bool {
    let prompts = Prompts::new(trace, 0);
    let mut parts: Vec<usize> = Vec::with_capacity(rows.len());
    let mut all = 0_usize;
    for row in rows {
        let parent = row.parent.and_then(|parent| usize::try_from(parent).ok());
        let held = parent.filter(|at| rows.get(*at).is_some_and(|parent| parent.prompt_tokens < row.prompt_tokens));
        let before = held.and_then(|at| parts.get(at)).map_or(0, |parts| parts.saturating_add(1));
        let own = if row.blocks.is_empty() { before } else { prompts.prefix(row, &[]).len() };
        parts.push(own);
        all = all.saturating_add(own);
    }
    all > MAX_PARTS
}

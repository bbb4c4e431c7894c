//! Requests from a recorded trace: its instants, its lengths, and prompts that share what its prompts shared.
//!
//! `fit` holds a cell against its trace before anything is planned, `prompts` says which words prompts have in common.

mod fit;
mod prompts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::rng::Stream;
use crate::plan::lengths::Draws;
use crate::plan::replay::prompts::Prompts;
use crate::plan::request::{Form, PlannedRequest, PromptRecipe};
use crate::spec::workload::{Cell, Lengths, Workload};
use crate::trace::request::{Request, Requests};

pub use fit::{Misfit, fit};

/// The traces of a workload, by the path by which it names them.
pub type Traces = BTreeMap<String, Requests>;

/// Rows of the trace that a cell uses, its warm-up first.
fn used<'t>(cell: &Cell, trace: &'t Requests) -> &'t [Request] {
    let wanted = usize::try_from(cell.warmup.saturating_add(cell.requests)).unwrap_or(usize::MAX);
    trace.rows.get(..wanted.min(trace.rows.len())).unwrap_or_default()
}

/// How long the answers are to be whose length the trace does not tell.
fn untold(cell: &Cell) -> &Lengths {
    cell.classes.first().map_or(&Lengths::Traced, |class| &class.output_tokens)
}

/// The warm-up and the measured requests of a cell that replays a trace, numbered as in every cell.
pub(super) fn requests(cell: &Cell, trace: &Requests, workload: &Workload) -> [Vec<PlannedRequest>; 2] {
    let stream = |purpose: &str| Stream::named(workload.seed, &format!("{purpose}/{}", cell.name));
    let mut seeds = stream("prompts");
    let form = cell.classes.first().map_or(Form::Words, |class| Form::of(workload.prompts, class));
    let mut untold = Draws::new(untold(cell), stream("output-lengths"));
    let prompts = Prompts::new(trace, stream("blocks").bits());
    let classes: Vec<Arc<str>> = trace.classes.iter().map(|name| Arc::from(name.as_str())).collect();
    let mut recipes: Vec<PromptRecipe> = Vec::with_capacity(used(cell, trace).len());
    let mut planned = [Vec::new(), Vec::new()];
    for (place, row) in (0_u32..).zip(used(cell, trace)) {
        let number = place.checked_sub(cell.warmup).unwrap_or_else(|| cell.requests.saturating_add(place));
        let prompt =
            PromptRecipe { seed: seeds.bits(), words: row.prompt_tokens, prefix: prompts.prefix(row, &recipes), form };
        recipes.push(prompt.clone());
        let output_tokens = row.output_tokens.unwrap_or_else(|| untold.next());
        let due = Some(row.at.to_stored_resolution());
        let [warmup, measured] = &mut planned;
        let part = if place < cell.warmup { warmup } else { measured };
        let class = row.class.and_then(|class| classes.get(usize::from(class)).cloned());
        part.push(PlannedRequest { number, class, prompt, output_tokens, due, turn: None });
    }
    planned
}

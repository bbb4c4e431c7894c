//! The fingerprint of a plan: SHA-256 over everything that is sent and when.
//!
//! It covers the text generator and its words, and for each cell its name, load, limits and requests
//! (prompt recipe, output length, due instant, class unless it is of a trace). A phase is known by its name, and phases of a cell have one
//! order, so a time line needs nothing more. It leaves out the order of the cells, because a run
//! visits them in an order of its own, but for that of several cells with a cold phase; and the workload's name, description and seed, because they
//! reach the target only through the requests.

use crate::base::digest::{Digest, Hasher};
use crate::plan::request::{Form, Part, PlannedCell, PlannedRequest};
use crate::plan::talk::Turn;
use crate::plan::vocabulary::WORDS;
use crate::spec::workload::{Burst, Load, Phase};

/// The version of everything between a recipe and the text that is sent, and of the fillers. It rises
/// when the same recipe would give another text, so that an old baseline is not compared by mistake.
const GENERATOR: &str = "servegate-plan/1";

/// The version of everything between a recipe and token ids.
const TOKEN_IDS: &str = "/token_ids/1";
/// What stands before the content of a prompt of exact length: raise the version where its texts change.
const EXACT: &str = "/exact/1";

/// What stands before the conversations of a cell, and before the place of a request in one: raise the version where
/// the same conversation is sent in another way.
const TALK: &[u8] = b"/talk/1";
const TURN: &[u8] = b"/turn";

/// What stands before the name of a request's class.
const CLASS: &str = "/class";

/// The fingerprint of these cells.
pub(super) fn of(cells: &[PlannedCell]) -> Digest {
    let mut hasher = Hasher::default();
    hasher.field(GENERATOR.as_bytes());
    hasher.field(WORDS.join(" ").as_bytes());
    let cold: Vec<&PlannedCell> = cells.iter().filter(|cell| cell.phase == Phase::Cold).collect();
    if cold.len() > 1 {
        // Each is warmed by those before it.
        for cell in cold {
            hasher.field(cell.name.as_bytes());
        }
    }
    let mut cells: Vec<&PlannedCell> = cells.iter().collect();
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    for cell in cells {
        add_cell(&mut hasher, cell);
    }
    hasher.finish()
}

fn add_cell(hasher: &mut Hasher, cell: &PlannedCell) {
    hasher.field(cell.name.as_bytes());
    let load = load(cell.load);
    let (kind, level) = (load.first(), load.get(1));
    add(hasher, &[kind, level].map(|number| number.copied().unwrap_or_default()));
    add(hasher, &[cell.timeout.0, cell.stall_timeout.0]);
    add(hasher, load.get(2..).unwrap_or_default());
    if let Some(most) = cell.max_connections {
        // No cell has a slash in front of its name, so that this is not the next cell.
        hasher.field(b"/max_connections");
        add(hasher, &[u64::from(most)]);
    }
    if let Some(talk) = cell.talk {
        hasher.field(TALK);
        add(hasher, &[u64::from(talk.has_system), u64::from(talk.tool_calls)]);
        hasher.field(talk.answers.id().as_bytes());
    }
    for requests in [&cell.warmup, &cell.requests] {
        add(hasher, &[number(requests.len())]);
        for request in requests {
            add_request(hasher, request, !matches!(cell.load, Load::Trace));
        }
    }
}

/// The kind of a load, then its numbers; as many for each load of a kind.
fn load(load: Load) -> Vec<u64> {
    match load {
        Load::Closed { concurrency } => vec![0, u64::from(concurrency)],
        Load::Poisson { rate } => vec![1, rate.to_bits()],
        Load::Constant { rate } => vec![2, rate.to_bits()],
        Load::Gamma { rate, burstiness } => vec![3, rate.to_bits(), burstiness.to_bits()],
        Load::Ramp { from, to, over } => vec![4, from.to_bits(), to.to_bits(), over.0],
        Load::Bursts { rate, every, burst: Burst::Requests(n) } => vec![5, rate.to_bits(), every.0, u64::from(n)],
        Load::Bursts { rate, every, burst: Burst::Rate { rate: high, length } } => {
            vec![6, rate.to_bits(), every.0, high.to_bits(), length.0]
        }
        Load::OnOff { rate, on, off } => vec![7, rate.to_bits(), on.0, off.0],
        Load::Idle { pause } => vec![8, pause.0],
        Load::Trace => vec![9],
    }
}

/// `with_class` unless it is of a trace, whose classes change nothing that is sent: both sides of a judgement take them from
/// one plan.
fn add_request(hasher: &mut Hasher, request: &PlannedRequest, with_class: bool) {
    let prompt = &request.prompt;
    let first = prompt.prefix.first().copied().unwrap_or(Part { seed: 0, words: 0 });
    let due = request.due.map_or([0, 0], |due| [1, due.0]);
    add(hasher, &[u64::from(request.number), prompt.seed, u64::from(prompt.words)]);
    add(hasher, &[number(prompt.prefix.len()), first.seed, u64::from(first.words)]);
    for part in prompt.prefix.iter().skip(1) {
        add(hasher, &[part.seed, u64::from(part.words)]);
    }
    add(hasher, &[u64::from(request.output_tokens), due[0], due[1]]);
    if let Some(class) = request.class.as_ref().filter(|_| with_class) {
        // Of a cell all requests have a class or none has, so that this is not the next request.
        hasher.field(CLASS.as_bytes());
        hasher.field(class.as_bytes());
    }
    if let Some(Turn { session, turn, after, pause }) = request.turn {
        hasher.field(TURN);
        let after = after.map_or([0, 0], |after| [1, u64::from(after)]);
        add(hasher, &[u64::from(session), u64::from(turn), after[0], after[1], pause.0]);
    }
    // Of a workload all prompts have one form, so that this is not the next request.
    match prompt.form {
        Form::Words => {}
        Form::Ids(vocabulary) => {
            hasher.field(TOKEN_IDS.as_bytes());
            add(hasher, &[u64::from(vocabulary)]);
        }
        Form::Exact(content) => {
            hasher.field(EXACT.as_bytes());
            hasher.field(content.id().as_bytes());
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Adds numbers of fixed width; every list above has a fixed or a stated length.
fn add(hasher: &mut Hasher, numbers: &[u64]) {
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
}

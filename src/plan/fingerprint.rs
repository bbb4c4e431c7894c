//! The fingerprint of a plan: SHA-256 over everything that is sent and when.
//!
//! It covers the text generator and its words, and for each cell its name, load, limits and requests
//! (prompt recipe, output length, due instant). It leaves out the order of the cells, because a run
//! visits them in an order of its own; and the workload's name, description and seed, because they
//! reach the target only through the requests.

use crate::base::digest::{Digest, Hasher};
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::plan::vocabulary::WORDS;
use crate::spec::workload::Load;

/// The version of everything between a recipe and the text that is sent, and of the fillers. It rises
/// when the same recipe would give another text, so that an old baseline is not compared by mistake.
const GENERATOR: &str = "servegate-plan/1";

/// The fingerprint of these cells.
pub(super) fn of(cells: &[PlannedCell]) -> Digest {
    let mut hasher = Hasher::default();
    hasher.field(GENERATOR.as_bytes());
    hasher.field(WORDS.join(" ").as_bytes());
    let mut cells: Vec<&PlannedCell> = cells.iter().collect();
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    for cell in cells {
        add_cell(&mut hasher, cell);
    }
    hasher.finish()
}

fn add_cell(hasher: &mut Hasher, cell: &PlannedCell) {
    hasher.field(cell.name.as_bytes());
    let (kind, level) = match cell.load {
        Load::Closed { concurrency } => (0, u64::from(concurrency)),
        Load::Poisson { rate } => (1, rate.to_bits()),
        Load::Constant { rate } => (2, rate.to_bits()),
    };
    add(hasher, &[kind, level, cell.timeout.0, cell.stall_timeout.0]);
    for requests in [&cell.warmup, &cell.requests] {
        add(hasher, &[u64::try_from(requests.len()).unwrap_or(u64::MAX)]);
        for request in requests {
            add_request(hasher, request);
        }
    }
}

fn add_request(hasher: &mut Hasher, request: &PlannedRequest) {
    let prompt = &request.prompt;
    let (prefix_seed, prefix_words) = prompt.prefix.unwrap_or_default();
    let due = request.due.map_or([0, 0], |due| [1, due.0]);
    add(hasher, &[u64::from(request.number), prompt.seed, u64::from(prompt.words)]);
    add(hasher, &[u64::from(prompt.prefix.is_some()), prefix_seed, u64::from(prefix_words)]);
    add(hasher, &[u64::from(request.output_tokens), due[0], due[1]]);
}

/// Adds numbers of fixed width; every list above has a fixed or a stated length.
fn add(hasher: &mut Hasher, numbers: &[u64]) {
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
}

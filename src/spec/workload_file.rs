//! The workload file: its keys, and the text to a [`Workload`].

use crate::base::diagnostic::Diagnostic;
use crate::base::names::Caches;
use crate::base::units::Nanos;
use crate::spec::class_file::{CLASS, CONTENT, SHARED_PREFIX, classes, none_is_empty, twice};
use crate::spec::document::{FileKind, Reading, VERSION, open};
use crate::spec::findings::{Fault, Findings};
use crate::spec::lengths_file::LENGTH;
use crate::spec::load_file::{self, ARRIVALS, CAPACITY, CONCURRENCY, PHASES, RATE, TRACE};
use crate::spec::repeats_file::have_room;
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::trace_file;
use crate::spec::view::View;
use crate::spec::workload::{Cell, Class, Load, Phase, Prompts, Workload};

const TEXT: &str = "text";
const TOKEN_IDS: &str = "token_ids";
const EXACT: &str = "exact";

fn prompts() -> Vec<&'static str> {
    vec![TEXT, TOKEN_IDS, EXACT]
}

fn caches() -> Vec<&'static str> {
    Caches::ALL.iter().map(|caches| caches.id()).collect()
}

pub(super) static WORKLOAD: Object = Object {
    name: "workload",
    doc: "The traffic that a gate sends: a list of cells, each measured and judged on its own.",
    one_of: &[],
    fields: &[
        VERSION,
        Field { name: "kind", kind: Kind::Word("workload"), need: Need::Required, doc: "what this file is" },
        Field {
            name: "name",
            kind: Kind::Name,
            need: Need::Required,
            doc: "the name, also that of the folder under `baselines/`",
        },
        Field { name: "description", kind: Kind::Text, need: Need::Optional, doc: "one sentence for people" },
        Field {
            name: "seed",
            kind: Kind::Count { min: 0, max: u64::MAX },
            need: Need::Default("1"),
            doc: "the seed of prompts, lengths and arrivals; another seed is another workload",
        },
        Field {
            name: "prompts",
            kind: Kind::Choice(prompts),
            need: Need::Default(TEXT),
            doc: "how prompts are sent: `text`; `token_ids`, or `exact` text, for lengths that are exact; see \"Prompts\"",
        },
        Field {
            name: "vocabulary",
            kind: Kind::Count { min: 256, max: 16_777_216 },
            need: Need::Optional,
            doc: "with `prompts: token_ids`: the size of the model's vocabulary",
        },
        Field {
            name: "caches",
            kind: Kind::Choice(caches),
            need: Need::Optional,
            doc: "what keeps the server's caches from answering with what earlier runs left; see \"Caches\"",
        },
        CAPACITY,
        Field {
            name: "cells",
            kind: Kind::List(&Kind::Object(&CELL)),
            need: Need::Required,
            doc: "the operating points",
        },
    ],
};

static CELL: Object = Object {
    name: "cell",
    doc: "One operating point: a load and a shape of requests.",
    one_of: &["concurrency", "rate", "trace"],
    fields: &[
        Field {
            name: "name",
            kind: Kind::Name,
            need: Need::Required,
            doc: "the name that checks use, for example `c8`",
        },
        CONCURRENCY,
        RATE,
        TRACE,
        ARRIVALS,
        Field {
            name: "requests",
            kind: Kind::Count { min: 1, max: 1_000_000 },
            need: Need::Required,
            doc: "measured requests per run, of the steady phase where there are others",
        },
        Field {
            name: "warmup",
            kind: Kind::Count { min: 0, max: 100_000 },
            need: Need::Optional,
            doc: "requests before the measured ones, with prompts of their own; by default 20 or twice the concurrency, the larger; with a class that `repeats`, 20 more than how far behind at least",
        },
        Field {
            name: "phases",
            kind: Kind::Object(&PHASES),
            need: Need::Optional,
            doc: "other parts of the cell's time line, each measured and judged on its own",
        },
        Field {
            name: "prompt_tokens",
            kind: LENGTH,
            need: Need::Optional,
            doc: "prompt length in tokens; needed, unless there is a `trace` or there are `classes`",
        },
        Field {
            name: "output_tokens",
            kind: LENGTH,
            need: Need::Optional,
            doc: "output length in tokens, forced where the engine allows it; needed, unless there is a `trace` or there are `classes`",
        },
        Field {
            name: "shared_prefix",
            kind: Kind::Object(&SHARED_PREFIX),
            need: Need::Optional,
            doc: "prefixes shared between requests; by default prompts share nothing",
        },
        CONTENT,
        Field {
            name: "classes",
            kind: Kind::List(&Kind::Object(&CLASS)),
            need: Need::Optional,
            doc: "in place of the keys from `prompt_tokens` on: several kinds of requests, mixed by weight",
        },
        Field {
            name: "max_connections",
            kind: Kind::Count { min: 1, max: 65_535 },
            need: Need::Optional,
            doc: "open loop: at most this many requests in flight; more wait for their turn, which counts as their latency; by default no limit",
        },
        Field {
            name: "timeout",
            kind: Kind::Duration { min: "1ms", max: "1h" },
            need: Need::Default("120s"),
            doc: "a request that takes longer has failed",
        },
        Field {
            name: "stall_timeout",
            kind: Kind::Duration { min: "1ms", max: "1h" },
            need: Need::Optional,
            doc: "a stream that is silent for longer has failed; by default 30s or `timeout`, the smaller",
        },
    ],
};

/// Reads a workload file; `file` is its name in the findings.
///
/// # Errors
/// Every problem of the file.
pub fn read_workload(file: &str, text: &str) -> Result<Reading<Workload>, Vec<Diagnostic>> {
    let mut findings = Findings::new(file);
    let workload = open(text, FileKind::Workload, &WORKLOAD, &mut findings)
        .and_then(|root| workload(&View::new(&WORKLOAD, &root, String::new()), &mut findings));
    Reading::end(workload, findings)
}

fn workload(view: &View<'_>, findings: &mut Findings) -> Option<Workload> {
    // A wrong one is said where it stands, and not again where it is used.
    let capacity = view.read("capacity", scalar::rate).or_else(|| view.has("capacity").then_some(1.0));
    let cells: Vec<Option<Vec<Cell>>> =
        view.views("cells").iter().map(|cell_view| time_line(cell_view, capacity, findings)).collect();
    twice(&view.views("cells"), findings);
    one_is_first(view, findings);
    let prompts = prompts_of(view, findings);
    no_content_without_a_tokenizer(view, findings);
    Some(Workload {
        name: view.text("name")?,
        description: view.text("description").unwrap_or_default(),
        seed: view.read("seed", scalar::count)?,
        prompts: prompts?,
        caches: view.text("caches").as_deref().and_then(Caches::from_id),
        cells: cells.into_iter().collect::<Option<Vec<_>>>()?.concat(),
    })
}

/// Words of a language have other numbers of tokens in every model.
fn no_content_without_a_tokenizer(view: &View<'_>, findings: &mut Findings) {
    if view.text("prompts").as_deref() == Some(EXACT) {
        return;
    }
    for cell in view.views("cells") {
        let classes = cell.views("classes");
        for place in [&cell].into_iter().chain(&classes).filter(|place| place.has(CONTENT.name)) {
            let message = "what prompts say can only be chosen where a tokenizer measures them";
            let fault =
                Fault::new("conflicting-keys", message, "add `prompts: exact` to the workload, or remove `content`");
            findings.error(&place.at(CONTENT.name), &place.key(CONTENT.name), fault);
        }
    }
}

/// How prompts are sent.
fn prompts_of(view: &View<'_>, findings: &mut Findings) -> Option<Prompts> {
    let (ids, has) = (view.text("prompts").as_deref() == Some(TOKEN_IDS), view.has("vocabulary"));
    if ids && !has {
        let fault = Fault::new(
            "missing-key",
            "token ids are drawn from a vocabulary whose size is not known",
            "add `vocabulary` with the size of the model's vocabulary (`vocab_size` in its config.json)",
        );
        findings.error(&view.at("prompts"), &view.key("prompts"), fault);
    }
    if has && !ids {
        let fault = Fault::new(
            "conflicting-keys",
            "prompts are sent as text, which needs no vocabulary",
            "remove `vocabulary`, or add `prompts: token_ids`",
        );
        findings.error(&view.at("vocabulary"), &view.key("vocabulary"), fault);
    }
    match view.text("prompts").as_deref() {
        Some(TOKEN_IDS) => view.count("vocabulary").map(|vocabulary| Prompts::TokenIds { vocabulary }),
        Some(EXACT) => Some(Prompts::Exact),
        _ => Some(Prompts::Text),
    }
}

/// A boot has one first request.
fn one_is_first(view: &View<'_>, findings: &mut Findings) {
    let cells = view.views("cells");
    let cold = cells.iter().filter_map(|cell| cell.view("phases")).filter(|phases| phases.has("cold"));
    for phases in cold.skip(1) {
        let message = "another cell has a cold phase already, and only one can be the first after a boot";
        let fault = Fault::new("conflicting-keys", message, "keep one of the two, or make another workload");
        findings.error(&phases.at("cold"), &phases.key("cold"), fault);
    }
}

/// The cell with its phases, in the order of the time line.
fn time_line(view: &View<'_>, capacity: Option<f64>, findings: &mut Findings) -> Option<Vec<Cell>> {
    let cell = cell(view, capacity, findings);
    let phases = view.view("phases");
    let other = phases.map_or_else(|| Some(Vec::new()), |phases| load_file::phases(&phases, capacity, findings));
    let (steady, other) = (cell?, other?);
    let mut line: Vec<Cell> = other
        .into_iter()
        .map(|part| Cell {
            name: part.phase.of(&steady.name),
            phase: part.phase,
            load: part.load.unwrap_or(steady.load),
            requests: part.requests,
            warmup: 0,
            ..steady.clone()
        })
        .collect();
    line.push(steady);
    line.sort_by_key(|cell| cell.phase);
    line.iter().for_each(|cell| have_room(cell, view, findings));
    for closed in line.iter_mut().filter(|cell| !cell.load.is_open()) {
        closed.max_connections = None;
    }
    if view.has("max_connections") && line.iter().all(|cell| cell.max_connections.is_none()) {
        let message = "a closed loop never has more requests in flight than its `concurrency`";
        let fault = Fault::new("conflicting-keys", message, "remove `max_connections`, or use `rate`");
        findings.error(&view.at("max_connections"), &view.key("max_connections"), fault);
    }
    Some(line)
}

fn cell(view: &View<'_>, capacity: Option<f64>, findings: &mut Findings) -> Option<Cell> {
    let load = load_file::load(view, capacity, findings);
    let requests = view.count("requests");
    let trace = trace_file::trace(view, findings);
    let classes = classes(view, findings);
    if let (Some(classes), Some(requests)) = (&classes, requests) {
        none_is_empty(classes, requests, view, findings);
    }
    load_file::fills(load, requests, view, findings);
    let (timeout, stall_timeout) = timeouts(view, findings)?;
    let (load, classes) = (load?, classes?);
    Some(Cell {
        name: view.text("name")?,
        phase: Phase::Steady,
        load,
        requests: requests?,
        warmup: if view.has("warmup") { view.count("warmup")? } else { default_warmup(load, &classes) },
        trace: trace?,
        classes,
        max_connections: view.count("max_connections"),
        timeout,
        stall_timeout,
    })
}

/// Where requests are repeated, those that the first measured repeats repeat are in the warm-up, too.
fn default_warmup(load: Load, classes: &[Class]) -> u32 {
    let distances = classes.iter().filter_map(|class| Some(class.repeats.as_ref()?.distance(load)));
    let firsts = distances.max().map_or(0, |distance| distance.saturating_add(20));
    load_file::default_warmup(load).max(firsts)
}

fn timeouts(view: &View<'_>, findings: &mut Findings) -> Option<(Nanos, Nanos)> {
    let timeout = view.read("timeout", scalar::duration)?;
    if !view.has("stall_timeout") {
        return Some((timeout, timeout.min(Nanos::from_secs(30))));
    }
    let stall = view.read("stall_timeout", scalar::duration)?;
    if stall > timeout {
        let message = "a stream cannot be silent for longer than its request may take";
        let fault = Fault::new("impossible-range", message, "make it at most `timeout`");
        findings.error(&view.at("stall_timeout"), &view.key("stall_timeout"), fault);
    }
    Some((timeout, stall))
}

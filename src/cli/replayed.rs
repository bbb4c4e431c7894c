//! What `workload replay` made of a trace: what each step left, rate and bursts before and after, what is lost on the
//! way to a workload, and the cell that uses it.

use std::path::Path;

use serde::Serialize;

use crate::base::units::Nanos;
use crate::base::words::count;
use crate::cli::cut::Step;
use crate::cli::traffic::{OfRequests, line};
use crate::report::escape;
use crate::trace::Reading;
use crate::trace::faults::Effect;
use crate::trace::request::Requests;

/// Most measured requests of a cell.
const MAX_REQUESTS: usize = 1_000_000;
/// Warm-up requests of a cell: so many, but of a short trace no more than each fifth.
const WARMUP: usize = 20;

/// A trace that was written to be replayed.
#[derive(Serialize)]
pub(crate) struct Replayed {
    trace: String,
    file: String,
    before: OfRequests,
    steps: Vec<Step>,
    after: OfRequests,
    /// What a workload does not take over, in sentences.
    lost: Vec<String>,
    /// The `cells:` of a workload beside the file.
    cells: String,
}

impl Replayed {
    /// `severed` counts requests that continued one that the steps left out.
    pub(crate) fn of(
        (trace, file): (&str, &Path),
        before: OfRequests,
        steps: Vec<Step>,
        requests: &Requests,
        severed: u64,
    ) -> Self {
        Self {
            trace: trace.to_owned(),
            file: file.display().to_string(),
            before,
            steps,
            after: OfRequests::of(requests),
            lost: lost(requests, severed),
            cells: cells(file, requests),
        }
    }

    /// For a person.
    pub(crate) fn render(&self, reading: &Reading) -> String {
        let mut text = head(&self.trace, reading, self.before.requests);
        Step::render(&self.steps, self.before.requests, &mut text);
        for (title, of) in CHANGES {
            let [before, after] = [&self.before, &self.after].map(of);
            if let Some(before) = before {
                line(&mut text, title, &format!("{before} -> {}", after.unwrap_or_else(|| "none".to_owned())));
            }
        }
        for sentence in &self.lost {
            line(&mut text, "lost", sentence);
        }
        line(&mut text, "written", &format!("{}; a workload in its folder may say:", escape::terminal(&self.file)));
        text.push('\n');
        text.push_str(&self.cells);
        text
    }
}

/// What was read, and what was wrong with it.
pub(crate) fn head(trace: &str, reading: &Reading, requests: usize) -> String {
    let Reading { format, why, faults, .. } = reading;
    let mut text = format!("{}: a trace of the format {format}, for {why}\n", escape::terminal(trace));
    line(&mut text, "read", &count(requests, "request"));
    for (title, effect) in [("faulty", Effect::Faulty), ("left out", Effect::LeftOut), ("note", Effect::Noted)] {
        for sentence in faults.sentences(effect) {
            line(&mut text, title, &sentence);
        }
    }
    text
}

/// What is told before and after, as far as a trace has it.
type Change = (&'static str, fn(&OfRequests) -> Option<String>);

const CHANGES: [Change; 8] = [
    ("time", |all| Some(Nanos::from_seconds(all.arrivals.as_ref()?.span_s).to_string())),
    ("rate", |all| Some(format!("{:.3} per s", all.arrivals.as_ref()?.rate_per_s?))),
    ("gap CV", |all| Some(format!("{:.2}", all.arrivals.as_ref()?.gap_cv?))),
    ("at once", |all| Some(format!("{} at most", all.arrivals.as_ref()?.most_at_once))),
    ("prompt tokens", |all| Some(format!("mean {:.1}", all.prompt_tokens.mean))),
    ("output tokens", |all| Some(format!("mean {:.1}", all.output_tokens.as_ref()?.mean))),
    ("sessions", |all| {
        let sessions = all.sessions.as_ref()?;
        Some(format!("{}, {} continue a request", sessions.sessions, sessions.continued))
    }),
    ("blocks", |all| Some(format!("an earlier request had {:.1} %", 100.0 * all.blocks.as_ref()?.repeated_share))),
];

/// What a workload does not take over.
fn lost(requests: &Requests, severed: u64) -> Vec<String> {
    let rows = &requests.rows;
    let mut lost = vec!["texts: prompts are servegate's own words, as long as those of the trace".to_owned()];
    let continued = rows.iter().filter(|row| row.parent.is_some());
    let (mut many, mut shorter) = (0_usize, 0_usize);
    for row in continued.filter(|row| row.blocks.is_empty()) {
        let parent = row.parent.and_then(|parent| rows.get(usize::try_from(parent).ok()?));
        let holds = parent.is_some_and(|parent| parent.prompt_tokens < row.prompt_tokens);
        many = many.saturating_add(usize::from(holds));
        shorter = shorter.saturating_add(usize::from(!holds));
    }
    if many > 0 {
        lost.push(format!(
            "answers: {} with the whole prompt of the one before, and with new words in place of its answer",
            if many == 1 { "1 request begins".to_owned() } else { format!("{many} requests begin") }
        ));
    }
    if shorter > 0 {
        let which = count(shorter, "request");
        lost.push(format!("shared prompts: {which} no longer than the one before, which share nothing with it"));
    }
    if rows.iter().any(|row| row.session.is_some()) {
        lost.push(
            "waiting: a request of a session comes at its instant, also when the one before is not answered".to_owned(),
        );
    }
    if severed > 0 {
        lost.push(format!(
            "sessions: {} continued one that is left out, and begin sessions",
            count(severed, "request")
        ));
    }
    let untold = rows.iter().filter(|row| row.output_tokens.is_none()).count();
    if untold > 0 {
        lost.push(format!(
            "lengths of answers: unknown for {}; the cell's `output_tokens` gives them",
            count(untold, "request")
        ));
    }
    lost
}

/// The `cells:` of a workload that replays all of a file in the workload's folder.
fn cells(file: &Path, requests: &Requests) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // JSON's strings are YAML's.
    let quoted = serde_json::Value::from(&*name).to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_plain = name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    let rows = requests.rows.len();
    let warmup = WARMUP.min(rows.div_euclid(5));
    let measured = rows.saturating_sub(warmup).min(MAX_REQUESTS);
    let mut text = format!(
        "cells:\n  - name: replay\n    trace: {}\n    warmup: {warmup}\n    requests: {measured}\n",
        if is_plain { &name } else { &*quoted }
    );
    if requests.rows.iter().any(|row| row.output_tokens.is_none()) {
        text.push_str("    output_tokens: 256  # of answers whose length the trace does not tell\n");
    }
    text
}

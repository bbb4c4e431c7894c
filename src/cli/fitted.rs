//! What `workload fit` found: the cells, and each beside the window of the trace that it describes.

use std::path::Path;

use serde::Serialize;

use crate::base::units::Nanos;
use crate::base::words::{apart, count};
use crate::cli::cut::Step;
use crate::cli::replayed::head;
use crate::cli::traffic::{Spread, line};
use crate::fit::{self, Distance, Fit, Likeness, Measured};
use crate::report::escape;
use crate::trace::Reading;

/// A workload that was fitted.
#[derive(Serialize)]
pub(crate) struct Fitted {
    trace: String,
    file: String,
    requests: usize,
    steps: Vec<Step>,
    /// The tick of a source that writes down ticks, in seconds.
    tick_s: Option<f64>,
    cells: Vec<Cell>,
    sessions: Option<Sessions>,
    /// What the workload does not have, in sentences.
    lost: Vec<String>,
}

#[derive(Serialize)]
struct Cell {
    name: String,
    from_s: f64,
    until_s: f64,
    #[serde(skip)]
    when: String,
    /// Windows with enough requests, among which it was chosen.
    among: usize,
    rate_per_s: Option<f64>,
    /// None for Poisson.
    burstiness: Option<f64>,
    warmup: u32,
    requests: u32,
    rows: usize,
    classes: Vec<Class>,
    likeness: Likeness,
}

#[derive(Serialize)]
struct Class {
    name: Option<String>,
    requests: usize,
    shared_groups: Option<u32>,
    shared_tokens: Option<u32>,
}

#[derive(Serialize)]
struct Sessions {
    count: usize,
    turns: Option<Spread>,
    /// From the arrival of a request to that of the next; the answer is in it.
    think_s: Option<Spread>,
    /// Prompt tokens beyond what the conversation had.
    new_tokens: Option<Spread>,
}

impl Fitted {
    pub(crate) fn of(
        (trace, file): (&str, &Path),
        requests: usize,
        steps: Vec<Step>,
        tick: Option<Nanos>,
        fit: &Fit,
    ) -> Self {
        Self {
            trace: trace.to_owned(),
            file: file.display().to_string(),
            requests,
            steps,
            tick_s: tick.map(Nanos::as_secs),
            cells: fit.cells.iter().map(Cell::of).collect(),
            sessions: fit.sessions.as_ref().map(Sessions::of),
            lost: lost(fit),
        }
    }

    /// For a person.
    pub(crate) fn render(&self, reading: &Reading) -> String {
        let mut text = head(&self.trace, reading, self.requests);
        Step::render(&self.steps, self.requests, &mut text);
        if let Some(tick) = self.tick_s {
            let tick = Nanos::from_seconds(tick);
            let what =
                format!("the source writes down ticks of {tick}: requests of one instant are spread, and how they");
            line(&mut text, "ticks", &format!("{what} came within a tick is not known"));
        }
        for cell in &self.cells {
            text.push('\n');
            cell.render(&mut text);
        }
        text.push('\n');
        if let Some(sessions) = &self.sessions {
            sessions.render(&mut text);
        }
        for sentence in &self.lost {
            line(&mut text, "lost", sentence);
        }
        let check = format!("{}; look at it: `servegate workload show`", escape::terminal(&self.file));
        line(&mut text, "written", &check);
        text
    }
}

/// What a fitted workload does not have.
fn lost(fit: &Fit) -> Vec<String> {
    let mut lost = vec!["the time line: each cell is steady, at the rate and the burstiness of its window".to_owned()];
    if fit.sessions.is_some() {
        lost.push(
            "sessions: they are described here and are not in the workload; `workload replay` keeps them".to_owned(),
        );
    }
    for cell in &fit.cells {
        if cell.untold > 0 {
            let which = count(cell.untold, "request");
            lost.push(format!("lengths of answers: unknown for {which} of {}", cell.window.name));
        }
    }
    lost
}

impl Cell {
    fn of(cell: &fit::Fitted) -> Self {
        let fit::Fitted { window, arrivals, kinds, planned, likeness, .. } = cell;
        let class = |kind: &fit::Kind| Class {
            name: kind.name.clone(),
            requests: kind.requests,
            shared_groups: kind.prefix.map(|prefix| prefix.groups),
            shared_tokens: kind.prefix.map(|prefix| prefix.tokens),
        };
        Self {
            name: window.name.clone(),
            from_s: window.from.as_secs(),
            until_s: window.until.as_secs(),
            when: window.when(),
            among: window.among,
            rate_per_s: arrivals.map(|arrivals| arrivals.rate),
            burstiness: arrivals.and_then(|arrivals| arrivals.burstiness),
            warmup: planned.0,
            requests: planned.1,
            rows: kinds.iter().map(|kind| kind.rows.len()).sum(),
            classes: kinds.iter().map(class).collect(),
            likeness: likeness.clone(),
        }
    }

    fn render(&self, text: &mut String) {
        let Self { name, rate_per_s, burstiness, warmup, requests, rows, likeness, .. } = self;
        let all = count(likeness.trace.requests, "request");
        let when = if rate_per_s.is_some() { format!("{}: ", self.when) } else { String::new() };
        let among = if self.among > 1 { format!(", of {} windows", self.among) } else { String::new() };
        line(text, "cell", &format!("{name}; {when}{all}{among}"));
        let load = match (rate_per_s, burstiness) {
            (None, _) => "one request at a time; the trace has no instants".to_owned(),
            (Some(rate), None) => format!("{rate:.3} per s, Poisson"),
            (Some(rate), Some(burstiness)) => format!("{rate:.3} per s, burstiness {burstiness:.3}"),
        };
        let planned = format!("{requests} requests after a warm-up of {warmup}");
        line(text, "load", &format!("{load}; {planned}; {}", count(*rows, "length row")));
        for class in &self.classes {
            class.render(text);
        }
        likeness_table(text, likeness);
    }
}

impl Class {
    fn render(&self, text: &mut String) {
        let prefix = self.shared_groups.zip(self.shared_tokens);
        let shared = prefix
            .map(|(groups, tokens)| format!("{} with a prefix of {}", count(groups, "group"), count(tokens, "token")));
        match (&self.name, shared) {
            (None, None) => {}
            (None, Some(shared)) => line(text, "prefix", &shared),
            (Some(name), shared) => {
                let shared = shared.map_or_else(String::new, |shared| format!(", {shared}"));
                line(text, "class", &format!("{name}: {}{shared}", count(self.requests, "request")));
            }
        }
    }
}

/// A row of the comparison: what it is, the number of a side, its decimals, and the factor to its unit.
type Number = (&'static str, fn(&Measured) -> Option<f64>, usize);

const NUMBERS: [Number; 8] = [
    ("rate per s", |side| side.rate_per_s, 3),
    ("gap CV", |side| side.gap_cv, 2),
    ("counts of 1 s", |side| side.dispersion_1s, 2),
    ("counts of 10 s", |side| side.dispersion_10s, 2),
    ("prompt tokens", |side| Some(side.prompt_tokens), 1),
    ("output tokens", |side| side.output_tokens, 1),
    ("rank corr.", |side| side.rank_correlation, 2),
    ("known prompt %", |side| Some(100.0 * side.known_share?), 1),
];

fn likeness_table(text: &mut String, likeness: &Likeness) {
    line(text, "", &format!("{:>10} {:>10} {:>10} {:>10}", "trace", "plan", "KS", "by chance"));
    for (title, of, decimals) in NUMBERS {
        let [trace, plan] = [&likeness.trace, &likeness.plan].map(of);
        let Some(trace) = trace else { continue };
        let sides =
            plan.map_or_else(|| [format!("{trace:.decimals$}"), "-".to_owned()], |plan| apart([trace, plan], decimals));
        let distance = match title {
            "gap CV" => likeness.gaps,
            "prompt tokens" => likeness.prompt_tokens,
            "output tokens" => likeness.output_tokens,
            _ => None,
        };
        let [trace, plan] = sides;
        let distance =
            distance.map_or_else(String::new, |Distance { ks, by_chance }| format!(" {ks:>10.3} {by_chance:>10.3}"));
        line(text, title, &format!("{trace:>10} {plan:>10}{distance}"));
    }
}

impl Sessions {
    fn of(sessions: &fit::Sessions) -> Self {
        Self {
            count: sessions.turns.len(),
            turns: Spread::of(sessions.turns.clone()),
            think_s: Spread::of(sessions.think_s.clone()),
            new_tokens: Spread::of(sessions.new_tokens.clone()),
        }
    }

    fn render(&self, text: &mut String) {
        line(text, "sessions", &self.count.to_string());
        for (title, spread, decimals) in
            [("turns", &self.turns, 0), ("think s", &self.think_s, 1), ("new tokens", &self.new_tokens, 0)]
        {
            if let Some(spread) = spread {
                line(text, title, &spread.words(decimals));
            }
        }
    }
}

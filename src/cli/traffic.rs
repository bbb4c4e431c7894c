//! What a trace holds, in numbers: for `workload inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::base::units::Nanos;
use crate::base::words::count;
use crate::report::escape;
use crate::stats::dispersion::coefficient_of_variation;
use crate::stats::quantile::quantile;
use crate::trace::faults::{Effect, Faults, Kind, Place};
use crate::trace::request::{Gaps, Request, Requests, Traffic, Window};
use crate::trace::shape::{self, Sharing, Ticks};
use crate::trace::{Format, Reading};

/// A trace in numbers.
#[derive(Serialize)]
pub(crate) struct Summary {
    format: Format,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<OfRequests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<OfWindows>,
    /// Rows that could not be read.
    faulty: Vec<Fault>,
    /// Rows that are no request.
    left_out: Vec<Fault>,
    /// What is not as the file says, or an estimate.
    noted: Vec<Fault>,
    #[serde(skip)]
    sentences: [Vec<String>; 3],
}

/// The requests of a trace in numbers.
#[derive(Serialize)]
pub(crate) struct OfRequests {
    source: Format,
    pub(crate) requests: usize,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) prompt_tokens: Spread,
    pub(crate) output_tokens: Option<Spread>,
    pub(crate) sessions: Option<OfSessions>,
    pub(crate) blocks: Option<Blocks>,
    classes: BTreeMap<String, usize>,
}

/// When they arrive.
#[derive(Serialize)]
pub(crate) struct Arrivals {
    pub(crate) span_s: f64,
    pub(crate) rate_per_s: Option<f64>,
    /// Coefficient of variation of the gaps.
    pub(crate) gap_cv: Option<f64>,
    instants: usize,
    /// Requests at the instant of an earlier one.
    repeated: usize,
    pub(crate) most_at_once: usize,
    /// Median time between different instants.
    tick_s: f64,
}

/// Those that belong together.
#[derive(Serialize)]
pub(crate) struct OfSessions {
    pub(crate) sessions: usize,
    requests: usize,
    /// Requests whose predecessor is named.
    pub(crate) continued: usize,
    turns: Spread,
}

/// What their prompts share.
#[derive(Serialize)]
pub(crate) struct Blocks {
    tokens: Option<u32>,
    in_prompts: u64,
    different: u64,
    /// Share of the blocks that an earlier request had.
    pub(crate) repeated_share: f64,
}

#[derive(Serialize)]
struct OfWindows {
    windows: usize,
    span_s: f64,
    silent: usize,
    gamma: usize,
    weibull: usize,
    /// Over the windows with arrivals.
    rate_per_s: Option<Spread>,
    gap_cv: Option<Spread>,
    /// Requests that the rates stand for.
    expected_requests: f64,
}

/// How a number is distributed.
#[derive(Serialize)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Fault {
    kind: Kind,
    what: &'static str,
    rows: u64,
    first: Vec<Place>,
}

impl Summary {
    /// The numbers of a trace.
    pub(crate) fn of(reading: &Reading) -> Self {
        let (requests, windows) = match &reading.traffic {
            Traffic::Requests(requests) => (Some(OfRequests::of(requests)), None),
            Traffic::Windows(windows) => (None, Some(OfWindows::of(windows))),
        };
        let of = |effect| faults(&reading.faults, effect);
        let effects = [Effect::Faulty, Effect::LeftOut, Effect::Noted];
        Self {
            format: reading.format,
            why: reading.why.clone(),
            requests,
            windows,
            faulty: of(Effect::Faulty),
            left_out: of(Effect::LeftOut),
            noted: of(Effect::Noted),
            sentences: effects.map(|effect| reading.faults.sentences(effect)),
        }
    }

    /// For a person. Times in the unit that they name.
    pub(crate) fn render(&self, name: &str) -> String {
        let mut text = format!("{}: a trace of the format {}, for {}\n", escape::terminal(name), self.format, self.why);
        if let Some(requests) = &self.requests {
            requests.render(&mut text, self.format);
        }
        if let Some(windows) = &self.windows {
            windows.render(&mut text);
        }
        for (title, sentences) in ["faulty", "left out", "note"].into_iter().zip(&self.sentences) {
            for sentence in sentences {
                line(&mut text, title, sentence);
            }
        }
        if self.sentences.iter().all(Vec::is_empty) {
            line(&mut text, "faults", "none");
        }
        text
    }
}

fn faults(all: &Faults, effect: Effect) -> Vec<Fault> {
    let met = all.iter().filter(|(kind, _)| kind.effect() == effect);
    met.map(|(kind, tally)| Fault { kind, what: kind.words(), rows: tally.rows, first: tally.first.clone() }).collect()
}

/// A line with a title in front.
pub(crate) fn line(text: &mut String, title: &str, what: &str) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(text, "{title:<14} {what}");
}

impl OfRequests {
    pub(crate) fn of(requests: &Requests) -> Self {
        let lengths = |of: fn(&Request) -> Option<u32>| requests.rows.iter().filter_map(of).map(f64::from).collect();
        let sessions = shape::sessions(requests);
        let within = sessions.turns.iter().sum();
        let sharing = shape::sharing(requests);
        let mut classes = BTreeMap::new();
        for name in requests.rows.iter().filter_map(|row| requests.class(row)) {
            *classes.entry(name.to_owned()).or_insert(0_usize) += 1;
        }
        Self {
            source: requests.source,
            requests: requests.rows.len(),
            arrivals: requests.arrivals.then(|| Arrivals::of(requests)),
            prompt_tokens: Spread::of(lengths(|row| Some(row.prompt_tokens))).unwrap_or(Spread::NOTHING),
            output_tokens: Spread::of(lengths(|row| row.output_tokens)),
            sessions: Spread::of(sessions.turns.iter().copied().map(real).collect()).map(|turns| OfSessions {
                sessions: sessions.turns.len(),
                requests: within,
                continued: sessions.continued,
                turns,
            }),
            blocks: (sharing.blocks > 0).then(|| Blocks::of(requests.block_tokens, sharing)),
            classes,
        }
    }

    fn render(&self, text: &mut String, format: Format) {
        let source = if self.source == format { String::new() } else { format!(", first read as {},", self.source) };
        let rate = |arrivals: &Arrivals| {
            let rate = arrivals.rate_per_s.map_or_else(String::new, |rate| format!(": {rate:.3} per s"));
            format!("over {}{rate}", Nanos::from_seconds(arrivals.span_s))
        };
        let when = self.arrivals.as_ref().map_or_else(|| "without instants of arrival".to_owned(), rate);
        line(text, "requests", &format!("{}{source} {when}", self.requests));
        if let Some(arrivals) = &self.arrivals {
            arrivals.render(text);
        }
        line(text, "prompt tokens", &self.prompt_tokens.words(0));
        line(text, "output tokens", &self.output_tokens.as_ref().map_or("unknown".to_owned(), |all| all.words(0)));
        if let Some(sessions) = &self.sessions {
            let (of, continued) = (sessions.requests, sessions.continued);
            let what =
                format!("{} of {}, {continued} continue one that is named", sessions.sessions, count(of, "request"));
            line(text, "sessions", &what);
            line(text, "turns", &sessions.turns.words(0));
        }
        if let Some(blocks) = &self.blocks {
            let size = blocks.tokens.map_or_else(String::new, |tokens| format!(" of {}", count(tokens, "token")));
            let share = blocks.repeated_share * 100.0;
            let what =
                format!("{}{size} in prompts; an earlier request had {share:.1} %", count(blocks.in_prompts, "block"));
            line(text, "blocks", &format!("{what}: no prefix cache can hit more"));
        }
        if !self.classes.is_empty() {
            let each: Vec<String> = self.classes.iter().map(|(name, rows)| format!("{name} {rows}")).collect();
            line(text, "classes", &each.join(", "));
        }
    }
}

impl Arrivals {
    fn of(requests: &Requests) -> Self {
        let last = requests.rows.last().map_or(Nanos::ZERO, |row| row.at);
        let gaps = shape::gaps(requests);
        let span_s = last.as_secs();
        let Ticks { instants, repeated, largest, step } = shape::ticks(requests);
        Self {
            span_s,
            rate_per_s: (span_s > 0.0).then(|| real(gaps.len()) / span_s),
            gap_cv: coefficient_of_variation(&gaps),
            instants,
            repeated,
            most_at_once: largest,
            tick_s: step.as_secs(),
        }
    }

    fn render(&self, text: &mut String) {
        let cv = self.gap_cv.map_or("unknown".to_owned(), |cv| format!("{cv:.2}"));
        line(text, "gaps", &format!("coefficient of variation {cv} (1: Poisson, more: bursts)"));
        if self.repeated > 0 {
            let step = Nanos::from_seconds(self.tick_s);
            let what = format!("{} at the instant of an earlier one", count(self.repeated, "request"));
            let ticks = format!("{}, at most {} at once", count(self.instants, "instant"), self.most_at_once);
            line(text, "ticks", &format!("{what}: {ticks}, mostly {step} apart"));
        }
    }
}

impl Blocks {
    fn of(tokens: Option<u32>, sharing: Sharing) -> Self {
        let Sharing { blocks, different, repeated } = sharing;
        Self { tokens, in_prompts: blocks, different, repeated_share: real_u64(repeated) / real_u64(blocks) }
    }
}

impl OfWindows {
    fn of(windows: &[Window]) -> Self {
        let busy: Vec<&Window> = windows.iter().filter(|window| window.rate_per_s > 0.0).collect();
        let kind = |wanted: fn(&Gaps) -> bool| windows.iter().filter(|w| w.gaps.as_ref().is_some_and(wanted)).count();
        let end = windows.last().map_or(Nanos::ZERO, |last| last.at + last.length);
        Self {
            windows: windows.len(),
            span_s: end.as_secs(),
            silent: windows.len().saturating_sub(busy.len()),
            gamma: kind(|gaps| matches!(gaps, Gaps::Gamma { .. })),
            weibull: kind(|gaps| matches!(gaps, Gaps::Weibull { .. })),
            rate_per_s: Spread::of(busy.iter().map(|window| window.rate_per_s).collect()),
            gap_cv: Spread::of(busy.iter().map(|window| window.cv).collect()),
            expected_requests: windows.iter().map(|window| window.rate_per_s * window.length.as_secs()).sum(),
        }
    }

    fn render(&self, text: &mut String) {
        let Self { windows, silent, gamma, weibull, expected_requests, .. } = self;
        let span = Nanos::from_seconds(self.span_s);
        let kinds = format!("{silent} silent, {gamma} with gamma gaps, {weibull} with Weibull gaps");
        line(text, "windows", &format!("{windows} over {span}: {kinds}"));
        line(text, "requests", &format!("none; the rates stand for {expected_requests:.0}"));
        for (title, spread, decimals) in [("rate per s", &self.rate_per_s, 3), ("gap CV", &self.gap_cv, 2)] {
            if let Some(spread) = spread {
                line(text, title, &spread.words(decimals));
            }
        }
    }
}

impl Spread {
    const NOTHING: Self = Self { mean: 0.0, p50: 0.0, p90: 0.0, p99: 0.0, max: 0.0 };

    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        let mean = values.iter().sum::<f64>() / real(values.len());
        let mut at = |level| quantile(&mut values, level);
        Some(Self { mean, p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, max: at(1.0)? })
    }

    pub(crate) fn words(&self, decimals: usize) -> String {
        let Self { mean, p50, p90, p99, max } = self;
        format!(
            "mean {mean:.*}, p50 {p50:.decimals$}, p90 {p90:.decimals$}, p99 {p99:.decimals$}, max {max:.decimals$}",
            decimals.max(1)
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
fn real(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of blocks are far below 2^53")]
fn real_u64(number: u64) -> f64 {
    number as f64
}

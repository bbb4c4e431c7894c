//! The part of a trace that a command takes: cut in time, of some classes, without what is too long.

use serde::Serialize;

use crate::base::units::Nanos;
use crate::base::words::count;
use crate::cli::error::CliError;
use crate::cli::traffic::line;
use crate::spec::read_duration;
use crate::trace::request::Request;
use crate::trace::steps::Recording;

/// Longest prompt or answer of a workload, in tokens.
const MAX_TOKENS: u32 = 1_000_000;

/// Which part.
#[derive(clap::Args)]
pub(crate) struct Cut {
    /// Leave out what comes before this time from the first request, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    from: Option<Nanos>,

    /// Leave out what comes at this time from the first request or later
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    until: Option<Nanos>,

    /// Spread requests of one instant over the time to the next: for sources that write down ticks
    #[arg(long)]
    pub(crate) spread: bool,

    /// Only this kind of requests, as `inspect` names it; may be given several times
    #[arg(long, value_name = "CLASS")]
    class: Vec<String>,

    /// Leave out longer prompts
    #[arg(long, value_name = "N", default_value_t = MAX_TOKENS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS)))]
    max_prompt_tokens: u32,

    /// Leave out longer answers
    #[arg(long, value_name = "N", default_value_t = MAX_TOKENS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS)))]
    max_output_tokens: u32,
}

/// What was done, and how many requests were left.
#[derive(Serialize)]
pub(crate) struct Step {
    what: String,
    requests: usize,
}

impl Step {
    /// A line for each step; `before` requests were there at first.
    pub(crate) fn render(steps: &[Self], before: usize, text: &mut String) {
        let mut last = before;
        for Self { what, requests } in steps {
            let change = match (last.checked_sub(*requests), requests.checked_sub(last)) {
                (Some(0), _) | (None, None) => String::new(),
                (Some(less), _) => format!(", {less} removed"),
                (None, Some(more)) => format!(", {more} added"),
            };
            line(text, "step", &format!("{what}: {}{change}", count(*requests, "request")));
            last = *requests;
        }
    }
}

/// What is done to a trace, one after the other.
pub(crate) struct Steps {
    pub(crate) recording: Recording,
    pub(crate) done: Vec<Step>,
}

impl Steps {
    pub(crate) const fn of(recording: Recording) -> Self {
        Self { recording, done: Vec::new() }
    }

    pub(crate) fn take(mut self, what: String, step: impl FnOnce(Recording) -> Recording) -> Result<Self, CliError> {
        self.recording = step(self.recording);
        let requests = self.recording.requests().rows.len();
        if requests == 0 {
            let error = CliError::usage(format!("no request is left after this: {what}"));
            return Err(error.hint("`servegate workload inspect` says what the trace holds"));
        }
        self.done.push(Step { what, requests });
        Ok(self)
    }

    /// Filters, where anything is to be left out.
    fn keep(self, what: String, wanted: impl Fn(&Request) -> bool) -> Result<Self, CliError> {
        if self.recording.requests().rows.iter().all(&wanted) {
            Ok(self)
        } else {
            self.take(what, |it| it.keep(wanted))
        }
    }
}

impl Cut {
    /// Every step that is asked for, in this order: the time, instants spread where `spread` says so, classes, lengths.
    pub(crate) fn apply(&self, mut steps: Steps, spread: bool, seed: u64) -> Result<Steps, CliError> {
        if self.from.is_some() || self.until.is_some() {
            let from = self.from.unwrap_or_default();
            let end = self.until.map_or_else(|| "the end".to_owned(), |until| until.to_string());
            let start = self.from.map_or_else(|| "the begin".to_owned(), |from| from.to_string());
            steps = steps.take(format!("from {start} to {end}"), |it| it.window(from, self.until))?;
        }
        if spread {
            let moved = steps.recording.spread(seed);
            steps = steps.take(format!("spread {} of one instant with others", count(moved, "request")), |it| it)?;
        }
        steps = self.of_classes(steps)?;
        let (most, longest) = (self.max_prompt_tokens, self.max_output_tokens);
        let what = format!("prompts of up to {}", count(most, "token"));
        steps = steps.keep(what, |row| row.prompt_tokens <= most)?;
        let what = format!("answers of up to {}", count(longest, "token"));
        steps.keep(what, |row| row.output_tokens.is_none_or(|tokens| tokens <= longest))
    }

    fn of_classes(&self, steps: Steps) -> Result<Steps, CliError> {
        if self.class.is_empty() {
            return Ok(steps);
        }
        let names = steps.recording.requests().classes.clone();
        if let Some(unknown) = self.class.iter().find(|class| !names.contains(class)) {
            let error = CliError::usage(format!("the trace has no class `{}`", unknown.escape_debug()));
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            return Err(error.hint(known));
        }
        let is_wanted = |class: u16| names.get(usize::from(class)).is_some_and(|name| self.class.contains(name));
        steps.take(format!("of class {}", self.class.join(", ")), |it| it.keep(|row| row.class.is_some_and(is_wanted)))
    }
}

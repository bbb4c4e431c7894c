//! The terminal: data on stdout, everything else on stderr. Colour is an extra and never carries meaning alone.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::base::units::Nanos;
use crate::cli::Global;
use crate::cli::error::CliError;
use crate::cli::progress::words;
use crate::report::escape;
use crate::spec;

/// Where a command's output goes.
pub(crate) struct Terminal {
    global: Global,
    bar: Option<ProgressBar>,
    /// Steps of the progress display.
    total: u64,
    /// When it last said something.
    said: Option<Instant>,
}

/// The time between two lines of progress where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Terminal {
    /// Sets up logging too: it belongs to stderr like all that is not data.
    pub(crate) fn new(global: Global) -> Self {
        let level = match global.verbose {
            0 => "warn",
            1 => "servegate=info",
            _ => "servegate=debug,info",
        };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(level))
            .with_writer(io::stderr)
            .with_ansi(false)
            .finish();
        // A second subscriber in one process (tests) is refused; the first one serves as well.
        if tracing::subscriber::set_global_default(subscriber).is_err() {
            tracing::debug!("logging was already set up");
        }
        Self { global, bar: None, total: 0, said: None }
    }

    /// Whether the result is wanted as JSON.
    pub(crate) const fn json(&self) -> bool {
        self.global.json
    }

    /// Whether stdout is a person's terminal that wants colour.
    pub(crate) fn colour(&self) -> bool {
        !self.global.json
            && io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// Data on stdout. A reader that went away is not an error.
    pub(crate) fn data(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.clear_bar();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(CliError::failed(format!("cannot write to stdout: {error}"))),
        }
    }

    /// A value on stdout as pretty JSON.
    pub(crate) fn data_json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|error| CliError::failed(format!("cannot write the result as JSON: {error}")))?;
        text.push('\n');
        self.data(text.as_bytes())
    }

    /// A line for a person, on stderr, unless `--quiet`.
    pub(crate) fn say(&mut self, line: &str) {
        if !self.global.quiet {
            self.warn(line);
        }
    }

    /// Prints what nobody may miss, on stderr; also when progress is not wanted.
    pub(crate) fn warn(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| stderr_line(line)),
            None => stderr_line(line),
        }
    }

    /// An error with its findings and hints, on stderr.
    pub(crate) fn error(&mut self, error: &CliError) {
        self.clear_bar();
        for finding in error.findings() {
            stderr_line(&spec::render(std::slice::from_ref(&finding.diagnostic), &finding.text, false));
        }
        stderr_line(&format!("error: {}", error.message()));
        for hint in error.hints() {
            stderr_line(&format!("hint: {hint}"));
        }
    }

    /// Starts a progress display of `total` steps: a bar on a terminal, a line from time to time elsewhere.
    pub(crate) fn start_bar(&mut self, total: u64, what: &str) {
        self.total = total;
        self.said = Some(Instant::now());
        if self.global.quiet || !io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        self.bar = Some(bar);
    }

    /// Moves the progress display; `left` is asked when something is shown. Without a terminal it is a line, the
    /// first after [`LINE_EVERY`]: a CI log shows that something goes on and is not flooded.
    pub(crate) fn set_bar(&mut self, position: u64, what: &str, left: impl FnOnce() -> Option<Nanos>) {
        if self.global.quiet {
            return;
        }
        let now = Instant::now();
        let due = self.said.is_none_or(|said| now.duration_since(said) >= self.pace());
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            if due {
                let left = left().map_or_else(String::new, |left| format!(", {} left", words(left)));
                bar.set_message(format!("{what}{left}"));
                self.said = Some(now);
            }
        } else if due {
            let left = left().map_or_else(|| "time left unknown".to_owned(), |left| format!("{} left", words(left)));
            stderr_line(&format!("{position} of {} requests of the run, now {what}, {left}", self.total));
            self.said = Some(now);
        }
    }

    /// The time between two estimates: a bar may be looked at all the time.
    const fn pace(&self) -> Duration {
        if self.bar.is_some() { Duration::from_millis(500) } else { LINE_EVERY }
    }

    /// Ends the progress display.
    pub(crate) fn clear_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// One line on stderr; a closed stderr is nobody's loss.
fn stderr_line(line: &str) {
    if writeln!(io::stderr().lock(), "{}", harmless(line)).is_err() {
        tracing::debug!("stderr is closed");
    }
}

/// What a server or a file said may stand in a message: nothing of it steers the terminal, and nothing is taken
/// for a command by a CI runner, which looks for lines that begin with `::` and for `##[` anywhere.
fn harmless(text: &str) -> String {
    let tame = |line: &str| {
        let line = escape::clean(line);
        if line.trim_start().starts_with("::") { format!("| {line}") } else { line }
    };
    text.split('\n').map(tame).collect::<Vec<_>>().join("\n").replace("##[", "# #[")
}

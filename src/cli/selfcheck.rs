//! `servegate selfcheck`: how exact the load generator is on this host, and up to which load.

use std::env;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::signals::Interrupt;
use crate::cli::terminal::Terminal;
use crate::cli::trust::{Load, Trust, store};
use crate::loadgen::host::make_room;
use crate::loadgen::selfcheck::{Case, FIRST, Found, Pair, SelfcheckError, measure, server};

/// Loads that are tried, lightest first: streams, and ms between the events of one.
const CASES: [(u32, u64); 6] = [(1, 20), (8, 20), (64, 20), (256, 20), (512, 20), (1_000, 50)];

/// See how exact the load generator is on this host
///
/// Measures a precise server whose times are known, and keeps the result for `run` and `measure`.
///
/// Example: servegate selfcheck
#[derive(clap::Args)]
pub(crate) struct Args {
    /// File that gets the result; `run` and `measure` read it
    #[arg(long, value_name = "FILE", default_value = crate::cli::trust::FILE)]
    out: PathBuf,

    /// Try up to this many streams
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    streams: u32,

    /// Be the precise server, with this time between events, in ms
    #[arg(long, hide = true, value_name = "MS")]
    serve: Option<u64>,
}

/// Measures, shows, and keeps the result.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    if let Some(gap) = args.serve {
        let served = server::serve(FIRST, Duration::from_millis(gap), &mut io::stdin(), io::stdout());
        return served.map(|()| Exit::Success).map_err(|error| CliError::failed(error.to_string()));
    }
    let interrupt = Interrupt::listen()?;
    let program = env::current_exe().map_err(|error| CliError::failed(format!("cannot find itself: {error}")))?;
    let mut loads = Vec::new();
    let mut trouble = None;
    for (streams, gap) in cases(args.streams) {
        // The server inherits the limit, and has a connection for each of ours.
        if let Err(error) = make_room(streams.into()) {
            terminal.warn(&format!("warning: {} and more are not tried: {error}", count(streams, "stream")));
            break;
        }
        terminal.say(&format!("{}, an event every {gap} ms each", count(streams, "stream")));
        let mut server = Command::new(&program);
        server.args(["selfcheck", "--serve", &gap.to_string()]);
        let case = Case { streams, gap: Duration::from_millis(gap) };
        let found = measure(case, server, &interrupt.flag(), &mut |_, work| work());
        match found {
            Ok(found) => loads.push(load(case, &found)),
            Err(SelfcheckError::Stopped { .. }) if interrupt.exit().is_some() => {
                return Err(CliError::interrupted(interrupt.exit().unwrap_or(Exit::Interrupted), "interrupted"));
            }
            Err(error) => {
                trouble = Some(CliError::failed(error.to_string()));
                break;
            }
        }
    }
    if loads.is_empty() {
        return Err(trouble.unwrap_or_else(|| CliError::failed("nothing was tried")));
    }
    let trust = Trust::of(loads);
    store(&args.out, &trust)?;
    if terminal.json() {
        terminal.data_json(&trust)?;
    } else {
        terminal.data(shown(&trust).as_bytes())?;
        terminal.say(&format!("kept in {}; `run` and `measure` read it", args.out.display()));
    }
    match trouble {
        Some(error) => Err(error.hint(format!("the loads before it are kept in {}", args.out.display()))),
        None => Ok(if trust.streams == 0 { Exit::Failed } else { Exit::Success }),
    }
}

/// The usual loads up to `most` streams, and this one: what a plan needs can be tried.
fn cases(most: u32) -> Vec<(u32, u64)> {
    let mut cases: Vec<(u32, u64)> = CASES.into_iter().filter(|(streams, _)| *streams <= most).collect();
    if cases.last().is_none_or(|(streams, _)| *streams < most) {
        // Beyond the usual loads as many events a second as the largest of them.
        let gap = CASES.into_iter().find(|(streams, _)| *streams > most).map(|(_, gap)| gap);
        cases.push((most, gap.unwrap_or_else(|| 50 * u64::from(most.div_ceil(1_000)))));
    }
    cases
}

fn load(case: Case, found: &Found) -> Load {
    let Found { sent, ttft, stamp, gap, tpot, server, timer, client, .. } = found;
    let pair = |pair: &Pair| [pair.p50, pair.p99];
    Load {
        streams: case.streams,
        gap_ms: u64::try_from(case.gap.as_millis()).unwrap_or(u64::MAX),
        sent_us: pair(sent),
        ttft_us: pair(ttft),
        stamp_us: pair(stamp),
        chunk_gap_us: pair(gap),
        tpot_us: pair(tpot),
        server_us: pair(server),
        timer_us: pair(timer),
        stamps: client.stamps,
        steal: client.host.map(|host| host.steal),
    }
}

fn shown(trust: &Trust) -> String {
    let mut text = String::from(
        "        TTFT error, us  stamp error, us TPOT error, us  sent late, us   timer late, us\n\
         streams     p50     p99     p50     p99     p50     p99     p50     p99     p50     p99\n",
    );
    for load in &trust.loads {
        let columns = [load.ttft_us, load.stamp_us, load.tpot_us, load.sent_us, load.timer_us];
        let columns: Vec<String> = columns.iter().flatten().map(|us| format!("{us:>7.1}")).collect();
        let columns = columns.join(" ");
        let mark = if load.is_trusted() { "" } else { "  not trusted" };
        let _infallible = writeln!(text, "{:>7} {columns}{mark}", load.streams);
    }
    let _infallible = match trust.streams {
        0 => writeln!(text, "this host is too busy, or too slow, to be trusted at any load"),
        streams => writeln!(text, "this host may be trusted up to {} at once", count(streams, "stream")),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_tried_after_the_usual_loads_below_it() {
        assert_eq!(cases(1), [(1, 20)]);
        assert_eq!(cases(8), [(1, 20), (8, 20)]);
        assert_eq!(cases(300), [(1, 20), (8, 20), (64, 20), (256, 20), (300, 20)]);
        assert_eq!(cases(1_000), CASES);
        assert_eq!(cases(2_500).last(), Some(&(2_500, 150)));
    }
}

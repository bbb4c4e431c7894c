//! The command line: one file per subcommand, composition of everything below, and the only place
//! that reads the environment, owns the terminal and knows exit codes.

mod ab;
mod apart;
mod approval;
mod baseline;
mod candidate;
mod capacity;
mod capacity_report;
#[cfg(test)]
mod capacity_tests;
mod check;
mod cold;
mod compare;
mod completions;
mod cut;
mod declared;
mod demo;
mod deployment;
mod draft;
mod error;
mod failures;
mod files;
mod fit;
mod fitted;
mod folders;
mod gate;
mod gathered;
mod lock;
mod measure;
mod probing;
mod progress;
mod reach;
mod recover;
mod refresh;
mod replay;
mod replayed;
mod resume;
mod run;
mod schema;
mod selfcheck;
mod session;
mod show;
mod signals;
mod sim;
mod simulated;
mod steps;
mod suite;
mod table;
mod target;
mod terminal;
mod tokenizer;
mod traces;
mod traffic;
mod trust;
mod verify;
mod workload;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::cli::error::{CliError, Exit};
use crate::cli::terminal::Terminal;

/// A regression gate for LLM serving: may this change ship?
///
/// Exit codes: 0 pass or warn, 1 fail, 2 inconclusive, 3 not comparable, 4 could not measure,
/// 5 a policy, workload, config or trace file is invalid, 64 usage, 70 internal error, 130 SIGINT, 143 SIGTERM.
#[derive(Parser)]
#[command(name = "servegate", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    global: Global,
}

/// Options of every subcommand.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Global {
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    json: bool,

    /// Print no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Log what happens, on stderr; twice for more
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Run(run::Args),
    Measure(measure::Args),
    Ab(ab::Args),
    Compare(compare::Args),
    Baseline(baseline::Args),
    Recover(recover::Args),
    Check(check::Args),
    Schema(schema::Args),
    Verify(verify::Args),
    Workload(workload::Args),
    Sim(sim::Args),
    Selfcheck(selfcheck::Args),
    Capacity(capacity::Args),
    Completions(completions::Args),
}

/// Runs the command line and gives the exit code that `docs/exit-codes.md` documents.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    signals::survive_file_limit();
    // A bug must not look like a verdict: a panic's own code 101 becomes 70.
    let outcome = catch_unwind(AssertUnwindSafe(|| parse_and_run(args)));
    outcome.unwrap_or(Exit::Internal).into()
}

fn parse_and_run(args: Vec<OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own code 2 would read as `inconclusive`.
            let asked_for = !error.use_stderr();
            // A reader that has seen enough of the help closes the pipe: no error.
            if let Err(closed) = error.print() {
                tracing::debug!("not all of it could be printed: {closed}");
            }
            return if asked_for { Exit::Success } else { Exit::Usage };
        }
    };
    let mut terminal = Terminal::new(cli.global);
    match dispatch(cli.command, &mut terminal) {
        Ok(exit) => exit,
        Err(error) => {
            terminal.error(&error);
            error.exit()
        }
    }
}

fn dispatch(command: Command, terminal: &mut Terminal) -> Result<Exit, CliError> {
    match command {
        Command::Demo(args) => demo::run(&args, terminal),
        Command::Run(args) => run::run(&args, terminal),
        Command::Measure(args) => measure::run(&args, terminal),
        Command::Ab(args) => ab::run(&args, terminal),
        Command::Compare(args) => compare::run(&args, terminal),
        Command::Baseline(args) => baseline::run(&args, terminal),
        Command::Recover(args) => recover::run(&args, terminal),
        Command::Check(args) => check::run(&args, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Verify(args) => verify::run(&args, terminal),
        Command::Workload(args) => workload::run(&args, terminal),
        Command::Sim(args) => sim::run(&args, terminal),
        Command::Selfcheck(args) => selfcheck::run(&args, terminal),
        Command::Capacity(args) => capacity::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
    }
}

/// The whole command tree, for completions.
fn command() -> clap::Command {
    Cli::command()
}

/// A completion script.
fn completion_script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "servegate", &mut script);
    script
}

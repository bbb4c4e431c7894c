//! `servegate completions`: a completion script for a shell.

use clap_complete::Shell;

use crate::cli::completion_script;
use crate::cli::error::{CliError, Exit};
use crate::cli::terminal::Terminal;

/// Print a completion script for a shell
///
/// Example: servegate completions bash > ~/.local/share/bash-completion/completions/servegate
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    terminal.data(&completion_script(args.shell))?;
    Ok(Exit::Success)
}

//! The binary: maps a result to an exit code and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    servegate::cli::main(std::env::args_os())
}

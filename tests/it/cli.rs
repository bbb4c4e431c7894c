//! The command line as a user or a pipeline meets it: exit codes, stdout and stderr of the real binary.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the binary in a folder, without the environment's own settings.
pub(crate) fn servegate(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_servegate"))
        .args(args)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .output()
        .expect("the binary starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn usage_errors_exit_64_and_help_exits_0() {
    let dir = tempfile::tempdir().unwrap();
    for (args, code) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&["run", "--help"], 0),
        (&[], 64),
        (&["no-such-command"], 64),
        (&["run", "--no-such-flag"], 64),
    ] {
        let output = servegate(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    }
}

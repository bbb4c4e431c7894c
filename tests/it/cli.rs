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

/// Every subcommand below a command line, from its help.
fn subcommands(dir: &Path, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let mut args: Vec<&str> = prefix.iter().map(String::as_str).collect();
    args.push("--help");
    let help = String::from_utf8(servegate(dir, &args).stdout).unwrap();
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return };
    let list = list.split("\n\n").next().unwrap();
    for name in list.lines().filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next()) {
        if name != "help" {
            let command: Vec<String> = prefix.iter().cloned().chain([name.to_owned()]).collect();
            found.push(command.clone());
            subcommands(dir, &command, found);
        }
    }
}

#[test]
fn every_help_has_an_example_that_is_a_right_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut commands = Vec::new();
    subcommands(dir.path(), &[], &mut commands);
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help");
        let help = String::from_utf8(servegate(dir.path(), &args).stdout).unwrap();
        let example = help.lines().find_map(|line| line.trim().strip_prefix("Example: servegate "));
        let example = example.unwrap_or_else(|| no_example(&command));
        assert!(example.starts_with(&command[0]), "{command:?}: {example}");
    }
}

#[track_caller]
fn no_example(command: &[String]) -> &'static str {
    assert!(command.is_empty(), "no example in the help of {command:?}");
    ""
}

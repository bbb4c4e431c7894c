//! Disks that are full and folders that cannot be written.

use std::fs::{File, OpenOptions};
use std::process::Stdio;

use crate::support::{Ended, Engine, MODEL, Scene, workload};

/// Root may write into a read-only folder, so the folder lies below a regular file, which stops everybody.
#[test]
fn an_output_folder_that_cannot_be_written_is_found_before_measuring() {
    let scene = Scene::new();
    scene.write("file", "");
    // There is no server: a measurement would be another message.
    let nowhere = "http://127.0.0.1:1";
    scene.measure(nowhere, "--out file/runs").exits(4).says(&["cannot create the folder file/runs: "]);
    scene.gate(nowhere, "--out file/out").exits(4).says(&["cannot create the folder file/out: "]);
    scene.line("demo --out file/out").exits(4).says(&["cannot create the folder file/out: "]);
    scene
        .line("compare --policy p.yaml --baseline runs --candidate runs --out file/out")
        .exits(4)
        .says(&["cannot create the folder file/out: "]);
}

/// A limit on the size of files stands for a full disk: the same write fails in the same place.
#[test]
fn a_disk_that_fills_up_is_named_with_the_file_and_what_to_do() {
    let scene = Scene::new();
    scene.write("w.yaml", &workload("tiny", 100, 600));
    let engine = Engine::quick(0.3);
    let measure = format!(
        "ulimit -f 8 && exec '{}' measure --workload w.yaml --url {} --model {MODEL} --ignore-eos --session s --out runs",
        env!("CARGO_BIN_EXE_servegate"),
        engine.url()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &measure]).current_dir(scene.path("")).env_remove("RUST_LOG");
    Ended::of(&command.output().unwrap()).exits(4).says(&[
        "cannot write runs/s-00-baseline.partial/records.jsonl.zst: ",
        "raise the limit on the size of files",
        "runs/s-00-baseline.partial",
    ]);
    assert!(!scene.path("runs/s-00-baseline").exists(), "a run that is not whole has no name of its own");
}

/// A command that measures nothing listens to no other signal, and is not killed either.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_every_command() {
    let scene = Scene::new();
    for line in
        ["schema policy > out.json", "compare --policy p.yaml --baseline none --candidate none --out out", "demo"]
    {
        let limited = format!("ulimit -f 0 && exec '{}' {line}", env!("CARGO_BIN_EXE_servegate"));
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &limited]).current_dir(scene.path("")).env_remove("RUST_LOG");
        Ended::of(&command.output().unwrap()).exits(4).says(&["error: cannot write "]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error_and_a_closed_pipe_is_none() {
    let scene = Scene::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = scene.command().args(["schema", "policy"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    Ended::of(&output).exits(4).says(&["cannot write to stdout: "]);
    for line in ["schema policy", "--help", "sim list --json", "completions bash"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = scene.command().args(line.split(' ')).stdout(writer).output().unwrap();
        assert_eq!(Ended::of(&output).exits(0).stderr, "", "{line}");
    }
    drop(File::open("/dev/full").unwrap());
}

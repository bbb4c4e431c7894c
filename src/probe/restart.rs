//! Restarts a deployment with the command of its target.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::names::Side;
use crate::base::units::Nanos;
use crate::probe::group::Group;
use crate::report::escape;
use crate::spec::target::Restart;

/// The command, the interrupt flag and the clock are looked at this often.
const POLL: Duration = Duration::from_millis(20);
/// So much of the end of the command's output is kept.
const KEPT_OUTPUT: usize = 8 << 10;
/// So much of it is read at once.
const READ: usize = 64 << 10;
/// The rest of the output is waited for this long after the command has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// Why a deployment was not restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The command cannot be run.
    #[error("restart command `{program}`: {cause}; check the path and that it may be executed")]
    Start {
        /// The program.
        program: String,
        /// Why.
        cause: io::Error,
    },
    /// The command failed.
    #[error("restart command `{program}` failed ({status})\n{output}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said last: the end of its output, control characters replaced, each line behind `| `.
        output: String,
    },
    /// The command took too long and was ended.
    #[error(
        "restart command `{program}` was ended after {limit}; it must return once the new deployment is \
         starting\n{output}"
    )]
    TimedOut {
        /// The program.
        program: String,
        /// The limit.
        limit: Nanos,
        /// What it said last: the end of its output, control characters replaced, each line behind `| `.
        output: String,
    },
    /// The user wants to stop; the command was ended.
    #[error("interrupted while the restart command ran")]
    Interrupted,
}

/// Runs the restart command and gives the time it took. It gets `SERVEGATE_SIDE` and
/// `SERVEGATE_RELEASE` beside our own environment, unchanged: a deployment may need the API key that is
/// in it. No shell is between. On a timeout or an interrupt its whole process group is ended. What a
/// command that has ended leaves running stays; it keeps a working standard output only while servegate
/// runs, so a server should write to a log of its own.
///
/// # Errors
/// See [`RestartError`].
pub fn restart(restart: &Restart, side: Side, release: &str, interrupt: &AtomicBool) -> Result<Nanos, RestartError> {
    let start = Instant::now();
    let program = restart.command.first().cloned().unwrap_or_default();
    let failed = |cause: io::Error| RestartError::Start { program: program.clone(), cause };
    let mut command = Command::new(&program);
    command
        .args(restart.command.iter().skip(1))
        .env("SERVEGATE_SIDE", side.id())
        .env("SERVEGATE_RELEASE", release)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = Group::start(&mut command).map_err(failed)?;
    let output = Output::of(&mut group);
    let limit = Duration::from_nanos(restart.timeout.0);
    let status = loop {
        if let Some(status) = group.ended().map_err(failed)? {
            break status;
        }
        let interrupted = interrupt.load(Ordering::Relaxed);
        if interrupted || start.elapsed() >= limit {
            group.end();
            if interrupted {
                return Err(RestartError::Interrupted);
            }
            return Err(RestartError::TimedOut { program, limit: restart.timeout, output: output.told() });
        }
        thread::sleep(POLL);
    };
    if status.success() {
        Ok(Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    } else {
        Err(RestartError::Failed { program, status, output: output.told() })
    }
}

/// The end of what a command writes. Its pipes are read to their ends by threads that nobody waits for:
/// a server that the command left running holds them open.
struct Output {
    tail: Arc<Mutex<Tail>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Output {
    fn of(group: &mut Group) -> Self {
        let tail = Arc::default();
        let (out, err) = group.pipes();
        let out = out.map(|pipe| follow(pipe, Arc::clone(&tail)));
        let err = err.map(|pipe| follow(pipe, Arc::clone(&tail)));
        Self { tail, readers: out.into_iter().chain(err).collect() }
    }

    /// What the command said last: control characters replaced, each line behind `| `.
    fn told(&self) -> String {
        let patience = Instant::now();
        while patience.elapsed() < LAST_OUTPUT && !self.readers.iter().all(thread::JoinHandle::is_finished) {
            thread::sleep(POLL / 4);
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(tail.end());
        if text.trim().is_empty() {
            return "it wrote nothing".to_owned();
        }
        // The mark keeps a CI runner from taking a line of it for a command of ours.
        let lines: Vec<String> = text.trim().lines().map(|line| format!("| {}", escape::clean(line))).collect();
        format!("its last output:\n{}", lines.join("\n"))
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, read: &[u8]) {
        let from = read.len().saturating_sub(KEPT_OUTPUT);
        self.0.extend_from_slice(read.get(from..).unwrap_or_default());
        // Cut only when twice as much is there: a byte is moved once, not with every read.
        if self.0.len() > 2 * KEPT_OUTPUT {
            self.0.drain(..self.0.len() - KEPT_OUTPUT);
        }
    }

    fn end(&self) -> &[u8] {
        self.0.get(self.0.len().saturating_sub(KEPT_OUTPUT)..).unwrap_or_default()
    }
}

fn follow(mut pipe: impl Read + Send + 'static, tail: Arc<Mutex<Tail>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; READ];
        while let Ok(count) = pipe.read(&mut buffer)
            && count > 0
        {
            let read = buffer.get(..count).unwrap_or_default();
            tail.lock().unwrap_or_else(PoisonError::into_inner).push(read);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, timeout: Nanos) -> Result<Nanos, RestartError> {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        restart(&Restart { command, timeout }, Side::Candidate, "v2", &AtomicBool::new(false))
    }

    #[test]
    fn the_command_learns_side_and_release_and_its_output_is_in_the_error() {
        run("test $SERVEGATE_SIDE-$SERVEGATE_RELEASE = candidate-v2", Nanos::from_secs(20)).unwrap();
        let error = run("echo out; echo \"no\tGPU\" >&2; exit 3", Nanos::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("`sh` failed (exit status: 3)"), "{error}");
        assert!(error.contains("out") && error.contains("no GPU"), "{error}");
    }

    #[test]
    fn output_is_bounded_and_a_server_left_running_is_not_waited_for() {
        let error = run("yes | head -c 300000; echo end; exit 1", Nanos::from_secs(20)).unwrap_err().to_string();
        // The mark of a line makes a line of one byte three.
        assert!(error.len() < 3 * KEPT_OUTPUT + 200 && error.ends_with("end"), "{}", error.len());
        let error = run("exit 1", Nanos::from_secs(20)).unwrap_err().to_string();
        assert!(error.ends_with("\nit wrote nothing"), "{error}");
        run("sleep 30 & exit 0", Nanos::from_secs(20)).unwrap();
    }

    #[test]
    fn the_tail_is_the_end_of_what_was_written_however_it_came() {
        let all: Vec<u8> = (0..200_000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1]).collect();
        for size in [1, 7, 4_096, KEPT_OUTPUT, READ] {
            let mut tail = Tail::default();
            for read in all.chunks(size) {
                tail.push(read);
                assert!(tail.0.len() <= 2 * KEPT_OUTPUT);
            }
            assert_eq!(tail.end(), &all[all.len() - KEPT_OUTPUT..], "reads of {size}");
        }
        let mut short = Tail::default();
        short.push(b"ab");
        short.push(b"c");
        assert_eq!(short.end(), b"abc");
    }

    /// A process that is deaf to SIGTERM, started by the command: a heartbeat in a file tells whether it lives.
    #[test]
    fn a_timeout_ends_what_the_command_started_too() {
        let folder = tempfile::tempdir().unwrap();
        let beat = folder.path().join("beat");
        let script = format!("trap '' TERM; (while echo >> '{}'; do sleep 0.05; done) & wait", beat.display());
        let error = run(&script, Nanos::from_millis(500)).unwrap_err();
        assert!(matches!(&error, RestartError::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains(" was ended after 500 ms; "), "{error}");
        let beats = || std::fs::metadata(&beat).map_or(0, |file| file.len());
        let then = beats();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(beats(), then);
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_one_that_is_missing_is_named() {
        let error = run("echo waiting; exec sleep 30", Nanos::from_secs(1)).unwrap_err();
        assert!(
            matches!(&error, RestartError::TimedOut { output, .. } if output == "its last output:\n| waiting"),
            "{error}"
        );
        let missing = Restart { command: vec!["/nowhere/restart".to_owned()], timeout: Nanos::from_secs(1) };
        let error = restart(&missing, Side::Control, "v1", &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("/nowhere/restart"), "{error}");
        let hanging = Restart { command: ["sleep", "30"].map(str::to_owned).to_vec(), timeout: Nanos::from_secs(30) };
        let error = restart(&hanging, Side::Control, "v1", &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, RestartError::Interrupted));
    }
}

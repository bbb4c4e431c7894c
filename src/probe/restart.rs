//! Restarts a deployment with the command of its target.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::names::Side;
use crate::base::units::Nanos;
use crate::report::escape;
use crate::spec::target::Restart;

/// The command, the interrupt flag and the clock are looked at this often.
const POLL: Duration = Duration::from_millis(20);
/// So much of the end of the command's output is kept.
const KEPT_OUTPUT: usize = 8 << 10;
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
    #[error("restart command `{program}` failed ({status}); its last output:\n{output}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output, control characters replaced, each line behind `| `.
        output: String,
    },
    /// The command took too long and was killed.
    #[error(
        "restart command `{program}` was killed after {limit}; it must return once the new deployment is \
         starting; its last output:\n{output}"
    )]
    TimedOut {
        /// The program.
        program: String,
        /// The limit.
        limit: Nanos,
        /// The end of its output, control characters replaced, each line behind `| `.
        output: String,
    },
    /// The user wants to stop; the command was killed.
    #[error("interrupted while the restart command ran")]
    Interrupted,
}

/// Runs the restart command and gives the time it took. It gets `SERVEGATE_SIDE` and
/// `SERVEGATE_RELEASE` beside our own environment, unchanged: a deployment may need the API key that is
/// in it. No shell is between. On a timeout or an interrupt the command itself is killed, not what it
/// started. What it leaves running keeps a working standard output only while servegate runs, so a
/// server should write to a log of its own.
///
/// # Errors
/// See [`RestartError`].
pub fn restart(restart: &Restart, side: Side, release: &str, interrupt: &AtomicBool) -> Result<Nanos, RestartError> {
    let start = Instant::now();
    let program = restart.command.first().cloned().unwrap_or_default();
    let failed = |cause: io::Error| RestartError::Start { program: program.clone(), cause };
    let mut child = Command::new(&program)
        .args(restart.command.iter().skip(1))
        .env("SERVEGATE_SIDE", side.id())
        .env("SERVEGATE_RELEASE", release)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let output = Output::of(&mut child);
    let limit = Duration::from_nanos(restart.timeout.0);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        let interrupted = interrupt.load(Ordering::Relaxed);
        if interrupted || start.elapsed() >= limit {
            kill(&mut child);
            if interrupted {
                return Err(RestartError::Interrupted);
            }
            return Err(RestartError::TimedOut { program, limit: restart.timeout, output: output.text() });
        }
        thread::sleep(POLL);
    };
    if status.success() {
        Ok(Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    } else {
        Err(RestartError::Failed { program, status, output: output.text() })
    }
}

fn kill(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::warn!("the restart command could not be killed: {error}");
    }
}

/// The end of what a command writes. Its pipes are read to their ends by threads that nobody waits for:
/// a server that the command left running holds them open.
struct Output {
    tail: Arc<Mutex<VecDeque<u8>>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Output {
    fn of(child: &mut Child) -> Self {
        let tail = Arc::default();
        let out = child.stdout.take().map(|pipe| follow(pipe, Arc::clone(&tail)));
        let err = child.stderr.take().map(|pipe| follow(pipe, Arc::clone(&tail)));
        Self { tail, readers: out.into_iter().chain(err).collect() }
    }

    fn text(&self) -> String {
        let patience = Instant::now();
        while patience.elapsed() < LAST_OUTPUT && !self.readers.iter().all(thread::JoinHandle::is_finished) {
            thread::sleep(POLL / 4);
        }
        let bytes: Vec<u8> = self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // The mark keeps a CI runner from taking a line of it for a command of ours.
        text.trim().lines().map(|line| format!("| {}", escape::clean(line))).collect::<Vec<_>>().join("\n")
    }
}

fn follow(mut pipe: impl Read + Send + 'static, tail: Arc<Mutex<VecDeque<u8>>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = pipe.read(&mut buffer)
            && count > 0
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(buffer.get(..count).unwrap_or_default());
            let excess = tail.len().saturating_sub(KEPT_OUTPUT);
            tail.drain(..excess);
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
        run("sleep 30 & exit 0", Nanos::from_secs(20)).unwrap();
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_one_that_is_missing_is_named() {
        let error = run("echo waiting; exec sleep 30", Nanos::from_secs(1)).unwrap_err();
        assert!(matches!(&error, RestartError::TimedOut { output, .. } if output == "| waiting"), "{error}");
        let missing = Restart { command: vec!["/nowhere/restart".to_owned()], timeout: Nanos::from_secs(1) };
        let error = restart(&missing, Side::Control, "v1", &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("/nowhere/restart"), "{error}");
        let hanging = Restart { command: ["sleep", "30"].map(str::to_owned).to_vec(), timeout: Nanos::from_secs(30) };
        let error = restart(&hanging, Side::Control, "v1", &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, RestartError::Interrupted));
    }
}

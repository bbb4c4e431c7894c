//! A command and what it starts as one process group, so that it can be ended as a whole.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// After SIGTERM so much time is left before SIGKILL, and after that before nobody waits any more.
const GRACE: Duration = Duration::from_secs(2);
/// While a group ends it is looked at this often.
const POLL: Duration = Duration::from_millis(20);

/// The groups that run now, by the id of their leader.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every group that runs now: for a process that is about to end without any delay.
pub fn end_running() {
    for leader in &*running() {
        send(Pid::from_raw(*leader), Signal::SIGKILL);
    }
}

/// A running command. Dropped while it runs, its group is killed; once it has ended, what it left running is left
/// alone.
pub(super) struct Group {
    child: Child,
    leader: Pid,
    over: bool,
}

impl Group {
    /// Starts the command as the leader of a new group. A terminal's Ctrl-C does not reach it: who starts it ends it.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let leader = i32::try_from(child.id()).map_err(io::Error::other)?;
        running().insert(leader);
        Ok(Self { child, leader: Pid::from_raw(leader), over: false })
    }

    /// Its pipes, once.
    pub(super) fn pipes(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// How the command ended, once it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.leave();
        }
        Ok(status)
    }

    /// Ends the command and everything in its group: SIGTERM, and SIGKILL for what is left after a short grace.
    pub(super) fn end(&mut self) {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            send(self.leader, signal);
            if self.gone_within(GRACE) {
                break;
            }
        }
        self.leave();
    }

    /// Whether no process of the group is left before the time is up.
    fn gone_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            // A leader that nobody waits for stays in the group as a zombie.
            if let Err(error) = self.child.try_wait() {
                tracing::debug!("the restart command cannot be waited for: {error}");
            }
            if killpg(self.leader, None) == Err(Errno::ESRCH) {
                return true;
            }
            if start.elapsed() >= limit {
                return false;
            }
            thread::sleep(POLL);
        }
    }

    fn leave(&mut self) {
        self.over = true;
        running().remove(&self.leader.as_raw());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            send(self.leader, Signal::SIGKILL);
            self.leave();
        }
    }
}

fn send(leader: Pid, signal: Signal) {
    match killpg(leader, signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!("{signal} could not be sent to the restart command: {error}"),
    }
}

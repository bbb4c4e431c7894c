//! Ctrl-C and SIGTERM: the first asks the measurement to stop and keep its data, the second ends the
//! process at once. SIGXFSZ: a file that may not grow is an error of the write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::error::{CliError, Exit};
use crate::probe::group;

/// SIGXFSZ, on Linux and macOS.
const FILE_TOO_LARGE: i32 = 25;

/// The wish to stop, as seen by everything that waits.
#[derive(Clone)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Starts listening, and returns when signals are heard. The listener lives on a thread of its own until the
    /// process ends.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let interrupt = Self { flag: Arc::new(AtomicBool::new(false)), code: Arc::new(AtomicU8::new(0)) };
        let seen = interrupt.clone();
        let (ready, listening) = sync_channel::<()>(0);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || seen.watch(ready))
            .map_err(|error| CliError::failed(format!("cannot start the signal thread: {error}")))?;
        // Nothing is ever sent: the other end is dropped when the handlers are there.
        let _listening = listening.recv();
        Ok(interrupt)
    }

    /// One that nobody gives.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self { flag: Arc::new(AtomicBool::new(false)), code: Arc::new(AtomicU8::new(0)) }
    }

    /// The flag that transports and probes observe.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// How the process must end, once a signal came.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match self.code.load(Ordering::Acquire) {
            0 => None,
            143 => Some(Exit::Terminated),
            _ => Some(Exit::Interrupted),
        }
    }

    /// Listens, until the process ends; `ready` is dropped once the handlers are there, or cannot be.
    fn watch(&self, ready: SyncSender<()>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::warn!("signals are not handled: {error}");
                return;
            }
        };
        runtime.block_on(async {
            let streams = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut int), Ok(mut term)) = streams else {
                tracing::warn!("signals are not handled");
                return;
            };
            drop(ready);
            loop {
                let code = tokio::select! {
                    _ = int.recv() => Exit::Interrupted.code(),
                    _ = term.recv() => Exit::Terminated.code(),
                };
                if self.flag.swap(true, Ordering::AcqRel) {
                    hard_exit(code);
                }
                self.code.store(code, Ordering::Release);
            }
        });
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail, and say which file, where the system would
/// else kill the process. The handler stays when its stream is dropped.
pub(crate) fn survive_file_limit() {
    if cfg!(not(any(target_os = "linux", target_os = "macos"))) {
        return;
    }
    let heard = tokio::runtime::Builder::new_current_thread().enable_io().build().and_then(|runtime| {
        let _entered = runtime.enter();
        signal(SignalKind::from_raw(FILE_TOO_LARGE)).map(drop)
    });
    if let Err(error) = heard {
        tracing::debug!("a limit on the size of files ends the process: {error}");
    }
}

#[expect(clippy::exit, reason = "a second signal means: now")]
fn hard_exit(code: u8) -> ! {
    group::end_running();
    std::process::exit(i32::from(code))
}

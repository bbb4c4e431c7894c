//! The one thread that reads all connections. More of them do not help a generator that shares its host.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

/// A thread that runs a runtime's tasks until it is dropped.
pub(super) struct Worker {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(runtime: Runtime) -> io::Result<Self> {
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            // Either way the transport is gone.
            let _told_or_dropped = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("servegate-http".to_owned()).spawn(run)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts tasks of the runtime, and waits for them.
    pub(super) const fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread that reads connections panicked: {panic:?}");
        }
    }
}

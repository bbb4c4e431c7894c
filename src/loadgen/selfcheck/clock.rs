//! The clock that all processes of the host share, and a bare timer beside a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A bare timer's period.
const PERIOD: u64 = 2_000_000;

/// The present, in nanoseconds since some instant before the host's start.
pub fn monotonic() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX))
}

/// A thread that only sleeps until absolute instants: how late it is, is the host's doing and nobody's fault.
pub(super) struct BareTimer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl BareTimer {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut late, mut due) = (Vec::new(), monotonic());
            while !stopped.load(Ordering::Relaxed) {
                due += PERIOD;
                thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic())));
                let now = monotonic();
                late.push(Duration::from_nanos(now.saturating_sub(due)).as_secs_f64() * 1e6);
                // What was missed is missed.
                due = due.max(now.saturating_sub(PERIOD));
            }
            late
        });
        Self { stop, thread }
    }

    /// Its lateness, in us.
    pub(super) fn stop(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

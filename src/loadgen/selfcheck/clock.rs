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
    u64::try_from(read(ClockId::CLOCK_MONOTONIC).as_nanos()).unwrap_or(u64::MAX)
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// A thread that only sleeps until absolute instants: how late it is, is the host's doing and nobody's fault.
pub(super) struct BareTimer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ticked>,
}

/// What a bare timer leaves behind.
#[derive(Default)]
pub(super) struct Ticked {
    /// How late it was, in us.
    pub(super) late: Vec<f64>,
    /// Processor time that it took, which is not the load generator's.
    pub(super) processor: Duration,
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
            Ticked { late, processor: read(ClockId::CLOCK_THREAD_CPUTIME_ID) }
        });
        Self { stop, thread }
    }

    /// Ends it.
    pub(super) fn stop(self) -> Ticked {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

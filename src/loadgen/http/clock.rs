//! The run's clock in real time.

use std::time::{Duration, Instant};

use crate::base::units::Nanos;

/// Monotonic time since an origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The present instant.
    pub(super) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// An instant of the run for tokio's timers.
    pub(super) fn instant(self, at: Nanos) -> tokio::time::Instant {
        (self.origin + Duration::from_nanos(at.0)).into()
    }
}

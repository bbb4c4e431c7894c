//! Where arriving bytes get their instant: in the kernel, when the network stack had them.
//!
//! A stamp that is taken after the task woke up holds the waiting for a processor; on a busy host that is
//! milliseconds. The kernel's stamp (`SO_TIMESTAMPNS`) is taken when a segment arrives. It is in wall-clock time, so
//! what is used of it is its age: the wall clock and the run's clock are read together, right after the bytes were,
//! and the age is taken off the run's present. Several segments in one read carry the stamp of the last.
//!
//! The wall clock can be set while a run goes on. Then the two clocks no longer advance alike, which the reading of
//! both shows; for a while the ages are not trusted and the read's own instant is used.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::units::Nanos;
use crate::loadgen::http::clock::Clock;
use crate::loadgen::http::lag::Lag;
use crate::wire::transport::{SelfReport, StampSource};

/// The two clocks run alike within this, unless one of them was set.
const STEP: i64 = 100_000;
/// After a step no age is trusted for this long: segments that arrived before it are still to be read.
const DISTRUST: Nanos = Nanos::from_millis(500);
/// A reading of both clocks that took longer is taken again: the thread lost its processor in between.
const TOGETHER: Nanos = Nanos::from_micros(5);
/// And so many times at most.
const TRIES: u32 = 8;
/// No clock was read yet.
const UNKNOWN: i64 = i64::MIN;

/// Turns kernel stamps into instants of the run. Shared by all connections of a transport.
#[derive(Debug)]
pub(super) struct Stamper {
    clock: Clock,
    /// Wall clock minus run clock at the last read, in ns.
    offset: AtomicI64,
    /// Ages are not trusted before this instant.
    distrusted: AtomicU64,
    steps: AtomicU64,
    /// Reads that the kernel stamped, and reads that it did not.
    by_kernel: AtomicU64,
    unaided: AtomicU64,
    lag: Lag,
}

/// An instant, and whether the kernel gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) at: Nanos,
    pub(super) by_kernel: bool,
}

impl Stamper {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            offset: AtomicI64::new(UNKNOWN),
            distrusted: AtomicU64::default(),
            steps: AtomicU64::default(),
            by_kernel: AtomicU64::default(),
            unaided: AtomicU64::default(),
            lag: Lag::default(),
        }
    }

    /// The instant of bytes that were just read and that the kernel stamped with this wall-clock time, in ns since
    /// 1970.
    pub(super) fn stamp(&self, kernel: Option<i64>) -> Stamped {
        let read = || (self.clock.now(), wall_clock(), self.clock.now());
        let (now, stamped) = match together(read) {
            Ok((now, wall)) => (now, self.stamped(kernel, now, wall)),
            // Clocks that were not read together say neither an age nor that one of them was set.
            Err(now) => (now, Stamped { at: now, by_kernel: false }),
        };
        self.lag.note(now.since(stamped.at));
        let count = if stamped.by_kernel { &self.by_kernel } else { &self.unaided };
        count.fetch_add(1, Ordering::Relaxed);
        stamped
    }

    fn stamped(&self, kernel: Option<i64>, now: Nanos, wall: i64) -> Stamped {
        let unaided = Stamped { at: now, by_kernel: false };
        if self.stepped(now, wall) {
            return unaided;
        }
        match kernel.and_then(|at| u64::try_from(wall.saturating_sub(at)).ok()) {
            Some(age) if age <= now.0 => Stamped { at: now.since(Nanos(age)), by_kernel: true },
            // From the future, or from before the run: no age of these bytes.
            Some(_) | None => unaided,
        }
    }

    /// The run's present.
    pub(super) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The run's clock.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// What was noted since the last report.
    pub(super) fn report(&self) -> SelfReport {
        let [by_kernel, unaided] = [&self.by_kernel, &self.unaided].map(|count| count.swap(0, Ordering::Relaxed));
        SelfReport {
            stamps: if by_kernel >= unaided && by_kernel > 0 { StampSource::Kernel } else { StampSource::Program },
            unaided,
            read_lag_p99: self.lag.take_p99(),
            clock_steps: self.steps.swap(0, Ordering::Relaxed),
            resolved_in: None,
        }
    }

    fn stepped(&self, now: Nanos, wall: i64) -> bool {
        let offset = wall.saturating_sub(i64::try_from(now.0).unwrap_or(i64::MAX));
        let before = self.offset.swap(offset, Ordering::Relaxed);
        if before != UNKNOWN && offset.saturating_sub(before).abs() > STEP {
            self.steps.fetch_add(1, Ordering::Relaxed);
            self.distrusted.store((now + DISTRUST).0, Ordering::Relaxed);
        }
        now.0 < self.distrusted.load(Ordering::Relaxed)
    }
}

/// The two clocks, read together: the run's before and after the wall clock, until both are one instant. Where the thread
/// lost its processor in between each time, the run's present.
fn together(mut read: impl FnMut() -> (Nanos, i64, Nanos)) -> Result<(Nanos, i64), Nanos> {
    let mut last = Nanos::ZERO;
    for _ in 0..TRIES {
        let (before, wall, after) = read();
        if after.since(before) <= TOGETHER {
            return Ok((before, wall));
        }
        last = after;
    }
    Err(last)
}

/// Nanoseconds since 1970 by the clock that the kernel stamps with.
#[expect(clippy::disallowed_methods, reason = "an age needs the clock of the stamp; no instant of a record is of it")]
fn wall_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: i64 = 1_700_000_000_000_000_000;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn the_age_of_the_bytes_is_taken_off_the_present() {
        let stamper = Stamper::new(Clock::start());
        let kernel = |at| Stamped { at, by_kernel: true };
        let unaided = |at| Stamped { at, by_kernel: false };
        let at = |now: u64, wall_ms: i64, kernel_ms: i64| {
            stamper.stamped(Some(WALL + kernel_ms * 1_000_000), ms(now), WALL + wall_ms * 1_000_000)
        };
        assert_eq!(at(100, 0, -3), kernel(ms(97)));
        assert_eq!(at(110, 10, 10), kernel(ms(110)));
        assert_eq!(at(120, 20, 21), unaided(ms(120)), "a stamp from the future");
        assert_eq!(at(130, 30, -200), unaided(ms(130)), "a stamp from before the run");
        assert_eq!(stamper.stamped(None, ms(140), WALL + 40_000_000), unaided(ms(140)));
        assert_eq!(stamper.report().clock_steps, 0);
    }

    #[test]
    fn clocks_between_which_the_thread_lost_its_processor_are_read_again_and_never_taken_for_a_step() {
        let us = Nanos::from_micros;
        let reads = |slow: usize| {
            let mut n = 0;
            together(move || {
                n += 1;
                (us(100 * n), WALL, us(100 * n + if usize::try_from(n).unwrap() <= slow { 60 } else { 1 }))
            })
        };
        assert_eq!(reads(0), Ok((us(100), WALL)));
        assert_eq!(reads(5), Ok((us(600), WALL)));
        assert_eq!(reads(100), Err(us(860)), "the present, and no wall clock");
    }

    #[test]
    fn after_a_step_of_the_wall_clock_ages_are_not_trusted_for_a_while() {
        for step_ms in [-3_600_000, -2, 2, 3_600_000] {
            let stamper = Stamper::new(Clock::start());
            let at = |now: u64, step: i64| {
                let wall = WALL + (i64::try_from(now).unwrap() + step) * 1_000_000;
                stamper.stamped(Some(wall - 1_000_000), ms(now), wall).by_kernel
            };
            assert!(at(100, 0) && at(200, 0));
            assert!(!at(201, step_ms) && !at(700, step_ms), "{step_ms}");
            assert!(at(702, step_ms), "{step_ms}");
            assert_eq!(stamper.report().clock_steps, 1);
        }
    }
}

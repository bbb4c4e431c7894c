//! Sends each request at its due instant. tokio's timers tick in milliseconds, so a thread of its own
//! sleeps until shortly before the instant and spins the rest.

use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::base::units::Nanos;
use crate::loadgen::http::clock::Clock;
use crate::wire::transport::Outbound;

/// Slept up to this long before the due instant: a sleep that the kernel does not lengthen ends late by about 0.05 ms.
const SPIN: Nanos = Nanos::from_micros(60);

/// The requests that wait for their instant, and the thread that watches them.
pub(super) struct Schedule {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By due instant, then in the order of submission.
    requests: BTreeMap<(Nanos, u64), (u64, Outbound)>,
    submitted: u64,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Schedule {
    /// Starts the thread; it hands every request to `send` at its due instant.
    pub(super) fn start(clock: Clock, send: impl Fn(u64, Outbound) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), changed: Condvar::new() });
        let watched = Arc::clone(&shared);
        let thread =
            Builder::new().name("servegate-schedule".to_owned()).spawn(move || watch(&watched, clock, &send))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes a request that is not due yet; `epoch` comes back with it.
    pub(super) fn add(&self, epoch: u64, request: Outbound) {
        let mut waiting = self.shared.lock();
        waiting.submitted += 1;
        let key = (request.due, waiting.submitted);
        waiting.requests.insert(key, (epoch, request));
        self.shared.changed.notify_one();
    }

    /// Forgets every request that was not sent yet.
    pub(super) fn clear(&self) {
        self.shared.lock().requests.clear();
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the schedule thread panicked: {panic:?}");
        }
    }
}

/// Linux lets sleeps end up to 50 us late, so that it can end several at once; here each has an instant of its own.
#[cfg(target_os = "linux")]
fn sleep_exactly() {
    use nix::sys::prctl;

    if let Err(error) = prctl::set_timerslack(1) {
        tracing::debug!("the slack of timers cannot be set: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
const fn sleep_exactly() {}

fn watch(shared: &Shared, clock: Clock, send: &impl Fn(u64, Outbound)) {
    sleep_exactly();
    let mut waiting = shared.lock();
    while !waiting.closing {
        let left = waiting.requests.first_key_value().map(|((due, _), _)| due.since(clock.now()));
        waiting = match left {
            None => shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            Some(Nanos::ZERO) => {
                let request = waiting.requests.pop_first();
                drop(waiting);
                if let Some((_, (epoch, request))) = request {
                    send(epoch, request);
                }
                shared.lock()
            }
            Some(left) if left <= SPIN => {
                drop(waiting);
                spin_loop();
                shared.lock()
            }
            Some(left) => {
                let sleep = Duration::from_nanos(left.since(SPIN).0);
                let woken = shared.changed.wait_timeout(waiting, sleep);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn requests_go_in_the_order_of_their_instants_and_never_early() {
        let clock = Clock::start();
        let (sender, sent) = sync_channel(16);
        let schedule = Schedule::start(clock, move |epoch, request: Outbound| {
            sender.send((clock.now(), epoch, request.id, request.due)).unwrap();
        })
        .unwrap();
        let start = clock.now() + Nanos::from_millis(20);
        let add = |id: u64, after: u64| {
            let request = Outbound {
                id,
                due: start + Nanos::from_micros(after),
                request_id: String::new(),
                session: None,
                path: "/",
                body: Bytes::new(),
                timeout: Nanos::from_secs(1),
                stall_timeout: Nanos::from_secs(1),
            };
            schedule.add(id + 10, request);
        };
        add(9, 0);
        schedule.clear();
        for (id, after) in [(0, 3_000), (1, 100), (2, 3_000), (3, 0), (4, 90)] {
            add(id, after);
        }
        for expected in [3, 4, 1, 0, 2] {
            let (at, epoch, id, due) = sent.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!((id, epoch), (expected, expected + 10));
            assert!(at >= due);
        }
    }
}

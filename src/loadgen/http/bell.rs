//! hyper's connection and the body it fills wake each other with every frame, though one task polls both: left to the
//! runtime, each event of a stream would wake that task once more for nothing. A bell tells such a call from inside,
//! which another round answers at once, from one that comes while the task sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

/// Rounds of one poll; a runtime that wants its thread back rings in every one of them.
const ROUNDS: usize = 8;

/// The waker of everything that one task polls together.
#[derive(Debug, Default)]
pub(super) struct Bell {
    attended: AtomicBool,
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order, and against the order in `attend`: one of the two sees the other.
        self.rung.store(true, Ordering::SeqCst);
        if !self.attended.load(Ordering::SeqCst) {
            self.wake_task();
        }
    }
}

impl Bell {
    /// Polls until `event` is ready, or until both were polled and nobody has rung during the work. What `event` rings for,
    /// the work right after it does. The bell wakes `task` from then on.
    pub(super) fn attend<T>(
        &self,
        task: &Waker,
        mut event: impl FnMut() -> Poll<T>,
        mut work: impl FnMut(),
    ) -> Poll<T> {
        self.remember(task);
        for _ in 0..ROUNDS {
            self.attended.store(true, Ordering::SeqCst);
            let polled = event();
            if polled.is_pending() {
                self.rung.swap(false, Ordering::SeqCst);
                work();
            }
            self.attended.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.rung.load(Ordering::SeqCst) {
                return polled;
            }
        }
        self.wake_task();
        Poll::Pending
    }

    fn remember(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
    }

    fn wake_task(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn woken(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn bell() -> (Arc<Bell>, Waker, Arc<Task>, Waker) {
        let (bell, task) = (Arc::new(Bell::default()), Arc::new(Task::default()));
        (Arc::clone(&bell), Arc::clone(&bell).into(), Arc::clone(&task), task.into())
    }

    #[test]
    fn a_call_from_inside_is_another_round_and_wakes_nobody() {
        let (bell, inside, task, waker) = bell();
        let (events, works) = (Cell::new(0), Cell::new(0));
        let mut event = || {
            events.set(events.get() + 1);
            Poll::<()>::Pending
        };
        let polled = bell.attend(&waker, &mut event, || {
            works.set(works.get() + 1);
            if works.get() < 3 {
                inside.wake_by_ref();
            }
        });
        assert_eq!((polled, events.get(), works.get(), task.woken()), (Poll::Pending, 3, 3, 0));
        assert_eq!(bell.attend(&waker, || Poll::Ready(1), || works.set(9)), Poll::Ready(1));
        assert_eq!(works.get(), 3, "there is nothing to do any more");
    }

    #[test]
    fn what_the_event_rings_for_is_done_in_its_own_round() {
        let (bell, inside, task, waker) = bell();
        let works = Cell::new(0);
        let event = || {
            inside.wake_by_ref();
            Poll::<()>::Pending
        };
        assert!(bell.attend(&waker, event, || works.set(works.get() + 1)).is_pending());
        assert_eq!((works.get(), task.woken()), (1, 0));
    }

    #[test]
    fn a_call_while_the_task_sleeps_wakes_the_task_that_polled_last() {
        let (bell, outside, task, waker) = bell();
        let (first, last) = (Arc::new(Task::default()), task);
        assert!(bell.attend(&Arc::clone(&first).into(), || Poll::<()>::Pending, || {}).is_pending());
        assert!(bell.attend(&waker, || Poll::<()>::Pending, || {}).is_pending());
        outside.wake();
        assert_eq!((first.woken(), last.woken()), (0, 1));
    }

    #[test]
    fn who_rings_in_every_round_gets_the_thread_back_and_is_polled_again() {
        let (bell, inside, task, waker) = bell();
        let rounds = Cell::new(0);
        let polled = bell.attend(
            &waker,
            || Poll::<()>::Pending,
            || {
                rounds.set(rounds.get() + 1);
                inside.wake_by_ref();
            },
        );
        assert_eq!((polled, rounds.get(), task.woken()), (Poll::Pending, ROUNDS, 1));
    }
}

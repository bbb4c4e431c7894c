//! Bytes that may wait at once: whoever brings more waits until some are given back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An amount of bytes that is shared out.
pub(super) struct Budget {
    limit: usize,
    /// Bytes that are out.
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// Bytes of a budget; given back when it is dropped.
pub(super) struct Share<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, taken: Mutex::new(0), given_back: Condvar::new() }
    }

    /// So many bytes, if they are there. Where nothing is out any amount is: else it would wait forever.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Share<'_>> {
        self.fitting(&mut self.lock(), bytes)
    }

    /// So many bytes, as soon as they are there.
    pub(super) fn take(&self, bytes: usize) -> Share<'_> {
        let mut taken = self.lock();
        loop {
            if let Some(share) = self.fitting(&mut taken, bytes) {
                return share;
            }
            taken = self.given_back.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fitting(&self, taken: &mut usize, bytes: usize) -> Option<Share<'_>> {
        let after = taken.saturating_add(bytes);
        (*taken == 0 || after <= self.limit).then(|| {
            *taken = after;
            Share { budget: self, bytes }
        })
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut taken = self.budget.lock();
        *taken = taken.saturating_sub(self.bytes);
        self.budget.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    #[test]
    fn more_than_the_limit_waits_and_one_alone_always_fits() {
        let budget = Budget::new(10);
        let large = budget.try_take(1_000).unwrap();
        assert!(budget.try_take(1).is_none());
        drop(large);
        let shares = [budget.try_take(4).unwrap(), budget.try_take(6).unwrap()];
        assert!(budget.try_take(1).is_none());
        let (sender, got) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(|| sender.send(budget.take(5).bytes).unwrap());
            assert!(got.try_recv().is_err());
            drop(shares);
            assert_eq!(got.recv().unwrap(), 5);
        });
        assert_eq!(*budget.lock(), 0);
    }
}

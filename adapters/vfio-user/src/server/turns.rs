//! A lock that the dispatcher never waits for longer than one event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value behind a lock with two kinds of users: those who must not wait, and a worker with all the
/// time of the world. `std`'s mutex is not fair: a worker that lets go and takes again would win
/// against a waiting dispatcher, whose client waits for its reply.
#[derive(Debug)]
pub(super) struct Turns<T> {
    value: Mutex<T>,
    urgent: AtomicUsize,
}

impl<T> Turns<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), urgent: AtomicUsize::new(0) }
    }

    /// Takes the lock after at most one worker's turn.
    pub fn urgent(&self) -> MutexGuard<'_, T> {
        self.urgent.fetch_add(1, Ordering::Relaxed);
        let guard = self.lock();
        self.urgent.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Takes the lock when nobody urgent waits for it.
    pub fn patient(&self) -> MutexGuard<'_, T> {
        loop {
            let guard = self.lock();
            if self.urgent.load(Ordering::Relaxed) == 0 {
                return guard;
            }
            drop(guard);
            // Lasts as long as the system takes to wake who waits.
            while self.urgent.load(Ordering::Relaxed) != 0 {
                std::thread::yield_now();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A panic under the lock is a model's bug; registers and maps are still consistent.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_busy_worker_keeps_nobody_waiting_for_more_than_a_turn() {
        const TURN: Duration = Duration::from_millis(2);
        let (turns, stop) = (Turns::new(0u64), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut guard = turns.patient();
                    *guard += 1;
                    std::thread::sleep(TURN);
                }
            });
            let mut passed = Vec::new();
            while turns.urgent().eq(&0) {
                std::thread::yield_now();
            }
            for _ in 0..50 {
                let before = *turns.urgent();
                let began = Instant::now();
                std::thread::sleep(TURN / 2);
                let after = *turns.urgent();
                passed.push((after - before, began.elapsed()));
            }
            stop.store(true, Ordering::Relaxed);
            // Half a turn asleep and one waited for: two turns can have been begun, a third only if
            // the system did not let us run.
            let late = passed.iter().filter(|(turns, _)| *turns > 3).count();
            assert!(late <= 5, "{passed:?}");
        });
    }
}

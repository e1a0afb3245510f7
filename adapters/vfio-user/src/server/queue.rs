//! What the model asked to happen later, and what others posted to it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tombolo_sim::clock::{Clock, MonotonicClock};

/// Events that wait at most. A guest can make a model post to another device; its events must not fill
/// our memory.
const MOST: usize = 1 << 16;
/// Waits below this are spent awake: the system's timers are coarser.
const AWAKE_NS: u64 = 20_000;

/// An event whose time has come, and the reset before which it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub token: u64,
    pub epoch: u64,
}

#[derive(Debug, Default)]
struct State {
    /// When, in which order, what.
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    sequence: u64,
    /// Counts resets.
    epoch: u64,
    waiting: bool,
    stopped: bool,
}

/// Events in the order of their time, and a worker that waits for them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    clock: MonotonicClock,
    state: Mutex<State>,
    news: Condvar,
}

impl Queue {
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// False if there are too many events already; it is dropped then.
    pub fn schedule(&self, delay_ns: u64, token: u64) -> bool {
        let due = self.now_ns().saturating_add(delay_ns);
        let mut state = self.lock();
        if state.heap.len() >= MOST || state.stopped {
            return false;
        }
        state.sequence += 1;
        let entry = (due, state.sequence, token);
        state.heap.push(Reverse(entry));
        // Only who waits is woken: that is a system call.
        if std::mem::take(&mut state.waiting) {
            self.news.notify_one();
        }
        true
    }

    /// Forgets all events: the model was reset.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.heap.clear();
        state.epoch += 1;
    }

    /// Whether an event still counts.
    pub fn is_current(&self, event: Event) -> bool {
        self.lock().epoch == event.epoch
    }

    /// Waits for the next event. `None` when stopped.
    pub fn next(&self) -> Option<Event> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            let due = state.heap.peek().map(|Reverse((due, ..))| *due);
            let left = due.map(|due| due.saturating_sub(self.now_ns()));
            state = match left {
                Some(0) => {
                    let Reverse((.., token)) = state.heap.pop()?;
                    return Some(Event { token, epoch: state.epoch });
                }
                Some(left) if left < AWAKE_NS => {
                    drop(state);
                    self.stay_awake(left);
                    self.lock()
                }
                left => self.sleep(state, left.map(Duration::from_nanos)),
            };
        }
    }

    /// The next event, whether its time has come or not.
    #[cfg(any(test, fuzzing))]
    pub fn take(&self) -> Option<Event> {
        let mut state = self.lock();
        let Reverse((.., token)) = state.heap.pop()?;
        Some(Event { token, epoch: state.epoch })
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>, limit: Option<Duration>) -> MutexGuard<'a, State> {
        state.waiting = true;
        let mut state = match limit {
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => self.news.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0,
        };
        state.waiting = false;
        state
    }

    fn stay_awake(&self, ns: u64) {
        let end = self.now_ns().saturating_add(ns);
        while self.now_ns() < end {
            std::thread::yield_now();
        }
    }

    /// Ends the worker's wait for ever.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_time_and_in_the_order_in_which_they_were_asked_for() {
        let queue = Queue::default();
        queue.schedule(3_000_000, 3);
        queue.schedule(0, 1);
        queue.schedule(0, 2);
        let began = queue.now_ns();
        let tokens: Vec<_> = (0..3).map(|_| queue.next().unwrap().token).collect();
        assert_eq!(tokens, [1, 2, 3]);
        assert!(queue.now_ns() - began >= 2_900_000);
    }

    #[test]
    fn a_reset_forgets_events_and_those_on_their_way() {
        let queue = Queue::default();
        queue.schedule(0, 1);
        let taken = queue.next().unwrap();
        queue.schedule(0, 2);
        assert!(queue.is_current(taken));
        queue.clear();
        assert!(!queue.is_current(taken));
        queue.schedule(0, 3);
        assert_eq!(queue.next().unwrap().token, 3);
    }

    #[test]
    fn a_waiting_worker_hears_of_news_and_of_the_end() {
        let queue = Queue::default();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| (queue.next().map(|event| event.token), queue.next()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(queue.schedule(0, 7));
            std::thread::sleep(Duration::from_millis(20));
            queue.stop();
            assert_eq!(worker.join().unwrap(), (Some(7), None));
        });
        assert!(!queue.schedule(0, 1));
    }

    #[test]
    fn there_are_never_more_events_than_the_limit() {
        let queue = Queue::default();
        let taken = (0..MOST + 10).filter(|_| queue.schedule(u64::MAX, 0)).count();
        assert_eq!(taken, MOST);
    }
}

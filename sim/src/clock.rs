//! Where time comes from: a virtual clock for tests, the real one when a model serves a machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A source of time in nanoseconds.
pub trait Clock: Send + Sync {
    /// The present time. Never goes back.
    fn now_ns(&self) -> u64;

    /// When an access that begins now and costs `ns` ends. With a real clock that is now: the access
    /// takes the time that it takes.
    fn access_end(&self, ns: u64) -> u64;

    /// Returns when the time is at least `deadline_ns`: a virtual clock jumps, a real one sleeps.
    fn wait_until(&self, deadline_ns: u64);
}

/// Time that passes only when something makes it pass. Starts at 0.
///
/// # Examples
/// ```
/// use tombolo_sim::clock::{Clock, VirtualClock};
///
/// let clock = VirtualClock::new();
/// clock.wait_until(1_000);
/// assert_eq!((clock.now_ns(), clock.access_end(500)), (1_000, 1_500));
/// ```
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: AtomicU64,
}

impl VirtualClock {
    /// A clock at time 0.
    pub const fn new() -> Self {
        Self { now: AtomicU64::new(0) }
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn access_end(&self, ns: u64) -> u64 {
        self.now_ns().saturating_add(ns)
    }

    fn wait_until(&self, deadline_ns: u64) {
        self.now.fetch_max(deadline_ns, Ordering::Relaxed);
    }
}

/// The host's monotonic clock, counted from its creation.
#[derive(Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that reads 0 now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn access_end(&self, _ns: u64) -> u64 {
        self.now_ns()
    }

    fn wait_until(&self, deadline_ns: u64) {
        loop {
            let left = deadline_ns.saturating_sub(self.now_ns());
            if left == 0 {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_never_goes_back_or_overflows() {
        let clock = VirtualClock::new();
        clock.wait_until(100);
        clock.wait_until(50);
        assert_eq!(clock.now_ns(), 100);
        assert_eq!(clock.access_end(u64::MAX), u64::MAX);
    }

    #[test]
    fn real_time_is_waited_for_and_accesses_cost_nothing() {
        let clock = MonotonicClock::new();
        assert!(clock.access_end(u64::MAX) < u64::MAX);
        clock.wait_until(2_000_000);
        assert!(clock.now_ns() >= 2_000_000);
    }
}

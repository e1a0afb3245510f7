//! Waiting in real time.

use std::time::{Duration, Instant};

use embedded_hal::delay::DelayNs;

/// Waits below this are spent awake: the kernel's timers are coarser.
const AWAKE: Duration = Duration::from_micros(100);

/// Waits by sleeping, or awake if it is not long.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdDelay;

impl DelayNs for StdDelay {
    fn delay_ns(&mut self, ns: u32) {
        let (began, limit) = (Instant::now(), Duration::from_nanos(ns.into()));
        if limit > AWAKE {
            return std::thread::sleep(limit);
        }
        while began.elapsed() < limit {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_delay_is_shorter_than_asked_for() {
        for us in [0, 10, 99, 101, 1500] {
            let began = Instant::now();
            StdDelay.delay_us(us);
            assert!(began.elapsed() >= Duration::from_micros(us.into()), "{us}");
        }
    }
}

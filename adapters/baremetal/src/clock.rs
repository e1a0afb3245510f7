//! Time from a hardware counter.

use embedded_hal::delay::DelayNs;

/// A counter that runs at a constant rate.
pub trait Counter {
    /// Its value. Wraps at 64 bits.
    fn ticks(&self) -> u64;

    /// How many ticks a second has; not 0.
    fn hz(&self) -> u64;
}

impl<C: Counter + ?Sized> Counter for &C {
    fn ticks(&self) -> u64 {
        (**self).ticks()
    }
    fn hz(&self) -> u64 {
        (**self).hz()
    }
}

/// Waits by looking at a counter. Never shorter than asked for.
///
/// ```
/// use embedded_hal::delay::DelayNs;
/// use tombolo_baremetal::clock::{Counter, CounterDelay};
///
/// struct Host(std::time::Instant);
/// impl Counter for Host {
///     fn ticks(&self) -> u64 { self.0.elapsed().as_micros() as u64 }
///     fn hz(&self) -> u64 { 1_000_000 }
/// }
/// let host = Host(std::time::Instant::now());
/// CounterDelay(&host).delay_us(500);
/// assert!(host.ticks() >= 500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CounterDelay<C>(pub C);

impl<C: Counter> CounterDelay<C> {
    fn wait(&self, count: u32, per_second: u64) {
        let start = self.0.ticks();
        let ticks = ticks_for(count.into(), per_second, self.0.hz());
        while self.0.ticks().wrapping_sub(start) < ticks {
            core::hint::spin_loop();
        }
    }
}

impl<C: Counter> DelayNs for CounterDelay<C> {
    fn delay_ns(&mut self, ns: u32) {
        self.wait(ns, 1_000_000_000);
    }
    fn delay_us(&mut self, us: u32) {
        self.wait(us, 1_000_000);
    }
    fn delay_ms(&mut self, ms: u32) {
        self.wait(ms, 1_000);
    }
}

/// The ticks that have passed since the counter was at `start`, in microseconds.
pub fn microseconds_since(counter: &impl Counter, start: u64) -> u64 {
    let ticks = u128::from(counter.ticks().wrapping_sub(start));
    u64::try_from(ticks * 1_000_000 / u128::from(counter.hz().max(1))).unwrap_or(u64::MAX)
}

/// How many ticks at least `count` units of `1/per_second` seconds are: one more than the quotient, as the
/// first tick may be nearly over.
fn ticks_for(count: u64, per_second: u64, hz: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    let ticks = (u128::from(count) * u128::from(hz)).div_ceil(u128::from(per_second)) + 1;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// The rate of a counter that advanced by `ticks` while another of `reference_hz` advanced by
/// `reference_ticks`. `None` if one of them stood still.
pub fn rate(ticks: u64, reference_ticks: u64, reference_hz: u64) -> Option<u64> {
    let hz = (u128::from(ticks) * u128::from(reference_hz)).checked_div(u128::from(reference_ticks))?;
    u64::try_from(hz).ok().filter(|hz| *hz != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// Advances whenever it is looked at, and wraps soon.
    struct Steps(Cell<u64>, u64);

    impl Counter for Steps {
        fn ticks(&self) -> u64 {
            self.0.set(self.0.get().wrapping_add(1));
            self.0.get()
        }
        fn hz(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn waits_at_least_as_long_as_asked_for_and_across_the_wrap() {
        for (hz, ns) in [(1_000_000_000, 100), (3_000_000, 1), (62_500_000, 1_000_000), (1, 1)] {
            let counter = Steps(Cell::new(u64::MAX - 5), hz);
            CounterDelay(&counter).delay_ns(ns);
            let passed = counter.0.get().wrapping_sub(u64::MAX - 5);
            let needed = u128::from(ns) * u128::from(hz) / 1_000_000_000;
            assert!(u128::from(passed) >= needed, "{hz} {ns}");
            assert!(u128::from(passed) <= needed + 4, "{hz} {ns}: {passed}");
        }
    }

    #[test]
    fn the_longest_delays_do_not_overflow() {
        assert_eq!(ticks_for(u32::MAX.into(), 1_000, 5_000_000_000), 21_474_836_475_000_001);
        assert_eq!(ticks_for(0, 1_000, 5), 0);
        assert_eq!(ticks_for(u64::MAX, 1, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_rate_comes_from_two_counters_that_move() {
        assert_eq!(rate(23_863, 11_932, 1_193_182), Some(2_386_264));
        assert_eq!(rate(0, 5, 100), None);
        assert_eq!(rate(5, 0, 100), None);
    }

    #[test]
    fn time_since_a_tick() {
        let counter = Steps(Cell::new(999), 1_000);
        assert_eq!(microseconds_since(&counter, 0), 1_000_000);
    }
}

//! Bounded waits. No driver loops on a device without one of these.

use embedded_hal::delay::DelayNs;

/// The condition did not come true within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out after {waited_us} us")]
pub struct Timeout {
    /// How long was waited, in microseconds.
    pub waited_us: u32,
}

/// Asks `ready` until it gives a value, `interval_us` apart, for at most `limit_us`.
///
/// `ready` is asked once more after the last delay, so a condition that comes true during it counts.
///
/// # Errors
/// [`Timeout`] when the limit has passed.
///
/// ```
/// # struct NoDelay;
/// # impl embedded_hal::delay::DelayNs for NoDelay { fn delay_ns(&mut self, _: u32) {} }
/// let mut polls = 0;
/// let done = tombolo_hal::wait::poll_until(&mut NoDelay, 10, 100, || {
///     polls += 1;
///     (polls == 3).then_some(polls)
/// });
/// assert_eq!(done, Ok(3));
/// ```
pub fn poll_until<T>(
    delay: &mut impl DelayNs,
    interval_us: u32,
    limit_us: u32,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Timeout> {
    let interval_us = interval_us.max(1);
    let mut waited_us: u32 = 0;
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if waited_us >= limit_us {
            return Err(Timeout { waited_us });
        }
        let step = interval_us.min(limit_us - waited_us);
        delay.delay_us(step);
        waited_us += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counted(u32);
    impl DelayNs for Counted {
        fn delay_ns(&mut self, ns: u32) {
            self.0 += ns;
        }
    }

    #[test]
    fn waits_no_longer_than_the_limit_and_asks_once_more_at_its_end() {
        let mut delay = Counted(0);
        let mut asked = 0;
        let result = poll_until(&mut delay, 30, 100, || {
            asked += 1;
            None::<()>
        });
        assert_eq!(result, Err(Timeout { waited_us: 100 }));
        assert_eq!((delay.0, asked), (100_000, 5));
    }

    #[test]
    fn zero_limit_asks_once() {
        let mut delay = Counted(0);
        assert_eq!(poll_until(&mut delay, 0, 0, || Some(7)), Ok(7));
        assert!(poll_until(&mut delay, 0, 0, || None::<()>).is_err());
        assert_eq!(delay.0, 0);
    }
}

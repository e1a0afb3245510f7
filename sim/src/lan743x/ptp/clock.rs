//! The 1588 clock.
//!
//! Sources: AN2948 sections 9.1, 9.6 to 9.12. The clock counts in ticks of its reference, 8 ns each. A tick
//! adds 8 ns; the rate adjustment is added to the sub-nanoseconds, and each time these wrap a tick adds 7 or
//! 9 ns. All of it is integers, so no time is lost however often the clock is looked at.
//!
//! Decisions. Ticks fall on multiples of 8 ns of the model's time. A step of nanoseconds replaces the next
//! tick ("in lieu of the normal increment"), rate adjustment included. Seconds have 32 bits, in the second
//! family 48 (`PTP_LTC_RD_SEC_HI`), and wrap. Nanoseconds of a load that are a second or more are taken as
//! what they are worth. A temporary rate replaces the other one from the next tick on.

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a tick.
pub(super) const TICK: u64 = 8;

const FASTER: u32 = 1 << 31;
const RATE: u32 = 0x3fff_ffff;

/// A moment of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time {
    /// Nanoseconds since second 0.
    pub ns: u128,
    /// Units of 2^-32 ns, as the register counts them: up in both directions.
    pub sub: u32,
}

impl Time {
    pub fn new(seconds: u64, nanoseconds: u32) -> Self {
        Self { ns: u128::from(seconds) * u128::from(SECOND) + u128::from(nanoseconds), sub: 0 }
    }

    pub fn seconds(self) -> u64 {
        (self.ns / u128::from(SECOND)) as u64
    }

    pub fn nanoseconds(self) -> u32 {
        (self.ns % u128::from(SECOND)) as u32
    }
}

/// A temporary rate: what it is, and the tick at which it ends.
#[derive(Clone, Copy, Debug)]
struct Temporary {
    rate: u32,
    until: u64,
}

#[derive(Debug)]
pub(super) struct Clock {
    value: Time,
    /// The tick up to which `value` counts.
    at: u64,
    rate: u32,
    temporary: Option<Temporary>,
    runs: bool,
    /// Where the clock wraps, in nanoseconds.
    modulus: u128,
}

impl Clock {
    pub fn new(second_family: bool) -> Self {
        let bits = if second_family { 48 } else { 32 };
        let modulus = (1 << bits) * u128::from(SECOND);
        Self { value: Time::default(), at: 0, rate: 0, temporary: None, runs: false, modulus }
    }

    /// The rate in force until the tick that comes with it.
    fn rate_until(&self, from: u64, to: u64) -> (u32, u64) {
        match self.temporary {
            Some(temporary) if from < temporary.until => (temporary.rate, to.min(temporary.until)),
            _ => (self.rate, to),
        }
    }

    /// The clock at `now`, which is not before the last change.
    pub fn at(&self, now: u64) -> Time {
        let end = now / TICK;
        let mut time = self.value;
        let mut from = self.at;
        // Two rounds at most: the temporary rate and the other one.
        while self.runs && from < end {
            let (rate, to) = self.rate_until(from, end);
            time = self.run(time, rate, to - from);
            from = to;
        }
        time
    }

    fn run(&self, time: Time, rate: u32, ticks: u64) -> Time {
        let ticks = u128::from(ticks);
        let sum = u128::from(time.sub) + ticks * u128::from(rate & RATE);
        let wraps = sum >> 32;
        let plain = ticks * u128::from(TICK);
        // At most a quarter of the ticks wrap, so the difference is not negative.
        let moved = if rate & FASTER != 0 { plain + wraps } else { plain.saturating_sub(wraps) };
        Time { ns: (time.ns + moved) % self.modulus, sub: sum as u32 }
    }

    /// Brings the stored value to `now`.
    fn settle(&mut self, now: u64) {
        self.value = self.at(now);
        self.at = self.at.max(now / TICK);
        self.temporary = self.temporary.filter(|temporary| self.at < temporary.until);
    }

    pub fn start(&mut self, now: u64) {
        self.settle(now);
        if !self.runs {
            (self.runs, self.at) = (true, now / TICK);
        }
    }

    pub fn stop(&mut self, now: u64) {
        self.settle(now);
        self.runs = false;
    }

    pub fn runs(&self) -> bool {
        self.runs
    }

    pub fn load(&mut self, seconds: u64, nanoseconds: u32, sub: u32, now: u64) {
        self.settle(now);
        let ns = Time::new(seconds, nanoseconds & RATE).ns % self.modulus;
        self.value = Time { ns, sub };
        self.at = now / TICK;
    }

    pub fn rate(&self) -> u32 {
        self.rate
    }

    pub fn set_rate(&mut self, rate: u32, now: u64) {
        self.settle(now);
        self.rate = rate & (FASTER | RATE);
    }

    /// Uses `rate` for the next `ticks` ticks.
    pub fn set_temporary(&mut self, rate: u32, ticks: u32, now: u64) {
        self.settle(now);
        self.temporary = Some(Temporary { rate, until: self.at.saturating_add(ticks.into()) });
    }

    /// Adds nanoseconds in place of a tick.
    pub fn step_nanoseconds(&mut self, word: u32, now: u64) {
        self.settle(now);
        self.value.ns = (self.value.ns + u128::from(word & RATE)) % self.modulus;
        self.at = self.at.saturating_add(1);
    }

    /// Adds or subtracts up to 15 seconds.
    pub fn step_seconds(&mut self, word: u32, now: u64) {
        self.settle(now);
        let amount = u128::from(word & 0xf) * u128::from(SECOND);
        let amount = if word & FASTER != 0 { amount } else { self.modulus - amount };
        self.value.ns = (self.value.ns + amount) % self.modulus;
    }

    /// When the clock, if nobody touches it, has reached `target`: `None` if never, or after the end of
    /// time. `target` in the past is reached at `now`.
    pub fn when(&self, target: u128, now: u64) -> Option<u64> {
        if self.at(now).ns >= target {
            return Some(now);
        }
        if !self.runs {
            return None;
        }
        let start = (now / TICK).max(self.at);
        let mut ends = [u64::MAX / TICK; 2];
        if let Some(temporary) = self.temporary {
            ends[0] = temporary.until.min(ends[1]);
        }
        let mut time = self.at(now);
        let mut from = start;
        for end in ends {
            if from >= end {
                continue;
            }
            let (rate, to) = self.rate_until(from, end);
            if let Some(ticks) = ticks_to(time, rate, target).filter(|ticks| *ticks <= to - from) {
                return (from + ticks).checked_mul(TICK).map(|at| at.max(now));
            }
            time = self.run(time, rate, to - from);
            from = to;
        }
        None
    }
}

/// Ticks until the clock, at `time` with `rate`, has reached `target`.
fn ticks_to(time: Time, rate: u32, target: u128) -> Option<u64> {
    let far = u128::from(u64::MAX / TICK);
    let missing = target.saturating_sub(time.ns);
    if missing > far * 16 {
        return None;
    }
    let reached = |ticks: u128| {
        let wraps = (u128::from(time.sub) + ticks * u128::from(rate & RATE)) >> 32;
        let plain = ticks * u128::from(TICK);
        let moved = if rate & FASTER != 0 { plain + wraps } else { plain.saturating_sub(wraps) };
        moved >= missing
    };
    // A tick is 7 to 9 ns, so the answer is between these two; each round halves the distance.
    let (mut low, mut high) = (missing / 9, missing / 7 + 1);
    while low < high {
        let middle = (low + high) / 2;
        if reached(middle) { high = middle } else { low = middle + 1 }
    }
    u64::try_from(low).ok().filter(|ticks| u128::from(*ticks) <= far)
}

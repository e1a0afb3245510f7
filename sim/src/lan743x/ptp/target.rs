//! The two clock targets (timers) and their event channels.
//!
//! Sources: AN2948 sections 9.2, 9.3, 9.13 to 9.16; modes of the second family: Linux 7.3 `lan743x_main.h`
//! (`HS_PTP_GENERAL_CONFIG_*`).
//!
//! Decisions. Seconds and nanoseconds of a pair wait in the registers until both are written; a target read
//! puts what is in force there instead. A target fires once for each time that the clock equals or passes
//! it. A target that is written compares at once, so one in the past fires. After reset, before it is
//! written, a target compares nothing. Adding a reload of nothing, or reloading a target that has passed,
//! would fire for ever: it fires once, then waits for a write. Events in short succession are counted, not
//! carried out one by one: a wake each microsecond at most.

use super::clock::{Clock, SECOND, TICK};

/// Between two wakes for one target.
const PACE_NS: u64 = 1_000;
/// Pulse widths by mode of the first family; 6: toggle, 7: interrupt status.
const WIDTHS: [u64; 6] = [100, 10_000, 100_000, 1_000_000, 10_000_000, 200_000_000];
/// Of the second family; 14: toggle, 15: interrupt status.
const HS_WIDTHS: [u64; 14] = [
    100,
    500,
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
];

/// What an event does to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pulse(u64),
    Toggle,
    Interrupt,
}

/// Mode, reload instead of add, and inverted output of a channel, out of `PTP_GENERAL_CONFIG`.
pub(super) fn mode(general: u32, channel: usize, second_family: bool) -> (Mode, bool, bool) {
    let pick = |widths: &[u64], field: u32| match widths.get(field as usize) {
        Some(width) => Mode::Pulse(*width),
        None if field as usize == widths.len() => Mode::Toggle,
        None => Mode::Interrupt,
    };
    if second_family {
        let mode = pick(&HS_WIDTHS, general >> (4 + 4 * channel) & 0xf);
        // Linux sets the polarity bit for pulses that are high.
        return (mode, general >> (2 * channel) & 1 != 0, general >> (1 + 2 * channel) & 1 == 0);
    }
    (pick(&WIDTHS, general >> (1 + 4 * channel) & 7), general >> (4 * channel) & 1 != 0, false)
}

/// A pair of seconds and nanoseconds that takes effect when both are written.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    words: [u32; 2],
    written: [bool; 2],
}

impl Pair {
    fn write(&mut self, index: usize, value: u32) -> bool {
        self.words[index & 1] = if index & 1 == 0 { value } else { value & 0x3fff_ffff };
        self.written[index & 1] = true;
        let both = self.written == [true; 2];
        if both {
            self.written = [false; 2];
        }
        both
    }

    fn ns(&self) -> u128 {
        u128::from(self.words[0]) * u128::from(SECOND) + u128::from(self.words[1])
    }

    fn show(&mut self, ns: u128) {
        self.words = [(ns / u128::from(SECOND)) as u32, (ns % u128::from(SECOND)) as u32];
        self.written = [false; 2];
    }
}

#[derive(Debug, Default)]
pub(super) struct Target {
    pair: Pair,
    reload_pair: Pair,
    target: u128,
    reload: u128,
    armed: bool,
    /// When it fired last.
    fired_at: Option<u64>,
    /// Not to be asked again before.
    not_before: u64,
    level: bool,
}

impl Target {
    /// One of seconds, nanoseconds, reload seconds, reload nanoseconds.
    pub fn read(&self, index: usize) -> u32 {
        let pair = if index & 2 == 0 { &self.pair } else { &self.reload_pair };
        pair.words[index & 1]
    }

    pub fn write(&mut self, index: usize, value: u32) {
        if index & 2 != 0 {
            if self.reload_pair.write(index, value) {
                self.reload = self.reload_pair.ns();
            }
        } else if self.pair.write(index, value) {
            (self.target, self.armed) = (self.pair.ns(), true);
        }
    }

    /// Shows the target in force.
    pub fn latch(&mut self) {
        self.pair.show(self.target);
    }

    /// Lets events up to `now` happen: how many there were.
    pub fn advance(&mut self, clock: &Clock, now: u64, mode: Mode, reloads: bool) -> u64 {
        let time = clock.at(now).ns;
        if !self.armed || !clock.runs() || time < self.target {
            return 0;
        }
        let first = self.target;
        let events = self.move_on(time, reloads);
        let last = first + self.reload * u128::from(events - 1);
        // The clock tells how long ago the last event was; its rate is near enough to that of time.
        let ago = u64::try_from(time.saturating_sub(last)).unwrap_or(u64::MAX);
        self.fired_at = Some(now.saturating_sub(ago));
        self.not_before = now.saturating_add(PACE_NS);
        if mode == Mode::Toggle && events & 1 != 0 {
            self.level = !self.level;
        }
        events
    }

    fn move_on(&mut self, time: u128, reloads: bool) -> u64 {
        if reloads {
            self.target = self.reload;
            self.armed = self.target > time;
            return 1;
        }
        if self.reload == 0 {
            self.armed = false;
            return 1;
        }
        let events = u64::try_from((time - self.target) / self.reload + 1).unwrap_or(u64::MAX);
        self.target += self.reload * u128::from(events);
        events
    }

    pub fn next_event(&self, clock: &Clock, now: u64) -> Option<u64> {
        if !self.armed || !clock.runs() {
            return None;
        }
        Some(clock.when(self.target, now)?.max(self.not_before).max(now))
    }

    /// The output before its polarity. `status`: the interrupt bit.
    pub fn output(&self, now: u64, mode: Mode, status: bool) -> bool {
        match mode {
            Mode::Pulse(width) => self.fired_at.is_some_and(|at| now.saturating_sub(at) < width.max(TICK)),
            Mode::Toggle => self.level,
            Mode::Interrupt => status,
        }
    }
}

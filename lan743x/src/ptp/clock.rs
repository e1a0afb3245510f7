//! Time, rate and step.

use embedded_hal::delay::DelayNs;
use tombolo_hal::net::Timestamp;
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};

use super::Ptp;
use crate::Error;
use crate::regs::ptp::{PTP_CLOCK_RATE_ADJ, PTP_CLOCK_STEP_ADJ, PTP_CMD_CTL, PTP_NS, Ptp as Registers};
use crate::shared::SharedRef;

/// The most that the rate can be changed, in units of 2^-16 parts per million.
pub const MAX_SCALED_PPM: u64 = 2_047_999_934;
/// The most that the rate can be changed, in parts per billion.
pub const MAX_PPB: u32 = 31_249_999;

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// What a step of nanoseconds replaces.
const TICK_NS: u32 = 8;
/// Seconds that one command steps.
const STEP_SECONDS: u32 = 15;
/// The most seconds that commands step. Beyond, the clock is set.
const STEP_MOST: u64 = 16 * STEP_SECONDS as u64;

/// Between time stamp unit and wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Nanoseconds from the time stamp to the wire.
    pub tx_ns: u16,
    /// Nanoseconds from the wire to the time stamp.
    pub rx_ns: u16,
}

impl Latency {
    /// Linux's values for a speed in Mbit/s. `None` where it has none: keep what is set.
    pub const fn for_speed(speed: u32) -> Option<Latency> {
        match speed {
            10 => Some(Latency { tx_ns: 0, rx_ns: 0 }),
            100 => Some(Latency { tx_ns: 181, rx_ns: 594 }),
            1000 => Some(Latency { tx_ns: 30, rx_ns: 525 }),
            _ => None,
        }
    }
}

/// The word of the rate register.
///
/// The clock takes `value * 2^-32` ns more or less in each tick of 8 ns: a share of `value / 2^35`. One
/// scaled ppm is a share of `1 / (2^16 * 10^6)`, so `value = scaled_ppm * 2^19 / 10^6`, which is
/// `scaled_ppm * 8192 / 15625`; the rest is cut off.
pub(super) fn rate_word(scaled_ppm: i64) -> Result<u32, Error> {
    let magnitude = scaled_ppm.unsigned_abs();
    if magnitude > MAX_SCALED_PPM {
        return Err(Error::Range {
            what: "the change of the clock's rate, in 2^-16 ppm,",
            value: magnitude,
            least: 0,
            most: MAX_SCALED_PPM,
        });
    }
    // Below 2^44, and the result below 2^30.
    let value = (magnitude * 8192 / 15625) as u32;
    let dir = PTP_CLOCK_RATE_ADJ::DIR.val((scaled_ppm > 0).into());
    Ok((PTP_CLOCK_RATE_ADJ::VALUE.val(value) + dir).value)
}

/// Whether the clock can have this time.
pub(super) fn check_time(time: Timestamp) -> Result<(), Error> {
    let range = |what, value, most| Err(Error::Range { what, value, least: 0, most });
    if time.seconds > u32::MAX.into() {
        return range("the clock's seconds", time.seconds, u32::MAX.into());
    }
    if u64::from(time.nanoseconds) >= SECOND_NS {
        return range("the clock's nanoseconds", time.nanoseconds.into(), SECOND_NS - 1);
    }
    Ok(())
}

/// A time that the device gave.
pub(super) fn device_time(seconds: u32, nanoseconds: u32) -> Result<Timestamp, Error> {
    let nanoseconds = nanoseconds & PTP_NS::NS.mask;
    if u64::from(nanoseconds) >= SECOND_NS {
        return Err(Error::BadTime(nanoseconds));
    }
    Ok(Timestamp { seconds: seconds.into(), nanoseconds })
}

/// All of a clock's time in nanoseconds; it has 32 bits of seconds.
pub(super) fn to_ns(time: Timestamp) -> u64 {
    (time.seconds & u64::from(u32::MAX)) * SECOND_NS + u64::from(time.nanoseconds)
}

pub(super) fn from_ns(ns: u64) -> Timestamp {
    Timestamp { seconds: ns / SECOND_NS, nanoseconds: (ns % SECOND_NS) as u32 }
}

/// Where the clock is after a step, if it can be there.
fn stepped(now: Timestamp, nanoseconds: i64) -> Result<Timestamp, Error> {
    let (now, least) = (to_ns(now), 0);
    let most = (u64::from(u32::MAX) + 1) * SECOND_NS - 1;
    let value = nanoseconds.unsigned_abs();
    let (what, room) = if nanoseconds < 0 {
        ("the step back, in nanoseconds,", now)
    } else {
        ("the step, in nanoseconds,", most.saturating_sub(now))
    };
    if value > room {
        return Err(Error::Range { what, value, least, most: room });
    }
    Ok(from_ns(now.saturating_add_signed(nanoseconds)))
}

impl<S: SharedRef> Ptp<S> {
    /// The time.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::DeviceGone`], or [`Error::BadTime`] if it is none.
    pub fn time(&mut self, delay: &mut impl DelayNs) -> Result<Timestamp, Error> {
        self.time_between(|| (), delay).map(|(_, time, _)| time)
    }

    /// The time, between two calls of `sample`: as close around the moment of the reading as can be. For
    /// comparing it with another clock.
    ///
    /// # Errors
    /// As [`time`](Self::time).
    pub fn time_between<T>(
        &mut self,
        mut sample: impl FnMut() -> T,
        delay: &mut impl DelayNs,
    ) -> Result<(T, Timestamp, T), Error> {
        let before = sample();
        self.command(PTP_CMD_CTL::CLOCK_READ::SET, delay)?;
        let after = sample();
        let registers = &self.registers;
        // PCI11x1x has registers of their own for what was read.
        let (seconds, nanoseconds) = if self.is_pci11x1x() {
            (reg!(*registers, Registers, ltc_rd_sec_lo).get(), reg!(*registers, Registers, ltc_rd_ns).get())
        } else {
            (reg!(*registers, Registers, clock_sec).get(), reg!(*registers, Registers, clock_ns).get())
        };
        Ok((before, device_time(seconds, nanoseconds)?, after))
    }

    /// Sets the time.
    ///
    /// # Errors
    /// [`Error::Range`] for more than 32 bits of seconds or a second and more of nanoseconds;
    /// [`Error::Timeout`], [`Error::DeviceGone`].
    pub fn set_time(&mut self, time: Timestamp, delay: &mut impl DelayNs) -> Result<(), Error> {
        check_time(time)?;
        let registers = &self.registers;
        reg!(*registers, Registers, clock_sec).set(time.seconds as u32);
        reg!(*registers, Registers, clock_ns).set(time.nanoseconds);
        reg!(*registers, Registers, clock_subns).set(0);
        self.command(PTP_CMD_CTL::CLOCK_LOAD::SET, delay)
    }

    /// Changes the rate by `scaled_ppm` units of 2^-16 parts per million against the reference: Linux's
    /// `adjfine`. Positive is faster. The step of the register is 1.9 scaled ppm, or 0.03 ppb.
    ///
    /// # Errors
    /// [`Error::Range`] beyond [`MAX_SCALED_PPM`], both ways.
    pub fn adjust_frequency(&mut self, scaled_ppm: i64) -> Result<(), Error> {
        let word = rate_word(scaled_ppm)?;
        self.rate = word;
        reg!(self.registers, Registers, clock_rate_adj).set(word);
        Ok(())
    }

    /// Steps the clock by a signed number of nanoseconds.
    ///
    /// Up to 240 s both ways the device steps by itself, 15 s with a command, and loses nothing. Beyond,
    /// the clock is read and set, which loses the microseconds in between.
    ///
    /// # Errors
    /// [`Error::Range`] if it would come before 0 or behind 32 bits of seconds, and nothing was changed;
    /// [`Error::Timeout`] and [`Error::DeviceGone`], after which a part may have been done.
    pub fn step(&mut self, nanoseconds: i64, delay: &mut impl DelayNs) -> Result<(), Error> {
        let now = self.time(delay)?;
        let then = stepped(now, nanoseconds)?;
        let seconds = nanoseconds.div_euclid(SECOND_NS as i64);
        if seconds.unsigned_abs() > STEP_MOST {
            return self.set_time(then, delay);
        }
        let rest = nanoseconds.rem_euclid(SECOND_NS as i64) as u32;
        self.step_parts(seconds, rest, delay)
    }

    /// Nanoseconds can only be added, and instead of a tick, which is added too.
    fn step_parts(
        &mut self,
        mut seconds: i64,
        nanoseconds: u32,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let mut add = nanoseconds;
        if nanoseconds != 0 {
            add += TICK_NS;
        }
        if u64::from(add) >= SECOND_NS {
            seconds += 1;
            add -= SECOND_NS as u32;
        }
        let forwards = PTP_CLOCK_STEP_ADJ::DIR.val((seconds > 0).into());
        let mut left = seconds.unsigned_abs() as u32;
        while left != 0 {
            let part = left.min(STEP_SECONDS);
            reg!(self.registers, Registers, clock_step_adj)
                .write(forwards + PTP_CLOCK_STEP_ADJ::VALUE.val(part));
            self.command(PTP_CMD_CTL::CLOCK_STEP_SEC::SET, delay)?;
            left -= part;
        }
        if nanoseconds != 0 {
            let amount = PTP_CLOCK_STEP_ADJ::DIR::SET + PTP_CLOCK_STEP_ADJ::VALUE.val(add);
            reg!(self.registers, Registers, clock_step_adj).write(amount);
            self.command(PTP_CMD_CTL::CLK_STP_NSEC::SET, delay)?;
        }
        Ok(())
    }
}

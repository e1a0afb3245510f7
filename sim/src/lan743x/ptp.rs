//! The 1588 unit: clock, time stamps, timers, inputs (registers 0xa00 to 0xbff).
//!
//! Sources: AN2948 section 9 for the first family; for the second one Linux 7.3 `lan743x_main.h` and
//! `lan743x_ptp.c`. Parts: `clock`, `target` (timers), `message` (what is a PTP message), `capture`.
//!
//! How to use it. All times are the model's nanoseconds. `write` takes in `done` when a command that begins
//! now is over, `u64::MAX` if never: its bit is set until then, though its effect is at once. `next_event`
//! says when `advance` wants to be called; reads of registers let overdue events happen by themselves, and
//! the pulses of these come out of the next `advance`. After every call but `output` and `next_event` the
//! interrupt may have changed ([`Ptp::interrupt`]).
//!
//! Decisions. The clock stands while the unit is not enabled. A disable ends the unit at `done`, and then
//! `PTP_ENABLE` reads 0. A command whose bit is still set is ignored, unless it hangs for ever. Time stamps
//! are the clock when the frame's first bit is on the medium, off by what `PTP_LATENCY` differs from the
//! true delay ([`Ptp::set_line_delays`]). The high bits of one-step seconds come from the clock in the
//! second family, which has no register for them. A full FIFO sets `SWTS_ERR` for stamps that software asked
//! for, and the overflow bit of the second family for all. GPIO polarity, which lives elsewhere, is taken as
//! high where an input clears a timer's interrupt.
//!
//! The glue to the controller is in `glue`.

mod capture;
mod clock;
mod glue;
mod message;
mod registers;
mod target;
#[cfg(test)]
mod tests;

use super::alarm::Alarm;
pub(super) use capture::line_delays;
use capture::{Fifo, Inputs, Stamp, edge_bit, enable_bit};
use clock::{Clock, Time};
use message::Message;
pub(super) use registers::reg::INT_STS;
use registers::{Store, reg};
use target::Target;

/// Bits of `PTP_CMD_CTL`.
mod cmd {
    pub const RESET: u32 = 0;
    pub const DISABLE: u32 = 1;
    pub const ENABLE: u32 = 1 << 2;
    pub const READ: u32 = 3;
    pub const LOAD: u32 = 4;
    pub const STEP_SEC: u32 = 5;
    pub const STEP_NS: u32 = 6;
    pub const TEMPORARY: u32 = 7;
    pub const CAPTURE: u32 = 8;
    pub const SELECT: u32 = 0xf << 9;
    pub const TARGET_READ: u32 = 13;
    /// Those that clear by themselves.
    pub const ALL: u32 = 0x21fb;
}

/// Bits of `PTP_INT_STS`.
mod int {
    pub const TX_OVERFLOW: u32 = 1 << 14;
    pub const SWTS_ERR: u32 = 1 << 13;
    pub const TX_TS: u32 = 1 << 12;
    pub const RX_OVERFLOW: u32 = 1 << 9;
    pub const RX_TS: u32 = 1 << 8;
    pub const FIRST: u32 = 0xffff_3103;
    pub const SECOND: u32 = FIRST | TX_OVERFLOW | RX_OVERFLOW;
}

const TSU_ENABLE: u32 = 1 << 31;
/// `PTP_TX_MOD`: the egress time goes into Sync messages.
const INSERT: u32 = 1 << 28;
const CAUSE_SOFTWARE: u32 = 1 << 30;

/// What became of a sent frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// A time stamp was kept.
    pub captured: bool,
    /// The frame was changed: it has its own egress time.
    pub inserted: bool,
}

/// The time stamp of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub seconds: u32,
    pub nanoseconds: u32,
    /// It is a PTP message of a kind that `PTP_RX_TS_CFG` enables (`RX_CFG_B` bit 28; bit 29 wants all).
    pub event: bool,
}

/// What happened since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Happened {
    /// Compare events of the two timers.
    pub pulses: [u64; 2],
}

#[derive(Debug)]
pub(super) struct Ptp {
    second_family: bool,
    /// `PTP_INT_STS`.
    pub int_sts: u32,
    /// `PTP_INT_EN`.
    pub int_en: u32,
    clock: Clock,
    targets: [Target; 2],
    general: u32,
    enabled: bool,
    disable_at: Option<u64>,
    /// `PTP_CMD_CTL`: what is kept, and until when the other bits are set.
    select: u32,
    busy_until: [u64; 14],
    /// Seconds, nanoseconds, sub-nanoseconds to load; in the first family also those that were read.
    set: [u32; 3],
    /// `PTP_LTC_RD_*` of the second family: high and low seconds, nanoseconds, sub-nanoseconds.
    latched: [u32; 4],
    store: Store,
    fifo: Fifo,
    inputs: Inputs,
    ingress: Stamp,
    pulses: [u64; 2],
    line_delays: (u32, u32),
    /// For whoever calls [`Ptp::advance`]; survives a reset of the unit.
    pub alarm: Alarm,
}

impl Ptp {
    /// The unit as after power-on.
    pub fn new(second_family: bool) -> Self {
        Self {
            second_family,
            int_sts: 0,
            int_en: 0,
            clock: Clock::new(second_family),
            targets: Default::default(),
            general: if second_family { 0 } else { TSU_ENABLE },
            enabled: false,
            disable_at: None,
            select: 0,
            busy_until: [0; 14],
            set: [0; 3],
            latched: [0; 4],
            store: Store::new(second_family),
            fifo: Fifo::default(),
            inputs: Inputs::default(),
            ingress: Stamp::default(),
            pulses: [0; 2],
            line_delays: (0, 0),
            alarm: Alarm::default(),
        }
    }

    /// What really lies between the point where time stamps are taken and the medium, in nanoseconds.
    pub fn set_line_delays(&mut self, tx: u32, rx: u32) {
        self.line_delays = (tx, rx);
    }

    /// Whether the unit asks for its interrupt (a level).
    pub fn interrupt(&self) -> bool {
        self.int_sts & self.int_en != 0
    }

    pub fn is_enabled(&self, now: u64) -> bool {
        self.enabled && self.disable_at.is_none_or(|at| now < at)
    }

    /// The clock: seconds and nanoseconds.
    pub fn stamp_now(&self, now: u64) -> (u32, u32) {
        let time = self.time(now);
        (time.seconds() as u32, time.nanoseconds())
    }

    fn time(&self, now: u64) -> Time {
        self.clock.at(self.disable_at.map_or(now, |at| now.min(at)))
    }

    /// Lets everything up to `now` happen.
    fn catch_up(&mut self, now: u64) {
        if let Some(at) = self.disable_at.filter(|at| *at <= now) {
            self.run_targets(at);
            self.clock.stop(at);
            (self.enabled, self.disable_at) = (false, None);
        }
        self.run_targets(now);
    }

    fn run_targets(&mut self, now: u64) {
        for (channel, target) in self.targets.iter_mut().enumerate() {
            let (mode, reloads, _) = target::mode(self.general, channel, self.second_family);
            let events = target.advance(&self.clock, now, mode, reloads);
            if events != 0 {
                self.pulses[channel] = self.pulses[channel].saturating_add(events);
                self.int_sts |= 1 << channel;
            }
        }
    }

    /// When [`Ptp::advance`] is to be called; not before `now`.
    pub fn next_event(&self, now: u64) -> Option<u64> {
        let timers = self.targets.iter().filter_map(|target| target.next_event(&self.clock, now)).min();
        timers.filter(|at| self.disable_at.is_none_or(|end| *at <= end))
    }

    /// Lets everything up to `now` happen, and tells what has happened since the last call.
    pub fn advance(&mut self, now: u64) -> Happened {
        self.catch_up(now);
        Happened { pulses: std::mem::take(&mut self.pulses) }
    }

    /// The level of an event channel, 0 or 1, with the polarity of the second family's register.
    // The model has no wire for the pin: tests watch it.
    #[cfg_attr(not(test), allow(dead_code))]
    pub fn output(&self, channel: usize, now: u64) -> bool {
        let Some(target) = self.targets.get(channel) else { return false };
        let (mode, _, inverted) = target::mode(self.general, channel, self.second_family);
        target.output(now, mode, self.int_sts >> channel & 1 != 0) != inverted
    }

    /// An edge at an input: 0 to 7, or GPIO 0 to 11 of the first family. Whether the clock was captured.
    pub fn edge(&mut self, input: u8, rising: bool, now: u64) -> bool {
        self.catch_up(now);
        if rising && !self.second_family {
            self.clear_timer_by(input);
        }
        let Some(set) = capture::set_of(input, rising, self.general, self.second_family) else {
            return false;
        };
        let enabled = self.store.get(reg::CAP_CONFIG) & enable_bit(set, rising) != 0;
        self.is_enabled(now) && enabled && self.capture_input(set, rising, now)
    }

    /// Inputs of the first family can clear the interrupt of a timer.
    fn clear_timer_by(&mut self, input: u8) {
        for channel in 0..2 {
            let field = self.general >> (8 + 8 * channel);
            if field & 0x10 != 0 && field & 0xf == u32::from(input) {
                self.int_sts &= !(1 << channel);
            }
        }
    }

    fn capture_input(&mut self, set: u32, rising: bool, now: u64) -> bool {
        let bit = edge_bit(set, rising);
        if self.store.get(reg::CAP_CONFIG) & self.int_sts & bit != 0 {
            return false;
        }
        self.inputs.set(set, rising, self.stamp_now(now));
        self.int_sts |= bit;
        true
    }

    /// Whether frames are looked at.
    fn stamps_frames(&self, at: u64) -> bool {
        self.is_enabled(at) && (self.second_family || self.general & TSU_ENABLE != 0)
    }

    /// The clock at `at`, moved by some nanoseconds.
    fn stamp(&self, at: u64, forward: u32, back: u32) -> Time {
        let time = self.time(at);
        Time { ns: (time.ns + u128::from(forward)).saturating_sub(back.into()), ..time }
    }

    /// A frame is sent on `channel`; its first bit is on the medium at `at`. `requested`: its descriptor asks
    /// for a time stamp. `lost`: that stamp is lost (a fault). One-step insertion changes the frame.
    pub fn transmit(&mut self, at: u64, bytes: &mut [u8], requested: bool, channel: u8, lost: bool) -> Sent {
        if !self.stamps_frames(at) {
            return Sent::default();
        }
        let time = self.stamp(at, self.store.get(reg::LATENCY) >> 16, self.line_delays.0);
        let parse = self.store.get(reg::TX_PARSE);
        let config = self.store.get(reg::TX_TS_CFG);
        let message = message::find(bytes, parse >> 17 & 1 != 0);
        let user = self.store.user_mac(true);
        let wanted = message.filter(|m| m.is_wanted(bytes, parse, user) && m.fits(bytes, config));
        let inserted = wanted.is_some_and(|message| self.insert(bytes, message, time));
        let own = wanted.is_some_and(|message| message.is_enabled(config));
        let header = message.map_or(0, |message| message.header(bytes));
        let captured = !lost && (requested || own) && self.capture_sent(time, header, requested, channel);
        Sent { captured, inserted }
    }

    fn capture_sent(&mut self, time: Time, header: u32, requested: bool, channel: u8) -> bool {
        let cause = if requested { CAUSE_SOFTWARE } else { 0 };
        let (seconds, nanoseconds) = (time.seconds() as u32, time.nanoseconds() | cause);
        let kept = self.fifo.push(Stamp { seconds, nanoseconds, header, channel });
        let overflow = if self.second_family { int::TX_OVERFLOW } else { 0 };
        self.int_sts |= match (kept, requested) {
            (true, _) => int::TX_TS,
            (false, true) => int::SWTS_ERR | overflow,
            (false, false) => overflow,
        };
        kept
    }

    /// One-step: the origin time stamp of a Sync message.
    fn insert(&self, bytes: &mut [u8], message: Message, time: Time) -> bool {
        if message.kind != message::SYNC || self.store.get(reg::TX_MOD) & INSERT == 0 {
            return false;
        }
        let high = if self.second_family {
            (time.seconds() >> 32) as u16
        } else {
            self.store.get(reg::ONE_STEP_SEC) as u16
        };
        let mut stamp = [0; 10];
        stamp[..2].copy_from_slice(&high.to_be_bytes());
        stamp[2..6].copy_from_slice(&(time.seconds() as u32).to_be_bytes());
        stamp[6..].copy_from_slice(&time.nanoseconds().to_be_bytes());
        message.insert(bytes, stamp, self.store.get(reg::TX_MOD2) & 1 != 0)
    }

    /// A frame whose first bit came at `at`. `fcs_ok`: its check sequence is right. `None` while the unit
    /// does not look at frames.
    pub fn receive(&mut self, at: u64, bytes: &[u8], fcs_ok: bool) -> Option<Received> {
        if !self.stamps_frames(at) {
            return None;
        }
        let latency = self.store.get(reg::LATENCY) & 0xffff;
        let time = self.stamp(at, self.line_delays.1, latency);
        let (seconds, nanoseconds) = (time.seconds() as u32, time.nanoseconds());
        let message = self.received_message(bytes, fcs_ok);
        if let Some(message) = message {
            self.capture_received(Stamp { seconds, nanoseconds, header: message.header(bytes), channel: 0 });
        }
        Some(Received { seconds, nanoseconds, event: message.is_some() })
    }

    fn received_message(&self, bytes: &[u8], fcs_ok: bool) -> Option<Message> {
        let (parse, config) = (self.store.get(reg::RX_PARSE), self.store.get(reg::RX_TS_CFG));
        let message = message::find(bytes, parse >> 17 & 1 != 0)?;
        let good = (fcs_ok || config >> 20 & 1 != 0)
            && message.is_enabled(config)
            && message.fits(bytes, config)
            && message.is_wanted(bytes, parse, self.store.user_mac(false))
            && (config >> 21 & 1 != 0 || message.checksum_is_right(bytes));
        good.then_some(message)
    }

    /// One is kept until its interrupt is cleared.
    fn capture_received(&mut self, stamp: Stamp) {
        if self.int_sts & int::RX_TS == 0 {
            self.ingress = stamp;
            self.int_sts |= int::RX_TS;
        } else if self.second_family {
            self.int_sts |= int::RX_OVERFLOW;
        }
    }
}

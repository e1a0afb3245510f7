//! Periodic outputs: the two event channels.
//!
//! A channel compares the clock with its target. When the clock reaches it, the channel makes a pulse or
//! toggles, and adds the period to the target.

use embedded_hal::delay::DelayNs;
use tombolo_hal::net::Timestamp;
use tombolo_hal::reg;
use tombolo_hal::register::{LocalRegisterCopy, Readable, Writeable};

use super::clock::{self, SECOND_NS};
use super::{Ptp, pins};
use crate::Error;
use crate::regs::ptp::{
    HS_PTP_GENERAL_CONFIG as HS, PTP_CMD_CTL, PTP_GENERAL_CONFIG as GC, PTP_INT, Ptp as Registers, Target,
};
use crate::shared::SharedRef;

/// Event channels, and so periodic outputs.
pub const OUTPUTS: u8 = 2;
/// The least period in nanoseconds.
pub const PERIOD_MIN_NS: u64 = 200;

/// A target that the clock does not reach.
const NEVER_SECONDS: u32 = 0xffff_0000;
/// How far in the future the first pulse is at least, if its start has passed.
const LEAD_NS: u64 = 1_000_000;

/// Widths of pulses in nanoseconds; the index is the mode. LAN743x.
const WIDTHS: [u64; 6] = [100, 10_000, 100_000, 1_000_000, 10_000_000, 200_000_000];
const TOGGLE: u32 = 6;
/// The same of PCI11x1x.
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
const HS_TOGGLE: u32 = 14;

/// A signal on a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicOutput {
    /// The pin: 0 to 3 (LAN7430, shared with the LEDs), to 11 (LAN7431), to 7 (PCI11x1x).
    pub pin: u8,
    /// When it begins. If that has passed, it begins a whole number of periods later.
    pub start: Timestamp,
    /// Nanoseconds from one rising edge to the next: 200 at least, below 2^32 seconds.
    pub period_ns: u64,
    /// How long it is high, in nanoseconds: half of an even period, or one of the widths that the chip
    /// knows. LAN743x: 100 ns, 10 us, 100 us, 1 ms, 10 ms, 200 ms; PCI11x1x: 1 and 5 of each power of ten
    /// from 100 ns to 100 ms, and 200 ms. `None`: the longest of these that is half a period at most.
    pub high_ns: Option<u64>,
}

/// What a channel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    mode: u32,
    /// What is added to the target each time.
    add_ns: u64,
}

fn plan(output: &PeriodicOutput, is_pci11x1x: bool) -> Result<Plan, Error> {
    let PeriodicOutput { period_ns, high_ns, .. } = *output;
    let range = |what, value, least, most| Err(Error::Range { what, value, least, most });
    let most = u64::from(u32::MAX) * SECOND_NS + SECOND_NS - 1;
    if !(PERIOD_MIN_NS..=most).contains(&period_ns) {
        return range("the period in nanoseconds", period_ns, PERIOD_MIN_NS, most);
    }
    let (widths, toggle): (&[u64], u32) =
        if is_pci11x1x { (&HS_WIDTHS, HS_TOGGLE) } else { (&WIDTHS, TOGGLE) };
    let mode = match high_ns {
        None => widths.iter().rposition(|width| *width <= period_ns / 2),
        Some(high) if high == 0 || high >= period_ns => {
            return range("the width of a pulse in nanoseconds", high, widths[0], period_ns - 1);
        }
        Some(high) if high.checked_mul(2) == Some(period_ns) => {
            return Ok(Plan { mode: toggle, add_ns: high });
        }
        Some(high) => widths.iter().position(|width| *width == high),
    };
    match mode {
        Some(mode) => Ok(Plan { mode: mode as u32, add_ns: period_ns }),
        None => Err(Error::Unsupported("this width of a pulse")),
    }
}

/// The first begin that is not past.
fn next_start(now: Timestamp, start: Timestamp, period_ns: u64) -> Timestamp {
    let (now, start) = (clock::to_ns(now), clock::to_ns(start));
    if start > now {
        return clock::from_ns(start);
    }
    let periods = (now - start + LEAD_NS).div_ceil(period_ns.max(1));
    clock::from_ns(start.saturating_add(periods.saturating_mul(period_ns)))
}

impl<S: SharedRef> Ptp<S> {
    /// Starts a periodic output on event channel `channel`, 0 or 1. What the channel did before ends.
    ///
    /// # Errors
    /// [`Error::NoChannel`] beyond the two, [`Error::Range`], [`Error::Unsupported`] for a width that
    /// the chip does not know, [`Error::PinInUse`]; then the channel goes on with what it did.
    /// [`Error::Timeout`] and [`Error::DeviceGone`] if the clock cannot be read.
    pub fn start_output(
        &mut self,
        channel: u8,
        output: &PeriodicOutput,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let plan = self.check_output(channel, output)?;
        let start = next_start(self.time(delay)?, output.start, output.period_ns);
        clock::check_time(start)?;
        self.end_output(channel);
        self.program_output(channel, plan, start)?;
        self.pins.connect(self.shared.shared(), &self.registers, output.pin, channel);
        if let Some(slot) = self.outputs.get_mut(usize::from(channel)) {
            *slot = Some(*output);
        }
        Ok(())
    }

    /// Ends a periodic output and gives its channel and pin free.
    ///
    /// # Errors
    /// [`Error::NoChannel`].
    pub fn stop_output(&mut self, channel: u8) -> Result<(), Error> {
        check_channel(channel)?;
        self.end_output(channel);
        Ok(())
    }

    /// What an event channel does.
    pub fn output(&self, channel: u8) -> Option<PeriodicOutput> {
        self.outputs.get(usize::from(channel)).copied().flatten()
    }

    /// An event channel that does nothing.
    pub fn free_output(&self) -> Option<u8> {
        (0..OUTPUTS).find(|channel| self.output(*channel).is_none())
    }

    /// Pins that can be outputs.
    pub fn pins(&self) -> u8 {
        pins::count(self.shared.shared().identity().chip)
    }

    fn check_output(&self, channel: u8, output: &PeriodicOutput) -> Result<Plan, Error> {
        check_channel(channel)?;
        let pins = self.pins();
        if output.pin >= pins {
            let most = u64::from(pins) - 1;
            return Err(Error::Range { what: "the pin", value: output.pin.into(), least: 0, most });
        }
        let own = self.output(channel).is_some_and(|running| running.pin == output.pin);
        let input = (self.edges.0 | self.edges.1) as u16 >> output.pin & 1 != 0;
        if input || self.pins.is_used(output.pin) && !own {
            return Err(Error::PinInUse(output.pin));
        }
        clock::check_time(output.start)?;
        plan(output, self.is_pci11x1x())
    }

    fn end_output(&mut self, channel: u8) {
        let Some(output) = self.outputs.get_mut(usize::from(channel)).and_then(Option::take) else { return };
        self.pins.release(self.shared.shared(), &self.registers, output.pin);
        self.park(channel);
    }

    /// The target is never reached, and does not move if it is.
    pub(super) fn park(&self, channel: u8) {
        self.write_target(channel, NEVER_SECONDS, 0);
        self.write_mode(channel, 0, true);
        if self.is_pci11x1x() {
            let timer = if channel == 0 { PTP_INT::TIMER_A::SET } else { PTP_INT::TIMER_B::SET };
            reg!(self.registers, Registers, int_sts).clear(timer);
        }
    }

    fn program_output(&self, channel: u8, plan: Plan, start: Timestamp) -> Result<(), Error> {
        // Nothing is reached while it is changed.
        self.write_target(channel, NEVER_SECONDS, 0);
        self.write_mode(channel, plan.mode, false);
        let target = self.target(channel)?;
        let add = clock::from_ns(plan.add_ns);
        reg!(target, Target, reload_sec).set(add.seconds as u32);
        reg!(target, Target, reload_ns).set(add.nanoseconds);
        self.write_target(channel, start.seconds as u32, start.nanoseconds);
        if self.is_pci11x1x() {
            // Linux does so, and does not wait for its end, which nothing depends on.
            reg!(self.registers, Registers, cmd_ctl).write(PTP_CMD_CTL::LTC_TARGET_READ::SET);
        }
        Ok(())
    }

    fn write_target(&self, channel: u8, seconds: u32, nanoseconds: u32) {
        if let Ok(target) = self.target(channel) {
            reg!(target, Target, sec).set(seconds);
            reg!(target, Target, ns).set(nanoseconds);
        }
    }

    /// Mode of a channel, and whether its target is loaded anew rather than increased.
    fn write_mode(&self, channel: u8, mode: u32, reload: bool) {
        let (old, first) = (reg!(self.registers, Registers, general_config).get(), channel == 0);
        let reload_bit = u32::from(reload);
        let new = if self.is_pci11x1x() {
            let mut word = LocalRegisterCopy::<u32, HS::Register>::new(old);
            // A pulse is high.
            let high = u32::from(!reload);
            word.modify(if first {
                HS::CLOCK_EVENT_A.val(mode) + HS::EVENT_POL_A.val(high) + HS::RELOAD_ADD_A.val(reload_bit)
            } else {
                HS::CLOCK_EVENT_B.val(mode) + HS::EVENT_POL_B.val(high) + HS::RELOAD_ADD_B.val(reload_bit)
            });
            word.get()
        } else {
            let mut word = LocalRegisterCopy::<u32, GC::Register>::new(old);
            word.modify(if first {
                GC::CLOCK_EVENT_A.val(mode) + GC::RELOAD_ADD_A.val(reload_bit)
            } else {
                GC::CLOCK_EVENT_B.val(mode) + GC::RELOAD_ADD_B.val(reload_bit)
            });
            word.get()
        };
        reg!(self.registers, Registers, general_config).set(new);
    }

    /// After a reset.
    pub(super) fn restore_outputs(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        for channel in 0..OUTPUTS {
            let Some(output) = self.output(channel) else { continue };
            let start = next_start(self.time(delay)?, output.start, output.period_ns);
            clock::check_time(start)?;
            self.program_output(channel, plan(&output, self.is_pci11x1x())?, start)?;
            self.pins.connect(self.shared.shared(), &self.registers, output.pin, channel);
        }
        Ok(())
    }
}

fn check_channel(channel: u8) -> Result<(), Error> {
    if channel < OUTPUTS { Ok(()) } else { Err(Error::NoChannel { channel, available: OUTPUTS }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(period_ns: u64, high_ns: Option<u64>, is_pci11x1x: bool) -> Result<(u32, u64), Error> {
        let output = PeriodicOutput { pin: 0, start: Timestamp::default(), period_ns, high_ns };
        plan(&output, is_pci11x1x).map(|plan| (plan.mode, plan.add_ns))
    }

    #[test]
    fn without_a_width_the_longest_of_half_a_period_is_taken() {
        for (period, mode) in
            [(200, 0), (19_999, 0), (20_000, 1), (2_000_000, 3), (399_999_999, 4), (1 << 40, 5)]
        {
            assert_eq!(of(period, None, false), Ok((mode, period)));
        }
        for (period, mode) in [(200, 0), (999, 0), (1_000, 1), (2_000, 2), (200_000_000, 12), (SECOND_NS, 13)]
        {
            assert_eq!(of(period, None, true), Ok((mode, period)));
        }
    }

    #[test]
    fn half_a_period_toggles_and_other_widths_must_be_known() {
        assert_eq!(of(SECOND_NS, Some(SECOND_NS / 2), false), Ok((TOGGLE, SECOND_NS / 2)));
        assert_eq!(of(SECOND_NS, Some(SECOND_NS / 2), true), Ok((HS_TOGGLE, SECOND_NS / 2)));
        assert_eq!(of(SECOND_NS, Some(10_000_000), false), Ok((4, SECOND_NS)));
        assert_eq!(of(SECOND_NS, Some(50_000_000), true), Ok((11, SECOND_NS)));
        assert!(matches!(of(SECOND_NS, Some(50_000_000), false), Err(Error::Unsupported(_))));
        // An odd period has no half.
        assert!(matches!(of(201, Some(101), false), Err(Error::Unsupported(_))));
    }

    #[test]
    fn bounds_are_ranges() {
        assert!(matches!(of(199, None, false), Err(Error::Range { value: 199, least: 200, .. })));
        assert!(matches!(of(u64::MAX, None, true), Err(Error::Range { .. })));
        assert!(matches!(of(1_000, Some(1_000), false), Err(Error::Range { most: 999, .. })));
        assert!(matches!(of(1_000, Some(0), false), Err(Error::Range { .. })));
        assert!(of((1 << 32) * SECOND_NS - 1, None, false).is_ok());
        assert!(of((1 << 32) * SECOND_NS, None, false).is_err());
    }

    proptest! {
        #[test]
        fn a_start_that_has_passed_keeps_its_phase(now in 0..1_u64 << 61, start in 0..1_u64 << 61, period in 200..1_u64 << 40) {
            let next = clock::to_ns(next_start(clock::from_ns(now), clock::from_ns(start), period));
            prop_assert!(next > now);
            if start > now {
                prop_assert_eq!(next, start);
            } else {
                prop_assert_eq!((next - start) % period, 0);
                prop_assert!(next - now <= LEAD_NS + period);
            }
        }
    }
}

//! The PTP clock: time, time stamps, periodic outputs and external time stamps.
//!
//! Sources: Linux 7.3 `lan743x_ptp.c` and `lan743x_main.c` (`lan743x_rx_set_tstamp_mode`), AN2948
//! chapter 9.

mod clock;
mod inputs;
mod interrupt;
mod outputs;
mod pins;
mod requests;
mod stamps;

pub use clock::{Latency, MAX_PPB, MAX_SCALED_PPM};
pub use inputs::{Edge, INPUTS};
pub use interrupt::PtpIrq;
pub use outputs::{OUTPUTS, PERIOD_MIN_NS, PeriodicOutput};
pub use requests::StampRequests;
pub use stamps::{PtpMessage, TX_STAMPS, TxStamp};

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::net::Timestamp;
use tombolo_hal::reg;
use tombolo_hal::register::{FieldValue, ReadWriteable, Readable, Writeable};

use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::dmac::RxConfig;
use crate::regs::ptp::{
    PTP, PTP_CMD_CTL, PTP_INT, PTP_LATENCY, PTP_TS_CFG, PTP_TX_MOD, PTP_TX_MOD2, Ptp as Registers,
    TARGET_STRIDE, TARGETS, Target,
};
use crate::shared::SharedRef;
use crate::{Error, Nic, RxStamps};

/// How long a command may take. It takes some clock cycles; Linux gives it a second, in steps of 1 ms and
/// more.
const COMMAND_LIMIT_US: u32 = 50_000;

/// The PTP clock of a controller, with its outputs and inputs.
///
/// A handle of its own, so that a clock's user needs no lock of the network interface. Take it once; two
/// would mix their commands. On drop its outputs and interrupts are switched off, and the clock runs on.
///
/// LAN7430's pins share a register with resets and wake-up: outputs are not started or stopped while another
/// thread is in [`Nic::after_reset`], [`Nic::arm_wake`] or [`Nic::disarm_wake`].
#[derive(Debug)]
pub struct Ptp<S: SharedRef> {
    shared: S,
    registers: Window<S::Mmio, Registers>,
    pins: pins::Pins,
    outputs: [Option<PeriodicOutput>; OUTPUTS as usize],
    /// Inputs whose rising and falling edges are captured, a bit each.
    edges: (u8, u8),
    rate: u32,
    latency: Latency,
    one_step: bool,
    /// Time stamps that nobody asked for, or that are none.
    discarded: u64,
}

impl<S: SharedRef> Nic<S> {
    /// Takes the PTP clock: resets it, sets it to `now` and lets it run.
    ///
    /// # Errors
    /// [`Error`] if `now` has more than 32 bits of seconds, or a command does not end.
    pub fn ptp(&mut self, now: Timestamp, delay: &mut impl DelayNs) -> Result<Ptp<S>, Error> {
        let shared = self.shared_ref().clone();
        let registers = shared.shared().io.clone().layout(PTP)?;
        let mut ptp = Ptp {
            pins: pins::Pins::new(shared.shared())?,
            shared,
            registers,
            outputs: [None; OUTPUTS as usize],
            edges: (0, 0),
            rate: 0,
            latency: Latency::default(),
            one_step: false,
            discarded: 0,
        };
        ptp.program(self, now, delay)?;
        Ok(ptp)
    }

    /// Which received frames get time stamps.
    pub fn rx_stamps(&self) -> RxStamps {
        self.stamps
    }

    /// Chooses which received frames get time stamps, also for rings that are open.
    ///
    /// # Errors
    /// [`Error::Registers`] only.
    pub fn set_rx_stamps(&mut self, stamps: RxStamps) -> Result<(), Error> {
        let ptp: Window<S::Mmio, Registers> = self.shared_ref().shared().io.clone().layout(PTP)?;
        self.stamps = stamps;
        write_rx_messages(&ptp, stamps);
        let setting = self.rx_time_stamps();
        let shared = self.shared_ref().shared();
        for channel in 0..shared.identity().chip.rx_channels() {
            let registers = shared.rx_config(channel)?;
            reg!(registers, RxConfig, cfg_b).modify(setting);
        }
        Ok(())
    }
}

/// Which messages the receiver looks for. (AN2948: these bits alone of their register may be changed while
/// the unit is enabled.)
fn write_rx_messages<M: Mmio>(registers: &Window<M, Registers>, stamps: RxStamps) {
    let events = if stamps == RxStamps::Events { 0xf } else { 0 };
    reg!(*registers, Registers, rx_ts_cfg).modify(PTP_TS_CFG::EVENT_MSGS.val(events));
}

impl<S: SharedRef> Ptp<S> {
    /// Sets up the clock again after a reset of the controller or a time without power: rate, latencies,
    /// one-step mode, outputs and inputs are as they were, the time is `now`. After
    /// [`Nic::after_reset`].
    ///
    /// # Errors
    /// As [`Nic::ptp`]; this can be tried again.
    pub fn after_reset(
        &mut self,
        nic: &Nic<S>,
        now: Timestamp,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        self.program(nic, now, delay)
    }

    /// Stops outputs, inputs, interrupts and clock. [`after_reset`](Self::after_reset) starts it again.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the unit does not end its work; its interrupts are off all the same.
    pub fn close(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        self.silence();
        self.disable(delay)
    }

    fn program(&mut self, nic: &Nic<S>, now: Timestamp, delay: &mut impl DelayNs) -> Result<(), Error> {
        clock::check_time(now)?;
        reg!(self.registers, Registers, int_en_clr).set(u32::MAX);
        self.pins.reset(self.shared.shared());
        self.disable(delay)?;
        self.command(PTP_CMD_CTL::RESET::SET, delay)?;
        self.set_time(now, delay)?;
        // What must not be changed while the unit is enabled.
        reg!(self.registers, Registers, tx_mod2).modify(PTP_TX_MOD2::CLR_UDPV4_CHKSUM::SET);
        self.write_latency();
        reg!(self.registers, Registers, clock_rate_adj).set(self.rate);
        self.write_one_step();
        write_rx_messages(&self.registers, nic.rx_stamps());
        self.enable(delay)?;
        reg!(self.registers, Registers, int_en_set).write(PTP_INT::TX_TS::SET + PTP_INT::TX_SWTS_ERR::SET);
        self.restore_inputs();
        self.restore_outputs(delay)
    }

    /// Whether the clock runs.
    pub fn is_enabled(&self) -> bool {
        let ctl = reg!(self.registers, Registers, cmd_ctl).get();
        ctl != u32::MAX && ctl & PTP_CMD_CTL::ENABLE::SET.value != 0
    }

    /// Enables the unit.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it is not enabled then.
    pub fn enable(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        reg!(self.registers, Registers, cmd_ctl).write(PTP_CMD_CTL::ENABLE::SET);
        self.wait(|ctl| ctl & PTP_CMD_CTL::ENABLE::SET.value != 0, delay)
    }

    /// Disables the unit, when the frames that are on their way have gone.
    ///
    /// # Errors
    /// [`Error::Timeout`] if it is not disabled then.
    pub fn disable(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        if self.is_enabled() {
            reg!(self.registers, Registers, cmd_ctl).write(PTP_CMD_CTL::DISABLE::SET);
        }
        self.wait(|ctl| ctl & PTP_CMD_CTL::ENABLE::SET.value == 0, delay)
    }

    /// Gives a command and waits until its bit is clear again.
    fn command(
        &self,
        command: FieldValue<u32, PTP_CMD_CTL::Register>,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        reg!(self.registers, Registers, cmd_ctl).write(command);
        self.wait(|ctl| ctl & command.value == 0, delay)
    }

    fn wait(&self, done: impl Fn(u32) -> bool, delay: &mut impl DelayNs) -> Result<(), Error> {
        let read = || reg!(self.registers, Registers, cmd_ctl).get();
        wait_for(Wait::PtpCommand, delay, 5, COMMAND_LIMIT_US, read, done).map(drop)
    }

    /// Writes the time into Sync messages as they leave, or no longer. UDP over IPv4 then goes without its
    /// checksum; what becomes of that over IPv6 is not documented. A frame that asks for a time stamp still
    /// gets it.
    pub fn set_one_step(&mut self, on: bool) {
        self.one_step = on;
        self.write_one_step();
    }

    /// Whether the time is written into Sync messages.
    pub fn one_step(&self) -> bool {
        self.one_step
    }

    fn write_one_step(&self) {
        let insert = PTP_TX_MOD::SYNC_TS_INSERT.val(self.one_step.into());
        reg!(self.registers, Registers, tx_mod).modify(insert);
    }

    /// Sets what frames need between time stamp unit and wire: [`Latency::for_speed`], when the link comes
    /// up.
    ///
    /// By AN2948 the unit is to be disabled for that. It is not, as in Linux, because its clock would
    /// stand still; nothing is on its way on a link that just came.
    pub fn set_latency(&mut self, latency: Latency) {
        self.latency = latency;
        self.write_latency();
    }

    fn write_latency(&self) {
        let Latency { tx_ns, rx_ns } = self.latency;
        reg!(self.registers, Registers, latency)
            .write(PTP_LATENCY::TX.val(tx_ns.into()) + PTP_LATENCY::RX.val(rx_ns.into()));
    }

    fn is_pci11x1x(&self) -> bool {
        self.shared.shared().identity().chip.is_pci11x1x()
    }

    fn target(&self, channel: u8) -> Result<Window<S::Mmio, Target>, Error> {
        Ok(self.shared.shared().io.clone().bank(TARGETS, TARGET_STRIDE, channel.into())?)
    }

    /// Interrupts, outputs and inputs off; what was asked for is kept.
    fn silence(&mut self) {
        reg!(self.registers, Registers, int_en_clr).set(u32::MAX);
        for channel in 0..OUTPUTS {
            if self.outputs.get(usize::from(channel)).copied().flatten().is_some() {
                self.park(channel);
            }
        }
        self.write_captures((0, 0));
        self.pins.reset(self.shared.shared());
    }
}

impl<S: SharedRef> Drop for Ptp<S> {
    fn drop(&mut self) {
        self.silence();
    }
}

#[cfg(test)]
mod tests;

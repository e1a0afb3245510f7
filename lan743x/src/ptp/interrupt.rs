//! Interrupts of the PTP unit.

use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};
use tombolo_hal::sync::Ordering;

use super::Ptp;
use crate::regs::interrupts::{INT, Interrupts};
use crate::regs::ptp::{PTP_INT, Ptp as Registers};
use crate::shared::SharedRef;

/// What an interrupt of the PTP unit was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpIrq {
    /// There are time stamps of sent frames: [`Ptp::take_stamp`].
    pub tx_stamps: bool,
    /// A frame that asked for a time stamp gets none, as four were waiting.
    pub tx_lost: bool,
    /// Inputs with a rising edge, a bit each: [`Ptp::take_capture`].
    pub rising: u8,
    /// Inputs with a falling edge, a bit each: [`Ptp::take_capture`].
    pub falling: u8,
    /// The device is gone.
    pub gone: bool,
}

impl PtpIrq {
    /// Whether there is anything to be taken.
    pub const fn any(&self) -> bool {
        self.tx_stamps || self.tx_lost || self.rising != 0 || self.falling != 0
    }
}

impl<S: SharedRef> Ptp<S> {
    /// To be called when [`IrqReport::ptp`](crate::IrqReport::ptp) is set, or now and then without
    /// interrupts; not in the interrupt's handler, but where time stamps can be handed on. Tells what
    /// happened, and acknowledges what is not acknowledged by taking it.
    ///
    /// Take all of it, then call [`rearm`](Self::rearm): until then the unit does not interrupt.
    pub fn on_irq(&mut self) -> PtpIrq {
        let status = reg!(self.registers, Registers, int_sts).get();
        let enabled = reg!(self.registers, Registers, int_en_set).get();
        if status == u32::MAX && enabled == u32::MAX {
            self.shared.shared().mark_gone();
            return PtpIrq { gone: true, ..PtpIrq::default() };
        }
        let ours = status & enabled;
        // Taking them acknowledges these.
        let data = (PTP_INT::TX_TS::SET + PTP_INT::IO_RE.val(0xff) + PTP_INT::IO_FE.val(0xff)).value;
        if ours & !data != 0 {
            reg!(self.registers, Registers, int_sts).clear_bits(ours & !data);
        }
        PtpIrq {
            tx_stamps: ours & PTP_INT::TX_TS::SET.value != 0,
            tx_lost: ours & PTP_INT::TX_SWTS_ERR::SET.value != 0,
            rising: (ours >> PTP_INT::IO_RE.shift) as u8,
            falling: (ours >> PTP_INT::IO_FE.shift) as u8,
            gone: false,
        }
    }

    /// Lets the unit interrupt again. What has come in between interrupts at once.
    pub fn rearm(&self) {
        let shared = self.shared.shared();
        let ptp = INT::PTP::SET.value;
        if shared.shared_sources.load(Ordering::Acquire) & ptp != 0 {
            reg!(shared.interrupts, Interrupts, en_set).set(ptp);
        }
    }
}

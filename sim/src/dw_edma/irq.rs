//! Interrupts: local lines with status and mask, and messages that the engine itself writes.
//!
//! Sources: databook text as quoted in Linux 7.3 `include/linux/dma/edma.h` (the local mask of v0 gates
//! the line only) and `dw-hdma-v0-core.c` (native status latches only with the local enables), vendor
//! manuals for what enables what.
//!
//! | event | status latches | local line | message |
//! |---|---|---|---|
//! | v0 done | LIE or RIE | LIE and not masked | RIE |
//! | v0 abort, list mode | LLLAIE or LLRAIE | LLLAIE and not masked | LLRAIE |
//! | v0 abort, else | LIE or RIE | LIE and not masked | RIE |
//! | native stop | LSIE | LSIE and not masked | RSIE |
//! | native abort | LAIE | LAIE and not masked | RAIE |
//! | native watermark | LWIE of the element | LWIE and not masked | RWIE of the element |

use super::handle::Cause;
use super::params::{Dir, LocalIrq, Placement};
use super::regs::hdma::{self, int};
use super::regs::v0;
use super::{DwEdma, Slot};
use crate::device::Bus;

const fn message_word(low: u64) -> isize {
    ((low - hdma::MSI_STOP_LOW) / 4) as isize
}

/// Index of a native message's address among the message registers.
#[derive(Clone, Copy)]
enum NativeMessage {
    Stop = message_word(hdma::MSI_STOP_LOW),
    Watermark = message_word(hdma::MSI_WATERMARK_LOW),
    Abort = message_word(hdma::MSI_ABORT_LOW),
}

/// HDMA error code of a cause, in place. Codes of bridge errors are the model's choice.
fn native_code(cause: Cause) -> u32 {
    let code = match cause {
        Cause::ListFetch => 0x1,
        Cause::CompletionTimeout => 0x8,
        Cause::UnsupportedRequest => 0x9,
        Cause::CompleterAbort | Cause::AppRead => 0xa,
        Cause::Poisoned => 0xb,
        Cause::LinkWrite | Cause::AppWrite => 0xc,
    };
    code << int::ERROR_SHIFT
}

impl DwEdma {
    fn message(&mut self, bus: &mut dyn Bus, slot: Slot, low: u32, high: u32, data: u32) {
        let addr = u64::from(high) << 32 | u64::from(low & !3);
        self.count(slot, |c| c.messages += 1);
        // Posted: nobody tells the engine if the message went nowhere.
        if self.space.send_message(bus, addr, data).is_err() {
            self.count(slot, |c| c.lost_writes += 1);
        }
    }

    /// A finished element or transfer of v0.
    pub(super) fn v0_done(&mut self, bus: &mut dyn Bus, slot: Slot, local: bool, remote: bool) {
        let bit = self.channels[slot].bit();
        self.v0_latch(slot, bit, local, remote);
        if remote {
            let dir = &self.dirs[self.channels[slot].dir.index()];
            let (low, high) = dir.done;
            self.message(bus, slot, low, high, self.v0_message_data(slot));
        }
        self.update_lines(bus, 0);
    }

    /// An abort of v0: error, or stopped by software.
    pub(super) fn v0_abort(&mut self, bus: &mut dyn Bus, slot: Slot) {
        let channel = &self.channels[slot];
        let dir = &self.dirs[channel.dir.index()];
        let bit = channel.bit();
        let (local, remote) = if channel.list {
            let enables = dir.list_error_enable;
            (enables & bit << v0::ABORT_SHIFT != 0, enables & bit != 0)
        } else {
            let control = channel.control1;
            (control & v0::control::LIE != 0, control & v0::control::RIE != 0)
        };
        let (low, high) = dir.abort;
        self.v0_latch(slot, bit << v0::ABORT_SHIFT, local, remote);
        if remote {
            self.message(bus, slot, low, high, self.v0_message_data(slot));
        }
        self.update_lines(bus, 0);
    }

    fn v0_latch(&mut self, slot: Slot, bits: u32, local: bool, remote: bool) {
        let dir = &mut self.dirs[self.channels[slot].dir.index()];
        if local || remote {
            dir.int_status |= bits;
        }
        if local {
            dir.local_source |= bits;
        }
    }

    /// The channel's half of its data word: even channels have the low one.
    fn v0_message_data(&self, slot: Slot) -> u32 {
        let channel = &self.channels[slot];
        let words = &self.dirs[channel.dir.index()].message_data;
        let word = words.get(usize::from(channel.number / 2)).copied().unwrap_or_default();
        if channel.number & 1 == 0 { word & 0xffff } else { word >> 16 }
    }

    /// Error status of v0. A refused posted write has no bit.
    pub(super) fn v0_error(&mut self, slot: Slot, cause: Cause) {
        let channel = &self.channels[slot];
        let bit = channel.bit();
        let read = channel.dir == Dir::Read;
        let dir = &mut self.dirs[channel.dir.index()];
        let (low, high) = match cause {
            Cause::AppRead | Cause::AppWrite => (bit, 0),
            Cause::ListFetch => (bit << v0::ABORT_SHIFT, 0),
            Cause::UnsupportedRequest => (0, bit),
            Cause::CompleterAbort => (0, bit << 8),
            Cause::CompletionTimeout => (0, bit << 16),
            Cause::Poisoned => (0, bit << 24),
            Cause::LinkWrite => (0, 0),
        };
        dir.err_low |= low;
        if read {
            dir.err_high |= high;
        }
    }

    fn native_event(
        &mut self,
        bus: &mut dyn Bus,
        slot: Slot,
        bit: u32,
        (local, remote): (bool, bool),
        message: NativeMessage,
    ) {
        let native = &mut self.channels[slot].native;
        if local {
            native.int_status |= bit;
        }
        let at = message as usize;
        let (low, high, data) = (native.messages[at], native.messages[at + 1], native.data);
        if remote {
            self.message(bus, slot, low, high, data);
        }
        self.update_lines(bus, 0);
    }

    /// The channel ended: unowned element, transfer done or stopped by software.
    pub(super) fn native_stop(&mut self, bus: &mut dyn Bus, slot: Slot) {
        let setup = self.channels[slot].native.int_setup;
        let enables = (setup & int::LSIE != 0, setup & int::RSIE != 0);
        self.native_event(bus, slot, int::STOP, enables, NativeMessage::Stop);
    }

    /// An element with a watermark is done.
    pub(super) fn native_watermark(&mut self, bus: &mut dyn Bus, slot: Slot, local: bool, remote: bool) {
        let enables = (local, remote);
        self.native_event(bus, slot, int::WATERMARK, enables, NativeMessage::Watermark);
    }

    /// The channel gave up. The error code shows even if the abort bit is not enabled.
    pub(super) fn native_abort(&mut self, bus: &mut dyn Bus, slot: Slot, cause: Cause) {
        let native = &mut self.channels[slot].native;
        native.int_status = native.int_status & !int::ERROR | native_code(cause);
        let enables = (native.int_setup & int::LAIE != 0, native.int_setup & int::RAIE != 0);
        self.native_event(bus, slot, int::ABORT, enables, NativeMessage::Abort);
    }

    /// Level of a channel's local line. Emulated interrupts are on the line of the direction's
    /// first channel.
    fn line(&self, slot: Slot) -> bool {
        let channel = &self.channels[slot];
        if !self.params.format.is_v0() {
            return channel.native_line();
        }
        let dir = &self.dirs[channel.dir.index()];
        let bits = dir.int_status & dir.local_source & !dir.int_mask;
        let both = channel.bit() | channel.bit() << v0::ABORT_SHIFT;
        bits & both != 0 || (dir.emulated && channel.number == 0)
    }

    /// Brings the local lines up to date. `retrigger` has a bit for each slot that was acknowledged:
    /// if its line is still up, a level-triggered controller takes the interrupt again.
    pub(super) fn update_lines(&mut self, bus: &mut dyn Bus, retrigger: u128) {
        let Placement::Local { irq, .. } = self.params.placement else { return };
        for slot in 0..self.channels.len() {
            let level = self.line(slot);
            let before = std::mem::replace(&mut self.channels[slot].line, level);
            let again = retrigger >> slot & 1 != 0;
            if let LocalIrq::Vectors(count) = irq
                && level
                && (!before || again)
            {
                self.shared().counters.local_interrupts += 1;
                bus.raise((slot % usize::from(count.max(1))) as u16);
            }
        }
        if irq == LocalIrq::Intx {
            let level = self.channels.iter().any(|channel| channel.line);
            if level != self.intx {
                self.shared().counters.local_interrupts += u64::from(level);
                bus.set_intx(level);
            }
            self.intx = level;
        }
    }

    /// The slots of the channels whose done or abort bit is in `bits`.
    pub(super) fn acknowledged(&self, dir: Dir, bits: u32) -> u128 {
        let channels = bits | bits >> v0::ABORT_SHIFT;
        let hit =
            |channel: &super::channel::Channel| channel.dir == dir && channels & channel.bit() & 0xff != 0;
        let slots = self.channels.iter().enumerate().filter(|(_, channel)| hit(channel));
        slots.fold(0, |mask, (slot, _)| mask | 1 << slot)
    }
}

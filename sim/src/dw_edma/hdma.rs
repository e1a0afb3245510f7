//! The register file of HDMA native: a block for every channel, nothing shared.

use super::params::Dir;
use super::regs::hdma::{self as reg, int};
use super::v0::set_half;
use super::{DwEdma, Slot};
use crate::device::Bus;

impl DwEdma {
    fn native_target(&self, offset: u64) -> Option<(Slot, u64)> {
        let (number, inside) = (offset / reg::CHANNEL_STRIDE, offset % reg::CHANNEL_STRIDE);
        let dir = if inside >= reg::READ_CHANNEL { Dir::Read } else { Dir::Write };
        Some((self.slot(dir, number)?, inside % reg::READ_CHANNEL))
    }

    /// Reads a register; `None` where there is none.
    pub(super) fn native_read(&self, offset: u64) -> Option<u32> {
        let (slot, register) = self.native_target(offset)?;
        let channel = &self.channels[slot];
        let native = &channel.native;
        let value = match register {
            reg::EN => u32::from(channel.enabled),
            reg::DOORBELL | reg::INT_CLEAR => 0,
            reg::ELEM_PF => native.prefetch,
            reg::HANDSHAKE => native.handshake,
            reg::LLP_LOW => self.shown_llp(slot) as u32,
            reg::LLP_HIGH => (self.shown_llp(slot) >> 32) as u32,
            reg::CYCLE => channel.native_cycle(),
            reg::SIZE => channel.size,
            reg::SAR_LOW => channel.sar as u32,
            reg::SAR_HIGH => (channel.sar >> 32) as u32,
            reg::DAR_LOW => channel.dar as u32,
            reg::DAR_HIGH => (channel.dar >> 32) as u32,
            reg::WATERMARK_EN => native.watermark_en,
            reg::CONTROL1 => channel.control1,
            reg::FUNC_NUM => native.func_num,
            reg::QOS => native.qos,
            reg::STATUS => channel.status as u32,
            reg::INT_STATUS => native.int_status,
            reg::INT_SETUP => native.int_setup,
            reg::MSI_STOP_LOW..=reg::MSI_ABORT_HIGH => {
                native.messages[((register - reg::MSI_STOP_LOW) / 4) as usize]
            }
            reg::MSI_DATA => native.data,
            _ => return None,
        };
        Some(value)
    }

    /// Writes a register; false where there is none.
    pub(super) fn native_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let Some((slot, register)) = self.native_target(offset) else { return false };
        let channel = &mut self.channels[slot];
        let native = &mut channel.native;
        match register {
            reg::EN => self.native_enable(slot, value & 1 != 0),
            reg::DOORBELL => self.native_doorbell(bus, slot, value),
            reg::ELEM_PF => native.prefetch = value,
            reg::HANDSHAKE => native.handshake = value,
            reg::LLP_LOW | reg::LLP_HIGH => {
                set_half(&mut channel.llp, register == reg::LLP_HIGH, value);
                channel.llp_shown = channel.llp;
            }
            reg::CYCLE => {
                native.cycle_bit = value & 1 != 0;
                channel.ccs = value & 2 != 0;
            }
            reg::SIZE => channel.size = value,
            reg::SAR_LOW | reg::SAR_HIGH => {
                set_half(&mut channel.sar, register == reg::SAR_HIGH, value);
            }
            reg::DAR_LOW | reg::DAR_HIGH => {
                set_half(&mut channel.dar, register == reg::DAR_HIGH, value);
            }
            reg::WATERMARK_EN => native.watermark_en = value & 3,
            reg::CONTROL1 => channel.control1 = value,
            reg::FUNC_NUM => native.func_num = value,
            reg::QOS => native.qos = value,
            reg::STATUS | reg::INT_STATUS => {}
            reg::INT_SETUP => {
                native.int_setup = value & int::SETUP;
                self.update_lines(bus, 0);
            }
            reg::INT_CLEAR => self.native_clear(bus, slot, value & int::EVENTS),
            reg::MSI_STOP_LOW..=reg::MSI_ABORT_HIGH => {
                native.messages[((register - reg::MSI_STOP_LOW) / 4) as usize] = value;
            }
            reg::MSI_DATA => native.data = value,
            _ => return false,
        }
        true
    }

    fn native_enable(&mut self, slot: Slot, on: bool) {
        self.channels[slot].enabled = on;
        if !on {
            self.disabled(slot);
        }
    }

    fn native_doorbell(&mut self, bus: &mut dyn Bus, slot: Slot, value: u32) {
        if value & 2 != 0 {
            self.request_stop(slot);
        } else if value & 1 != 0 {
            self.start(bus, slot);
        }
    }

    fn native_clear(&mut self, bus: &mut dyn Bus, slot: Slot, bits: u32) {
        let native = &mut self.channels[slot].native;
        native.int_status &= !bits;
        if bits & int::ABORT != 0 {
            native.int_status &= !int::ERROR;
        }
        self.update_lines(bus, 1 << slot);
    }
}

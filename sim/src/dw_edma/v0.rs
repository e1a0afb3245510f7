//! The register file of eDMA v0 (legacy, unrolled) and of HDMA in compatible mode.

use super::channel::Channel;
use super::params::{Dir, Format};
use super::regs::v0::{self, Shared, channel as reg};
use super::{DwEdma, Slot};
use crate::device::Bus;

/// Registers that exist once per direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirRegs {
    pub enabled: bool,
    pub handshake: u32,
    pub arb_weight: (u32, u32),
    pub int_status: u32,
    /// Which status bits were latched with their local enable.
    pub local_source: u32,
    pub int_mask: u32,
    pub err_low: u32,
    pub err_high: u32,
    pub done: (u32, u32),
    pub abort: (u32, u32),
    pub message_data: [u32; 4],
    pub list_error_enable: u32,
    pub chgroup: u32,
    /// An emulated interrupt is up.
    pub emulated: bool,
    /// When the direction's bandwidth is free again.
    pub link_free_ns: u64,
}

/// What an offset of the register file stands for.
enum Target {
    CtrlDataArb,
    Ctrl,
    Viewport,
    Shared(Dir, Shared),
    Power(Slot),
    Group(Dir),
    Channel(Slot, u64),
    Nothing,
}

fn set_low(value: &mut u64, low: u32) {
    *value = *value & !0xffff_ffff | u64::from(low);
}

fn set_high(value: &mut u64, high: u32) {
    *value = *value & 0xffff_ffff | u64::from(high) << 32;
}

/// Writes one half of an address or list pointer register.
pub(super) fn set_half(value: &mut u64, high: bool, half: u32) {
    if high { set_high(value, half) } else { set_low(value, half) }
}

impl DwEdma {
    fn v0_target(&self, offset: u64) -> Target {
        match offset {
            v0::CTRL_DATA_ARB_PRIOR => return Target::CtrlDataArb,
            v0::CTRL => return Target::Ctrl,
            _ => {}
        }
        if let Some((read, register)) = Shared::at(offset) {
            return Target::Shared(if read { Dir::Read } else { Dir::Write }, register);
        }
        let found = match self.params.format {
            Format::Legacy => self.legacy_target(offset),
            _ => self.unrolled_target(offset),
        };
        found.unwrap_or(Target::Nothing)
    }

    fn legacy_target(&self, offset: u64) -> Option<Target> {
        if offset == v0::VIEWPORT_SEL {
            return Some(Target::Viewport);
        }
        let register = offset.checked_sub(v0::LEGACY_CHANNEL)?;
        let dir = if self.viewport & 1 << 31 != 0 { Dir::Read } else { Dir::Write };
        let slot = self.slot(dir, u64::from(self.viewport & 7))?;
        (register < v0::CHANNEL_SIZE).then_some(Target::Channel(slot, register))
    }

    fn unrolled_target(&self, offset: u64) -> Option<Target> {
        match offset {
            v0::CHGROUP_WR => return Some(Target::Group(Dir::Write)),
            v0::CHGROUP_RD => return Some(Target::Group(Dir::Read)),
            _ => {}
        }
        for (dir, base) in [(Dir::Write, v0::WR_PWR_EN), (Dir::Read, v0::RD_PWR_EN)] {
            if (base..base + 32).contains(&offset) {
                return self.slot(dir, (offset - base) / 4).map(Target::Power);
            }
        }
        let inside = offset.checked_sub(v0::CHANNELS)?;
        let (number, inside) = (inside / v0::CHANNEL_STRIDE, inside % v0::CHANNEL_STRIDE);
        let dir = if inside >= v0::READ_CHANNEL { Dir::Read } else { Dir::Write };
        let register = inside % v0::READ_CHANNEL;
        let slot = self.slot(dir, number)?;
        (register < v0::CHANNEL_SIZE).then_some(Target::Channel(slot, register))
    }

    /// Reads a register; `None` where there is none.
    pub(super) fn v0_read(&mut self, offset: u64) -> Option<u32> {
        let value = match self.v0_target(offset) {
            Target::CtrlDataArb => self.arb_prior,
            Target::Ctrl => {
                u32::from(self.params.write_channels) | u32::from(self.params.read_channels) << 16
            }
            Target::Viewport => self.viewport,
            Target::Shared(dir, register) => self.shared_read(dir, register),
            Target::Power(slot) => u32::from(self.channels[slot].enabled),
            Target::Group(dir) => self.dirs[dir.index()].chgroup,
            Target::Channel(slot, register) => self.v0_channel_read(slot, register),
            Target::Nothing => return None,
        };
        Some(value)
    }

    /// Writes a register; false where there is none.
    pub(super) fn v0_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        match self.v0_target(offset) {
            Target::CtrlDataArb => self.arb_prior = value,
            Target::Ctrl => {}
            Target::Viewport => self.viewport = value & (1 << 31 | 7),
            Target::Shared(dir, register) => self.shared_write(bus, dir, register, value),
            Target::Power(slot) => self.power_write(slot, value & 1 != 0),
            Target::Group(dir) => self.dirs[dir.index()].chgroup = value,
            Target::Channel(slot, register) => {
                v0_channel_write(&mut self.channels[slot], register, value);
            }
            Target::Nothing => return false,
        }
        true
    }

    fn has_engine_enable(&self) -> bool {
        self.params.format != Format::HdmaCompatible
    }

    /// The power enable matters in the compatible format only; elsewhere it is storage.
    fn power_write(&mut self, slot: Slot, on: bool) {
        self.channels[slot].enabled = on;
        if !on && self.params.format == Format::HdmaCompatible {
            self.disabled(slot);
        }
    }

    /// The engine of a direction reads as enabled until its channels have drained.
    fn engine_reads_enabled(&self, dir: Dir) -> bool {
        let draining = |channel: &Channel| channel.dir == dir && channel.is_running();
        self.dirs[dir.index()].enabled || self.channels.iter().any(draining)
    }

    fn shared_read(&self, dir: Dir, register: Shared) -> u32 {
        let regs = &self.dirs[dir.index()];
        match register {
            Shared::EngineEnable if !self.has_engine_enable() => 0,
            Shared::EngineEnable => regs.handshake | u32::from(self.engine_reads_enabled(dir)),
            Shared::Doorbell | Shared::IntClear => 0,
            Shared::ArbWeightLow => regs.arb_weight.0,
            Shared::ArbWeightHigh => regs.arb_weight.1,
            Shared::IntStatus => regs.int_status,
            Shared::IntMask => regs.int_mask,
            Shared::ErrStatusLow => regs.err_low,
            Shared::ErrStatusHigh => regs.err_high,
            Shared::DoneLow => regs.done.0,
            Shared::DoneHigh => regs.done.1,
            Shared::AbortLow => regs.abort.0,
            Shared::AbortHigh => regs.abort.1,
            Shared::MessageData(index) => regs.message_data[index & 3],
            Shared::ListErrorEnable => regs.list_error_enable,
        }
    }

    fn shared_write(&mut self, bus: &mut dyn Bus, dir: Dir, register: Shared, value: u32) {
        let regs = &mut self.dirs[dir.index()];
        match register {
            Shared::EngineEnable => self.engine_enable_write(dir, value),
            Shared::Doorbell => self.v0_doorbell(bus, dir, value),
            Shared::ArbWeightLow => regs.arb_weight.0 = value,
            Shared::ArbWeightHigh => regs.arb_weight.1 = value,
            Shared::IntStatus => self.emulate(bus, dir),
            Shared::IntMask => {
                regs.int_mask = value & v0::INT_BITS;
                self.update_lines(bus, 0);
            }
            Shared::IntClear => self.int_clear(bus, dir, value & v0::INT_BITS),
            Shared::ErrStatusLow | Shared::ErrStatusHigh => {}
            Shared::DoneLow => regs.done.0 = value,
            Shared::DoneHigh => regs.done.1 = value,
            Shared::AbortLow => regs.abort.0 = value,
            Shared::AbortHigh => regs.abort.1 = value,
            Shared::MessageData(index) => regs.message_data[index & 3] = value,
            Shared::ListErrorEnable => regs.list_error_enable = value & v0::INT_BITS,
        }
    }

    fn engine_enable_write(&mut self, dir: Dir, value: u32) {
        if !self.has_engine_enable() {
            return;
        }
        let regs = &mut self.dirs[dir.index()];
        regs.handshake = value & v0::ENGINE_HANDSHAKE;
        regs.enabled = value & v0::ENGINE_EN != 0;
        if regs.enabled {
            return;
        }
        for slot in 0..self.channels.len() {
            if self.channels[slot].dir == dir {
                self.disabled(slot);
            }
        }
    }

    fn v0_doorbell(&mut self, bus: &mut dyn Bus, dir: Dir, value: u32) {
        let Some(slot) = self.slot(dir, u64::from(value & v0::DOORBELL_CHANNEL)) else { return };
        if value & v0::DOORBELL_STOP != 0 {
            self.request_stop(slot);
        } else {
            self.start(bus, slot);
        }
    }

    /// A write to the status register: an interrupt without a status bit, for tests of software and
    /// as a doorbell from outside. Any value does.
    fn emulate(&mut self, bus: &mut dyn Bus, dir: Dir) {
        self.shared().counters.emulated_interrupts += 1;
        self.dirs[dir.index()].emulated = true;
        self.update_lines(bus, 0);
    }

    /// Clears status bits; clearing an abort clears the channel's error status too. Any write, also
    /// of zero, ends an emulated interrupt.
    fn int_clear(&mut self, bus: &mut dyn Bus, dir: Dir, bits: u32) {
        let regs = &mut self.dirs[dir.index()];
        regs.emulated = false;
        regs.int_status &= !bits;
        regs.local_source &= !bits;
        let aborts = bits >> v0::ABORT_SHIFT;
        regs.err_low &= !(aborts | aborts << v0::ABORT_SHIFT);
        regs.err_high &= !(aborts | aborts << 8 | aborts << 16 | aborts << 24);
        let retrigger = self.acknowledged(dir, bits);
        self.update_lines(bus, retrigger);
    }

    fn v0_channel_read(&self, slot: Slot, register: u64) -> u32 {
        let channel = &self.channels[slot];
        match register {
            reg::CONTROL1 => channel.v0_control1(),
            reg::CONTROL2 => channel.control2,
            reg::SIZE => channel.size,
            reg::SAR_LOW => channel.sar as u32,
            reg::SAR_HIGH => (channel.sar >> 32) as u32,
            reg::DAR_LOW => channel.dar as u32,
            reg::DAR_HIGH => (channel.dar >> 32) as u32,
            reg::LLP_LOW => self.shown_llp(slot) as u32,
            _ => (self.shown_llp(slot) >> 32) as u32,
        }
    }
}

fn v0_channel_write(channel: &mut Channel, register: u64, value: u32) {
    match register {
        reg::CONTROL1 => channel.set_v0_control1(value),
        reg::CONTROL2 => channel.control2 = value,
        reg::SIZE => channel.size = value,
        reg::SAR_LOW | reg::SAR_HIGH => {
            set_half(&mut channel.sar, register == reg::SAR_HIGH, value);
        }
        reg::DAR_LOW | reg::DAR_HIGH => {
            set_half(&mut channel.dar, register == reg::DAR_HIGH, value);
        }
        _ => set_half(&mut channel.llp, register == reg::LLP_HIGH, value),
    }
}

//! The PCI function: config space, dispatch of accesses and events.

use super::alarm::Ev;
use super::handle::Block;
use super::regs::{dmac, fct, int, mac, pcs, rfe, sys};
use super::{Chip, Lan743x};
use crate::config::{Bar, ConfigSpaceBuilder, Msi, Msix};
use crate::device::{Bus, Device, Width};

const VENDOR: u16 = 0x1055;
/// BAR of the MSI-X table. Its true place is not public; Linux asks config space.
const MSIX_BAR: u8 = 2;
const MSIX_BAR_BYTES: u64 = 0x2000;
const MSIX_PBA: u32 = 0x1000;

impl Device for Lan743x {
    fn name(&self) -> &str {
        match self.params.chip {
            Chip::Lan7430 => "lan7430",
            Chip::Lan7431 => "lan7431",
            Chip::Lan743f => "lan743f",
            Chip::Pci11010 => "pci11010",
            Chip::Pci11414 => "pci11414",
        }
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        let params = &self.params;
        config
            .identity(VENDOR, params.chip.device_id())
            .class(0x02_0000)
            .revision(params.id_rev() as u8)
            .pcie(true)
            .power_management()
            .interrupt_pin(1)
            .bar(Bar::bits32(0, params.chip.register_bytes()));
        if params.msix_vectors != 0 {
            config.bar(Bar::bits32(MSIX_BAR, MSIX_BAR_BYTES));
            config.msix(Msix {
                vectors: params.msix_vectors,
                table_bar: MSIX_BAR,
                table_offset: 0,
                pba_bar: MSIX_BAR,
                pba_offset: MSIX_PBA,
            });
        }
        if params.msi_vectors != 0 {
            config.msi(Msi { vectors: params.msi_vectors, per_vector_mask: false });
        }
    }

    fn reset(&mut self) {
        self.nvm.reset();
        self.mii.reset();
        self.lite_reset();
    }

    fn read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width) -> u64 {
        if bar != 0 || width != Width::W32 {
            self.counters().bad_accesses += 1;
            return u64::MAX >> (64 - 8 * width.bytes());
        }
        if let Some(count) = self.counters().register_reads.get_mut(Block::at(offset) as usize) {
            *count += 1;
        }
        self.take_edges(bus);
        let value = self.register_read(bus, offset);
        if value.is_none() {
            self.counters().reserved_accesses += 1;
        }
        value.unwrap_or(0).into()
    }

    fn write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width, value: u64) {
        if bar != 0 || width != Width::W32 {
            self.counters().bad_accesses += 1;
            return;
        }
        if let Some(count) = self.counters().register_writes.get_mut(Block::at(offset) as usize) {
            *count += 1;
        }
        self.take_edges(bus);
        if !self.register_write(bus, offset, value as u32) {
            self.counters().reserved_accesses += 1;
        }
    }

    fn event(&mut self, bus: &mut dyn Bus, token: u64) {
        match Ev::from_token(token, self.epoch) {
            Ev::Wire => self.wire_event(bus),
            Ev::Tx(channel) => self.tx_event(bus, channel),
            Ev::Rx(channel) => self.rx_event(bus, channel),
            Ev::Moderation(timer) => self.moderation_end(bus, timer),
            Ev::Timer(timer) => self.ptp_timer_event(bus, timer),
            Ev::Pause => self.pause_event(bus),
            Ev::Gpt | Ev::DataPort | Ev::Mac => {}
        }
    }
}

impl Lan743x {
    fn register_read(&mut self, bus: &mut dyn Bus, offset: u64) -> Option<u32> {
        let now = bus.now_ns();
        match offset {
            0x040..=0x047 | 0x1000..=0x11ff | 0x4000..=0x5fff => {
                self.nvm_read(now, offset).or_else(|| self.plain.read(offset))
            }
            fct::INT_STS..=0x0ff => self.fct_read(now, offset),
            mac::CR..=0x14f | 0x600..=0x60f => self.mac_read(now, offset),
            rfe::CTL => Some(self.rfe_ctl),
            pcs::ACC..=0x727 => self.pcs_read(now, offset),
            int::STS..=0x7ff => self.irq_read(bus, offset),
            0xa00..=0xbff => self.ptp_read(now, offset),
            dmac::CFG..=0xfff => self.dmac_read(bus, offset),
            0x1200..=0x12ff => self.stats_read(offset),
            0x000..=0x09f => self.system_read(now, offset),
            _ => self.plain.read(offset),
        }
    }

    fn register_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        match offset {
            0x040..=0x047 | 0x1000..=0x11ff | 0x4000..=0x5fff => {
                self.nvm_write(now, offset, value) || self.plain.write(offset, value)
            }
            fct::INT_STS..=0x0ff => self.fct_write(bus, offset, value),
            mac::CR..=0x14f | 0x600..=0x60f => self.mac_write(bus, offset, value),
            rfe::CTL => {
                self.rfe_ctl = value & rfe::CTL_WRITABLE;
                true
            }
            pcs::ACC..=0x727 => self.pcs_write(now, offset, value),
            int::STS..=0x7ff => self.irq_write(bus, offset, value),
            0xa00..=0xbff => self.ptp_write(bus, offset, value),
            dmac::CFG..=0xfff => self.dmac_write(bus, offset, value),
            0x1200..=0x12ff => self.stats_write(offset, value),
            sys::ID_REV..=0x09f => self.system_write(bus, offset, value),
            _ => self.plain.write(offset, value),
        }
    }
}

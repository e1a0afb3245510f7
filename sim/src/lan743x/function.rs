//! The PCI function: config space, dispatch of accesses and events.

use super::alarm::Ev;
use super::handle::Block;
use super::media::Media;
use super::regs::{dmac, fct, int, mac, rfe, sys};
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
        self.media = Media::new(&self.params);
        self.lite_reset();
        self.load_mac_address();
    }

    fn read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width) -> u64 {
        if bar != 0 || width != Width::W32 {
            self.counters().bad_accesses += 1;
            return u64::MAX >> (64 - 8 * width.bytes());
        }
        if let Some(count) = self.counters().register_reads.get_mut(Block::at(offset) as usize) {
            *count += 1;
        }
        self.arrive(bus);
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
        if !self.is_late(bus, offset, value as u32) {
            self.carry_out(bus, offset, value as u32);
        }
    }

    fn event(&mut self, bus: &mut dyn Bus, token: u64) {
        match Ev::from_token(token, self.epoch) {
            Ev::Wire => self.wire_event(bus),
            Ev::Tx(channel) => self.tx_event(bus, channel),
            Ev::Rx(channel) => self.rx_event(bus, channel),
            Ev::Moderation(timer) => self.moderation_end(bus, timer),
            Ev::Ptp => self.ptp_timer_event(bus),
            Ev::Pause => self.pause_event(bus),
            Ev::Gpt => self.gpt_event(bus),
            Ev::Phy => self.phy_event(bus),
            Ev::Due => self.due_event(bus),
        }
    }
}

impl Lan743x {
    /// A write that has arrived.
    pub(super) fn carry_out(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) {
        self.take_edges(bus);
        if !self.register_write(bus, offset, value) {
            self.counters().reserved_accesses += 1;
        }
    }

    fn register_read(&mut self, bus: &mut dyn Bus, offset: u64) -> Option<u32> {
        let now = bus.now_ns();
        match Unit::of(offset) {
            Unit::Nvm => self.nvm_read(now, offset).or_else(|| self.plain.read(offset)),
            Unit::Power => self.power_read(now, offset),
            Unit::Fifo => self.fct_read(now, offset),
            Unit::Mac => self.mac_read(now, offset),
            Unit::FilterControl => Some(self.rfe_ctl),
            Unit::Pcs => self.pcs_read(now, offset),
            Unit::Interrupts => self.irq_read(bus, offset),
            Unit::Ptp => self.ptp_read(now, offset),
            Unit::Dma => self.dmac_read(bus, offset),
            Unit::Statistics => self.stats_read(offset),
            Unit::System => self.system_read(now, offset),
            Unit::Plain => self.plain.read(offset),
        }
    }

    /// False: there is no such register.
    fn register_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        match Unit::of(offset) {
            Unit::Nvm => self.nvm_write(now, offset, value) || self.plain.write(offset, value),
            Unit::Power => self.power_write(bus, offset, value),
            Unit::Fifo => self.fct_write(bus, offset, value),
            Unit::Mac => self.mac_write(bus, offset, value),
            Unit::FilterControl => {
                self.rfe_ctl = value & rfe::CTL_WRITABLE;
                true
            }
            Unit::Pcs => self.pcs_write(now, offset, value),
            Unit::Interrupts => self.irq_write(bus, offset, value),
            Unit::Ptp => self.ptp_write(bus, offset, value),
            Unit::Dma => self.dmac_write(bus, offset, value),
            Unit::Statistics => self.stats_write(offset, value),
            Unit::System => self.system_write(bus, offset, value),
            Unit::Plain => self.plain.write(offset, value),
        }
    }
}

/// Whose register it is.
enum Unit {
    System,
    Nvm,
    Power,
    Fifo,
    Mac,
    FilterControl,
    Pcs,
    Interrupts,
    Ptp,
    Dma,
    Statistics,
    /// Nobody's but storage, or none.
    Plain,
}

impl Unit {
    fn of(offset: u64) -> Self {
        match offset {
            0x040..=0x047 | 0x1000..=0x11ff | 0x4000..=0x5fff => Self::Nvm,
            sys::PMT_CTL | 0x140..=0x1cf | 0x200..=0x3ff | 0x600 | 0x610..=0x6c7 => Self::Power,
            0x000..=0x09f => Self::System,
            fct::INT_STS..=0x0ff => Self::Fifo,
            mac::CR..=0x13f | 0x604..=0x60f => Self::Mac,
            rfe::CTL => Self::FilterControl,
            0x720..=0x72b => Self::Pcs,
            int::STS..=0x7ff => Self::Interrupts,
            0xa00..=0xbff => Self::Ptp,
            dmac::CFG..=0xfff => Self::Dma,
            0x1200..=0x12ff => Self::Statistics,
            _ => Self::Plain,
        }
    }
}

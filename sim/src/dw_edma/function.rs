//! The PCI function around the engine: BARs, capabilities, access widths, the DBI space.

use super::params::{Format, LocalIrq, Placement};
use super::presets::CORE_540A;
use super::regs::dbi;
use super::{DwEdma, Params};
use crate::config::{Bar, ConfigSpaceBuilder, Msi, Msix, Vsec};
use crate::device::{Bus, Device, Width};
use crate::memory::SharedMemory;

/// BAR of the MSI-X table and its pending bits.
const MSIX_BAR: u8 = 4;
const MSIX_BAR_BYTES: u64 = 0x1_0000;
const MSIX_PBA: u32 = 0x8000;

/// Vendor-specific capability that describes the engine (Linux 7.3 `dw-edma-pcie.c`).
const VSEC_DMA: u16 = 0x6;
/// Vendor-specific capability that names the address of the device's memory (10ee devices).
const VSEC_DEVICE_MEMORY: u16 = 0x20;

/// What an offset of the register BAR leads to.
enum Place {
    /// A register of the engine, relative to its base.
    Engine(u64),
    /// A fixed value, not writable.
    Fixed(u32),
}

fn all_ones(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width.bytes())
}

impl Params {
    /// Size of the register BAR.
    fn register_bar_bytes(&self) -> u64 {
        if let Placement::Local { core_version: Some(_), .. } = self.placement {
            return dbi::SIZE;
        }
        let channels = self.write_channels.max(self.read_channels);
        let end = self.register_offset.saturating_add(self.format.register_bytes(channels));
        end.clamp(0x1000, 1 << 30).next_power_of_two()
    }

    fn dma_vsec(&self) -> Vsec {
        let channels = u32::from(self.write_channels) | u32::from(self.read_channels) << 16;
        let payload = vec![
            self.format.map() | u32::from(self.register_bar) << 8,
            channels,
            self.register_offset as u32,
            (self.register_offset >> 32) as u32,
        ];
        Vsec { id: VSEC_DMA, revision: 0, offset: None, payload, writable: vec![] }
    }
}

impl DwEdma {
    fn place(&self, offset: u64) -> Place {
        let Placement::Local { core_version: Some(version), .. } = self.params.placement else {
            return match offset.checked_sub(self.params.register_offset) {
                Some(offset) => Place::Engine(offset),
                None => Place::Fixed(0),
            };
        };
        if offset == dbi::VERSION {
            return Place::Fixed(version);
        }
        let legacy = self.params.format == Format::Legacy;
        let viewport = offset.checked_sub(dbi::VIEWPORT);
        let viewport = viewport.filter(|at| *at < Format::Legacy.register_bytes(8));
        match (viewport, offset.checked_sub(dbi::UNROLLED)) {
            (Some(at), _) if legacy => Place::Engine(at),
            // Cores from 5.40a on no longer fix the place of the missing registers to all ones.
            (Some(_), _) => Place::Fixed(if version >= CORE_540A { 0 } else { u32::MAX }),
            (_, Some(at)) if !legacy => Place::Engine(at),
            (_, Some(_)) => Place::Fixed(u32::MAX),
            _ => Place::Fixed(0),
        }
    }

    fn count_bad(&self) {
        self.shared().counters.bad_accesses += 1;
    }

    fn count_reserved(&self) {
        self.shared().counters.reserved_accesses += 1;
    }

    fn register_read(&mut self, offset: u64) -> u32 {
        let at = match self.place(offset) {
            Place::Engine(at) => at,
            Place::Fixed(value) => return value,
        };
        let value = if self.params.format.is_v0() { self.v0_read(at) } else { self.native_read(at) };
        value.unwrap_or_else(|| {
            self.count_reserved();
            0
        })
    }

    fn register_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) {
        let Place::Engine(at) = self.place(offset) else { return };
        let found = if self.params.format.is_v0() {
            self.v0_write(bus, at, value)
        } else {
            self.native_write(bus, at, value)
        };
        if !found {
            self.count_reserved();
        }
    }

    fn memory_read(&self, offset: u64, width: Width) -> u64 {
        let mut bytes = [0; 8];
        let data = &mut bytes[..width.bytes()];
        let read = usize::try_from(offset).map(|offset| self.space.memory.read(offset, data));
        if matches!(read, Ok(Ok(()))) { u64::from_le_bytes(bytes) } else { all_ones(width) }
    }

    fn memory_write(&self, offset: u64, width: Width, value: u64) {
        let bytes = value.to_le_bytes();
        if let Ok(offset) = usize::try_from(offset) {
            // The fabric has checked the range; what it let through beyond the end is ignored.
            let _ = self.space.memory.write(offset, &bytes[..width.bytes()]);
        }
    }
}

impl Device for DwEdma {
    fn name(&self) -> &str {
        match self.params.format {
            Format::Legacy => "dw-edma legacy",
            Format::Unrolled => "dw-edma unrolled",
            Format::HdmaCompatible => "dw-hdma compatible",
            Format::HdmaNative => "dw-hdma native",
        }
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        let params = &self.params;
        let mut memory = Bar::bits64(params.memory_bar, params.memory_bytes).prefetchable();
        if params.map_memory {
            memory = memory.memory();
        }
        config
            .identity(params.identity.vendor, params.identity.device)
            .class(params.identity.class)
            .bar(Bar::bits32(params.register_bar, params.register_bar_bytes()))
            .bar(memory)
            .power_management()
            .pcie(true);
        if params.msi_vectors != 0 {
            let vectors = u8::try_from(params.msi_vectors).unwrap_or(u8::MAX);
            config.msi(Msi { vectors, per_vector_mask: false });
        }
        if params.msix_vectors != 0 {
            config.bar(Bar::bits32(MSIX_BAR, MSIX_BAR_BYTES)).msix(Msix {
                vectors: params.msix_vectors,
                table_bar: MSIX_BAR,
                table_offset: 0,
                pba_bar: MSIX_BAR,
                pba_offset: MSIX_PBA,
            });
        }
        if let Placement::Local { irq: LocalIrq::Intx, .. } = params.placement {
            config.interrupt_pin(1);
        }
        if params.vsec {
            config.vsec(params.dma_vsec());
        }
        if let Some(base) = params.device_memory_vsec {
            let payload = vec![base as u32, (base >> 32) as u32];
            let id = VSEC_DEVICE_MEMORY;
            config.vsec(Vsec { id, revision: 0, offset: None, payload, writable: vec![] });
        }
    }

    fn reset(&mut self) {
        self.channels.iter_mut().for_each(super::channel::Channel::reset);
        self.dirs = Default::default();
        self.arb_prior = 0;
        self.viewport = 0;
        self.intx = false;
    }

    fn read(&mut self, _bus: &mut dyn Bus, bar: u8, offset: u64, width: Width) -> u64 {
        if bar == self.params.memory_bar {
            return self.memory_read(offset, width);
        }
        if bar != self.params.register_bar {
            return 0;
        }
        if width != Width::W32 || !offset.is_multiple_of(4) {
            self.count_bad();
            return all_ones(width);
        }
        u64::from(self.register_read(offset))
    }

    fn write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, width: Width, value: u64) {
        if bar == self.params.memory_bar {
            return self.memory_write(offset, width, value);
        }
        if bar != self.params.register_bar {
            return;
        }
        if width != Width::W32 || !offset.is_multiple_of(4) {
            return self.count_bad();
        }
        self.register_write(bus, offset, value as u32);
    }

    fn event(&mut self, bus: &mut dyn Bus, token: u64) {
        let slot = (token & 0xffff) as usize;
        let current = |channel: &super::channel::Channel| channel.generation == token >> 16;
        if self.channels.get(slot).is_some_and(current) {
            self.step(bus, slot);
        }
    }

    fn bar_memory(&self, bar: u8) -> Option<SharedMemory> {
        (bar == self.params.memory_bar && self.params.map_memory).then(|| self.space.memory.clone())
    }
}

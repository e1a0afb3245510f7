//! Configuration space as memory (Enhanced Configuration Access Mechanism, PCI Express Base 7.2.2).

use tombolo_hal::mmio::MmioNarrow;
use tombolo_hal::pci::{CONFIG_SPACE_SIZE, ConfigSpace};

use super::{Bdf, ScanError};

/// Bytes of configuration space of a bus: 32 devices of 8 functions of 4 KiB.
pub const BUS_SIZE: usize = 1 << 20;

/// The configuration space of all functions behind one host bridge.
#[derive(Clone, Copy, Debug)]
pub struct Ecam<M> {
    io: M,
    first_bus: u8,
    last_bus: u8,
}

impl<M: MmioNarrow + Clone> Ecam<M> {
    /// Over `io`, which begins at `first_bus` and reaches to `last_bus`.
    ///
    /// # Errors
    /// [`ScanError::EcamSize`] if `io` is smaller than that.
    pub fn new(io: M, first_bus: u8, last_bus: u8) -> Result<Self, ScanError> {
        let needed = usize::from(last_bus.saturating_sub(first_bus)) * BUS_SIZE + BUS_SIZE;
        if last_bus < first_bus || io.size() < needed {
            return Err(ScanError::EcamSize { size: io.size(), first_bus, last_bus });
        }
        Ok(Self { io, first_bus, last_bus })
    }

    /// The bus of the host bridge itself.
    pub fn first_bus(&self) -> u8 {
        self.first_bus
    }

    /// The highest bus number that can be reached.
    pub fn last_bus(&self) -> u8 {
        self.last_bus
    }

    /// The configuration space of the function at `at`. Where there is none it reads all ones.
    pub fn function(&self, at: Bdf) -> EcamFunction<M> {
        let inside = (self.first_bus..=self.last_bus).contains(&at.bus());
        let base = usize::from(at.requester_id()) << 12;
        let base = inside.then(|| base - usize::from(self.first_bus) * BUS_SIZE);
        EcamFunction { io: self.io.clone(), base }
    }
}

/// The configuration space of one function.
#[derive(Clone, Copy, Debug)]
pub struct EcamFunction<M> {
    io: M,
    /// Offset of its 4 KiB; `None` for a bus that cannot be reached.
    base: Option<usize>,
}

impl<M: MmioNarrow> EcamFunction<M> {
    fn at(&self, offset: u16, width: u16) -> Option<usize> {
        let legal = offset < CONFIG_SPACE_SIZE && offset.is_multiple_of(width);
        self.base.filter(|_| legal).map(|base| base + usize::from(offset))
    }
}

impl<M: MmioNarrow> ConfigSpace for EcamFunction<M> {
    fn read8(&self, offset: u16) -> u8 {
        self.at(offset, 1).map_or(u8::MAX, |at| self.io.read8(at))
    }

    fn read16(&self, offset: u16) -> u16 {
        self.at(offset, 2).map_or(u16::MAX, |at| self.io.read16(at))
    }

    fn read32(&self, offset: u16) -> u32 {
        self.at(offset, 4).map_or(u32::MAX, |at| self.io.read32(at))
    }

    fn write8(&self, offset: u16, value: u8) {
        if let Some(at) = self.at(offset, 1) {
            self.io.write8(at, value);
        }
    }

    fn write16(&self, offset: u16, value: u16) {
        if let Some(at) = self.at(offset, 2) {
            self.io.write16(at, value);
        }
    }

    fn write32(&self, offset: u16, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            self.io.write32(at, value);
        }
    }
}

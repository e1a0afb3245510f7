//! The two sides of an engine, and what answers at their addresses.

use super::handle::Cause;
use super::params::{MemoryBase, Params, Placement};
use crate::device::{Bus, DmaFault};
use crate::memory::SharedMemory;

/// A side of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Where lists and local data are.
    Local,
    /// Across the PCIe link.
    Link,
}

/// One side is `Bus`, the other is the model's own memory.
#[derive(Debug)]
pub(super) struct Space {
    pub memory: SharedMemory,
    base: MemoryBase,
    bar: u8,
    memory_side: Side,
}

impl Space {
    pub fn new(params: &Params) -> Self {
        let (base, memory_side) = match params.placement {
            Placement::Remote { memory_base } => (memory_base, Side::Local),
            Placement::Local { link_base, .. } => (MemoryBase::Fixed(link_base), Side::Link),
        };
        let bytes = usize::try_from(params.memory_bytes).unwrap_or(1 << 31);
        Self { memory: SharedMemory::new(bytes), base, bar: params.memory_bar, memory_side }
    }

    fn offset(&self, bus: &dyn Bus, addr: u64) -> Option<usize> {
        let base = match self.base {
            MemoryBase::BarAddress => bus.bar_address(self.bar)?,
            MemoryBase::Fixed(base) => base,
        };
        usize::try_from(addr.checked_sub(base)?).ok()
    }

    /// Reads on one side.
    pub fn read(&self, bus: &mut dyn Bus, side: Side, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        if side != self.memory_side {
            return bus.dma_read(addr, data);
        }
        let offset = self.offset(bus, addr).ok_or(DmaFault::Unmapped(addr))?;
        self.memory.read(offset, data).map_err(|_| DmaFault::Unmapped(addr))
    }

    /// Writes on one side.
    pub fn write(&self, bus: &mut dyn Bus, side: Side, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        if side != self.memory_side {
            return bus.dma_write(addr, data);
        }
        let offset = self.offset(bus, addr).ok_or(DmaFault::Unmapped(addr))?;
        self.memory.write(offset, data).map_err(|_| DmaFault::Unmapped(addr))
    }

    /// Writes an interrupt message across the link.
    pub fn send_message(&self, bus: &mut dyn Bus, addr: u64, data: u32) -> Result<(), DmaFault> {
        match self.memory_side {
            Side::Local => bus.message_write(addr, data),
            Side::Link => self.write(bus, Side::Link, addr, &data.to_le_bytes()),
        }
    }
}

/// What an engine makes of a read that was not answered with data.
pub(super) fn read_cause(side: Side, fault: DmaFault) -> Cause {
    match (side, fault) {
        (Side::Local, _) => Cause::AppRead,
        (Side::Link, DmaFault::NotBusMaster | DmaFault::LinkDown) => Cause::CompletionTimeout,
        (Side::Link, _) => Cause::UnsupportedRequest,
    }
}

//! A machine's memory and address space.

use super::irq::Controller;
use super::{MESSAGE_RANGE, MachineConfig, MachineError};
use crate::config::ConfigSpace;
use crate::memory::{PAGE_SIZE, SharedMemory};
use std::collections::BTreeMap;

/// Where an address of the machine leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// RAM at this offset, with this many bytes behind it.
    Ram { offset: u64, len: u64 },
    /// A BAR of a function.
    Bar { function: usize, bar: u8, offset: u64, len: u64 },
}

#[derive(Clone, Copy, Debug)]
struct BarRange {
    start: u64,
    len: u64,
    function: usize,
    bar: u8,
}

#[derive(Debug)]
pub(crate) struct MachineState {
    pub ram: SharedMemory,
    pub config: MachineConfig,
    pub controller: Controller,
    bars: Vec<BarRange>,
    /// Free RAM: offset and length, neighbours merged.
    free: BTreeMap<u64, u64>,
    /// Where firmware puts the next 32- and 64-bit BAR.
    next_bar: [u64; 2],
}

impl MachineState {
    pub fn new(config: MachineConfig) -> Result<Self, MachineError> {
        let len = config.ram_size as u64;
        let ram_end = config.ram_base.checked_add(len).ok_or(MachineError::AddressSpace)?;
        let windows = [&MESSAGE_RANGE, &config.mmio32, &config.mmio64];
        let overlap = |window: &&std::ops::Range<u64>| {
            !window.is_empty() && config.ram_base < window.end && window.start < ram_end
        };
        let messages = [&config.mmio32, &config.mmio64]
            .iter()
            .any(|window| window.start < MESSAGE_RANGE.end && MESSAGE_RANGE.start < window.end);
        let misaligned = !config.ram_base.is_multiple_of(PAGE_SIZE as u64);
        if misaligned || windows.iter().any(overlap) || messages || config.mmio32.end > 1 << 32 {
            return Err(MachineError::AddressSpace);
        }
        Ok(Self {
            ram: SharedMemory::new(config.ram_size),
            controller: Controller::new(config.cpus),
            bars: Vec::new(),
            free: BTreeMap::from([(0, len)]),
            next_bar: [config.mmio32.start.max(16), config.mmio64.start.max(16)],
            config,
        })
    }

    pub fn route(&self, address: u64) -> Option<Route> {
        if let Some(offset) = address.checked_sub(self.config.ram_base) {
            let size = self.ram.len() as u64;
            if offset < size {
                return Some(Route::Ram { offset, len: size - offset });
            }
        }
        self.bar_route(address)
    }

    pub fn bar_route(&self, address: u64) -> Option<Route> {
        self.bars.iter().find_map(|range| {
            let offset = address.checked_sub(range.start)?;
            let (function, bar) = (range.function, range.bar);
            let len = range.len.checked_sub(offset).filter(|len| *len != 0)?;
            Some(Route::Bar { function, bar, offset, len })
        })
    }

    pub fn forget_bars(&mut self, function: usize) {
        self.bars.retain(|range| range.function != function);
    }

    pub fn add_bars(&mut self, function: usize, config: &ConfigSpace) {
        for bar in config.bars() {
            if let Some(start) = config.bar_address(bar.index) {
                self.bars.push(BarRange { start, len: bar.size, function, bar: bar.index });
            }
        }
    }

    /// An address for a BAR, as firmware gives it.
    pub fn place_bar(&mut self, size: u64, is_64bit: bool) -> Option<u64> {
        let kind = usize::from(is_64bit);
        let window = [&self.config.mmio32, &self.config.mmio64][kind];
        // Whole pages, so that no two BARs share one.
        let address = self.next_bar[kind].checked_next_multiple_of(size.max(4096))?;
        let end = address.checked_add(size)?;
        if end > window.end {
            return None;
        }
        self.next_bar[kind] = end;
        Some(address)
    }

    /// Takes `len` bytes of RAM; the offset is a multiple of `align`, a power of two.
    pub fn allocate(&mut self, len: u64, align: u64) -> Option<u64> {
        let fit = |(start, size): (&u64, &u64)| {
            // Alignment of the address, not of the offset.
            let address = self.config.ram_base.checked_add(*start)?.checked_next_multiple_of(align)?;
            let offset = address - self.config.ram_base;
            let end = offset.checked_add(len)?;
            (end <= start + size).then_some((*start, *size, offset))
        };
        let (start, size, offset) = self.free.iter().find_map(fit)?;
        self.free.remove(&start);
        if offset > start {
            self.free.insert(start, offset - start);
        }
        if offset + len < start + size {
            self.free.insert(offset + len, start + size - offset - len);
        }
        Some(offset)
    }

    pub fn release(&mut self, offset: u64, len: u64) {
        let (mut start, mut end) = (offset, offset + len);
        let before = self.free.range(..offset).next_back();
        if let Some((before, _)) = before.filter(|(before, size)| *before + *size == offset) {
            start = *before;
        }
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        self.free.insert(start, end - start);
    }

    pub fn free_ram(&self) -> u64 {
        self.free.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> MachineState {
        let config = MachineConfig { ram_base: 0x3000, ram_size: 0x2000, ..Default::default() };
        MachineState::new(config).unwrap()
    }

    #[test]
    fn ram_is_allocated_aligned_and_merged_again() {
        let mut machine = machine();
        let a = machine.allocate(0x100, 0x4000).unwrap();
        assert_eq!(a, 0x1000, "address 0x4000");
        let b = machine.allocate(0x1000, 1).unwrap();
        let c = machine.allocate(0xf00, 1).unwrap();
        assert_eq!((b, c), (0, 0x1100));
        assert_eq!((machine.allocate(1, 1), machine.free_ram()), (None, 0));
        for (offset, len) in [(b, 0x1000), (c, 0xf00), (a, 0x100)] {
            machine.release(offset, len);
        }
        assert_eq!(machine.allocate(0x2000, 1), Some(0));
    }

    #[test]
    fn ram_cannot_lie_where_messages_or_bars_go() {
        let config = |ram_base, ram_size| MachineConfig { ram_base, ram_size, ..Default::default() };
        let end = u64::MAX - 0xfff;
        for (base, size) in [(0xfee0_0000, 16), (0xfedf_f000, 0x2000), (end, 0x1001), (0x1800, 16)] {
            let error = MachineState::new(config(base, size)).unwrap_err();
            assert_eq!(error, MachineError::AddressSpace);
        }
        let low = MachineConfig { mmio32: 0xfe00_0000..0xff00_0000, ..Default::default() };
        assert_eq!(MachineState::new(low).unwrap_err(), MachineError::AddressSpace);
    }
}

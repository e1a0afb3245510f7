//! What firmware says of a machine: PVH and ACPI on x86, a device tree on Arm.
//!
//! Parsing only, over memory that a [`PhysicalMemory`] gives; nothing here touches hardware.

pub mod acpi;
pub mod devicetree;
pub mod pvh;

use arrayvec::ArrayVec;

use crate::pci::Apertures;

/// Most ranges of RAM that are kept.
pub const MAX_RANGES: usize = 32;

/// Reading memory by its physical address.
pub trait PhysicalMemory {
    /// `size` bytes at `address`; `None` if they cannot be read.
    fn bytes(&self, address: u64, size: usize) -> Option<&[u8]>;
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
}

impl MemoryRange {
    /// One past the last address, or the highest there is.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// Ranges of addresses; what there is no room for is not there.
pub type Ranges = ArrayVec<MemoryRange, MAX_RANGES>;

/// A host bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciHost {
    /// Where configuration space is, as the CPU addresses it.
    pub ecam: MemoryRange,
    /// First bus in it.
    pub first_bus: u8,
    /// Last bus in it.
    pub last_bus: u8,
    /// What it decodes.
    pub apertures: Apertures,
}

/// Why a machine is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// Firmware's tables lack something or make no sense.
    #[error("what the firmware says of this machine is not usable: {0}")]
    Firmware(&'static str),
    /// There is no RAM for DMA.
    #[error("no {size:#x} bytes of RAM are free for DMA; give the machine more memory")]
    NoRam {
        /// Bytes that are needed.
        size: u64,
    },
}

/// `size` bytes of RAM at a multiple of `align`, a power of two, that overlap none of `taken`; the lowest.
///
/// # Errors
/// [`PlatformError::NoRam`].
pub fn find_ram(
    ram: &[MemoryRange],
    taken: &[MemoryRange],
    size: u64,
    align: u64,
) -> Result<MemoryRange, PlatformError> {
    let candidates = ram.iter().flat_map(|range| {
        let behind = taken.iter().map(MemoryRange::end);
        core::iter::once(range.start).chain(behind).filter_map(|at| {
            let start = at.max(range.start).checked_next_multiple_of(align)?;
            let found = MemoryRange { start, size };
            let inside = start.checked_add(size)? <= range.end();
            let free = !taken.iter().any(|taken| taken.overlaps(&found));
            (inside && free).then_some(found)
        })
    });
    candidates.min_by_key(|found| found.start).ok_or(PlatformError::NoRam { size })
}

/// A word of firmware's tables.
fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn read32(bytes: &[u8], at: usize) -> Option<u32> {
    read(bytes, at).map(u32::from_le_bytes)
}

fn read64(bytes: &[u8], at: usize) -> Option<u64> {
    read(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_is_found_between_what_is_taken() {
        let range = |start, size| MemoryRange { start, size };
        let ram = [range(0x100_0000, 0x100_0000), range(0, 0xa0000)];
        let taken = [range(0x100_0000, 0x40_0001), range(0x80_0000_0000, 1)];
        let found = find_ram(&ram, &taken, 0x20_0000, 0x20_0000).unwrap();
        assert_eq!(found, range(0x160_0000, 0x20_0000));
        assert_eq!(find_ram(&ram, &taken, 0x100, 0x1000), Ok(range(0, 0x100)));
        assert_eq!(find_ram(&ram, &taken, 1 << 32, 1), Err(PlatformError::NoRam { size: 1 << 32 }));
        assert!(find_ram(&[range(u64::MAX - 9, 100)], &[], 64, 8).is_err());
    }
}

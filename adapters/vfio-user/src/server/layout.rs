//! What the client is told of the device, once and for all.

use tombolo_sim::config::{ConfigSpace, Msix};
use tombolo_sim::device::Device;
use tombolo_sim::memory::{PAGE_SIZE, SharedMemory};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE, VFIO_IRQ_INFO_NORESIZE,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};

use super::Error;
use super::irqs::{INTX, MSI, MSIX};
use crate::protocol::{Area, IrqInfo, RegionInfo};

const CONFIG_SIZE: u64 = 4096;
const PAGE: u64 = PAGE_SIZE as u64;

/// Regions and interrupts.
#[derive(Debug)]
pub(super) struct Layout {
    /// By region index.
    pub regions: Vec<RegionInfo>,
    /// By interrupt index.
    pub irqs: Vec<IrqInfo>,
    /// Memory of the BARs that are plain memory.
    pub memory: [Option<SharedMemory>; 6],
    pub msix: Option<Msix>,
}

impl Layout {
    pub fn new(device: &dyn Device, config: &ConfigSpace, map_bars: bool) -> Result<Self, Error> {
        let msix = config.msix_capability().map(|(_, msix)| msix);
        let mut memory = [const { None }; 6];
        let region = |index| RegionInfo { index, ..RegionInfo::default() };
        let mut regions: Vec<_> = (0..VFIO_PCI_NUM_REGIONS).map(region).collect();
        let access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        for bar in config.bars() {
            let region = &mut regions[usize::from(bar.index)];
            (region.flags, region.size) = (access, bar.size);
            if bar.is_memory {
                let found = device.bar_memory(bar.index).filter(|found| found.len() as u64 >= bar.size);
                let found = found.ok_or(Error::NoMemory { bar: bar.index, size: bar.size })?;
                if map_bars && found.as_fd().is_some() {
                    region.areas = areas(bar.index, bar.size, msix);
                }
                memory[usize::from(bar.index)] = Some(found);
            }
            if !region.areas.is_empty() {
                region.flags |= VFIO_REGION_INFO_FLAG_MMAP;
            }
        }
        let space = &mut regions[VFIO_PCI_CONFIG_REGION_INDEX as usize];
        (space.flags, space.size) = (access, CONFIG_SIZE);
        let counts = counts(config);
        let irqs = (0..VFIO_PCI_NUM_IRQS).map(|index| {
            let count = counts.get(index as usize).copied().unwrap_or(0);
            IrqInfo { index, count, flags: if count == 0 { 0 } else { irq_flags(index) } }
        });
        Ok(Self { regions, irqs: irqs.collect(), memory, msix })
    }

    /// The file behind a region that can be mapped.
    pub fn mappable(&self, region: &RegionInfo) -> Option<&SharedMemory> {
        let memory = self.memory.get(region.index as usize)?.as_ref();
        memory.filter(|_| region.flags & VFIO_REGION_INFO_FLAG_MMAP != 0)
    }
}

/// Vectors of the pin, MSI and MSI-X.
pub(super) fn counts(config: &ConfigSpace) -> [u32; 3] {
    let msi = config.msi_capability().map_or(0, |(_, msi)| msi.vectors.into());
    let msix = config.msix_capability().map_or(0, |(_, msix)| msix.vectors.into());
    [config.has_intx().into(), msi, msix]
}

fn irq_flags(index: u32) -> u32 {
    match index {
        INTX => VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
        MSI | MSIX => VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE,
        _ => 0,
    }
}

/// The parts of a BAR that can be mapped: whole pages without MSI-X table and pending bits.
fn areas(bar: u8, size: u64, msix: Option<Msix>) -> Vec<Area> {
    let mut holes: Vec<(u64, u64)> = Vec::new();
    if let Some(msix) = msix {
        let mut add = |at: u8, offset: u32, len: u32| {
            let (start, end) = (u64::from(offset), u64::from(offset) + u64::from(len));
            if at == bar {
                holes.push((start & !(PAGE - 1), end.next_multiple_of(PAGE)));
            }
        };
        add(msix.table_bar, msix.table_offset, msix.table_len());
        add(msix.pba_bar, msix.pba_offset, msix.pba_len());
    }
    holes.sort_unstable();
    let end = size & !(PAGE - 1);
    let mut areas = Vec::new();
    let mut at = 0;
    for (start, after) in holes.into_iter().chain([(end, end)]) {
        if start > at {
            areas.push(Area { offset: at, size: start - at });
        }
        at = at.max(after);
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msix(table_bar: u8, table_offset: u32, pba_bar: u8, pba_offset: u32) -> Option<Msix> {
        Some(Msix { vectors: 300, table_bar, table_offset, pba_bar, pba_offset })
    }

    fn pairs(areas: Vec<Area>) -> Vec<(u64, u64)> {
        areas.into_iter().map(|area| (area.offset, area.size)).collect()
    }

    #[test]
    fn pages_with_msix_structures_are_left_out() {
        // 300 vectors: a table of 0x12c0 bytes, which touches two pages or three.
        assert_eq!(
            pairs(areas(2, 0x10000, msix(2, 0x4000, 2, 0x8000))),
            [(0, 0x4000), (0x6000, 0x2000), (0x9000, 0x7000)]
        );
        assert_eq!(pairs(areas(2, 0x8000, msix(2, 0xf00, 2, 0x3000))), [(0x4000, 0x4000)]);
        assert_eq!(pairs(areas(2, 0x4000, msix(2, 0, 2, 0x3000))), [(0x2000, 0x1000)]);
        assert_eq!(pairs(areas(2, 0x2000, msix(2, 0, 4, 0))), []);
        assert_eq!(pairs(areas(2, 0x4000, msix(2, 0x3000, 2, 0x2000))), [(0, 0x2000)]);
    }

    #[test]
    fn a_bar_without_them_is_mapped_whole_unless_it_is_less_than_a_page() {
        assert_eq!(pairs(areas(2, 0x4000, msix(4, 0, 4, 0x3000))), [(0, 0x4000)]);
        assert_eq!(pairs(areas(2, 0x4000, None)), [(0, 0x4000)]);
        assert_eq!(pairs(areas(2, 0x800, None)), []);
    }
}

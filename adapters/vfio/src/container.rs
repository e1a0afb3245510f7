//! An IOMMU group in a container of its own, and the address space of its devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vfio_bindings::bindings::vfio::{
    VFIO_API_VERSION, VFIO_DMA_MAP_FLAG_READ, VFIO_DMA_MAP_FLAG_WRITE, VFIO_GROUP_FLAGS_VIABLE,
    VFIO_IOMMU_INFO_CAPS, VFIO_IOMMU_INFO_PGSIZES, VFIO_TYPE1v2_IOMMU,
};

use crate::caps::IommuCaps;
use crate::error::Error;
use crate::ranges::Ranges;
use crate::sys;
use crate::sysfs::Sysfs;

/// Writes of a device to this window are interrupts on x86, never memory (Linux: `IOAPIC_RANGE_START`).
const MSI_WINDOW: (u64, u64) = (0xfee0_0000, 0xfeef_ffff);
/// Addresses that are never given out, so that a device that uses a null pointer is refused.
const NULL_PAGES: (u64, u64) = (0, 0xffff);
/// What an IOMMU that does not say more can surely address.
const UNKNOWN_RANGE: (u64, u64) = (0, (1 << 39) - 1);

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub read: bool,
    pub write: bool,
}

impl Access {
    pub const BOTH: Self = Self { read: true, write: true };
}

/// A group and its container. Dropping it takes all mappings from the devices.
#[derive(Debug)]
pub(crate) struct Container {
    container: File,
    /// Keeps the group ours.
    group: File,
    /// Smallest page of IOMMU and CPU that both can do.
    page: u64,
    caps: IommuCaps,
    /// Where PCI devices decode memory.
    decoded: Vec<(u64, u64)>,
}

impl Container {
    /// Opens group `number` and gives it a container with a type 1 IOMMU.
    pub fn open(sysfs: &Sysfs, number: u32) -> Result<Self, Error> {
        let container = open_rw("/dev/vfio/vfio").map_err(Error::NoVfio)?;
        if sys::api_version(container.as_fd()).map_err(Error::NoVfio)? != VFIO_API_VERSION {
            return Err(Error::NoApi("API of version 0"));
        }
        let type1 = sys::has_extension(container.as_fd(), VFIO_TYPE1v2_IOMMU);
        if !type1.map_err(Error::NoVfio)? {
            return Err(Error::NoApi("type 1 IOMMU driver"));
        }
        let group = open_rw(&format!("/dev/vfio/{number}"))
            .map_err(|source| Error::Group { group: number, source })?;
        let call = |call| move |source| Error::Call { call, source };
        let flags = sys::group_flags(group.as_fd()).map_err(call("VFIO_GROUP_GET_STATUS"))?;
        if flags & VFIO_GROUP_FLAGS_VIABLE == 0 {
            return Err(Error::NotViable { group: number, others: sysfs.in_the_way(number)? });
        }
        sys::set_container(group.as_fd(), container.as_fd()).map_err(call("VFIO_GROUP_SET_CONTAINER"))?;
        sys::set_iommu(container.as_fd(), VFIO_TYPE1v2_IOMMU)
            .map_err(|source| Error::Iommu { group: number, source })?;
        let info = sys::iommu_info(container.as_fd()).map_err(call("VFIO_IOMMU_GET_INFO"))?;
        let caps = match info.head.flags & VFIO_IOMMU_INFO_CAPS {
            0 => IommuCaps::default(),
            _ => IommuCaps::parse(info.bytes(), info.head.cap_offset),
        };
        let sizes = if info.head.flags & VFIO_IOMMU_INFO_PGSIZES != 0 { info.head.iova_pgsizes } else { 0 };
        let smallest = if sizes == 0 { 1 } else { 1 << sizes.trailing_zeros() };
        let page = (rustix::param::page_size() as u64).max(smallest);
        log::info!(
            "group {number}: IOMMU pages {sizes:#x}, {:?} mappings, ranges {:x?}",
            caps.mappings,
            caps.ranges
        );
        Ok(Self { container, group, page, caps, decoded: sysfs.decoded_memory()? })
    }

    /// The device `name` of the group.
    pub fn device(&self, name: &str) -> io::Result<OwnedFd> {
        sys::device_fd(self.group.as_fd(), name)
    }

    /// What mappings are multiples of, in bytes.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// How many mappings the container began with, if the kernel says so.
    pub fn mapping_limit(&self) -> Option<u32> {
        self.caps.mappings
    }

    /// The addresses that devices can be given.
    pub fn addresses(&self) -> Ranges {
        usable(self.caps.ranges.as_deref(), &self.decoded, self.page)
    }

    /// Maps memory for the devices.
    ///
    /// # Safety
    /// As for [`sys::map_dma`].
    pub unsafe fn map(&self, vaddr: u64, iova: u64, size: u64, access: Access) -> io::Result<()> {
        let flags = if access.read { VFIO_DMA_MAP_FLAG_READ } else { 0 }
            | if access.write { VFIO_DMA_MAP_FLAG_WRITE } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { sys::map_dma(self.fd(), flags, vaddr, iova, size) }
    }

    /// Takes all mappings inside a range from the devices again.
    pub fn unmap(&self, iova: u64, size: u64) -> io::Result<()> {
        match sys::unmap_dma(self.fd(), iova, size)? {
            unmapped if unmapped == size => Ok(()),
            unmapped => Err(io::Error::other(format!("only {unmapped} of {size} bytes had been mapped"))),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.container.as_fd()
    }
}

fn open_rw(path: &str) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// What of the IOMMU's ranges is used: whole pages, without the MSI window, the first pages, and
/// addresses where PCI devices decode memory: a switch may route those to a device, past the IOMMU (the
/// kernel leaves them out of its own mappings, too: `iova_reserve_pci_windows`).
fn usable(ranges: Option<&[(u64, u64)]>, decoded: &[(u64, u64)], page: u64) -> Ranges {
    let whole = |(first, last): (u64, u64)| {
        let first = first.checked_next_multiple_of(page)?;
        // One past the last page; 2^64 is not a number, so the topmost page is left out.
        let end = last.checked_add(1).unwrap_or(last) & !(page - 1);
        (end > first).then(|| (first, end - 1))
    };
    let mut all = Ranges::new(ranges.unwrap_or(&[UNKNOWN_RANGE]).iter().copied().filter_map(whole));
    for (first, last) in [MSI_WINDOW, NULL_PAGES].iter().chain(decoded) {
        all.exclude(*first & !(page - 1), *last | (page - 1));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Fit;

    #[test]
    fn the_interrupt_window_and_null_are_never_given_out() {
        let mut all = usable(Some(&[(0, 0xffff_ffff)]), &[], 4096);
        let page = Fit { align: 4096, last: u64::MAX, boundary: 0 };
        assert_eq!(all.free_bytes(), (1 << 32) - (1 << 20) - (1 << 16));
        while let Some(at) = all.allocate(1 << 20, &Fit { align: 1 << 20, ..page }) {
            assert!(at != 0xfee0_0000 && at != 0);
        }
        assert_eq!(all.allocate(4096, &page), Some(0xf_f000));
    }

    #[test]
    fn where_other_devices_decode_nothing_is_given_out() {
        let bars = [(0x1_0000_0000, 0x1_0000_00ff), (0x1_0000_3000, u64::MAX)];
        let mut all = usable(Some(&[(0x1_0000_0000, 0x1_0000_ffff)]), &bars, 4096);
        let page = Fit { align: 4096, last: u64::MAX, boundary: 0 };
        assert_eq!(all.allocate(4096, &page), Some(0x1_0000_2000));
        assert_eq!(all.allocate(4096, &page), Some(0x1_0000_1000));
        assert_eq!(all.allocate(4096, &page), None);
    }

    #[test]
    fn ranges_are_cut_to_whole_pages_and_may_end_at_the_top() {
        let mut all =
            usable(Some(&[(0x1_0000_0001, 0x1_0000_2fff), (u64::MAX - 0x1fff, u64::MAX)]), &[], 4096);
        assert_eq!(all.free_bytes(), 2 * 4096 + 4096);
        let page = Fit { align: 4096, last: u64::MAX, boundary: 0 };
        assert_eq!(all.allocate(4096, &page), Some(u64::MAX - 0x1fff));
        assert_eq!(usable(None, &[], 4096).free_bytes(), (1 << 39) - (1 << 20) - (1 << 16));
        assert_eq!(usable(Some(&[(5, 100)]), &[], 4096).free_bytes(), 0);
    }
}

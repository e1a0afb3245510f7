//! The device as VFIO shows it: a file of regions.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use tombolo_hal::mmio::{Mmio, RawMmio};
use tombolo_hal::pci::command;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_REGION_INFO_FLAG_CAPS, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ,
};

use crate::caps::RegionCaps;
use crate::config::OfCore;
use crate::container::Container;
use crate::error::Error;
use crate::mapping::Mapping;
use crate::sigbus::Gone;
use crate::{PciAddress, sys};

/// Base address registers of a function.
pub(crate) const BARS: usize = 6;

/// A BAR: where it is in the device's file, and the parts of it that are mapped.
#[derive(Debug)]
pub(crate) struct BarRegion {
    pub size: usize,
    pub offset: u64,
    /// By offset in the BAR, in order.
    areas: Vec<(usize, Mapping)>,
}

impl BarRegion {
    /// The mapping that holds `offset`, and where in it.
    #[inline(always)]
    pub fn mapped(&self, offset: usize) -> Option<(&RawMmio, usize)> {
        self.areas.iter().find_map(|(start, mapping)| {
            let inside = offset.checked_sub(*start)?;
            (inside < mapping.raw().size()).then(|| (mapping.raw(), inside))
        })
    }
}

/// An open device, shared by all handles of it. Dropping the last one switches DMA off and closes it,
/// whereupon the kernel resets it.
#[derive(Debug)]
pub(crate) struct Core {
    /// Before `gone`, which the mappings refer to.
    pub bars: [Option<BarRegion>; BARS],
    pub file: File,
    pub gone: Gone,
    /// The state of `gone` for which bus mastering was switched off.
    silenced: Mutex<usize>,
    pub flags: u32,
    pub address: PciAddress,
    config: (u64, u64),
    /// Last, so that the device is closed before its memory is unmapped.
    _container: Arc<Container>,
}

impl Core {
    pub fn open(address: PciAddress, fd: OwnedFd, container: Arc<Container>) -> Result<Self, Error> {
        let gone = Gone::new()?;
        let flags = sys::device_flags(fd.as_fd());
        let flags = flags.map_err(|source| Error::Call { call: "VFIO_DEVICE_GET_INFO", source })?;
        let config = sys::region_info(fd.as_fd(), VFIO_PCI_CONFIG_REGION_INDEX);
        let config =
            config.map_err(|source| Error::Region { index: VFIO_PCI_CONFIG_REGION_INDEX, source })?.head;
        let mut bars = [const { None }; BARS];
        for (index, bar) in (0..).zip(&mut bars) {
            *bar = find_bar(fd.as_fd(), index, &gone)?;
        }
        let config = (config.offset, config.size);
        let silenced = Mutex::new(0);
        Ok(Self { bars, file: File::from(fd), gone, silenced, flags, address, config, _container: container })
    }

    /// Reads configuration space; false if it cannot be read there.
    pub fn read_config(&self, offset: u16, bytes: &mut [u8]) -> bool {
        self.inside_config(offset, bytes.len())
            && self.file.read_exact_at(bytes, self.config.0 + u64::from(offset)).is_ok()
    }

    /// Writes configuration space; what cannot be written vanishes.
    pub fn write_config(&self, offset: u16, bytes: &[u8]) {
        if self.inside_config(offset, bytes.len())
            && let Err(error) = self.file.write_all_at(bytes, self.config.0 + u64::from(offset))
        {
            log::debug!("{}: config write at {offset:#x}: {error}", self.address);
        }
    }

    fn inside_config(&self, offset: u16, len: usize) -> bool {
        u64::from(offset) + len as u64 <= self.config.1
    }

    /// Keeps a device that counts as gone from sending anything, before anybody is told so: its mapping may
    /// have been lost while it is alive, and drivers take memory back from a device that is gone.
    #[cold]
    pub fn silence(&self) {
        let mut silenced = self.silenced.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.gone.state();
        if self.gone.is_set() && *silenced != state {
            let off = command::set_bus_master(&OfCore(self), false);
            log::warn!("{}: the device is gone; bus master off: {off:?}", self.address);
            *silenced = state;
        }
    }

    /// Maps what had been lost and forgets that the device was gone.
    pub fn revive(&self) -> io::Result<()> {
        for bar in self.bars.iter().flatten() {
            for (_, mapping) in &bar.areas {
                mapping.restore(self.file.as_fd())?;
            }
        }
        self.gone.clear();
        Ok(())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Before any memory is taken from the device. One that is gone masters no bus.
        let off = command::set_bus_master(&OfCore(self), false);
        log::debug!("{}: closed, bus master off: {off:?}", self.address);
    }
}

fn find_bar(fd: BorrowedFd<'_>, index: u32, gone: &Gone) -> Result<Option<BarRegion>, Error> {
    let info = sys::region_info(fd, index).map_err(|source| Error::Region { index, source })?;
    let head = info.head;
    // A BAR of I/O ports reads as well, but only by `pread`; it is not mapped then.
    if head.size == 0 || head.flags & VFIO_REGION_INFO_FLAG_READ == 0 {
        return Ok(None);
    }
    let size = usize::try_from(head.size).ok().filter(|size| *size <= isize::MAX as usize);
    let too_large = || io::Error::from_raw_os_error(libc::EOVERFLOW);
    let size = size.ok_or_else(too_large).map_err(|source| Error::Region { index, source })?;
    let caps = match head.flags & VFIO_REGION_INFO_FLAG_CAPS {
        0 => RegionCaps::default(),
        _ => RegionCaps::parse(info.bytes(), head.cap_offset),
    };
    let mut areas = Vec::new();
    if head.flags & VFIO_REGION_INFO_FLAG_MMAP != 0 {
        for (offset, len) in caps.areas(head.size, rustix::param::page_size() as u64) {
            // Inside the size, which fits.
            let mapping = Mapping::new(fd, head.offset + offset, len as usize, gone, index)?;
            areas.push((offset as usize, mapping));
        }
    }
    log::debug!("BAR{index}: {size:#x} bytes, {} parts mapped, {caps:?}", areas.len());
    Ok(Some(BarRegion { size, offset: head.offset, areas }))
}

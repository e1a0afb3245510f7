//! A mapping of device memory that may be taken away.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use tombolo_hal::mmio::{Caching, RawMmio};

use crate::error::Error;
use crate::sigbus::{Gone, Watched};

/// Pages of a device's file. Accesses never end in SIGBUS: see [`crate::sigbus`].
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    /// Whole pages.
    len: usize,
    file_offset: u64,
    raw: RawMmio,
    watched: Option<Watched>,
}

// SAFETY: a mapping has no thread affinity; it is changed by `restore` only, which leaves it mapped.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes at `file_offset`, a multiple of the page size. `region` is for the error.
    pub fn new(
        fd: BorrowedFd<'_>,
        file_offset: u64,
        size: usize,
        gone: &Gone,
        region: u32,
    ) -> Result<Self, Error> {
        let too_large = || io::Error::from_raw_os_error(libc::EOVERFLOW);
        let len = size.checked_next_multiple_of(rustix::param::page_size()).ok_or_else(too_large);
        let len = len.map_err(|source| Error::Region { index: region, source })?;
        // SAFETY: no address is asked for, so nothing is replaced.
        let start = unsafe { map(fd, null_mut(), len, file_offset, MapFlags::SHARED) };
        let start = start.map_err(|source| Error::Region { index: region, source })?;
        // SAFETY: `size` bytes are mapped, at a page, until this value is dropped; `Bar` keeps it for as
        // long as it uses the copy. What replaces the mapping is mapped as well, and `Bar` reads all
        // ones then.
        let raw = unsafe { RawMmio::new(start, size, Caching::Uncached) };
        let mut mapping = Self { start, len, file_offset, raw, watched: None };
        mapping.watched = Some(Watched::new(start, len, gone)?);
        Ok(mapping)
    }

    /// The memory, for as long as the mapping lives.
    #[inline(always)]
    pub fn raw(&self) -> &RawMmio {
        &self.raw
    }

    /// Maps the device again if the mapping had been lost.
    pub fn restore(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !self.watched.as_ref().is_some_and(Watched::take_replaced) {
            return Ok(());
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: replaces pages of ours by pages of the same size.
        unsafe { map(fd, self.start.as_ptr().cast(), self.len, self.file_offset, flags) }.map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First: another mapping may be here at once.
        self.watched = None;
        // SAFETY: ours, and nobody has it any more.
        if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), self.len) } {
            log::warn!("munmap of {} bytes of device memory: {error}", self.len);
        }
    }
}

/// # Safety
/// With `MapFlags::FIXED`, the range is the caller's to replace.
unsafe fn map(
    fd: BorrowedFd<'_>,
    at: *mut libc::c_void,
    len: usize,
    offset: u64,
    flags: MapFlags,
) -> io::Result<NonNull<u8>> {
    // SAFETY: the caller's promise.
    let start = unsafe { mmap(at, len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset)? };
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::{AsFd, OwnedFd};
    use tombolo_hal::mmio::Mmio;

    fn file(size: u64) -> OwnedFd {
        let file = memfd_create("tombolo-vfio-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, size).unwrap();
        file
    }

    #[test]
    fn a_mapping_that_was_taken_away_sets_the_flag_and_comes_back() {
        let (page, gone) = (rustix::param::page_size(), Gone::new().unwrap());
        let file = file(2 * page as u64);
        let mapping = Mapping::new(file.as_fd(), page as u64, page, &gone, 0).unwrap();
        mapping.raw().write32(8, 0x1234);
        assert_eq!((mapping.raw().read32(8), gone.is_set()), (0x1234, false));

        // A file mapping behind the file's end raises SIGBUS, as VFIO's does without memory decoding.
        ftruncate(&file, 0).unwrap();
        mapping.raw().write32(8, 5);
        assert!(gone.is_set());
        let _ = mapping.raw().read32(16);

        ftruncate(&file, 2 * page as u64).unwrap();
        mapping.restore(file.as_fd()).unwrap();
        gone.clear();
        mapping.raw().write32(8, 7);
        let mut bytes = [0; 4];
        rustix::io::pread(&file, &mut bytes, page as u64 + 8).unwrap();
        assert_eq!((bytes, gone.is_set()), ([7, 0, 0, 0], false), "the file again, not what replaced it");
    }

    #[test]
    fn only_the_device_whose_mapping_was_lost_is_gone() {
        let page = rustix::param::page_size();
        let (one, other) = (Gone::new().unwrap(), Gone::new().unwrap());
        let (file_one, file_other) = (file(page as u64), file(page as u64));
        let lost = Mapping::new(file_one.as_fd(), 0, page, &one, 0).unwrap();
        let kept = Mapping::new(file_other.as_fd(), 0, page, &other, 0).unwrap();
        kept.raw().write32(0, 9);
        ftruncate(&file_one, 0).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let raw = *lost.raw();
                std::thread::spawn(move || {
                    raw.read32(4 * i);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(one.is_set() && !other.is_set());
        assert_eq!(kept.raw().read32(0), 9);
    }

    /// The test below runs itself again as the process that ends.
    const CHILD: &str = "TOMBOLO_VFIO_FOREIGN_FAULT";

    #[test]
    fn a_fault_elsewhere_ends_the_process_as_ever() {
        use std::os::unix::process::ExitStatusExt;
        if std::env::var_os(CHILD).is_some() {
            foreign_fault();
        }
        let name = "mapping::tests::a_fault_elsewhere_ends_the_process_as_ever";
        let program = std::env::current_exe().unwrap();
        let child =
            std::process::Command::new(program).args([name, "--exact"]).env(CHILD, "1").output().unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
    }

    /// SIGBUS on memory that nobody registered, with the handler in place.
    fn foreign_fault() {
        let (page, gone) = (rustix::param::page_size(), Gone::new().unwrap());
        let (ours, foreign) = (file(page as u64), file(page as u64));
        let _watched = Mapping::new(ours.as_fd(), 0, page, &gone, 0).unwrap();
        // SAFETY: no address is asked for.
        let at = unsafe { map(foreign.as_fd(), null_mut(), page, 0, MapFlags::SHARED) }.unwrap();
        ftruncate(&foreign, 0).unwrap();
        // SAFETY: mapped; that the access faults is the point.
        unsafe { at.cast::<u32>().read_volatile() };
    }
}

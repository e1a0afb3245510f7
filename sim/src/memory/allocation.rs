//! Where the bytes of a [`SharedMemory`](super::SharedMemory) come from.

use super::PAGE_SIZE;
use super::region::{Region, WORD};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Page-aligned zeroed memory that is released when the value is dropped.
pub(super) struct Allocation {
    pub region: Region,
    source: Source,
}

enum Source {
    Heap {
        raw: NonNull<u8>,
        layout: Layout,
    },
    /// A mapped anonymous file. Miri knows no files of this kind.
    #[cfg(all(target_os = "linux", not(miri)))]
    File(file::Mapping),
}

// SAFETY: the memory belongs to this value alone, and all accesses to it are atomic.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// `len` zeroed bytes, from a file if the system gives one.
    ///
    /// # Panics
    /// If `len` is within a page of `isize::MAX`.
    pub fn new(len: usize) -> Self {
        let extent = len.checked_next_multiple_of(WORD).expect("memory size overflows");
        #[cfg(all(target_os = "linux", not(miri)))]
        if let Ok(mapping) = file::Mapping::new(extent) {
            let region = Region { base: mapping.base(), len, extent };
            return Self { region, source: Source::File(mapping) };
        }
        Self::on_heap(len, extent)
    }

    fn on_heap(len: usize, extent: usize) -> Self {
        // Over-allocation instead of a page-aligned layout: the allocator then takes fresh zero
        // pages from the system rather than clearing all of them.
        let padded = extent.checked_add(PAGE_SIZE).expect("memory size overflows");
        let layout = Layout::from_size_align(padded, 16).expect("memory size overflows");
        // SAFETY: the layout has a size of at least a page.
        let Some(raw) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let pad = raw.addr().get().wrapping_neg() & (PAGE_SIZE - 1);
        // SAFETY: `pad < PAGE_SIZE`, so `pad + extent` bytes lie inside the allocation.
        let base = unsafe { raw.add(pad) };
        Self { region: Region { base, len, extent }, source: Source::Heap { raw, layout } }
    }

    #[cfg(target_os = "linux")]
    pub fn file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match &self.source {
            Source::Heap { .. } => None,
            #[cfg(not(miri))]
            Source::File(mapping) => Some(mapping.file()),
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match &self.source {
            // SAFETY: `raw` came from `alloc_zeroed` with this layout and is released once.
            Source::Heap { raw, layout } => unsafe { dealloc(raw.as_ptr(), *layout) },
            #[cfg(all(target_os = "linux", not(miri)))]
            Source::File(_) => {}
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod file {
    use super::PAGE_SIZE;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::ptr::{self, NonNull};

    /// An anonymous file that cannot change its size, mapped whole.
    pub struct Mapping {
        base: NonNull<u8>,
        len: usize,
        file: OwnedFd,
    }

    impl Mapping {
        pub fn new(size: usize) -> Result<Self, Errno> {
            let len = size.max(1).checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::NOMEM)?;
            let file = memfd_create("tombolo", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&file, len as u64)?;
            // Whoever gets the file must not take pages away from under the mapping.
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping at an address of the system's choice touches no other memory.
            let base = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0) }?;
            let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
            Ok(Self { base, len, file })
        }

        pub fn base(&self) -> NonNull<u8> {
            self.base
        }

        pub fn file(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own, and no view of it outlives the value.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

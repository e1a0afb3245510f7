//! Memory that a driver and a device touch at the same time.
//!
//! The only module of this crate with `unsafe` (its part `backend` makes the promises of
//! [`SimDma`](crate::host::SimDma)). Every access is made of relaxed atomics, so that a driver on
//! one thread and a device on another never race in the sense of the language. All memory is
//! accessed as 4-aligned 32-bit words: a descriptor word is never seen half-written, and no byte is
//! accessed with two widths at once. A part of a word is merged into it. Only the edges of a foreign
//! buffer, where a word would reach beyond it, are accessed as bytes. Order between accesses comes
//! from the barriers of the driver and from the fabric's lock, as it comes from the bus on hardware.
//!
//! Words are little-endian, as PCIe carries them.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

mod allocation;
mod backend;
mod region;
#[cfg(test)]
mod tests;

use allocation::Allocation;
use region::Region;

/// Alignment of every [`SharedMemory`], in bytes.
pub const PAGE_SIZE: usize = 4096;

/// An access outside of a memory region, or one that is not aligned to its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The access does not lie inside the region.
    #[error("{len} bytes at offset {offset:#x} are outside of a region of {size:#x} bytes")]
    OutOfRange {
        /// Offset of the access.
        offset: usize,
        /// Length of the access in bytes.
        len: usize,
        /// Size of the region in bytes.
        size: usize,
    },
    /// A word access whose address is not a multiple of the word's size.
    #[error("offset {offset:#x} is not aligned for {width} bytes")]
    Misaligned {
        /// Offset of the access.
        offset: usize,
        /// Width of the access in bytes.
        width: usize,
    },
}

/// Zeroed, page-aligned memory behind a cloneable handle: a machine's RAM, the memory of a BAR.
///
/// # Examples
/// ```
/// use tombolo_sim::memory::SharedMemory;
///
/// let device = SharedMemory::new(64);
/// let driver = device.clone();
/// driver.write_u32(0, 0x1234_5678)?;
/// let mut first = [0; 2];
/// device.read(0, &mut first)?;
/// assert_eq!(first, [0x78, 0x56]);
/// # Ok::<(), tombolo_sim::memory::MemoryError>(())
/// ```
#[derive(Clone)]
pub struct SharedMemory {
    allocation: Arc<Allocation>,
}

impl SharedMemory {
    /// Allocates `len` zeroed bytes. The host gives pages only as they are touched. On Linux the
    /// memory is an anonymous file's, see [`SharedMemory::as_fd`].
    ///
    /// # Panics
    /// If `len` is within a page of `isize::MAX`; a length is the caller's configuration.
    pub fn new(len: usize) -> Self {
        Self { allocation: Arc::new(Allocation::new(len)) }
    }

    /// The file behind the memory, so that another process can map it: byte 0 of the memory is byte 0
    /// of the file, which is whole pages long and cannot shrink. `None` where the memory is not a
    /// file's: on systems other than Linux, or if the system gave no file.
    #[cfg(target_os = "linux")]
    pub fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.allocation.file()
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.allocation.region.len
    }

    /// Whether the memory has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both handles are of the same memory.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocation, &other.allocation)
    }

    /// The first byte, page aligned; for glue that gives drivers word access and for adapters that
    /// map the memory. Valid while a handle lives. Accesses through it must be atomic.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.allocation.region.base
    }

    /// Writes zeros.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`]; nothing is then written.
    pub fn clear(&self, offset: usize, len: usize) -> Result<(), MemoryError> {
        self.allocation.region.pointer(offset, len)?;
        let zeros = [0; PAGE_SIZE];
        for start in (0..len).step_by(PAGE_SIZE) {
            self.write(offset + start, &zeros[..PAGE_SIZE.min(len - start)])?;
        }
        Ok(())
    }

    /// A pointer to `len` bytes at `offset`, on the terms of [`SharedMemory::as_ptr`].
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`].
    pub fn pointer(&self, offset: usize, len: usize) -> Result<NonNull<u8>, MemoryError> {
        self.allocation.region.pointer(offset, len)?;
        // SAFETY: checked to lie inside the region.
        Ok(unsafe { self.allocation.region.base.add(offset) })
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedMemory").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A view of memory that somebody else owns: a driver's streaming buffer while a device may use it.
#[derive(Clone, Copy, Debug)]
pub struct HostRegion {
    region: Region,
}

// SAFETY: the contract of `HostRegion::new` allows access from any thread.
unsafe impl Send for HostRegion {}
// SAFETY: as above; accesses are atomic.
unsafe impl Sync for HostRegion {}

impl HostRegion {
    /// A view of `len` bytes at `base`.
    ///
    /// # Safety
    /// Until the last copy of the view was used, `base` must be valid for reads and writes of `len`
    /// bytes from any thread, and nobody else may access the bytes other than by atomics. Memory
    /// that only devices read may be behind a shared reference as long as it is mapped read-only.
    pub const unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        Self { region: Region { base, len, extent: len } }
    }

    /// The size in bytes.
    pub const fn len(&self) -> usize {
        self.region.len
    }

    /// Whether the view has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.region.len == 0
    }
}

macro_rules! accessors {
    ($type:ty, $self:ident => $region:expr) => {
        impl $type {
            /// Copies bytes at `offset` into `data`.
            ///
            /// # Errors
            /// [`MemoryError::OutOfRange`]; `data` is then untouched.
            pub fn read(&$self, offset: usize, data: &mut [u8]) -> Result<(), MemoryError> {
                $region.read(offset, data)
            }

            /// Copies `data` to `offset`.
            ///
            /// # Errors
            /// [`MemoryError::OutOfRange`]; nothing is then written.
            pub fn write(&$self, offset: usize, data: &[u8]) -> Result<(), MemoryError> {
                $region.write(offset, data)
            }

            /// Reads the little-endian word at `offset` with one access.
            ///
            /// # Errors
            /// [`MemoryError`] if it is out of range or not 4-aligned.
            pub fn read_u32(&$self, offset: usize) -> Result<u32, MemoryError> {
                $region.read_u32(offset)
            }

            /// Writes the little-endian word at `offset` with one access.
            ///
            /// # Errors
            /// [`MemoryError`] if it is out of range or not 4-aligned.
            pub fn write_u32(&$self, offset: usize, value: u32) -> Result<(), MemoryError> {
                $region.write_u32(offset, value)
            }

            /// Reads the little-endian 64-bit word at `offset`, low half first.
            ///
            /// # Errors
            /// [`MemoryError`] if it is out of range or not 8-aligned.
            pub fn read_u64(&$self, offset: usize) -> Result<u64, MemoryError> {
                $region.read_u64(offset)
            }

            /// Writes the little-endian 64-bit word at `offset`, low half first.
            ///
            /// # Errors
            /// [`MemoryError`] if it is out of range or not 8-aligned.
            pub fn write_u64(&$self, offset: usize, value: u64) -> Result<(), MemoryError> {
                $region.write_u64(offset, value)
            }
        }
    };
}

accessors!(SharedMemory, self => self.allocation.region);
accessors!(HostRegion, self => self.region);

//! Memory that a driver and a device touch at the same time.
//!
//! The only module of this crate with `unsafe` (its part `backend` makes the promises of
//! [`SimDma`](crate::host::SimDma)). Every access is made of relaxed atomics, so that a
//! driver on one thread and a device on another never race in the sense of the language. A copy uses
//! one 32-bit atomic for each 4-aligned word that lies wholly inside it and single bytes at its
//! edges: a descriptor word is never seen half-written. Order between accesses comes from the
//! barriers of the driver and from the fabric's lock, as it comes from the bus on hardware.
//!
//! Words are little-endian, as PCIe carries them.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

mod backend;
#[cfg(test)]
mod tests;

/// Alignment of every [`SharedMemory`], in bytes.
pub const PAGE_SIZE: usize = 4096;

const WORD: usize = 4;

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

/// A region of bytes with bounds and atomic access; says nothing about who owns it.
///
/// Invariant: `base` is valid for reads and writes of `len` bytes for as long as the owner keeps the
/// region, and all concurrent accesses are atomic.
#[derive(Clone, Copy, Debug)]
struct Region {
    base: NonNull<u8>,
    len: usize,
}

impl Region {
    fn pointer(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !fits {
            return Err(MemoryError::OutOfRange { offset, len, size: self.len });
        }
        // SAFETY: `offset <= self.len`, so the result is inside the region or one past its end.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    fn word_pointer(&self, offset: usize, width: usize) -> Result<*mut u8, MemoryError> {
        let pointer = self.pointer(offset, width)?;
        if pointer.addr() & (width - 1) != 0 {
            return Err(MemoryError::Misaligned { offset, width });
        }
        Ok(pointer)
    }

    fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), MemoryError> {
        let mut from = self.pointer(offset, data.len())?.cast_const();
        let (head, words, tail) = split(from.addr(), data.len());
        let (first, rest) = data.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * WORD);
        debug_assert_eq!(last.len(), tail);
        from = read_bytes(from, first);
        for word in middle.chunks_exact_mut(WORD) {
            // SAFETY: inside the checked range and 4-aligned, because `head` bytes reach alignment.
            let value = unsafe { AtomicU32::from_ptr(from.cast_mut().cast()) }.load(Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            // SAFETY: stays within the checked range or one past its end.
            from = unsafe { from.add(WORD) };
        }
        read_bytes(from, last);
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<(), MemoryError> {
        let mut to = self.pointer(offset, data.len())?;
        let (head, words, _) = split(to.addr(), data.len());
        let (first, rest) = data.split_at(head);
        let (middle, last) = rest.split_at(words * WORD);
        to = write_bytes(to, first);
        for word in middle.chunks_exact(WORD) {
            let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            // SAFETY: inside the checked range and 4-aligned, because `head` bytes reach alignment.
            unsafe { AtomicU32::from_ptr(to.cast()) }.store(value, Relaxed);
            // SAFETY: stays within the checked range or one past its end.
            to = unsafe { to.add(WORD) };
        }
        write_bytes(to, last);
        Ok(())
    }

    fn read_u32(&self, offset: usize) -> Result<u32, MemoryError> {
        let pointer = self.word_pointer(offset, 4)?;
        // SAFETY: in bounds and aligned (`word_pointer`); the region's invariant gives validity.
        Ok(u32::from_le(unsafe { AtomicU32::from_ptr(pointer.cast()) }.load(Relaxed)))
    }

    fn write_u32(&self, offset: usize, value: u32) -> Result<(), MemoryError> {
        let pointer = self.word_pointer(offset, 4)?;
        // SAFETY: as in `read_u32`.
        unsafe { AtomicU32::from_ptr(pointer.cast()) }.store(value.to_le(), Relaxed);
        Ok(())
    }

    fn read_u64(&self, offset: usize) -> Result<u64, MemoryError> {
        let pointer = self.word_pointer(offset, 8)?;
        // SAFETY: in bounds and aligned (`word_pointer`); the region's invariant gives validity.
        Ok(u64::from_le(unsafe { AtomicU64::from_ptr(pointer.cast()) }.load(Relaxed)))
    }

    fn write_u64(&self, offset: usize, value: u64) -> Result<(), MemoryError> {
        let pointer = self.word_pointer(offset, 8)?;
        // SAFETY: as in `read_u64`.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }.store(value.to_le(), Relaxed);
        Ok(())
    }
}

/// Splits `len` bytes at `addr` into leading bytes, aligned 32-bit words and trailing bytes.
fn split(addr: usize, len: usize) -> (usize, usize, usize) {
    let head = (addr.wrapping_neg() & (WORD - 1)).min(len);
    let words = (len - head) / WORD;
    (head, words, len - head - words * WORD)
}

/// Reads fewer than four bytes; `from` must be valid for `data.len()` bytes (checked by the caller).
fn read_bytes(mut from: *const u8, data: &mut [u8]) -> *const u8 {
    for byte in data {
        // SAFETY: inside the range that the caller checked.
        *byte = unsafe { AtomicU8::from_ptr(from.cast_mut()) }.load(Relaxed);
        // SAFETY: stays within that range or one past its end.
        from = unsafe { from.add(1) };
    }
    from
}

/// Writes fewer than four bytes; `to` must be valid for `data.len()` bytes (checked by the caller).
fn write_bytes(mut to: *mut u8, data: &[u8]) -> *mut u8 {
    for byte in data {
        // SAFETY: inside the range that the caller checked.
        unsafe { AtomicU8::from_ptr(to) }.store(*byte, Relaxed);
        // SAFETY: stays within that range or one past its end.
        to = unsafe { to.add(1) };
    }
    to
}

struct Allocation {
    region: Region,
    raw: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation belongs to this value alone, and all accesses to it are atomic.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `alloc_zeroed` with this layout and is released once.
        unsafe { dealloc(self.raw.as_ptr(), self.layout) };
    }
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
    /// Allocates `len` zeroed bytes. The host gives pages only as they are touched.
    ///
    /// # Panics
    /// If `len` is within a page of `isize::MAX`; a length is the caller's configuration.
    pub fn new(len: usize) -> Self {
        // Over-allocation instead of a page-aligned layout: the allocator then takes fresh zero
        // pages from the system rather than clearing all of them.
        let padded = len.checked_add(PAGE_SIZE).expect("memory size overflows");
        let layout = Layout::from_size_align(padded, 16).expect("memory size overflows");
        // SAFETY: the layout has a size of at least a page.
        let Some(raw) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let pad = raw.addr().get().wrapping_neg() & (PAGE_SIZE - 1);
        // SAFETY: `pad < PAGE_SIZE`, so `pad + len` bytes lie inside the allocation.
        let base = unsafe { raw.add(pad) };
        let region = Region { base, len };
        Self { allocation: Arc::new(Allocation { region, raw, layout }) }
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
        Self { region: Region { base, len } }
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

            /// Reads the little-endian 64-bit word at `offset` with one access.
            ///
            /// # Errors
            /// [`MemoryError`] if it is out of range or not 8-aligned.
            pub fn read_u64(&$self, offset: usize) -> Result<u64, MemoryError> {
                $region.read_u64(offset)
            }

            /// Writes the little-endian 64-bit word at `offset` with one access.
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

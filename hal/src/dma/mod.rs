//! Memory that a device reaches.
//!
//! [`DmaBackend`] is what a platform gives; [`Coherent`] is memory that driver and device share all
//! the time; [`Streaming`] is a buffer that goes to the device and comes back.
//!
//! # Teardown
//! Stop the engine, synchronise, clear Bus Master Enable, reset the function if it can be, and only
//! then free. Memory that may still be written by a device that would not stop goes to
//! [quarantine](Coherent::quarantine): it stays mapped, is never reused and is counted. So does
//! memory that is dropped without any of these words, because then nobody has said that the device
//! is done with it. Soundness rests on neither: leaking a value is always safe.
#![allow(unsafe_code)]

mod coherent;
mod streaming;
mod words;

pub use coherent::Coherent;
pub use streaming::{Completed, DmaMemory, InFlight, PrepareError, Prepared, Streaming};
pub use words::{RelaxedAtomic, Volatile, WordAccess};

use core::ptr::NonNull;

use crate::DmaAddr;
use crate::barrier::Barrier;

/// What a device can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaConstraints {
    /// The highest address the device can send; `u64::MAX` for a 64-bit device. As Linux's DMA mask.
    pub mask: u64,
    /// What an address must be a multiple of, in bytes: a power of two.
    pub align: u64,
    /// No segment crosses a multiple of this, in bytes: a power of two, or 0 for no boundary.
    pub boundary: u64,
    /// The largest segment in bytes.
    pub max_segment: u64,
}

impl DmaConstraints {
    /// A 64-bit device without further limits.
    pub const fn any() -> Self {
        Self { mask: u64::MAX, align: 1, boundary: 0, max_segment: u64::MAX }
    }

    /// The same with at least this alignment, a power of two.
    pub const fn aligned(mut self, align: u64) -> Self {
        if align > self.align {
            self.align = align;
        }
        self
    }

    /// Whether `size` bytes at `addr` keep to mask and alignment.
    pub const fn allow(&self, addr: DmaAddr, size: u64) -> bool {
        let last = match addr.value().checked_add(size.saturating_sub(1)) {
            Some(last) => last,
            None => return false,
        };
        last <= self.mask && addr.is_aligned(self.align)
    }

    /// How many of `remaining` bytes from `addr` on can be one segment. At least 1.
    pub fn segment_at(&self, addr: DmaAddr, remaining: u64) -> u64 {
        let mut size = remaining.min(self.max_segment.max(1));
        if self.boundary > 1 {
            size = size.min(self.boundary - (addr.value() & (self.boundary - 1)));
        }
        size
    }
}

/// Who writes the memory of a streaming mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataDirection {
    /// The device reads it.
    ToDevice,
    /// The device writes it.
    FromDevice,
    /// Both.
    Bidirectional,
}

/// Coherent memory as a backend hands it out.
#[derive(Clone, Copy, Debug)]
pub struct CoherentRegion {
    /// Where the CPU sees it.
    pub cpu: NonNull<u8>,
    /// Where the device sees it.
    pub device: DmaAddr,
    /// Size in bytes.
    pub size: usize,
}

/// A streaming mapping as a backend hands it out.
#[derive(Clone, Copy, Debug)]
pub struct StreamingRegion {
    /// The memory that was mapped.
    pub cpu: NonNull<u8>,
    /// Where the device sees it, contiguous.
    pub device: DmaAddr,
    /// Size in bytes.
    pub size: usize,
    /// Who writes it.
    pub direction: DataDirection,
}

/// Why memory went to quarantine; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// The device did not stop.
    NotStopped,
    /// The memory was dropped before anybody said that the device is done with it.
    Dropped,
}

/// What a platform gives so that a device can reach memory.
///
/// Backends are cheap handles that are cloned into each piece of memory: two devices can have two
/// IOMMU domains, two tests two fakes.
///
/// # Writing a backend
/// The least is a static pool of memory that device and CPU see at the same addresses:
///
/// ```
/// use core::ptr::NonNull;
/// use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use tombolo_hal::DmaAddr;
/// use tombolo_hal::dma::{
///     CoherentRegion, DataDirection, DmaBackend, DmaConstraints, StreamingRegion, Volatile,
/// };
///
/// /// Hands out pieces of one range and takes none back.
/// #[derive(Clone, Copy)]
/// struct Pool(&'static PoolState);
/// struct PoolState { base: usize, size: usize, used: AtomicUsize, quarantined: AtomicUsize }
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the pool is used up")]
/// struct UsedUp;
/// impl tombolo_hal::error::Error for UsedUp {
///     fn kind(&self) -> tombolo_hal::error::ErrorKind { tombolo_hal::error::ErrorKind::NoSpace }
/// }
///
/// // SAFETY: pieces are aligned, inside the range, zeroed once by who made the pool, and handed out once.
/// unsafe impl DmaBackend for Pool {
///     type Error = UsedUp;
///     type Words = Volatile;
///     fn alloc_coherent(&self, size: usize, limits: &DmaConstraints) -> Result<CoherentRegion, UsedUp> {
///         let align = (limits.align.max(8)) as usize;
///         let room = size.next_multiple_of(8) + align;
///         let at = self.0.base + self.0.used.fetch_add(room, Relaxed);
///         let start = at.next_multiple_of(align);
///         let device = DmaAddr::new(start as u64);
///         if start + size > self.0.base + self.0.size || !limits.allow(device, size as u64) {
///             return Err(UsedUp);
///         }
///         let cpu = NonNull::new(core::ptr::with_exposed_provenance_mut(start)).ok_or(UsedUp)?;
///         Ok(CoherentRegion { cpu, device, size })
///     }
///     unsafe fn free_coherent(&self, _: CoherentRegion) {}
///     fn quarantine_coherent(&self, _: CoherentRegion) { self.0.quarantined.fetch_add(1, Relaxed); }
///     unsafe fn map_streaming(
///         &self, cpu: NonNull<u8>, size: usize, direction: DataDirection, limits: &DmaConstraints,
///     ) -> Result<StreamingRegion, UsedUp> {
///         let device = DmaAddr::new(cpu.as_ptr().expose_provenance() as u64);
///         let allowed = limits.allow(device, size as u64);
///         allowed.then_some(StreamingRegion { cpu, device, size, direction }).ok_or(UsedUp)
///     }
///     unsafe fn unmap_streaming(&self, _: StreamingRegion) {}
///     fn quarantine_streaming(&self, _: StreamingRegion) { self.0.quarantined.fetch_add(1, Relaxed); }
///     fn quarantined(&self) -> usize { self.0.quarantined.load(Relaxed) }
/// }
/// ```
///
/// One over an allocator keeps what it needs to free (the layout) by the region's address, or makes all
/// regions of one alignment, as the fake does. A region's `size` is the one that was asked for.
///
/// # Safety
/// An implementation promises that
/// - [`alloc_coherent`](Self::alloc_coherent) returns memory that is valid for reads and writes of
///   `size` bytes rounded up to a multiple of 8, zeroed, aligned to at least 8 and to the constraints, and used by nobody else
///   until it is freed; quarantined memory is never used again;
/// - a device that keeps to the addresses it was given reaches nothing but the memory behind them.
pub unsafe trait DmaBackend: Clone + Send + Sync {
    /// What can go wrong.
    type Error: crate::error::Error + Send + Sync + 'static;
    /// How words of coherent memory are accessed: [`Volatile`] where the device is hardware,
    /// [`RelaxedAtomic`] where it is another thread of this process.
    type Words: WordAccess;

    /// Memory that CPU and device share, zeroed.
    ///
    /// # Errors
    /// The platform's, when there is no such memory.
    fn alloc_coherent(
        &self,
        size: usize,
        constraints: &DmaConstraints,
    ) -> Result<CoherentRegion, Self::Error>;

    /// Gives coherent memory back.
    ///
    /// # Safety
    /// `region` came from this backend, is freed once, and neither CPU nor device uses it any more.
    unsafe fn free_coherent(&self, region: CoherentRegion);

    /// Keeps the region mapped and allocated for ever, and counts it.
    fn quarantine_coherent(&self, region: CoherentRegion);

    /// Lets the device reach `size` bytes at `cpu`, contiguous in its address space, and makes what
    /// the CPU wrote visible to it.
    ///
    /// # Safety
    /// The memory is valid, and the CPU does not touch it until it is unmapped.
    ///
    /// # Errors
    /// The platform's, when it cannot be mapped within the constraints.
    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        constraints: &DmaConstraints,
    ) -> Result<StreamingRegion, Self::Error>;

    /// Takes the memory from the device again, and makes what it wrote visible to the CPU.
    ///
    /// # Safety
    /// `region` came from this backend, is unmapped once, and the device no longer uses it.
    unsafe fn unmap_streaming(&self, region: StreamingRegion);

    /// Makes what the device wrote into a part of a mapping visible to the CPU. Nothing to do where
    /// DMA is coherent.
    fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        let _ = (region, offset, size);
    }

    /// Makes what the CPU wrote into a part of a mapping visible to the device. Nothing to do where
    /// DMA is coherent.
    fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        let _ = (region, offset, size);
    }

    /// Keeps the mapping for ever, and counts it. The caller leaks the memory.
    fn quarantine_streaming(&self, region: StreamingRegion);

    /// How many regions are in quarantine.
    fn quarantined(&self) -> usize;

    /// Executes a barrier. A simulator also records it.
    #[inline(always)]
    fn barrier(&self, barrier: Barrier) {
        barrier.execute();
    }
}

fn log_quarantine(size: usize, device: DmaAddr, reason: QuarantineReason) {
    let why = match reason {
        QuarantineReason::NotStopped => "the device did not stop",
        QuarantineReason::Dropped => "dropped while the device might use it",
    };
    crate::logging::warning!(
        "{} bytes of DMA memory at {:#x} are quarantined: {}",
        size,
        device.value(),
        why
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_end_at_the_boundary_and_at_the_largest_size() {
        let c = DmaConstraints { boundary: 0x1000, max_segment: 0x600, ..DmaConstraints::any() };
        assert_eq!(c.segment_at(DmaAddr::new(0xf00), 0x5000), 0x100);
        assert_eq!(c.segment_at(DmaAddr::new(0x1000), 0x5000), 0x600);
        assert_eq!(c.segment_at(DmaAddr::new(0x1000), 0x10), 0x10);
    }

    #[test]
    fn mask_and_alignment() {
        let c = DmaConstraints { mask: 0xffff_ffff, ..DmaConstraints::any().aligned(8) };
        assert!(c.allow(DmaAddr::new(0xffff_fff8), 8));
        assert!(!c.allow(DmaAddr::new(0xffff_fff8), 9));
        assert!(!c.allow(DmaAddr::new(0x4), 4));
        assert!(!c.allow(DmaAddr::new(u64::MAX - 7), 9));
    }
}

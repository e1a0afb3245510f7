//! Memory that driver and device share all the time.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::{CoherentRegion, DmaBackend, DmaConstraints, QuarantineReason, WordAccess, log_quarantine};
use crate::DmaAddr;
use crate::barrier::Barrier;
use crate::mmio::{Caching, Mmio, MmioNarrow};

/// Coherent memory: rings, linked lists, status words.
///
/// Access is one aligned little-endian word at a time, and by `&self`, because the device changes
/// the memory whenever it likes: read a word once, check that copy, use that copy. Words outside
/// read all ones and writes to them vanish, as with [`Mmio`], which this implements: code that
/// writes a list does not care whether it lies in RAM or behind a BAR.
///
/// Give each word one width: where driver and device touch the same bytes at the same time, accesses
/// of different widths tear. Two CPUs that write one word through `&Coherent` race as in C: words
/// that are shared between CPUs belong into atomics.
///
/// End its life with [`free`](Self::free) once the device no longer uses it, or with
/// [`quarantine`](Self::quarantine) if that cannot be known; a drop quarantines too.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use tombolo_hal::dma::{Coherent, DmaConstraints};
/// use tombolo_hal::fake::HeapDma;
/// use tombolo_hal::mmio::{Mmio, Window};
///
/// let ring = Coherent::new(HeapDma::new(), 256, &DmaConstraints::any().aligned(64))?;
/// assert!(ring.device_address().is_aligned(64));
/// ring.write64_relaxed(8, 0x1234);
/// ring.write32_relaxed(0, 1);
/// assert_eq!(ring.read32_relaxed(8), 0x1234);
/// ring.free();
/// # }
/// # Ok::<(), tombolo_hal::fake::OutOfMemory>(())
/// ```
pub struct Coherent<B: DmaBackend> {
    region: CoherentRegion,
    backend: B,
    words: PhantomData<fn() -> B::Words>,
}

// SAFETY: the region belongs to this value alone on the CPU's side, and every access is a word that
// the backend declared fit for sharing.
unsafe impl<B: DmaBackend> Send for Coherent<B> {}
// SAFETY: as for `Send`: accesses by `&self` are volatile or atomic words.
unsafe impl<B: DmaBackend> Sync for Coherent<B> {}

impl<B: DmaBackend> Coherent<B> {
    /// `size` bytes, zeroed.
    ///
    /// # Errors
    /// The backend's.
    pub fn new(backend: B, size: usize, constraints: &DmaConstraints) -> Result<Self, B::Error> {
        let region = backend.alloc_coherent(size, constraints)?;
        Ok(Self { region, backend, words: PhantomData })
    }

    /// Where the device sees it.
    pub fn device_address(&self) -> DmaAddr {
        self.region.device
    }

    /// Gives the memory back.
    ///
    /// To call it is to say that the device no longer uses it; drivers do so after their engine
    /// reported that it stopped. A device that reads it all the same reads somebody else's data, or is
    /// refused by the IOMMU.
    pub fn free(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the backend is read once.
        let backend = unsafe { core::ptr::read(&this.backend) };
        // SAFETY: the region came from this backend and goes with `self`; that the device is done
        // with it is what calling this says (a device that is not cannot be ruled out by any type;
        // drivers call it after the engine reported that it stopped).
        unsafe { backend.free_coherent(this.region) }
    }

    /// Keeps the memory mapped for ever, because the device did not stop.
    pub fn quarantine(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the backend is read once.
        let backend = unsafe { core::ptr::read(&this.backend) };
        log_quarantine(this.region.size, this.region.device, QuarantineReason::NotStopped);
        backend.quarantine_coherent(this.region);
    }

    /// Copies `out.len()` bytes at `offset` out, byte by byte. What lies outside reads 0xff.
    pub fn read_bytes(&self, offset: usize, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = self.read8(offset.saturating_add(i));
        }
    }

    /// Copies `data` to `offset`, byte by byte. What lies outside is not written.
    pub fn write_bytes(&self, offset: usize, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            self.write8(offset.saturating_add(i), *byte);
        }
    }

    #[inline(always)]
    fn at(&self, offset: usize, width: usize) -> Option<NonNull<u8>> {
        // An aligned offset below the last whole word's end has room for a word.
        let inside = offset & (width - 1) == 0 && offset < self.region.size & !(width - 1);
        // SAFETY: `width` bytes at `offset` lie inside the region.
        inside.then(|| unsafe { self.region.cpu.add(offset) })
    }
}

impl<B: DmaBackend> Drop for Coherent<B> {
    fn drop(&mut self) {
        log_quarantine(self.region.size, self.region.device, QuarantineReason::Dropped);
        self.backend.quarantine_coherent(self.region);
    }
}

impl<B: DmaBackend> core::fmt::Debug for Coherent<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Coherent")
            .field("device", &self.region.device)
            .field("size", &self.region.size)
            .finish()
    }
}

impl<B: DmaBackend> Mmio for Coherent<B> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.region.size
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        let value = self.read32_relaxed(offset);
        self.backend.barrier(Barrier::DmaRmb);
        value
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        self.backend.barrier(Barrier::DmaWmb);
        self.write32_relaxed(offset, value);
    }

    #[inline(always)]
    fn read32_relaxed(&self, offset: usize) -> u32 {
        match self.at(offset, 4) {
            // SAFETY: `at` checked range and alignment; regions are aligned to at least 8.
            Some(p) => unsafe { B::Words::read32(p.as_ptr().cast()) },
            None => u32::MAX,
        }
    }

    #[inline(always)]
    fn write32_relaxed(&self, offset: usize, value: u32) {
        if let Some(p) = self.at(offset, 4) {
            // SAFETY: as for reading.
            unsafe { B::Words::write32(p.as_ptr().cast(), value) }
        }
    }

    #[inline(always)]
    fn write64_relaxed(&self, offset: usize, value: u64) {
        match self.at(offset, 8) {
            // SAFETY: `at` checked range and alignment.
            Some(p) => unsafe { B::Words::write64(p.as_ptr().cast(), value) },
            None => self.write64_lo_hi(offset, value),
        }
    }

    #[inline(always)]
    fn barrier(&self, barrier: Barrier) {
        self.backend.barrier(barrier);
    }

    #[inline(always)]
    fn caching(&self) -> Caching {
        Caching::Coherent
    }
}

impl<B: DmaBackend> MmioNarrow for Coherent<B> {
    fn read8(&self, offset: usize) -> u8 {
        match self.at(offset, 1) {
            // SAFETY: `at` checked the range.
            Some(p) => unsafe { B::Words::read8(p.as_ptr()) },
            None => u8::MAX,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        if let Some(p) = self.at(offset, 1) {
            // SAFETY: `at` checked the range.
            unsafe { B::Words::write8(p.as_ptr(), value) }
        }
    }

    fn read16(&self, offset: usize) -> u16 {
        match self.at(offset, 2) {
            // SAFETY: `at` checked range and alignment.
            Some(p) => unsafe { B::Words::read16(p.as_ptr().cast()) },
            None => u16::MAX,
        }
    }

    fn write16(&self, offset: usize, value: u16) {
        if let Some(p) = self.at(offset, 2) {
            // SAFETY: `at` checked range and alignment.
            unsafe { B::Words::write16(p.as_ptr().cast(), value) }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::fake::HeapDma;

    #[test]
    fn words_outside_read_ones_and_are_not_written() {
        let m = Coherent::new(HeapDma::new(), 16, &DmaConstraints::any()).unwrap();
        m.write64_relaxed(4, 0x99);
        m.write64_relaxed(8, 0x1122_3344_5566_7788);
        m.write64_relaxed(16, 1);
        m.write32_relaxed(16, 1);
        m.write16(15, 1);
        assert_eq!((m.read32(8), m.read32(12), m.read32(16)), (0x5566_7788, 0x1122_3344, u32::MAX));
        assert_eq!((m.read8(8), m.read16(10), m.read8(16), m.read16(15)), (0x88, 0x5566, u8::MAX, u16::MAX));
        m.free();
    }

    #[test]
    fn bytes_go_in_and_out_at_any_offset_and_end_with_the_memory() {
        let m = Coherent::new(HeapDma::new(), 12, &DmaConstraints::any()).unwrap();
        m.write_bytes(3, &[1, 2, 3, 4, 5]);
        m.write_bytes(10, &[6, 7, 8]);
        let mut out = [0; 14];
        m.read_bytes(1, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 3, 4, 5, 0, 0, 6, 7, 0xff, 0xff, 0xff]);
        m.free();
    }

    #[test]
    fn a_drop_is_quarantine_and_a_free_is_not() {
        let backend = HeapDma::new();
        Coherent::new(backend.clone(), 64, &DmaConstraints::any()).unwrap().free();
        assert_eq!((backend.quarantined(), backend.allocated()), (0, 0));
        drop(Coherent::new(backend.clone(), 64, &DmaConstraints::any()).unwrap());
        Coherent::new(backend.clone(), 64, &DmaConstraints::any()).unwrap().quarantine();
        assert_eq!((backend.quarantined(), backend.allocated()), (2, 2));
    }
}

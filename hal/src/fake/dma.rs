//! Heap memory as DMA memory: device addresses are the CPU's.
#![allow(unsafe_code)]

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::DmaAddr;
use crate::dma::{CoherentRegion, DataDirection, DmaBackend, DmaConstraints, RelaxedAtomic, StreamingRegion};
use crate::error::{Error, ErrorKind};

#[derive(Debug, Default)]
struct Counts {
    allocated: AtomicUsize,
    mapped: AtomicUsize,
    quarantined: AtomicUsize,
}

/// Identity-mapped heap memory, counted.
#[derive(Clone, Debug, Default)]
pub struct HeapDma(Arc<Counts>);

/// There is no memory within the constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory of {size} bytes within the device's constraints")]
pub struct OutOfMemory {
    /// How much was asked for.
    pub size: usize,
}

impl Error for OutOfMemory {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Platform
    }
}

impl HeapDma {
    /// A backend of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many coherent regions are allocated, the quarantined ones included.
    pub fn allocated(&self) -> usize {
        self.0.allocated.load(Relaxed)
    }

    /// How many buffers are mapped, the quarantined ones included.
    pub fn mapped(&self) -> usize {
        self.0.mapped.load(Relaxed)
    }

    fn layout(size: usize, align: u64) -> Result<Layout, OutOfMemory> {
        let align = usize::try_from(align.max(8)).map_err(|_| OutOfMemory { size })?;
        Layout::from_size_align(size.max(1).next_multiple_of(8), align).map_err(|_| OutOfMemory { size })
    }
}

// SAFETY: memory comes zeroed from the allocator with the wanted alignment (at least 8), belongs to
// its region alone, and is freed only by `free_coherent`.
unsafe impl DmaBackend for HeapDma {
    type Error = OutOfMemory;
    type Words = RelaxedAtomic;

    fn alloc_coherent(
        &self,
        size: usize,
        constraints: &DmaConstraints,
    ) -> Result<CoherentRegion, OutOfMemory> {
        // The alignment is rounded up to whole pages, so that freeing needs no constraints.
        let layout = Self::layout(size, PAGE.max(constraints.align))?;
        if constraints.align > PAGE {
            return Err(OutOfMemory { size });
        }
        // SAFETY: `layout` is not empty.
        let cpu = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(OutOfMemory { size })?;
        let device = DmaAddr::new(cpu.as_ptr().expose_provenance() as u64);
        if !constraints.allow(device, size as u64) {
            // SAFETY: just allocated with this layout.
            unsafe { dealloc(cpu.as_ptr(), layout) };
            return Err(OutOfMemory { size });
        }
        self.0.allocated.fetch_add(1, Relaxed);
        Ok(CoherentRegion { cpu, device, size })
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        if let Ok(layout) = Self::layout(region.size, PAGE) {
            self.0.allocated.fetch_sub(1, Relaxed);
            // SAFETY: allocated by `alloc_coherent` with this layout; the caller frees it once.
            unsafe { dealloc(region.cpu.as_ptr(), layout) }
        }
    }

    fn quarantine_coherent(&self, _region: CoherentRegion) {
        self.0.quarantined.fetch_add(1, Relaxed);
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        constraints: &DmaConstraints,
    ) -> Result<StreamingRegion, OutOfMemory> {
        let device = DmaAddr::new(cpu.as_ptr().expose_provenance() as u64);
        if !constraints.allow(device, size as u64) {
            return Err(OutOfMemory { size });
        }
        self.0.mapped.fetch_add(1, Relaxed);
        Ok(StreamingRegion { cpu, device, size, direction })
    }

    unsafe fn unmap_streaming(&self, _region: StreamingRegion) {
        self.0.mapped.fetch_sub(1, Relaxed);
    }

    fn quarantine_streaming(&self, _region: StreamingRegion) {
        self.0.quarantined.fetch_add(1, Relaxed);
    }

    fn quarantined(&self) -> usize {
        self.0.quarantined.load(Relaxed)
    }
}

const PAGE: u64 = 4096;

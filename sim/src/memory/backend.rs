//! The `unsafe` half of [`SimDma`]: a promise about memory that [`crate::host`] keeps.

use super::HostRegion;
use crate::host::{SimDma, SimDmaError};
use std::ptr::NonNull;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{
    CoherentRegion, DataDirection, DmaBackend, DmaConstraints, RelaxedAtomic, StreamingRegion,
};

// SAFETY: coherent memory is a piece of the machine's RAM, which lives as long as any handle of the
// fabric (`self` holds one) and is handed out once until it is freed; it is zeroed, and both
// multiples of the granule (64) and of the constraints, because RAM begins on a page. A device
// reaches only what its IOMMU maps.
unsafe impl DmaBackend for SimDma {
    type Error = SimDmaError;
    type Words = RelaxedAtomic;

    fn alloc_coherent(
        &self,
        size: usize,
        constraints: &DmaConstraints,
    ) -> Result<CoherentRegion, SimDmaError> {
        self.alloc(size, constraints)
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        self.free(region);
    }

    fn quarantine_coherent(&self, region: CoherentRegion) {
        self.quarantine(region.size);
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        constraints: &DmaConstraints,
    ) -> Result<StreamingRegion, SimDmaError> {
        // SAFETY: the caller's promise: valid memory that the CPU leaves alone until it is unmapped,
        // and unmapping drops the only copies of the view.
        let region = unsafe { HostRegion::new(cpu, size) };
        self.map(region, cpu, direction, constraints)
    }

    unsafe fn unmap_streaming(&self, region: StreamingRegion) {
        self.unmap(region);
    }

    fn quarantine_streaming(&self, region: StreamingRegion) {
        self.quarantine(region.size);
    }

    fn quarantined(&self) -> usize {
        self.function().counters().quarantined as usize
    }

    fn barrier(&self, barrier: Barrier) {
        self.record_barrier(barrier);
    }
}

//! DMA memory as a driver gets it: RAM of the machine and the driver's own buffers, both through
//! the function's IOMMU. The `unsafe` half is in the memory module.

use crate::fabric::{Access, Function, IommuError};
use crate::memory::HostRegion;
use std::ptr::NonNull;
use tombolo_hal::DmaAddr;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{CoherentRegion, DataDirection, DmaConstraints, StreamingRegion};
use tombolo_hal::error::{Error, ErrorKind};

/// RAM is handed out in pieces of this many bytes.
const GRANULE: u64 = 64;

/// Why DMA memory could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimDmaError {
    /// Zero bytes, or an alignment or boundary that is not a power of two.
    #[error("{size} bytes cannot be mapped with these constraints")]
    InvalidInput {
        /// Size in bytes.
        size: usize,
    },
    /// The machine has not so much RAM left.
    #[error("no {size} bytes of RAM are left")]
    OutOfMemory {
        /// Size in bytes.
        size: usize,
    },
    /// No address within the constraints is free.
    #[error("no addresses for {size} bytes are left")]
    OutOfAddresses {
        /// Size in bytes.
        size: usize,
    },
    /// The IOMMU did not map it.
    #[error("the IOMMU did not map the memory")]
    Iommu(#[from] IommuError),
}

impl Error for SimDmaError {
    fn kind(&self) -> ErrorKind {
        match self {
            SimDmaError::InvalidInput { .. } => ErrorKind::InvalidInput,
            SimDmaError::OutOfMemory { .. } | SimDmaError::OutOfAddresses { .. } => ErrorKind::NoSpace,
            SimDmaError::Iommu(_) => ErrorKind::Platform,
        }
    }
}

/// A [`DmaBackend`](tombolo_hal::dma::DmaBackend) for one function.
///
/// Unmapping really takes the memory from the device: a request that comes too late faults.
#[derive(Clone, Debug)]
pub struct SimDma {
    function: Function,
}

impl SimDma {
    pub(crate) fn new(function: Function) -> Self {
        Self { function }
    }

    /// The function whose IOMMU this is.
    pub fn function(&self) -> &Function {
        &self.function
    }

    pub(crate) fn alloc(&self, size: usize, limits: &DmaConstraints) -> Result<CoherentRegion, SimDmaError> {
        let len = check(size, limits)?;
        let id = self.function.id();
        let mut state = self.function.fabric().lock();
        let machine = state.functions[id].machine;
        let ram_len = len.next_multiple_of(GRANULE);
        let offset = state.machines[machine].allocate(ram_len, limits.align.max(GRANULE));
        let offset = offset.ok_or(SimDmaError::OutOfMemory { size })?;
        let physical = state.machines[machine].config.ram_base + offset;
        let mapped = state.find_iova(id, len, limits).ok_or(SimDmaError::OutOfAddresses { size });
        let mapped = mapped.and_then(|iova| {
            state.map_physical(id, iova, len, physical, Access::ReadWrite)?;
            Ok(iova)
        });
        let iova = match mapped {
            Ok(iova) => iova,
            Err(error) => {
                state.machines[machine].release(offset, ram_len);
                return Err(error);
            }
        };
        let ram = &state.machines[machine].ram;
        let cleared = ram.clear(offset as usize, size).and_then(|()| ram.pointer(offset as usize, size));
        // Cannot fail: the allocator hands out nothing outside of RAM.
        let cpu = cleared.map_err(|_| SimDmaError::OutOfMemory { size })?;
        Ok(CoherentRegion { cpu, device: DmaAddr::new(iova), size })
    }

    pub(crate) fn free(&self, region: CoherentRegion) {
        let id = self.function.id();
        let mut state = self.function.fabric().lock();
        let len = region.size as u64;
        if state.functions[id].iommu.unmap(region.device.value(), len).is_err() {
            return;
        }
        let machine = state.functions[id].machine;
        let machine = &mut state.machines[machine];
        let offset = region.cpu.addr().get() - machine.ram.as_ptr().addr().get();
        machine.release(offset as u64, len.next_multiple_of(GRANULE));
    }

    pub(crate) fn map(
        &self,
        region: HostRegion,
        cpu: NonNull<u8>,
        direction: DataDirection,
        limits: &DmaConstraints,
    ) -> Result<StreamingRegion, SimDmaError> {
        let size = region.len();
        let len = check(size, limits)?;
        let id = self.function.id();
        let access = match direction {
            DataDirection::ToDevice => Access::Read,
            DataDirection::FromDevice => Access::Write,
            DataDirection::Bidirectional => Access::ReadWrite,
        };
        let mut state = self.function.fabric().lock();
        let iova = state.find_iova(id, len, limits).ok_or(SimDmaError::OutOfAddresses { size })?;
        state.map_host(id, iova, region, access)?;
        Ok(StreamingRegion { cpu, device: DmaAddr::new(iova), size, direction })
    }

    pub(crate) fn unmap(&self, region: StreamingRegion) {
        // Fails only for a region that is not mapped, which is what is wanted.
        let _ = self.function.iommu_unmap(region.device.value(), region.size as u64);
    }

    pub(crate) fn quarantine(&self, size: usize) {
        self.function.lock(|function| {
            function.counters.quarantined += 1;
            function.counters.quarantined_bytes += size as u64;
        });
    }

    pub(crate) fn record_barrier(&self, barrier: Barrier) {
        super::mmio::record_barrier(&self.function, barrier);
    }
}

fn check(size: usize, limits: &DmaConstraints) -> Result<u64, SimDmaError> {
    let boundary = limits.boundary == 0 || limits.boundary.is_power_of_two();
    if size == 0 || !limits.align.is_power_of_two() || !boundary {
        return Err(SimDmaError::InvalidInput { size });
    }
    Ok(size as u64)
}

//! DMA memory of the kernel.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{
    CoherentRegion, DataDirection, DmaBackend, DmaConstraints, StreamingRegion, Volatile,
};
use tombolo_hal::error::{Error, ErrorKind};

use crate::shim;

/// How many regions no device of ours has given back.
static QUARANTINED: AtomicUsize = AtomicUsize::new(0);

/// Memory through a `struct device`: its IOMMU domain, its mask.
///
/// For contexts that may sleep, but for mapping and unmapping. Quarantine leaks the memory and its
/// mapping, which outlive the module.
#[derive(Clone, Copy, Debug)]
pub struct KernelDma(NonNull<c_void>);

// SAFETY: the kernel's DMA functions may be called from anywhere.
unsafe impl Send for KernelDma {}
// SAFETY: as for `Send`.
unsafe impl Sync for KernelDma {}

/// Why there is no such memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// The kernel has none.
    #[error("the kernel has no {size} bytes of DMA memory")]
    OutOfMemory {
        /// How many bytes were asked for.
        size: usize,
    },
    /// What the kernel gave is not what the device can use.
    #[error("the kernel gave {size} bytes at {address:#x}, which the device cannot use: {limits:?}")]
    Unusable {
        /// How many bytes.
        size: usize,
        /// Where.
        address: u64,
        /// What the device can use.
        limits: DmaConstraints,
    },
}

impl Error for DmaError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Platform
    }
}

/// Linux's `enum dma_data_direction`.
pub const fn data_direction(direction: DataDirection) -> u32 {
    match direction {
        DataDirection::Bidirectional => 0,
        DataDirection::ToDevice => 1,
        DataDirection::FromDevice => 2,
    }
}

impl KernelDma {
    /// The memory of `device`.
    ///
    /// # Safety
    /// It is a `struct device` with its DMA mask set, for as long as a copy of this value exists.
    pub const unsafe fn new(device: NonNull<c_void>) -> Self {
        Self(device)
    }
}

// SAFETY: `dma_alloc_coherent` gives zeroed whole pages, which are ours until they are freed, and the
// kernel's DMA layer (with an IOMMU, the IOMMU) keeps other memory from the device's addresses.
unsafe impl DmaBackend for KernelDma {
    type Error = DmaError;
    type Words = Volatile;

    fn alloc_coherent(&self, size: usize, limits: &DmaConstraints) -> Result<CoherentRegion, DmaError> {
        let mut address = 0;
        // SAFETY: `new` promised the device; `address` is ours.
        let memory = unsafe { shim::tombolo_shim_dma_alloc(self.0.as_ptr(), size, &mut address) };
        let cpu = NonNull::new(memory.cast::<u8>()).ok_or(DmaError::OutOfMemory { size })?;
        let region = CoherentRegion { cpu, device: DmaAddr::new(address), size };
        // The kernel aligns to pages, and keeps to the mask that the shim has set.
        if !limits.allow(region.device, size as u64) {
            // SAFETY: just allocated, and nobody has seen it.
            unsafe { self.free_coherent(region) };
            return Err(DmaError::Unusable { size, address, limits: *limits });
        }
        Ok(region)
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        let address = region.device.value();
        // SAFETY: the caller's promise; allocated with this size.
        unsafe {
            shim::tombolo_shim_dma_free(self.0.as_ptr(), region.size, region.cpu.as_ptr().cast(), address);
        }
    }

    fn quarantine_coherent(&self, _region: CoherentRegion) {
        // The hal has written the line to the log.
        QUARANTINED.fetch_add(1, Relaxed);
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        limits: &DmaConstraints,
    ) -> Result<StreamingRegion, DmaError> {
        let (mut address, linux) = (0, data_direction(direction));
        // SAFETY: the caller's promise about the memory; `address` is ours.
        let error = unsafe {
            shim::tombolo_shim_dma_map(self.0.as_ptr(), cpu.as_ptr().cast(), size, linux, &mut address)
        };
        if error != 0 {
            return Err(DmaError::OutOfMemory { size });
        }
        let region = StreamingRegion { cpu, device: DmaAddr::new(address), size, direction };
        if !limits.allow(region.device, size as u64) {
            // SAFETY: just mapped, and no device knows of it.
            unsafe { self.unmap_streaming(region) };
            return Err(DmaError::Unusable { size, address, limits: *limits });
        }
        Ok(region)
    }

    unsafe fn unmap_streaming(&self, region: StreamingRegion) {
        let direction = data_direction(region.direction);
        // SAFETY: the caller's promise.
        unsafe {
            shim::tombolo_shim_dma_unmap(self.0.as_ptr(), region.device.value(), region.size, direction);
        }
    }

    fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        sync(self, region, offset, size, 0);
    }

    fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        sync(self, region, offset, size, 1);
    }

    fn quarantine_streaming(&self, _region: StreamingRegion) {
        QUARANTINED.fetch_add(1, Relaxed);
    }

    fn quarantined(&self) -> usize {
        QUARANTINED.load(Relaxed)
    }
}

fn sync(dma: &KernelDma, region: &StreamingRegion, offset: usize, size: usize, for_device: i32) {
    if offset > region.size || size > region.size - offset {
        return;
    }
    let (address, direction) = (region.device.value() + offset as u64, data_direction(region.direction));
    // SAFETY: the bytes lie inside the mapping.
    unsafe { shim::tombolo_shim_dma_sync(dma.0.as_ptr(), address, size, direction, for_device) }
}

//! Memory that the device reaches, through the IOMMU.
//!
//! Coherent memory comes from a pool of large pieces that are mapped once. A streaming buffer is
//! mapped where it is, page by page, at addresses of its own, so that two buffers that share a page do
//! not depend on each other. A page that the buffer fills only in part is not mapped: its bytes go
//! through a page of the pool, as small buffers do altogether. So the device reaches the bytes of
//! buffers that it was given, the pool (where nothing else is), and nothing more of the process.

mod error;
mod pool;
mod shared;
mod streaming;
#[cfg(test)]
mod tests;

pub use error::DmaError;

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_hal::dma::{
    CoherentRegion, DataDirection, DmaBackend, DmaConstraints, StreamingRegion, Volatile,
};

use crate::container::{Access, Container};
use crate::ranges::{Fit, Ranges};
use pool::Pool;
use streaming::Streams;

/// What maps memory for a device: the kernel, or a recorder in tests.
pub(crate) trait Mapper: fmt::Debug + Send + Sync {
    /// What mappings are multiples of, in bytes.
    fn page(&self) -> u64;
    /// The addresses that can be given out.
    fn addresses(&self) -> Ranges;
    /// How many mappings there can be, if that is known.
    fn limit(&self) -> Option<u32>;
    /// Maps memory.
    ///
    /// # Safety
    /// It stays valid until it is unmapped, and who uses it reckons with what the device writes.
    unsafe fn map(&self, cpu: NonNull<u8>, iova: u64, size: u64, access: Access) -> io::Result<()>;
    /// Unmaps all of a range.
    fn unmap(&self, iova: u64, size: u64) -> io::Result<()>;
}

impl Mapper for Container {
    fn page(&self) -> u64 {
        self.page()
    }

    fn addresses(&self) -> Ranges {
        self.addresses()
    }

    fn limit(&self) -> Option<u32> {
        self.mapping_limit()
    }

    unsafe fn map(&self, cpu: NonNull<u8>, iova: u64, size: u64, access: Access) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.map(cpu.as_ptr().expose_provenance() as u64, iova, size, access) }
    }

    fn unmap(&self, iova: u64, size: u64) -> io::Result<()> {
        self.unmap(iova, size)
    }
}

/// DMA memory for an open device. Clones share one address space.
///
/// What is in quarantine stays mapped to the end of the process, and so does the address space, even
/// when the device is closed.
#[derive(Clone)]
pub struct VfioDma(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
}

/// Everything that is handed out.
struct State {
    mapper: Arc<dyn Mapper>,
    addresses: Ranges,
    pool: Pool,
    streams: Streams,
    /// Coherent regions that are out, and their bytes.
    coherent: (usize, u64),
    /// Streaming mappings that are out, and their bytes.
    streaming: (usize, u64),
    quarantined: usize,
}

impl VfioDma {
    pub(crate) fn new(mapper: Arc<dyn Mapper>) -> Self {
        let state = State {
            addresses: mapper.addresses(),
            pool: Pool::default(),
            streams: Streams::default(),
            coherent: (0, 0),
            streaming: (0, 0),
            quarantined: 0,
            mapper,
        };
        Self(Arc::new(Inner { state: Mutex::new(state) }))
    }

    /// Coherent regions and streaming mappings that are out, those in quarantine included, and their
    /// bytes.
    pub fn mapped(&self) -> (usize, u64) {
        let state = self.lock();
        (state.coherent.0 + state.streaming.0, state.coherent.1 + state.streaming.1)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for VfioDma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VfioDma").field("mapped", &self.mapped()).finish_non_exhaustive()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.quarantined != 0 {
            log::warn!("{} regions in quarantine stay mapped to the end of the process", self.quarantined);
            // The address space as well: closing it would take them from a device that is still at work.
            std::mem::forget(self.mapper.clone());
            self.pool.leak();
            return;
        }
        // Streaming mappings keep a clone of the backend, so there are none left.
        self.pool.clear(&*self.mapper);
    }
}

fn check(size: usize, limits: &DmaConstraints) -> Result<Fit, DmaError> {
    let boundary = limits.boundary == 0 || limits.boundary.is_power_of_two();
    if size == 0 || size > isize::MAX as usize || !limits.align.is_power_of_two() || !boundary {
        return Err(DmaError::InvalidInput { size });
    }
    Ok(Fit { align: limits.align, last: limits.mask, boundary: limits.boundary })
}

// SAFETY: the pool hands out each piece once until it is given back, zeroed, aligned to 64 bytes or
// more, and gives none back that is in quarantine; the IOMMU lets the device reach the pool and whole
// pages of buffers only.
unsafe impl DmaBackend for VfioDma {
    type Error = DmaError;
    type Words = Volatile;

    fn alloc_coherent(&self, size: usize, limits: &DmaConstraints) -> Result<CoherentRegion, DmaError> {
        let fit = check(size, limits)?;
        let state = &mut *self.lock();
        let region = state.pool.allocate(&*state.mapper, &mut state.addresses, size, &fit)?;
        state.coherent = (state.coherent.0 + 1, state.coherent.1 + size as u64);
        Ok(region)
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        let state = &mut *self.lock();
        if state.pool.release(&*state.mapper, &mut state.addresses, &region) {
            state.coherent = (state.coherent.0 - 1, state.coherent.1 - region.size as u64);
        }
    }

    fn quarantine_coherent(&self, _region: CoherentRegion) {
        self.lock().quarantined += 1;
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        limits: &DmaConstraints,
    ) -> Result<StreamingRegion, DmaError> {
        let fit = check(size, limits)?;
        let state = &mut *self.lock();
        // SAFETY: the caller's promise: the memory is valid, and the device's until it is unmapped.
        let device = unsafe {
            state.streams.map(
                &*state.mapper,
                &mut state.addresses,
                &mut state.pool,
                cpu,
                size,
                direction,
                &fit,
            )?
        };
        state.streaming = (state.streaming.0 + 1, state.streaming.1 + size as u64);
        Ok(StreamingRegion { cpu, device, size, direction })
    }

    unsafe fn unmap_streaming(&self, region: StreamingRegion) {
        let state = &mut *self.lock();
        // SAFETY: the caller's promise: it came from here, and the device is done with it.
        let unmapped =
            unsafe { state.streams.unmap(&*state.mapper, &mut state.addresses, &mut state.pool, &region) };
        if unmapped {
            state.streaming = (state.streaming.0 - 1, state.streaming.1 - region.size as u64);
        } else {
            state.quarantined += 1;
        }
    }

    fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        self.lock().streams.sync_for_cpu(region, offset, size);
    }

    fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        self.lock().streams.sync_for_device(region, offset, size);
    }

    fn quarantine_streaming(&self, _region: StreamingRegion) {
        self.lock().quarantined += 1;
    }

    fn quarantined(&self) -> usize {
        self.lock().quarantined
    }
}

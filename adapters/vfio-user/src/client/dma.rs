//! Memory that the device reaches.
//!
//! It lies in anonymous files that the server maps. A driver's own buffer lies elsewhere, so it is copied
//! into such memory when it is mapped and back when it is unmapped: the server reaches nothing of this
//! process but what it was given.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{
    CoherentRegion, DataDirection, DmaBackend, DmaConstraints, RelaxedAtomic, StreamingRegion,
};
use tombolo_sim::memory::{HostRegion, SharedMemory};

use super::core::Core;
use super::error::DmaError;
use super::pool::{Piece, Pool};
use crate::protocol::{Command, DmaMap, DmaUnmap, MAP_READ, MAP_WRITE};

/// Bytes that are copied at a time.
const COPY: usize = 4096;

/// DMA memory for an open device. Clones share one address space.
#[derive(Clone)]
pub struct ClientDma(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    state: Mutex<State>,
}

struct State {
    pool: Pool,
    /// Where the bytes of a streaming mapping are while it is mapped, by its address.
    streams: HashMap<u64, Piece>,
    /// What is out, and its bytes.
    out: (usize, u64),
    quarantined: usize,
}

impl fmt::Debug for ClientDma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientDma").field("mapped", &self.mapped()).finish_non_exhaustive()
    }
}

impl ClientDma {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let state = State { pool: Pool::new(), streams: HashMap::new(), out: (0, 0), quarantined: 0 };
        Self(Arc::new(Inner { core: core.clone(), state: Mutex::new(state) }))
    }

    /// Coherent regions and streaming mappings that are out, those in quarantine included, and their
    /// bytes.
    pub fn mapped(&self) -> (usize, u64) {
        self.lock().out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, size: usize, limits: &DmaConstraints) -> Result<Piece, DmaError> {
        let boundary = limits.boundary == 0 || limits.boundary.is_power_of_two();
        if size == 0 || size > isize::MAX as usize || !limits.align.is_power_of_two() || !boundary {
            return Err(DmaError::InvalidInput { size });
        }
        let len = size as u64;
        let mut state = self.lock();
        let found = match state.pool.take(len, limits) {
            Some(piece) => piece,
            None => {
                self.grow(&mut state.pool, size, limits)?;
                let piece = state.pool.take(len, limits);
                piece.ok_or(DmaError::OutOfAddresses { size, mask: limits.mask })?
            }
        };
        state.out = (state.out.0 + 1, state.out.1 + len);
        Ok(found)
    }

    /// Has the server map more memory.
    fn grow(&self, pool: &mut Pool, size: usize, limits: &DmaConstraints) -> Result<(), DmaError> {
        let none = DmaError::OutOfAddresses { size, mask: limits.mask };
        let wanted = pool.more(size as u64, limits).ok_or(none)?;
        let memory = SharedMemory::new(wanted.size);
        let fd = memory.as_fd().ok_or(DmaError::NoSharedMemory { size })?;
        let map = DmaMap {
            flags: MAP_READ | MAP_WRITE,
            offset: 0,
            address: wanted.address,
            size: wanted.size as u64,
        };
        let mut body = Vec::new();
        map.put(&mut body);
        let connection = &self.0.core.connection;
        connection
            .call("map memory", Command::DmaMap, &[&body], &[fd])
            .map_err(|source| DmaError::Map { size, source })?;
        connection.machine.add(wanted.address, memory.clone());
        pool.add(wanted.address, memory);
        Ok(())
    }

    fn give_back(&self, address: u64, size: usize) {
        let mut state = self.lock();
        state.pool.give_back(address, size as u64);
        state.out = (state.out.0 - 1, state.out.1 - size as u64);
    }

    fn stream(&self, region: &StreamingRegion) -> Option<Piece> {
        self.lock().streams.get(&region.device.value()).cloned()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (address, size) in state.pool.mapped() {
            let mut body = Vec::new();
            DmaUnmap { flags: 0, address, size: size as u64 }.put(&mut body);
            // A server that is gone reaches nothing any more; one that refuses keeps a file of its own.
            let _ = self.core.connection.call("unmap memory", Command::DmaUnmap, &[&body], &[]);
            self.core.connection.machine.remove(address);
        }
    }
}

/// Copies `size` bytes at `offset` of the driver's buffer into memory of the device (`to_device`), or
/// back.
///
/// # Safety
/// The buffer is valid, and nobody else accesses it meanwhile but by atomics.
unsafe fn copy(piece: &Piece, region: &StreamingRegion, offset: usize, size: usize, to_device: bool) {
    // SAFETY: the caller's promise; the view ends with this call.
    let buffer = unsafe { HostRegion::new(region.cpu, region.size) };
    let mut bytes = [0; COPY];
    for start in (0..size).step_by(COPY) {
        let bytes = &mut bytes[..COPY.min(size - start)];
        let (at, there) = (offset + start, piece.offset + offset + start);
        // Out of range is only what the caller should not have asked for.
        let _ = if to_device {
            buffer.read(at, bytes).and_then(|()| piece.memory.write(there, bytes))
        } else {
            piece.memory.read(there, bytes).and_then(|()| buffer.write(at, bytes))
        };
    }
}

// SAFETY: pieces of shared memory are handed out once until they are given back, zeroed, aligned to 64
// bytes and, in the device's address space, to the constraints; a quarantined one is never given back.
// The server maps files in which there is nothing else.
unsafe impl DmaBackend for ClientDma {
    type Error = DmaError;
    type Words = RelaxedAtomic;

    fn alloc_coherent(&self, size: usize, limits: &DmaConstraints) -> Result<CoherentRegion, DmaError> {
        let piece = self.take(size, limits)?;
        let cpu = piece.memory.clear(piece.offset, size.next_multiple_of(8));
        let cpu = cpu.and_then(|()| piece.memory.pointer(piece.offset, size));
        // Cannot fail: the pool hands out nothing outside of its memory.
        let cpu = cpu.map_err(|_| DmaError::NoSharedMemory { size })?;
        Ok(CoherentRegion { cpu, device: DmaAddr::new(piece.address), size })
    }

    unsafe fn free_coherent(&self, region: CoherentRegion) {
        self.give_back(region.device.value(), region.size);
    }

    fn quarantine_coherent(&self, _region: CoherentRegion) {
        // Never reused. When the last handle goes the file stays with the server, and its mapping here
        // ends, which harms nobody.
        self.lock().quarantined += 1;
    }

    unsafe fn map_streaming(
        &self,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        limits: &DmaConstraints,
    ) -> Result<StreamingRegion, DmaError> {
        let piece = self.take(size, limits)?;
        let region = StreamingRegion { cpu, device: DmaAddr::new(piece.address), size, direction };
        // Also for a buffer that the device fills: what it leaves out must come back as it was.
        // SAFETY: the caller's promise: the memory is valid, and the CPU leaves it alone.
        unsafe { copy(&piece, &region, 0, size, true) };
        self.lock().streams.insert(piece.address, piece);
        Ok(region)
    }

    unsafe fn unmap_streaming(&self, region: StreamingRegion) {
        let piece = self.lock().streams.remove(&region.device.value());
        if let Some(piece) = piece {
            if region.direction != DataDirection::ToDevice {
                // SAFETY: the mapping's memory is valid until this returns, and the device is done.
                unsafe { copy(&piece, &region, 0, region.size, false) };
            }
            self.give_back(piece.address, region.size);
        }
    }

    fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        if let Some(piece) = self.stream(region) {
            // SAFETY: a region that is mapped has valid memory, which its owner leaves alone meanwhile.
            unsafe { copy(&piece, region, offset, size, false) }
        }
    }

    fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        if let Some(piece) = self.stream(region) {
            // SAFETY: as for `sync_for_cpu`.
            unsafe { copy(&piece, region, offset, size, true) }
        }
    }

    fn quarantine_streaming(&self, _region: StreamingRegion) {
        self.lock().quarantined += 1;
    }

    fn quarantined(&self) -> usize {
        self.lock().quarantined
    }
}

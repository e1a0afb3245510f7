//! Memory that is mapped once and handed out in pieces.

use std::ptr::NonNull;

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::CoherentRegion;

use super::{DmaError, Mapper, shared};
use crate::container::Access;
use crate::pages::{HUGE, Pages};
use crate::ranges::{Fit, Ranges};

/// Pieces begin at multiples of a cache line, which two pieces then never share.
const GRANULE: u64 = 64;

/// One mapping of the device's. What is free in it is kept by the device's addresses.
struct Chunk {
    pages: Pages,
    iova: u64,
    free: Ranges,
}

impl Chunk {
    fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    fn holds(&self, device: u64) -> bool {
        device.wrapping_sub(self.iova) < self.len()
    }

    /// Where the CPU sees what the device sees at `device`, which lies inside.
    fn cpu(&self, device: u64) -> NonNull<u8> {
        // SAFETY: an offset inside the memory.
        unsafe { self.pages.start().add((device - self.iova) as usize) }
    }

    fn is_free(&self) -> bool {
        self.free.free_bytes() == u128::from(self.len())
    }
}

/// All such memory of an address space.
#[derive(Default)]
pub(super) struct Pool {
    chunks: Vec<Chunk>,
}

impl Pool {
    /// `size` bytes, zeroed.
    pub fn allocate(
        &mut self,
        mapper: &dyn Mapper,
        addresses: &mut Ranges,
        size: usize,
        fit: &Fit,
    ) -> Result<CoherentRegion, DmaError> {
        let fit = Fit { align: fit.align.max(GRANULE), ..*fit };
        let room = (size as u64).next_multiple_of(GRANULE);
        if let Some(region) = self.take(room, size, &fit) {
            return Ok(region);
        }
        self.grow(mapper, addresses, room, &fit)?;
        self.take(room, size, &fit).ok_or(DmaError::OutOfAddresses { size, mask: fit.last })
    }

    fn take(&mut self, room: u64, size: usize, fit: &Fit) -> Option<CoherentRegion> {
        let (chunk, device) = self.chunks.iter_mut().find_map(|chunk| {
            let device = chunk.free.allocate(room, fit)?;
            Some((chunk, device))
        })?;
        let cpu = chunk.cpu(device);
        // SAFETY: inside the chunk, and nobody else's now.
        unsafe { shared::clear(cpu, room as usize) };
        Some(CoherentRegion { cpu, device: DmaAddr::new(device), size })
    }

    /// Adds a chunk that has room for a piece: of huge pages, or if so much may not be locked, of the
    /// pages that are needed.
    fn grow(
        &mut self,
        mapper: &dyn Mapper,
        addresses: &mut Ranges,
        room: u64,
        fit: &Fit,
    ) -> Result<(), DmaError> {
        let out_of_memory = || DmaError::InvalidInput { size: room as usize };
        let small = room.checked_next_multiple_of(mapper.page()).ok_or_else(out_of_memory)?;
        let large = room.checked_next_multiple_of(HUGE as u64).ok_or_else(out_of_memory)?;
        match self.add(mapper, addresses, large, fit) {
            Err(error @ (DmaError::LockedMemory { .. } | DmaError::OutOfAddresses { .. }))
                if small < large =>
            {
                log::info!("DMA memory in small pieces: {error}");
                self.add(mapper, addresses, small, fit)
            }
            other => other,
        }
    }

    fn add(
        &mut self,
        mapper: &dyn Mapper,
        addresses: &mut Ranges,
        len: u64,
        fit: &Fit,
    ) -> Result<(), DmaError> {
        let size = len as usize;
        let align = if len.is_multiple_of(HUGE as u64) { HUGE as u64 } else { mapper.page() };
        let place = Fit { align: align.max(fit.align), ..*fit };
        let iova =
            addresses.allocate(len, &place).ok_or(DmaError::OutOfAddresses { size, mask: fit.last })?;
        let result =
            Pages::new(size).map_err(|source| DmaError::OutOfMemory { size, source }).and_then(|pages| {
                // SAFETY: the memory lives in the chunk until `unmap`, and is accessed by volatile words.
                match unsafe { mapper.map(pages.start(), iova, len, Access::BOTH) } {
                    Ok(()) => Ok(pages),
                    Err(error) => Err(DmaError::of_map(error, len, mapper.limit())),
                }
            });
        match result {
            Ok(pages) => {
                log::info!("{} KiB of DMA memory at {iova:#x}, pages: {:?}", len >> 10, pages.kind());
                self.chunks.push(Chunk { pages, iova, free: Ranges::new([(iova, iova + (len - 1))]) });
                Ok(())
            }
            Err(error) => {
                addresses.release(iova, len);
                Err(error)
            }
        }
    }

    /// Takes a piece back. Chunks that are free then are unmapped, but for the last. False for what is
    /// no piece.
    pub fn release(&mut self, mapper: &dyn Mapper, addresses: &mut Ranges, region: &CoherentRegion) -> bool {
        let (device, room) = (region.device.value(), (region.size as u64).next_multiple_of(GRANULE));
        let Some(place) = self.chunks.iter().position(|chunk| chunk.holds(device)) else { return false };
        let Some(chunk) =
            self.chunks.get_mut(place).filter(|chunk| room <= chunk.len() - (device - chunk.iova))
        else {
            return false;
        };
        if !chunk.free.release(device, room) {
            return false;
        }
        if self.chunks.len() > 1 && self.chunks.get(place).is_some_and(Chunk::is_free) {
            unmap(mapper, self.chunks.swap_remove(place), Some(addresses));
        }
        true
    }

    /// Unmaps all of it.
    pub fn clear(&mut self, mapper: &dyn Mapper) {
        self.chunks.drain(..).for_each(|chunk| unmap(mapper, chunk, None));
    }

    /// Never gives any of it back.
    pub fn leak(&mut self) {
        self.chunks.drain(..).for_each(std::mem::forget);
    }
}

fn unmap(mapper: &dyn Mapper, chunk: Chunk, addresses: Option<&mut Ranges>) {
    match mapper.unmap(chunk.iova, chunk.len()) {
        Ok(()) => {
            if let Some(addresses) = addresses {
                addresses.release(chunk.iova, chunk.len());
            }
        }
        Err(error) => {
            log::error!("DMA memory at {:#x} cannot be unmapped and is kept: {error}", chunk.iova);
            std::mem::forget(chunk);
        }
    }
}

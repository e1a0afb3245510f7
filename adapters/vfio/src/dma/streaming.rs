//! Buffers of the driver's, mapped for the time of a transfer.

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{CoherentRegion, DataDirection, StreamingRegion};

use super::pool::Pool;
use super::{DmaError, Mapper, shared};
use crate::container::Access;
use crate::ranges::{Fit, Ranges};

/// Buffers of fewer pages than this have no page worth mapping, or one, and are copied.
const PAGES_MIN: u64 = 4;

/// Bytes of a buffer that go through the pool: a first or last page that the buffer fills in part, or
/// all of it.
struct Copied {
    /// Which bytes of the buffer.
    bytes: Range<usize>,
    /// Where in the pool's piece they begin.
    at: usize,
    piece: CoherentRegion,
}

// SAFETY: the piece is the pool's, whose pages have no thread affinity.
unsafe impl Send for Copied {}

impl Copied {
    /// The part of `range` that is copied, and where it is in the pool.
    fn part(&self, range: &Range<usize>) -> Option<(Range<usize>, NonNull<u8>)> {
        let start = range.start.max(self.bytes.start);
        let end = range.end.min(self.bytes.end);
        // SAFETY: inside the piece, which has room for all of `bytes` from `at` on.
        (start < end).then(|| (start..end, unsafe { self.piece.cpu.add(self.at + start - self.bytes.start) }))
    }
}

/// A buffer that is mapped.
struct Stream {
    /// Addresses that are the buffer's own, first and length; `None` if all of it is in the pool.
    mapped: Option<(u64, u64)>,
    copied: [Option<Copied>; 2],
}

impl Stream {
    fn to_device(&self, cpu: NonNull<u8>, range: Range<usize>) {
        for (part, pool) in self.copied.iter().flatten().filter_map(|copied| copied.part(&range)) {
            // SAFETY: `part` lies inside the buffer and inside the piece.
            unsafe { shared::copy(cpu.add(part.start), pool, part.len()) }
        }
    }

    fn to_cpu(&self, cpu: NonNull<u8>, range: Range<usize>) {
        for (part, pool) in self.copied.iter().flatten().filter_map(|copied| copied.part(&range)) {
            // SAFETY: as above.
            unsafe { shared::copy(pool, cpu.add(part.start), part.len()) }
        }
    }
}

/// All buffers that are mapped, by their device address.
#[derive(Default)]
pub(super) struct Streams(HashMap<u64, Stream>);

/// A buffer that is being mapped.
struct Job<'a> {
    mapper: &'a dyn Mapper,
    addresses: &'a mut Ranges,
    pool: &'a mut Pool,
    cpu: NonNull<u8>,
    size: usize,
    access: Access,
}

impl Streams {
    /// Maps a buffer. Returns where the device sees it.
    ///
    /// # Safety
    /// The memory is valid, and the device's until it is unmapped.
    #[expect(clippy::too_many_arguments, reason = "the parts of one lock's content")]
    pub unsafe fn map(
        &mut self,
        mapper: &dyn Mapper,
        addresses: &mut Ranges,
        pool: &mut Pool,
        cpu: NonNull<u8>,
        size: usize,
        direction: DataDirection,
        fit: &Fit,
    ) -> Result<DmaAddr, DmaError> {
        let access = match direction {
            DataDirection::ToDevice => Access { read: true, write: false },
            DataDirection::FromDevice => Access { read: false, write: true },
            DataDirection::Bidirectional => Access::BOTH,
        };
        let mut job = Job { mapper, addresses, pool, cpu, size, access };
        let page = mapper.page();
        let aligned = (cpu.as_ptr().addr() as u64 & (page - 1)) & (fit.align - 1) == 0;
        let (device, stream) = if aligned && job.pages() >= PAGES_MIN {
            // SAFETY: the caller's promise.
            unsafe { job.in_place(fit)? }
        } else {
            job.in_pool(fit)?
        };
        // Everything, whatever the direction: the device must not see what the pool held before, and a
        // transfer that ends early must leave the buffer as it was.
        stream.to_device(cpu, 0..size);
        self.0.insert(device, stream);
        Ok(DmaAddr::new(device))
    }

    /// Takes a buffer from the device again. False if that failed: it must be kept then.
    ///
    /// # Safety
    /// `region` came from `map`, its memory is valid, and the device is done with it.
    pub unsafe fn unmap(
        &mut self,
        mapper: &dyn Mapper,
        addresses: &mut Ranges,
        pool: &mut Pool,
        region: &StreamingRegion,
    ) -> bool {
        let Some(stream) = self.0.remove(&region.device.value()) else { return false };
        if let Some((iova, len)) = stream.mapped {
            if let Err(error) = mapper.unmap(iova, len) {
                log::error!("{} bytes at {iova:#x} cannot be unmapped: {error}", region.size);
                return false;
            }
            addresses.release(iova, len);
        }
        if region.direction != DataDirection::ToDevice {
            stream.to_cpu(region.cpu, 0..region.size);
        }
        for copied in stream.copied.into_iter().flatten() {
            pool.release(mapper, addresses, &copied.piece);
        }
        true
    }

    pub fn sync_for_cpu(&self, region: &StreamingRegion, offset: usize, size: usize) {
        if let Some((stream, range)) = self.part(region, offset, size)
            && region.direction != DataDirection::ToDevice
        {
            stream.to_cpu(region.cpu, range);
        }
    }

    pub fn sync_for_device(&self, region: &StreamingRegion, offset: usize, size: usize) {
        if let Some((stream, range)) = self.part(region, offset, size) {
            stream.to_device(region.cpu, range);
        }
    }

    fn part(&self, region: &StreamingRegion, offset: usize, size: usize) -> Option<(&Stream, Range<usize>)> {
        let end = offset.checked_add(size)?.min(region.size);
        Some((self.0.get(&region.device.value())?, offset..end))
    }
}

impl Job<'_> {
    fn start(&self) -> u64 {
        self.cpu.as_ptr().addr() as u64
    }

    /// Pages that the buffer touches.
    fn pages(&self) -> u64 {
        let page = self.mapper.page();
        ((self.start() & (page - 1)) + self.size as u64).div_ceil(page)
    }

    /// All of it in the pool.
    fn in_pool(&mut self, fit: &Fit) -> Result<(u64, Stream), DmaError> {
        let piece = self.pool.allocate(self.mapper, self.addresses, self.size, fit)?;
        let copied = Copied { bytes: 0..self.size, at: 0, piece };
        Ok((piece.device.value(), Stream { mapped: None, copied: [Some(copied), None] }))
    }

    /// Its whole pages where they are; the bytes before and after them in the pool.
    ///
    /// # Safety
    /// As for [`Streams::map`].
    unsafe fn in_place(&mut self, fit: &Fit) -> Result<(u64, Stream), DmaError> {
        let page = self.mapper.page();
        let (inside, len) = (self.start() & (page - 1), self.pages() * page);
        // A boundary cuts segments; a buffer that could do without a cut is placed so.
        let place = Fit { align: page.max(fit.align), ..*fit };
        let iova = self.addresses.allocate(len, &place);
        let iova = iova.ok_or(DmaError::OutOfAddresses { size: self.size, mask: fit.last })?;
        let mut stream = Stream { mapped: Some((iova, len)), copied: [None, None] };
        let mut done = 0;
        // SAFETY: the caller's promise.
        match unsafe { self.map_pieces(iova, &mut stream, &mut done) } {
            Ok(()) => Ok((iova + inside, stream)),
            Err(error) => {
                self.undo(iova, len, done, stream);
                Err(error)
            }
        }
    }

    /// # Safety
    /// As for [`Streams::map`].
    unsafe fn map_pieces(&mut self, iova: u64, stream: &mut Stream, done: &mut u64) -> Result<(), DmaError> {
        let page = self.mapper.page() as usize;
        let before = self.start() as usize & (page - 1);
        let head = if before == 0 { 0 } else { page - before };
        let tail = (self.size - head) % page;
        let whole = self.size - head - tail;
        if head != 0 {
            stream.copied[0] = Some(self.copied(0..head, before)?);
            self.map_piece(iova, done, &stream.copied[0])?;
        }
        // SAFETY: inside the buffer, of whose pages there are four or more.
        let middle = unsafe { self.cpu.add(head) };
        // SAFETY: the buffer is valid and the CPU leaves it alone, by the caller's promise.
        unsafe {
            shared::touch(middle, whole, rustix::param::page_size());
            self.map_one(middle, iova + *done, whole as u64)?;
        }
        *done += whole as u64;
        if tail != 0 {
            stream.copied[1] = Some(self.copied(head + whole..self.size, 0)?);
            self.map_piece(iova, done, &stream.copied[1])?;
        }
        Ok(())
    }

    /// A page of the pool for some bytes of the buffer.
    fn copied(&mut self, bytes: Range<usize>, at: usize) -> Result<Copied, DmaError> {
        let page = self.mapper.page();
        // At the page's own address nobody looks for it, so any will do.
        let fit = Fit { align: page, last: u64::MAX, boundary: 0 };
        let piece = self.pool.allocate(self.mapper, self.addresses, page as usize, &fit)?;
        Ok(Copied { bytes, at, piece })
    }

    fn map_piece(&self, iova: u64, done: &mut u64, copied: &Option<Copied>) -> Result<(), DmaError> {
        let Some(copied) = copied else { return Ok(()) };
        // SAFETY: a page of the pool, which stays until the stream is unmapped.
        unsafe { self.map_one(copied.piece.cpu, iova + *done, copied.piece.size as u64)? };
        *done += copied.piece.size as u64;
        Ok(())
    }

    /// # Safety
    /// As for [`Mapper::map`].
    unsafe fn map_one(&self, cpu: NonNull<u8>, iova: u64, size: u64) -> Result<(), DmaError> {
        // SAFETY: the caller's promise.
        unsafe { self.mapper.map(cpu, iova, size, self.access) }
            .map_err(|error| DmaError::of_map(error, size, self.mapper.limit()))
    }

    fn undo(&mut self, iova: u64, len: u64, done: u64, stream: Stream) {
        if done != 0
            && let Err(error) = self.mapper.unmap(iova, done)
        {
            // Nothing was given to the device yet, so nothing is written; the addresses are lost.
            log::error!("{done} bytes at {iova:#x} cannot be unmapped: {error}");
            return;
        }
        self.addresses.release(iova, len);
        for copied in stream.copied.into_iter().flatten() {
            self.pool.release(self.mapper, self.addresses, &copied.piece);
        }
    }
}

//! Buffers that go to the device and come back.

use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

use super::{
    DataDirection, DmaBackend, DmaConstraints, QuarantineReason, StreamingRegion, WordAccess, log_quarantine,
};
use crate::DmaAddr;
use crate::dmaengine::SgEntry;

/// Memory that a [`Streaming`] can own.
///
/// # Safety
/// `memory` returns the same valid, writable, exclusively owned bytes each time, wherever the value
/// itself is moved, until it is dropped.
pub unsafe trait DmaMemory: 'static {
    /// Where the bytes are, and how many.
    fn memory(&mut self) -> (NonNull<u8>, usize);
}

// SAFETY: a `'static` exclusive slice stays where it is.
unsafe impl DmaMemory for &'static mut [u8] {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (NonNull::from(&mut **self).cast(), self.len())
    }
}

#[cfg(feature = "alloc")]
// SAFETY: moving the box does not move its bytes.
unsafe impl DmaMemory for alloc::boxed::Box<[u8]> {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (NonNull::from(&mut **self).cast(), self.len())
    }
}

#[cfg(feature = "alloc")]
// SAFETY: moving the vector does not move its bytes, and nobody pushes to it while it is owned here.
unsafe impl DmaMemory for alloc::vec::Vec<u8> {
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (NonNull::from(self.as_mut_slice()).cast(), self.len())
    }
}

mod state {
    pub trait State {}
}

/// Mapped for the device, not yet given to it.
#[derive(Debug)]
pub enum Prepared {}
/// The device may use it at any moment.
#[derive(Debug)]
pub enum InFlight {}
/// The device is done with it.
#[derive(Debug)]
pub enum Completed {}
impl state::State for Prepared {}
impl state::State for InFlight {}
impl state::State for Completed {}

/// A buffer could not be mapped; here it is again.
#[derive(Debug, thiserror::Error)]
#[error("cannot map the buffer for DMA: {error}")]
pub struct PrepareError<M, E: core::error::Error + 'static> {
    /// The buffer.
    pub memory: M,
    /// The platform's error.
    #[source]
    pub error: E,
}

/// A buffer on its way: CPU-owned (that is just `M`), [`Prepared`], [`InFlight`], [`Completed`].
///
/// The buffer moves in and comes back; nothing is borrowed, so leaking any state is safe. A value
/// dropped while prepared or completed unmaps and drops its buffer; one dropped in flight
/// quarantines both.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
/// use tombolo_hal::fake::HeapDma;
///
/// let buffer = vec![7u8; 100];
/// let prepared = Streaming::prepare(HeapDma::new(), buffer, DataDirection::ToDevice, &DmaConstraints::any())?;
/// assert_eq!(prepared.size(), 100);
/// let buffer = prepared.cancel();
/// assert_eq!(buffer, [7; 100]);
/// # }
/// # Ok::<(), tombolo_hal::dma::PrepareError<Vec<u8>, tombolo_hal::fake::OutOfMemory>>(())
/// ```
#[must_use]
pub struct Streaming<B: DmaBackend, M: DmaMemory, S: state::State> {
    /// `MaybeUninit` not because it may be empty (it never is), but because moving a `Box` or a
    /// `&mut` by itself asserts that nobody else has a pointer to its bytes, and the device has.
    memory: MaybeUninit<M>,
    backend: ManuallyDrop<B>,
    region: StreamingRegion,
    constraints: DmaConstraints,
    in_flight: bool,
    state: PhantomData<fn() -> S>,
}

// SAFETY: the pointers in `region` are to memory that `memory` owns.
unsafe impl<B: DmaBackend, M: DmaMemory + Send, S: state::State> Send for Streaming<B, M, S> {}

impl<B: DmaBackend, M: DmaMemory> Streaming<B, M, Prepared> {
    /// Maps `memory` for the device.
    ///
    /// # Errors
    /// [`PrepareError`] with the buffer.
    pub fn prepare(
        backend: B,
        memory: M,
        direction: DataDirection,
        constraints: &DmaConstraints,
    ) -> Result<Self, PrepareError<M, B::Error>> {
        let mut memory = MaybeUninit::new(memory);
        // SAFETY: just initialised.
        let (cpu, size) = unsafe { memory.assume_init_mut() }.memory();
        // SAFETY: the memory is valid, and as it moves into `self` the CPU cannot touch it.
        match unsafe { backend.map_streaming(cpu, size, direction, constraints) } {
            Ok(region) => Ok(Self {
                memory,
                backend: ManuallyDrop::new(backend),
                region,
                constraints: *constraints,
                in_flight: false,
                state: PhantomData,
            }),
            // SAFETY: initialised above, and moved out once.
            Err(error) => Err(PrepareError { memory: unsafe { memory.assume_init() }, error }),
        }
    }

    /// Unmaps the buffer and gives it back.
    pub fn cancel(self) -> M {
        self.unmap()
    }

    /// From here on the device may use the memory.
    pub(crate) fn start(self) -> Streaming<B, M, InFlight> {
        self.become_state(true)
    }
}

impl<B: DmaBackend, M: DmaMemory> Streaming<B, M, InFlight> {
    /// Copies `out.len()` bytes at `offset` out of a buffer that the device has: of a period that it
    /// has reported. False if they are not all inside.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        let Some(at) = self.inside(offset, out.len()) else { return false };
        self.backend.sync_for_cpu(&self.region, offset, out.len());
        for_each_word(at, out.len(), |at, range| {
            let Some(piece) = out.get_mut(range) else { return };
            match piece.len() {
                // SAFETY: `inside` checked the range; `for_each_word` gives aligned words.
                4 => piece.copy_from_slice(&unsafe { B::Words::read32(at.as_ptr().cast()) }.to_le_bytes()),
                // SAFETY: as above, one byte at the edge, which nobody touches now.
                _ => piece.copy_from_slice(&[unsafe { at.as_ptr().read_volatile() }]),
            }
        });
        true
    }

    /// Copies `data` to `offset` of a buffer that the device has: into a period that it will come to.
    /// False if it is not all inside.
    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> bool {
        let Some(at) = self.inside(offset, data.len()) else { return false };
        for_each_word(at, data.len(), |at, range| match data.get(range) {
            Some(&[a, b, c, d]) => {
                let word = u32::from_le_bytes([a, b, c, d]);
                // SAFETY: `inside` checked the range; `for_each_word` gives aligned words.
                unsafe { B::Words::write32(at.as_ptr().cast(), word) }
            }
            // SAFETY: as above, one byte.
            Some(&[a]) => unsafe { at.as_ptr().write_volatile(a) },
            _ => {}
        });
        self.backend.sync_for_device(&self.region, offset, data.len());
        true
    }

    fn inside(&self, offset: usize, size: usize) -> Option<NonNull<u8>> {
        if offset > self.region.size || size > self.region.size - offset {
            return None;
        }
        // SAFETY: `offset` lies inside the region.
        Some(unsafe { self.region.cpu.add(offset) })
    }

    /// The device has reported that it is done, or never began.
    pub(crate) fn complete(self) -> Streaming<B, M, Completed> {
        self.become_state(false)
    }
}

/// Cuts `size` bytes at `at` into aligned 4-byte words and single bytes around them.
fn for_each_word(at: NonNull<u8>, size: usize, mut word: impl FnMut(NonNull<u8>, core::ops::Range<usize>)) {
    let mut offset = 0;
    while offset < size {
        // SAFETY: `offset` is inside the caller's range.
        let here = unsafe { at.add(offset) };
        let width = if here.as_ptr().addr() & 3 == 0 && size - offset >= 4 { 4 } else { 1 };
        word(here, offset..offset + width);
        offset += width;
    }
}

impl<B: DmaBackend, M: DmaMemory> Streaming<B, M, Completed> {
    /// Unmaps the buffer, makes what the device wrote visible, and gives it back.
    pub fn into_inner(self) -> M {
        self.unmap()
    }
}

impl<B: DmaBackend, M: DmaMemory, S: state::State> Streaming<B, M, S> {
    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.region.size
    }

    /// Where the device sees it.
    pub fn device_address(&self) -> DmaAddr {
        self.region.device
    }

    /// Who writes it.
    pub fn direction(&self) -> DataDirection {
        self.region.direction
    }

    /// Its segments within the constraints. Only for [`OwnedTransfers`](crate::dmaengine::OwnedTransfers),
    /// which keeps the buffer for as long as an engine knows the segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SgEntry> + '_ {
        let mut at = self.region.device;
        let mut left = self.region.size as u64;
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let size = self.constraints.segment_at(at, left);
            // SAFETY: `OwnedTransfers` keeps the mapping until the engine is done.
            let entry = unsafe { SgEntry::from_raw(at, size) };
            left -= size;
            at = at.checked_add(size).unwrap_or(at);
            Some(entry)
        })
    }

    fn become_state<T: state::State>(self, in_flight: bool) -> Streaming<B, M, T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the backend is moved out once.
        let backend = unsafe { ManuallyDrop::take(&mut this.backend) };
        Streaming {
            // A bitwise copy of a `MaybeUninit`, of which only this one goes on.
            memory: core::mem::replace(&mut this.memory, MaybeUninit::uninit()),
            backend: ManuallyDrop::new(backend),
            region: this.region,
            constraints: this.constraints,
            in_flight,
            state: PhantomData,
        }
    }

    fn unmap(self) -> M {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the backend is moved out once.
        let backend = unsafe { ManuallyDrop::take(&mut this.backend) };
        // SAFETY: the region came from this backend, and in the states that reach this the device
        // was never given it or is done with it.
        unsafe { backend.unmap_streaming(this.region) }
        // SAFETY: every `Streaming` holds its memory; `this` is never dropped, so it moves out once.
        unsafe { this.memory.assume_init_read() }
    }
}

impl<B: DmaBackend, M: DmaMemory, S: state::State> Drop for Streaming<B, M, S> {
    fn drop(&mut self) {
        // SAFETY: a value that is dropped still has its backend, which is moved out once.
        let backend = unsafe { ManuallyDrop::take(&mut self.backend) };
        if self.in_flight {
            log_quarantine(self.region.size, self.region.device, QuarantineReason::Dropped);
            backend.quarantine_streaming(self.region);
        } else {
            // SAFETY: the device was never given the region or is done with it.
            unsafe { backend.unmap_streaming(self.region) };
            // SAFETY: a value that is dropped still has its memory, which nobody else uses now.
            unsafe { self.memory.assume_init_drop() };
        }
    }
}

impl<B: DmaBackend, M: DmaMemory, S: state::State> core::fmt::Debug for Streaming<B, M, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Streaming")
            .field("device", &self.region.device)
            .field("size", &self.region.size)
            .finish()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::fake::HeapDma;
    use std::vec;
    use std::vec::Vec;

    fn prepare(b: &HeapDma, v: Vec<u8>, c: &DmaConstraints) -> Streaming<HeapDma, Vec<u8>, Prepared> {
        Streaming::prepare(b.clone(), v, DataDirection::Bidirectional, c).unwrap()
    }

    #[test]
    fn a_buffer_comes_back_from_each_state() {
        let b = HeapDma::new();
        let any = DmaConstraints::any();
        assert_eq!(prepare(&b, vec![1; 4], &any).cancel(), [1; 4]);
        assert_eq!(prepare(&b, vec![2; 4], &any).start().complete().into_inner(), [2; 4]);
        drop(prepare(&b, vec![3; 4], &any));
        assert_eq!((b.mapped(), b.quarantined()), (0, 0));
    }

    #[test]
    fn a_buffer_dropped_in_flight_is_quarantined() {
        let b = HeapDma::new();
        drop(prepare(&b, vec![1; 4], &DmaConstraints::any()).start());
        assert_eq!((b.mapped(), b.quarantined()), (1, 1));
    }

    #[test]
    fn parts_of_a_buffer_in_flight_can_be_read_and_written_at_any_offset() {
        let b = HeapDma::new();
        let mut flying = prepare(&b, (0..40).collect(), &DmaConstraints::any()).start();
        for offset in 0..8 {
            for size in 0..9 {
                let mut out = vec![0xee; size];
                assert!(flying.read(offset, &mut out));
                assert_eq!(out, (offset as u8..(offset + size) as u8).collect::<Vec<_>>());
            }
        }
        assert!(flying.write(3, &[9; 7]) && !flying.write(38, &[1; 3]) && !flying.read(41, &mut []));
        let mut want: Vec<u8> = (0..40).collect();
        want[3..10].fill(9);
        assert_eq!(flying.complete().into_inner(), want);
    }

    #[test]
    fn a_buffer_that_cannot_be_mapped_comes_back() {
        let error = Streaming::prepare(
            HeapDma::new(),
            vec![9u8; 4],
            DataDirection::ToDevice,
            &DmaConstraints { mask: 0xf, ..DmaConstraints::any() },
        )
        .unwrap_err();
        assert_eq!(error.memory, [9; 4]);
    }

    #[test]
    fn segments_cover_the_buffer_within_the_constraints() {
        let b = HeapDma::new();
        let c = DmaConstraints { max_segment: 30, boundary: 64, ..DmaConstraints::any() };
        let p = prepare(&b, vec![0; 200], &c);
        let mut next = p.device_address().value();
        for s in p.segments() {
            assert_eq!(s.address().value(), next);
            assert!(s.len() <= 30 && next / 64 == (next + s.len() - 1) / 64);
            next += s.len();
        }
        assert_eq!(next, p.device_address().value() + 200);
    }
}

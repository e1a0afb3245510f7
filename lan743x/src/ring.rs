//! The memory of a ring: descriptors, and the word into which the device writes its head.

use tombolo_hal::DmaAddr;
use tombolo_hal::dma::{Coherent, DmaBackend, DmaConstraints};
use tombolo_hal::mmio::Mmio;

use crate::desc::Spacing;
use crate::{Error, desc};

/// The least descriptors of a ring.
pub const RING_MIN: usize = 8;
/// The most descriptors of a ring.
pub const RING_MAX: usize = 4096;
/// Rings lie on pages: no device of the family needs that much, and the head's word follows in one.
const ALIGN: u64 = 4096;

/// Descriptors and head word in one piece of coherent memory.
///
/// Keeps no state: it is read as the device left it.
pub struct RingMemory<B: DmaBackend> {
    memory: Coherent<B>,
    length: usize,
    spacing: Spacing,
}

impl<B: DmaBackend> RingMemory<B> {
    /// Memory for `length` descriptors, a power of two from [`RING_MIN`] to [`RING_MAX`]. The backend must
    /// give addresses of up to 64 bits as far as its platform has any: the device takes them all.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn new(backend: B, length: usize, spacing: Spacing) -> Result<Self, RingError<B::Error>> {
        check_length(length).map_err(RingError::Length)?;
        let constraints = DmaConstraints::any().aligned(ALIGN);
        let memory =
            Coherent::new(backend, Self::bytes(length, spacing), &constraints).map_err(RingError::Memory)?;
        Ok(Self { memory, length, spacing })
    }

    const fn bytes(length: usize, spacing: Spacing) -> usize {
        // The head's word has a cache line of its own.
        (length << spacing.shift()) + 64
    }

    /// How many descriptors there are.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes from one to the next.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// Gives the memory back: the channel has stopped.
    pub fn free(self) {
        self.memory.free();
    }

    /// Keeps it for ever: the channel did not stop.
    pub fn quarantine(self) {
        self.memory.quarantine();
    }

    pub(crate) fn address(&self) -> DmaAddr {
        self.memory.device_address()
    }

    pub(crate) fn head_address(&self) -> u64 {
        self.address().value() + (self.length << self.spacing.shift()) as u64
    }

    pub(crate) const fn mask(&self) -> usize {
        self.length - 1
    }

    /// The head as the device wrote it last. What it wrote before the head is seen after this.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        self.memory.read32(self.length << self.spacing.shift())
    }

    #[inline(always)]
    pub(crate) fn read(&self, index: usize, word: usize) -> u32 {
        self.memory.read32_relaxed((index << self.spacing.shift()) + word * 4)
    }

    #[inline(always)]
    pub(crate) fn write(&self, index: usize, word: usize, value: u32) {
        self.memory.write32_relaxed((index << self.spacing.shift()) + word * 4, value);
    }

    /// Writes after this are seen by the device after those before.
    #[inline(always)]
    pub(crate) fn order_writes(&self) {
        self.memory.barrier(tombolo_hal::barrier::Barrier::DmaWmb);
    }

    /// Reads after this see what the device wrote before what was read.
    #[inline(always)]
    pub(crate) fn order_reads(&self) {
        self.memory.barrier(tombolo_hal::barrier::Barrier::DmaRmb);
    }

    pub(crate) fn clear(&self) {
        for offset in (0..Self::bytes(self.length, self.spacing)).step_by(4) {
            self.memory.write32_relaxed(offset, 0);
        }
    }
}

impl<B: DmaBackend> core::fmt::Debug for RingMemory<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RingMemory").field("length", &self.length).field("spacing", &self.spacing).finish()
    }
}

/// A ring's memory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RingError<E: core::error::Error + 'static> {
    /// The length is none.
    #[error(transparent)]
    Length(Error),
    /// The platform has no such memory.
    #[error("no memory for a ring: {0}")]
    Memory(#[source] E),
}

impl<E: tombolo_hal::error::Error + 'static> tombolo_hal::error::Error for RingError<E> {
    fn kind(&self) -> tombolo_hal::error::ErrorKind {
        match self {
            RingError::Length(error) => error.kind(),
            RingError::Memory(error) => error.kind(),
        }
    }
}

fn check_length(length: usize) -> Result<(), Error> {
    if !(RING_MIN..=RING_MAX).contains(&length) {
        let (least, most) = (RING_MIN as u64, RING_MAX as u64);
        return Err(Error::Range { what: "the length of a ring", value: length as u64, least, most });
    }
    if !length.is_power_of_two() {
        return Err(Error::RingLength(length));
    }
    Ok(())
}

const _: () = assert!(desc::SIZE <= Spacing::Bytes16.bytes());

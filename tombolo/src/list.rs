//! Where a channel's linked list lies.

use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::{Coherent, DmaBackend};
use tombolo_hal::mmio::{Caching, Mmio, Window};

/// Memory for a channel's list: RAM beside the engine, or the device's memory behind a BAR.
#[derive(Debug)]
pub enum List<D: DmaBackend, M> {
    /// In RAM.
    Ram(Coherent<D>),
    /// Behind a BAR.
    Bar(Window<M>),
}

impl<D: DmaBackend, M: Mmio> List<D, M> {
    fn io(&self) -> &dyn Mmio {
        match self {
            List::Ram(memory) => memory,
            List::Bar(window) => window,
        }
    }
}

impl<D: DmaBackend, M: Mmio> Mmio for List<D, M> {
    fn size(&self) -> usize {
        self.io().size()
    }
    fn read32(&self, offset: usize) -> u32 {
        self.io().read32(offset)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.io().write32(offset, value);
    }
    fn read32_relaxed(&self, offset: usize) -> u32 {
        self.io().read32_relaxed(offset)
    }
    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.io().write32_relaxed(offset, value);
    }
    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.io().write64_relaxed(offset, value);
    }
    fn barrier(&self, barrier: Barrier) {
        self.io().barrier(barrier);
    }
    fn caching(&self) -> Caching {
        self.io().caching()
    }
}

//! Where a channel's linked list lies.

use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::Coherent;
use tombolo_hal::mmio::{Caching, Mmio, Window};
use tombolo_sim::host::{SimDma, SimMmio};

/// Memory for a channel's list: RAM beside the engine, or the device's memory behind a BAR.
#[derive(Debug)]
pub enum List {
    /// In RAM.
    Ram(Coherent<SimDma>),
    /// Behind a BAR.
    Bar(Window<SimMmio>),
}

impl List {
    fn io(&self) -> &dyn Mmio {
        match self {
            List::Ram(memory) => memory,
            List::Bar(window) => window,
        }
    }
}

impl Mmio for List {
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

//! Fakes for tests and benches of drivers: plain memory in place of a device and of a platform.

mod dma;
mod dmaengine;
mod mmio;

pub use dma::{HeapDma, OutOfMemory};
pub use dmaengine::{FakeChannel, FakeError, Prepared};
pub use mmio::{Access, FakeMmio};

/// A delay that only counts: for tests of bounded waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingDelay {
    /// How long was waited in all, in nanoseconds.
    pub waited_ns: u64,
}

impl embedded_hal::delay::DelayNs for CountingDelay {
    fn delay_ns(&mut self, ns: u32) {
        self.waited_ns += u64::from(ns);
    }
}

//! A BAR as a driver sees it.

use crate::device::Width;
use crate::fabric::{Function, TraceEvent};
use tombolo_hal::barrier::Barrier;
use tombolo_hal::mmio::{Mmio, MmioNarrow};

/// One BAR of one function. Accesses outside or misaligned read all ones, write nothing and are
/// counted as [unclaimed](crate::fabric::Counters::unclaimed).
#[derive(Clone, Debug)]
pub struct SimMmio {
    function: Function,
    bar: u8,
    size: u64,
}

impl SimMmio {
    pub(crate) fn new(function: Function, bar: u8, size: u64) -> Self {
        Self { function, bar, size }
    }

    /// The function whose BAR this is.
    pub fn function(&self) -> &Function {
        &self.function
    }

    fn read(&self, offset: usize, width: Width) -> u64 {
        let id = self.function.id();
        self.function.fabric().access(|state| state.host_read(id, self.bar, offset as u64, width))
    }

    fn write(&self, offset: usize, width: Width, value: u64) {
        let id = self.function.id();
        self.function.fabric().access(|state| state.host_write(id, self.bar, offset as u64, width, value));
    }

    /// Reads 64 bits as one access.
    pub fn read64(&self, offset: usize) -> u64 {
        self.read(offset, Width::W64)
    }

    /// Writes 64 bits as one access.
    pub fn write64(&self, offset: usize, value: u64) {
        self.write(offset, Width::W64, value);
    }
}

impl Mmio for SimMmio {
    fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    fn read32(&self, offset: usize) -> u32 {
        self.read(offset, Width::W32) as u32
    }

    fn write32(&self, offset: usize, value: u32) {
        self.write(offset, Width::W32, u64::from(value));
    }

    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.write64(offset, value);
    }

    fn barrier(&self, barrier: Barrier) {
        record_barrier(&self.function, barrier);
    }
}

impl MmioNarrow for SimMmio {
    fn read8(&self, offset: usize) -> u8 {
        self.read(offset, Width::W8) as u8
    }

    fn write8(&self, offset: usize, value: u8) {
        self.write(offset, Width::W8, u64::from(value));
    }

    fn read16(&self, offset: usize) -> u16 {
        self.read(offset, Width::W16) as u16
    }

    fn write16(&self, offset: usize, value: u16) {
        self.write(offset, Width::W16, u64::from(value));
    }
}

/// Executes the barrier, counts it and puts it into the trace.
pub(super) fn record_barrier(function: &Function, barrier: Barrier) {
    barrier.execute();
    let id = function.id();
    let mut state = function.fabric().lock();
    state.check_watches(id);
    state.functions[id].counters.barriers += 1;
    state.record(id, TraceEvent::Barrier(barrier));
}

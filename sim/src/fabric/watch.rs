//! Watched memory: what the driver wrote between two entries of the trace.
//!
//! A driver writes coherent memory by plain stores that nobody sees. A watch compares the memory
//! with an earlier copy just before each MMIO access, barrier and DMA write of the trace, so that
//! the trace shows changes in the order "descriptor, barrier, doorbell".

use super::iommu::Backing;
use super::machine_state::Route;
use super::state::State;
use super::trace::TraceEvent;

/// A range of memory as a device sees it, and what was in it.
#[derive(Debug)]
pub(crate) struct Watch {
    pub iova: u64,
    pub words: Vec<u32>,
}

impl State {
    /// Begins to watch `words` 32-bit words at `iova` for `function`.
    pub fn watch(&mut self, function: usize, iova: u64, words: usize) {
        let words = self.peek(function, iova, words);
        self.functions[function].watches.push(Watch { iova, words });
    }

    /// Records the driver's changes.
    pub fn check_watches(&mut self, function: usize) {
        self.compare_watches(function, true);
    }

    /// Accepts the device's own changes.
    pub fn refresh_watches(&mut self, function: usize) {
        self.compare_watches(function, false);
    }

    fn compare_watches(&mut self, function: usize, report: bool) {
        if self.functions[function].watches.is_empty() || !self.trace.is_on() {
            return;
        }
        let mut watches = std::mem::take(&mut self.functions[function].watches);
        for watch in &mut watches {
            let words = self.peek(function, watch.iova, watch.words.len());
            for (index, (old, new)) in watch.words.iter().zip(&words).enumerate() {
                if report && old != new {
                    let address = watch.iova + 4 * index as u64;
                    self.record(function, TraceEvent::Memory { address, value: *new });
                }
            }
            watch.words = words;
        }
        self.functions[function].watches = watches;
    }

    /// The words at `iova` as far as they are mapped and aligned; others are 0.
    fn peek(&self, function: usize, iova: u64, words: usize) -> Vec<u32> {
        (0..words as u64).map(|index| self.peek_word(function, iova + 4 * index).unwrap_or(0)).collect()
    }

    fn peek_word(&self, function: usize, iova: u64) -> Option<u32> {
        let state = &self.functions[function];
        let iommu = &state.iommu;
        let hit = iommu.translate(iova, false).or_else(|_| iommu.translate(iova, true)).ok()?;
        match hit.backing {
            Backing::Host(region) => region.read_u32(hit.offset as usize).ok(),
            Backing::Physical(base) => {
                let machine = &self.machines[state.machine];
                match machine.route(base.checked_add(hit.offset)?)? {
                    Route::Ram { offset, .. } => machine.ram.read_u32(offset as usize).ok(),
                    Route::Bar { .. } => None,
                }
            }
        }
    }
}

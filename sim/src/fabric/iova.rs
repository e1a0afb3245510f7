//! Finds device-visible addresses for mappings.
//!
//! Addresses are handed out going up and come round again late, with a page between mappings: a
//! device that uses an address too late or one byte too far faults instead of hitting the neighbour.

use super::state::State;
use tombolo_hal::dma::DmaConstraints;

const PAGE: u64 = 4096;
const LOW_LIMIT: u64 = u32::MAX as u64;
/// What usual IOMMUs translate.
const HIGH_LIMIT: u64 = (1 << 48) - 1;

/// Where allocation begins below and above 4 GiB. Devices that can send 64-bit addresses get them,
/// so that a driver that drops the upper half is found out.
pub(super) const FIRST: [u64; 2] = [0x10_0000, 0x1_2340_0000];

impl State {
    /// An address for `len` bytes of `function` that keeps to the constraints and to firmware's
    /// windows. No multiple of the boundary is crossed, unless the length itself forces it.
    pub fn find_iova(&mut self, function: usize, len: u64, limits: &DmaConstraints) -> Option<u64> {
        let high = usize::from(limits.mask > LOW_LIMIT);
        let limit = limits.mask.min([LOW_LIMIT, HIGH_LIMIT][high]);
        let start = self.functions[function].next_iova[high];
        let found = self.scan(function, start, len, limit, limits);
        let found = found.or_else(|| self.scan(function, FIRST[high], len, limit, limits))?;
        self.functions[function].next_iova[high] = found + len + PAGE;
        Some(found)
    }

    fn scan(
        &self,
        function: usize,
        start: u64,
        len: u64,
        limit: u64,
        limits: &DmaConstraints,
    ) -> Option<u64> {
        let iommu = &self.functions[function].iommu;
        let mut at = start;
        // Each turn passes a mapping, a window or a boundary.
        for _ in 0..2 * iommu.mapped().0 + 8 {
            at = at.checked_next_multiple_of(limits.align.max(PAGE))?;
            at = keep_inside(at, len, limits.boundary);
            let last = at.checked_add(len - 1).filter(|last| *last <= limit)?;
            let guard = last.saturating_add(PAGE);
            match iommu.conflict(at, guard).or_else(|| self.window_end(function, at, guard)) {
                Some(end) => at = end.checked_add(1)?,
                None => return Some(at),
            }
        }
        None
    }

    /// The last address of a BAR window that `first..=last` touches.
    fn window_end(&self, function: usize, first: u64, last: u64) -> Option<u64> {
        let config = &self.machines[self.functions[function].machine].config;
        let touches = |window: &&&std::ops::Range<u64>| {
            !window.is_empty() && first < window.end && last >= window.start
        };
        [&config.mmio32, &config.mmio64].iter().find(touches).map(|window| window.end - 1)
    }
}

/// Moves `at` to the next multiple of `boundary` if the range would cross it and need not.
fn keep_inside(at: u64, len: u64, boundary: u64) -> u64 {
    if boundary == 0 || len > boundary || at / boundary == (at + (len - 1)) / boundary {
        return at;
    }
    at.next_multiple_of(boundary)
}

//! What goes wrong on purpose.

/// When a function is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// At once.
    Now,
    /// When the host has done so many MMIO accesses more.
    AfterMmio(u64),
    /// When the device has done so many DMA requests more.
    AfterDma(u64),
}

/// The faults that are armed for one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub mmio_until_removal: Option<u64>,
    pub dma_until_removal: Option<u64>,
    pub lose_next: u64,
    pub lose_probability: f64,
    pub posted_delay_ns: u64,
    pub iommu_fault_next: u64,
    pub refuse_map_next: u64,
    pub refuse_map_range: Option<(u64, u64)>,
    pub corrupt_writes: f64,
    pub corrupt_reads: f64,
}

/// Counts one down; true if it was the last.
pub(super) fn count_down(left: &mut Option<u64>) -> bool {
    if let Some(count) = left {
        *count = count.saturating_sub(1);
    }
    *left == Some(0)
}

/// Takes one of `left`; false if there is none.
pub(super) fn take(left: &mut u64) -> bool {
    let some = *left != 0;
    *left = left.saturating_sub(1);
    some
}

//! What is always counted.

/// Accesses to one BAR by the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarCounters {
    /// Reads that the function answered.
    pub reads: u64,
    /// Writes that were sent to the function.
    pub writes: u64,
}

/// What a function and its driver have done since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// MMIO by BAR index.
    pub bars: [BarCounters; 6],
    /// MMIO accesses outside a BAR, misaligned, to a BAR that does not decode, or after removal.
    pub unclaimed: u64,
    /// Configuration reads.
    pub config_reads: u64,
    /// Configuration writes.
    pub config_writes: u64,
    /// Memory read requests of the device that succeeded.
    pub dma_reads: u64,
    /// Bytes of them.
    pub dma_read_bytes: u64,
    /// Memory write requests of the device that succeeded, messages not included.
    pub dma_writes: u64,
    /// Bytes of them.
    pub dma_write_bytes: u64,
    /// Requests that the IOMMU refused.
    pub iommu_faults: u64,
    /// Interrupt messages that the device sent.
    pub messages: u64,
    /// Of these, messages that fault injection lost.
    pub messages_lost: u64,
    /// Of these, messages for which nobody listened or that were no 32-bit write.
    pub messages_unrouted: u64,
    /// Interrupts delivered, by vector. Messages that come while the same vector waits to be
    /// delivered are one interrupt.
    pub interrupts: Vec<u64>,
    /// Barriers that the driver executed.
    pub barriers: u64,
    /// DMA regions in quarantine.
    pub quarantined: u64,
    /// Bytes of them.
    pub quarantined_bytes: u64,
}

impl Counters {
    /// MMIO reads of all BARs.
    pub fn mmio_reads(&self) -> u64 {
        self.bars.iter().map(|bar| bar.reads).sum()
    }

    /// MMIO writes of all BARs.
    pub fn mmio_writes(&self) -> u64 {
        self.bars.iter().map(|bar| bar.writes).sum()
    }

    /// Interrupts of all vectors.
    pub fn interrupts_delivered(&self) -> u64 {
        self.interrupts.iter().sum()
    }

    pub(super) fn count_interrupt(&mut self, vector: u16) {
        let index = usize::from(vector);
        if self.interrupts.len() <= index {
            self.interrupts.resize(index + 1, 0);
        }
        self.interrupts[index] += 1;
    }
}

//! A bounded record of what happened, in order, for tests and people.

use crate::device::Width;
use std::collections::VecDeque;
use tombolo_hal::barrier::Barrier;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// The driver read a BAR.
    MmioRead {
        /// BAR index.
        bar: u8,
        /// Offset in bytes.
        offset: u64,
        /// Width of the access.
        width: Width,
        /// What it read.
        value: u64,
    },
    /// The driver wrote a BAR. Recorded when it writes; a delayed write arrives later.
    MmioWrite {
        /// BAR index.
        bar: u8,
        /// Offset in bytes.
        offset: u64,
        /// Width of the access.
        width: Width,
        /// What it wrote.
        value: u64,
    },
    /// The driver executed a barrier.
    Barrier(Barrier),
    /// A word of watched memory was seen changed by the driver since the entry before.
    Memory {
        /// Address as the device sees it.
        address: u64,
        /// The new value, little-endian.
        value: u32,
    },
    /// The device read memory.
    DmaRead {
        /// Address as the device sees it.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
    /// The device wrote memory.
    DmaWrite {
        /// Address as the device sees it.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
    /// The device sent an interrupt message.
    Message {
        /// Address that it wrote.
        address: u64,
        /// Data that it wrote.
        data: u32,
    },
    /// A handler was called.
    Interrupt {
        /// Vector.
        vector: u16,
    },
    /// The IOMMU refused a request.
    Fault {
        /// Address as the device sees it.
        address: u64,
        /// Whether it was a write.
        is_write: bool,
    },
    /// The function was reset.
    Reset,
    /// The function was removed.
    Removed,
}

/// What happened, to which function, when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Time in nanoseconds.
    pub time_ns: u64,
    /// Number of the function in the fabric, see [`Function::id`](super::Function::id).
    pub function: usize,
    /// What happened.
    pub event: TraceEvent,
}

/// The newest entries, up to a bound; off by default.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    capacity: usize,
    entries: VecDeque<TraceEntry>,
}

impl Trace {
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.entries.len() > capacity {
            self.entries.pop_front();
        }
    }

    pub const fn is_on(&self) -> bool {
        self.capacity != 0
    }

    pub fn push(&mut self, entry: TraceEntry) {
        if self.capacity == 0 {
            return;
        }
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub fn take(&mut self) -> Vec<TraceEntry> {
        self.entries.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_entries() {
        let mut trace = Trace::default();
        let entry = |time_ns| TraceEntry { time_ns, function: 0, event: TraceEvent::Reset };
        trace.push(entry(0));
        assert!(!trace.is_on() && trace.take().is_empty());
        trace.set_capacity(2);
        (1..=3).for_each(|time| trace.push(entry(time)));
        assert_eq!(trace.take(), [entry(2), entry(3)]);
        assert!(trace.take().is_empty());
    }
}

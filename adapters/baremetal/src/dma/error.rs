//! What can go wrong with DMA memory.

use tombolo_hal::error::{Error, ErrorKind};

/// Why memory was not given out or mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// No free part of the pool is large enough.
    #[error(
        "no {size:#x} bytes are free within the constraints (addresses up to {mask:#x}, aligned to \
         {align:#x}); {in_use:#x} of {pool:#x} are in use. Give the pool more memory, or lower memory"
    )]
    NoRoom {
        /// Bytes that were asked for.
        size: usize,
        /// The highest address that the device can send.
        mask: u64,
        /// Alignment.
        align: u64,
        /// Bytes of the pool in use, quarantined ones included.
        in_use: u64,
        /// Bytes of the pool.
        pool: u64,
    },
    /// There are as many allocations as the pool has entries.
    #[error("all {limit} entries of the DMA pool are in use; make its table larger or allocate less often")]
    TableFull {
        /// Entries.
        limit: usize,
    },
    /// Nothing was asked for.
    #[error("zero bytes of DMA memory were asked for")]
    Empty,
    /// The device cannot reach this memory.
    #[error("the device cannot reach {size:#x} bytes at {cpu:#x}: {why}")]
    Unreachable {
        /// Where the CPU sees it.
        cpu: usize,
        /// Bytes.
        size: usize,
        /// What is in the way.
        why: &'static str,
    },
    /// A buffer shares a cache line with something else, on a system whose DMA is not coherent.
    #[error("{size:#x} bytes at {cpu:#x} share cache lines with other data; align both to {line} bytes")]
    CacheLine {
        /// Where the CPU sees it.
        cpu: usize,
        /// Bytes.
        size: usize,
        /// Bytes of a line.
        line: usize,
    },
}

impl Error for DmaError {
    fn kind(&self) -> ErrorKind {
        match self {
            DmaError::NoRoom { .. } | DmaError::TableFull { .. } => ErrorKind::NoSpace,
            DmaError::Empty | DmaError::CacheLine { .. } => ErrorKind::InvalidInput,
            DmaError::Unreachable { .. } => ErrorKind::Platform,
        }
    }
}

//! Why there is no DMA memory.

use std::io;

use tombolo_hal::error::{Error, ErrorKind};

/// Why DMA memory could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// Zero bytes, or an alignment or boundary that is not a power of two.
    #[error("{size} bytes cannot be mapped with these constraints")]
    InvalidInput {
        /// Size in bytes.
        size: usize,
    },
    /// The process gets no more memory.
    #[error("no memory of {size} bytes for DMA: {source}")]
    OutOfMemory {
        /// Size in bytes.
        size: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No address that the device can send is free.
    #[error("no addresses for {size} bytes are left below {mask:#x}")]
    OutOfAddresses {
        /// Size in bytes.
        size: usize,
        /// The highest address that the device can send.
        mask: u64,
    },
    /// The kernel's limit of mappings is reached.
    #[error(
        "the kernel maps no more buffers{}: keep fewer in flight, or raise the module parameter \
         vfio_iommu_type1.dma_entry_limit", of_limit(*limit)
    )]
    TooManyMappings {
        /// The limit, if the kernel tells it.
        limit: Option<u32>,
    },
    /// The limit of locked memory is reached: what a device may reach cannot be swapped out.
    #[error(
        "{size} bytes more cannot be locked for DMA{}: raise RLIMIT_MEMLOCK (`ulimit -l`, \
         LimitMEMLOCK= of a systemd unit)", of_locked(*limit)
    )]
    LockedMemory {
        /// Size in bytes.
        size: u64,
        /// The limit in bytes; `None` for unlimited, where memory itself ran out.
        limit: Option<u64>,
    },
    /// The kernel did not map it.
    #[error("the kernel did not map {size} bytes for DMA: {source}")]
    Map {
        /// Size in bytes.
        size: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn of_limit(limit: Option<u32>) -> String {
    limit.map(|limit| format!(" than {limit}")).unwrap_or_default()
}

fn of_locked(limit: Option<u64>) -> String {
    limit.map(|limit| format!(" with a limit of {} KiB", limit >> 10)).unwrap_or_default()
}

impl DmaError {
    /// What an error of the kernel's means.
    pub(crate) fn of_map(source: io::Error, size: u64, limit: Option<u32>) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSPC) => Self::TooManyMappings { limit },
            Some(libc::ENOMEM) => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
                Self::LockedMemory { size, limit }
            }
            _ => Self::Map { size, source },
        }
    }
}

impl Error for DmaError {
    fn kind(&self) -> ErrorKind {
        match self {
            DmaError::InvalidInput { .. } => ErrorKind::InvalidInput,
            DmaError::OutOfMemory { .. }
            | DmaError::OutOfAddresses { .. }
            | DmaError::TooManyMappings { .. }
            | DmaError::LockedMemory { .. } => ErrorKind::NoSpace,
            DmaError::Map { .. } => ErrorKind::Platform,
        }
    }
}

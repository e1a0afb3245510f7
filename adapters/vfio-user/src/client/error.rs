//! What can go wrong on the driver's side.

use std::io;
use std::path::PathBuf;

use tombolo_hal::error::ErrorKind;
use tombolo_hal::irq::IrqMode;
use tombolo_hal::pci::PciError;

use crate::protocol::Errno;

/// Why a vfio-user device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody serves there.
    #[error("{path}: cannot connect: {source}; is a server running there?", path = .path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server speaks another version of the protocol.
    #[error("the server speaks version {major}.{minor} of vfio-user, this is 0.0")]
    Version {
        /// The server's major version.
        major: u16,
        /// The server's minor version.
        minor: u16,
    },
    /// What is served is no PCI function.
    #[error("the server has no PCI function with configuration space and BARs")]
    NotPci,
    /// The server refused something.
    #[error("the server refused to {what}: {errno}")]
    Refused {
        /// What it was asked to do.
        what: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// The server does not answer, or its answers make no sense.
    #[error("the server is gone ({what})")]
    Gone {
        /// What it was asked to do.
        what: &'static str,
    },
    /// There is no room for the BARs in this machine's address map.
    #[error("no addresses are left for BAR {bar} of {size:#x} bytes")]
    NoRoom {
        /// The BAR.
        bar: u8,
        /// Its size in bytes.
        size: u64,
    },
    /// The function has no such vectors.
    #[error("the function has no vectors of {0}")]
    NoVectors(IrqMode),
    /// The function cannot be reset.
    #[error("the server does not reset its function")]
    NoReset,
    /// Configuration space makes no sense, or the function is gone.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// Which one.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl tombolo_hal::error::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Gone { .. } => ErrorKind::DeviceGone,
            Error::Pci(error) => tombolo_hal::error::Error::kind(error),
            Error::Version { .. } | Error::NotPci => ErrorKind::Protocol,
            Error::NoVectors(_) | Error::NoReset => ErrorKind::Unsupported,
            Error::NoRoom { .. } => ErrorKind::NoSpace,
            _ => ErrorKind::Platform,
        }
    }
}

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
    /// No address that the device can send is free.
    #[error("no addresses for {size} bytes are left below {mask:#x}")]
    OutOfAddresses {
        /// Size in bytes.
        size: usize,
        /// The highest address that the device can send.
        mask: u64,
    },
    /// The system gives no anonymous file, so there is nothing to share.
    #[error("the system gives no memory of {size} bytes that can be shared")]
    NoSharedMemory {
        /// Size in bytes.
        size: usize,
    },
    /// The server did not map it.
    #[error("the server did not map {size} bytes: {source}")]
    Map {
        /// Size in bytes.
        size: usize,
        /// Its answer.
        source: Error,
    },
}

impl tombolo_hal::error::Error for DmaError {
    fn kind(&self) -> ErrorKind {
        match self {
            DmaError::InvalidInput { .. } => ErrorKind::InvalidInput,
            DmaError::OutOfAddresses { .. } => ErrorKind::NoSpace,
            DmaError::Map { source, .. } => tombolo_hal::error::Error::kind(source),
            DmaError::NoSharedMemory { .. } => ErrorKind::Platform,
        }
    }
}

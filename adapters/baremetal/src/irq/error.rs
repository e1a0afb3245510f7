//! What can go wrong with interrupts.

use tombolo_hal::error::{Error, ErrorKind};
use tombolo_hal::pci::PciError;

use crate::pci::Bdf;

/// Why a function has no interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IrqError {
    /// There is no interrupt with this number.
    #[error("no interrupt {number}: there are {limit}")]
    NoSuchInterrupt {
        /// The number.
        number: u32,
        /// How many there are.
        limit: usize,
    },
    /// All interrupts of the controller are in use.
    #[error("{wanted} interrupts in a row are not free; {free} of {limit} are")]
    NoneFree {
        /// How many were asked for.
        wanted: u16,
        /// How many are free.
        free: usize,
        /// How many there are.
        limit: usize,
    },
    /// The function has not what was asked for.
    #[error("the function has no {0}; ask for another kind of interrupt")]
    Missing(&'static str),
    /// No vectors were asked for.
    #[error("no vectors were asked for")]
    NoVectors,
    /// The BAR with the MSI-X table cannot be reached.
    #[error("BAR {bar} with the MSI-X table has no address or cannot be mapped")]
    TableUnreachable {
        /// Which base address register.
        bar: u8,
    },
    /// The table did not take a message.
    #[error("entry {vector} of the MSI-X table does not take its message")]
    TableRefused {
        /// Which entry.
        vector: u16,
    },
    /// A destination that a message cannot name.
    #[error("the local APIC has the id {id:#x}, which a message without interrupt remapping cannot name")]
    Destination {
        /// The id.
        id: u32,
    },
    /// The function already has interrupts of this controller.
    #[error("{0} already has interrupts")]
    InUse(Bdf),
    /// The interrupt controller lacks something, or does not answer.
    #[error("the interrupt controller cannot be used: {0}")]
    Controller(&'static str),
    /// There is no memory for the controller's tables.
    #[error("no memory for the interrupt controller's tables: {0}")]
    Memory(#[from] crate::dma::DmaError),
    /// Configuration space makes no sense.
    #[error(transparent)]
    Pci(#[from] PciError),
}

impl Error for IrqError {
    fn kind(&self) -> ErrorKind {
        match self {
            IrqError::NoSuchInterrupt { .. } | IrqError::NoVectors => ErrorKind::InvalidInput,
            IrqError::NoneFree { .. } => ErrorKind::NoSpace,
            IrqError::Missing(_) => ErrorKind::Unsupported,
            IrqError::InUse(_) => ErrorKind::Busy,
            IrqError::TableRefused { .. } => ErrorKind::Protocol,
            IrqError::Pci(error) => error.kind(),
            _ => ErrorKind::Platform,
        }
    }
}

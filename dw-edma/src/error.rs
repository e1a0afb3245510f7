//! What can go wrong.

use tombolo_hal::dmaengine::{Direction, NoSpace, Unsupported};
use tombolo_hal::error::ErrorKind;
use tombolo_hal::mmio::WindowError;
use tombolo_hal::pci::PciError;

use crate::{ChannelId, ChannelKind, Format};

/// An error of the eDMA driver. Nothing was changed unless a variant says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device reads all ones: it was removed, or its link is down.
    #[error("the device is gone (it reads all ones)")]
    DeviceGone,
    /// No engine, or none in a known format, was found.
    #[error("no eDMA engine found: {0}")]
    NoEngine(&'static str),
    /// The register window is too small for the format and the channels.
    #[error("register window: {0}")]
    Registers(#[source] WindowError),
    /// Config space could not be read.
    #[error("config space: {0}")]
    Pci(#[source] PciError),
    /// More channels than the engine or its format has.
    #[error("{wanted} {kind} channels asked for, the engine has {available} ({format})")]
    TooManyChannels {
        /// Of which kind.
        kind: ChannelKind,
        /// How many were asked for.
        wanted: u16,
        /// How many there are.
        available: u16,
        /// In which format.
        format: Format,
    },
    /// No channels at all were asked for, or none exist.
    #[error("no channels: ask for at least one that the engine has")]
    NoChannels,
    /// The format cannot tell how many channels there are: the caller must.
    #[error("{format} cannot report its number of channels; give both counts")]
    ChannelCountUnknown {
        /// The format.
        format: Format,
    },
    /// The physical function number does not fit into its field.
    #[error("function {function} does not fit: {format} has room for 0 to {max}")]
    FunctionNumber {
        /// What was given.
        function: u8,
        /// The largest.
        max: u8,
        /// The format.
        format: Format,
    },
    /// This channel does not exist.
    #[error("there is no {0}")]
    NoSuchChannel(ChannelId),
    /// This channel is open already.
    #[error("{0} is open already")]
    ChannelOpen(ChannelId),
    /// There is a control handle already.
    #[error("this engine is controlled by another handle")]
    Controlled,
    /// Close the channels first.
    #[error("{0} channels are open; close them first")]
    ChannelsOpen(u16),
    /// The linked-list memory does not do.
    #[error("list memory: {0}")]
    List(ListError),
    /// The pool or list is full, or too small for ever if `needed` exceeds its size.
    #[error(transparent)]
    NoSpace(NoSpace),
    /// No segments, or one of no bytes.
    #[error("empty transfer: segment {segment} has no bytes")]
    Empty {
        /// Which one.
        segment: usize,
    },
    /// A segment is longer than the size register can say.
    #[error("segment {segment} has {len} bytes, at most {max} are possible")]
    TooLong {
        /// Which one.
        segment: usize,
        /// How long it is.
        len: u64,
        /// How long it may be.
        max: u64,
    },
    /// An address or length is not a multiple of the bus width.
    #[error("segment {segment}: {what} {value:#x} is not a multiple of {align}")]
    Misaligned {
        /// Which one.
        segment: usize,
        /// The address or the length.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Of what it must be a multiple.
        align: u64,
    },
    /// An address runs past the end of the address space.
    #[error("segment {segment} runs past the end of the address space")]
    AddressOverflow {
        /// Which one.
        segment: usize,
    },
    /// No translation window covers a device address.
    #[error("device address {address:#x} (+{len} bytes) lies in no translation window")]
    Untranslated {
        /// The first byte.
        address: u64,
        /// How many bytes.
        len: u64,
    },
    /// This channel moves data the other way.
    #[error("{channel} moves data from {able}, not from {asked}")]
    WrongDirection {
        /// The channel.
        channel: ChannelId,
        /// What it does.
        able: Direction,
        /// What was asked for.
        asked: Direction,
    },
    /// There is no configuration, neither sticky nor with the call.
    #[error("the channel is not configured")]
    NotConfigured,
    /// The period does not divide the buffer, or the buffer has too many periods.
    #[error("a buffer of {buffer} bytes cannot be cut into periods of {period}")]
    BadPeriod {
        /// The buffer's length.
        buffer: u64,
        /// The period's.
        period: u64,
    },
    /// The engine cannot do this.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// The descriptor is not one of this channel's prepared ones.
    #[error("this descriptor was not prepared on this channel")]
    ForeignDescriptor,
    /// Transfers are under way, or the engine runs for somebody else.
    #[error("{0} is busy")]
    Busy(ChannelId),
    /// The interrupt messages cannot be given to this engine; poll instead.
    #[error("interrupt messages: {0}")]
    Messages(MessageError),
    /// The device contradicts itself. What it said was not used, and the channel's running transfers
    /// end as aborted.
    #[error("{channel} points to list position {position:#x}, where it cannot be")]
    BadPosition {
        /// The channel.
        channel: ChannelId,
        /// Bytes from the start of the list, modulo 4 GiB.
        position: u32,
    },
}

/// Why list memory does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// Not enough room for two elements and the link.
    #[error("{size} bytes are too few, at least {min} are needed")]
    TooSmall {
        /// What was given.
        size: usize,
        /// What is needed.
        min: usize,
    },
    /// Not a multiple of 8.
    #[error("the address {0:#x} is not a multiple of 8")]
    Misaligned(u64),
    /// It runs past the end of the address space.
    #[error("the list at {0:#x} runs past the end of the address space")]
    AddressOverflow(u64),
    /// Linked-list mode was asked for on a channel that was opened without list memory.
    #[error("the channel was opened without list memory")]
    Missing,
}

/// Why interrupt messages cannot be given to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The platform does not tell the message of a vector.
    #[error("the platform does not tell the message of vector {0}")]
    Unknown(u16),
    /// v0 formats have 16 bits for the data.
    #[error("the data {data:#x} of vector {vector} does not fit into 16 bits")]
    DataTooLarge {
        /// The vector.
        vector: u16,
        /// Its data.
        data: u32,
    },
}

impl From<Unsupported> for Error {
    fn from(what: Unsupported) -> Self {
        Error::Unsupported(what)
    }
}

impl From<NoSpace> for Error {
    fn from(e: NoSpace) -> Self {
        Error::NoSpace(e)
    }
}

impl From<WindowError> for Error {
    fn from(e: WindowError) -> Self {
        Error::Registers(e)
    }
}

impl From<ListError> for Error {
    fn from(e: ListError) -> Self {
        Error::List(e)
    }
}

impl From<PciError> for Error {
    fn from(e: PciError) -> Self {
        Error::Pci(e)
    }
}

impl tombolo_hal::error::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::DeviceGone => ErrorKind::DeviceGone,
            Error::Pci(e) => e.kind(),
            Error::NoSpace(_) => ErrorKind::NoSpace,
            Error::Unsupported(_) | Error::Messages(_) => ErrorKind::Unsupported,
            Error::ChannelOpen(_) | Error::Controlled | Error::ChannelsOpen(_) | Error::Busy(_) => {
                ErrorKind::Busy
            }
            Error::BadPosition { .. } => ErrorKind::Protocol,
            Error::NoEngine(_) => ErrorKind::Other,
            _ => ErrorKind::InvalidInput,
        }
    }
}

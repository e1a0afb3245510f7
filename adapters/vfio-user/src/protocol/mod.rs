//! The messages of vfio-user: bytes to typed values and back, without panic, allocation without bound
//! or access to anything.
//!
//! Sources: the vfio-user specification (`docs/interop/vfio-user.rst` of QEMU, version 0.0), and
//! `linux/vfio.h` for the structures and flags that it reuses. Where the specification leaves room, what
//! QEMU 11.1 sends and accepts was looked up and is said at the place.
//!
//! A message is a [`Header`] and a body. What a client asks for is a [`Request`]; errors are errno
//! values, which the reply carries.

mod dma;
mod fields;
mod header;
mod info;
mod irqs;
mod region;
mod request;
#[cfg(test)]
mod tests;
mod version;

pub use dma::{DmaMap, DmaUnmap, MAP_READ, MAP_WRITE, UNMAP_ALL, UNMAP_DIRTY_BITMAP};
pub use header::{HEADER_SIZE, Header, Kind};
pub use info::{Area, DeviceInfo, Info, IrqInfo, RegionInfo};
pub use irqs::{IrqAction, IrqData, SetIrqs};
pub use region::{ACCESS_SIZE, Access, Write, WriteMulti};
pub use request::Request;
pub use version::{Capabilities, Version};

pub use rustix::io::Errno;

/// Why a message is refused; the reply carries it.
pub type Malformed = Errno;

/// Most data bytes of one message that we send or take: what both sides assume if the other says
/// nothing.
pub const MAX_DATA: u32 = 1 << 20;
/// Largest message: the data, and the largest fixed part of any message with room to spare.
pub const MAX_MESSAGE: u32 = MAX_DATA + 4096;
/// Most file descriptors that we take with one message.
pub const MAX_FDS: usize = 16;
/// Most writes that one message carries (QEMU sends up to 200).
pub const MAX_WRITES: u64 = 1024;

/// What a message is about.
///
/// 14 was once dirty-page logging, 16 and up are migration; both are beyond what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Command {
    /// First message: versions and capabilities.
    Version = 1,
    /// Memory that the server may reach.
    DmaMap = 2,
    /// Memory that it may not reach any more.
    DmaUnmap = 3,
    /// What the device is.
    DeviceInfo = 4,
    /// What a region is.
    RegionInfo = 5,
    /// File descriptors in place of accesses (ioeventfd).
    RegionIoFds = 6,
    /// What an interrupt index is.
    IrqInfo = 7,
    /// Connects, masks or triggers interrupts.
    SetIrqs = 8,
    /// A read access.
    RegionRead = 9,
    /// A write access.
    RegionWrite = 10,
    /// The server reads the client's memory.
    DmaRead = 11,
    /// The server writes the client's memory.
    DmaWrite = 12,
    /// Resets the device.
    DeviceReset = 13,
    /// Several write accesses.
    RegionWriteMulti = 15,
}

impl Command {
    const ALL: [Self; 14] = [
        Self::Version,
        Self::DmaMap,
        Self::DmaUnmap,
        Self::DeviceInfo,
        Self::RegionInfo,
        Self::RegionIoFds,
        Self::IrqInfo,
        Self::SetIrqs,
        Self::RegionRead,
        Self::RegionWrite,
        Self::DmaRead,
        Self::DmaWrite,
        Self::DeviceReset,
        Self::RegionWriteMulti,
    ];

    /// The command with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|command| *command as u16 == number)
    }
}

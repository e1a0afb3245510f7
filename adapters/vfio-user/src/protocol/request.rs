//! What a client can ask for.

use super::fields::Fields;
use super::{Access, Command, DmaMap, DmaUnmap, Errno, Info, Malformed, SetIrqs, Version, Write, WriteMulti};

/// A request with its parameters, checked for what can be checked without a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// First message: versions and capabilities.
    Version(Version),
    /// Memory that the server may reach, and the file that comes with it.
    DmaMap(DmaMap),
    /// Memory that it may not reach any more.
    DmaUnmap(DmaUnmap),
    /// What the device is.
    DeviceInfo(Info),
    /// What a region is.
    RegionInfo(Info),
    /// What an interrupt index is.
    IrqInfo(Info),
    /// Connects, masks or triggers interrupts.
    SetIrqs(SetIrqs<'a>),
    /// A read access.
    RegionRead(Access),
    /// A write access.
    RegionWrite(Write<'a>),
    /// Several write accesses.
    RegionWriteMulti(WriteMulti<'a>),
    /// Resets the device.
    DeviceReset,
}

impl<'a> Request<'a> {
    /// Reads the body of the command with this number.
    ///
    /// # Errors
    /// `EINVAL`: too short or senseless. `E2BIG`: more data than [`MAX_DATA`](super::MAX_DATA).
    /// `EOPNOTSUPP`: something that is not served, such as migration.
    pub fn parse(command: u16, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        Ok(match Command::from_number(command) {
            Some(Command::Version) => Self::Version(Version::parse(fields)?),
            Some(Command::DmaMap) => Self::DmaMap(DmaMap::parse(fields)?),
            Some(Command::DmaUnmap) => Self::DmaUnmap(DmaUnmap::parse(fields)?),
            Some(Command::DeviceInfo) => Self::DeviceInfo(Info::of_device(fields)?),
            Some(Command::RegionInfo) => Self::RegionInfo(Info::of_region(fields)?),
            Some(Command::IrqInfo) => Self::IrqInfo(Info::of_irq(fields)?),
            Some(Command::SetIrqs) => Self::SetIrqs(SetIrqs::parse(fields)?),
            Some(Command::RegionRead) => Self::RegionRead(Access::parse(&mut fields)?),
            Some(Command::RegionWrite) => Self::RegionWrite(Write::parse(fields)?),
            Some(Command::RegionWriteMulti) => Self::RegionWriteMulti(WriteMulti::parse(fields)?),
            Some(Command::DeviceReset) => Self::DeviceReset,
            Some(Command::RegionIoFds | Command::DmaRead | Command::DmaWrite) | None => {
                return Err(Errno::OPNOTSUPP);
            }
        })
    }
}

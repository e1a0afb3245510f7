//! Memory of the client that the server may reach.

use super::fields::{Fields, Put};
use super::{Errno, Malformed};

const MAP_SIZE: u32 = 32;
const UNMAP_SIZE: u32 = 24;

/// The server may read it.
pub const MAP_READ: u32 = 1;
/// The server may write it.
pub const MAP_WRITE: u32 = 2;
/// Everything is unmapped (`VFIO_DMA_UNMAP_FLAG_ALL`).
pub const UNMAP_ALL: u32 = 2;
/// The reply shall have a bitmap of written pages, which we do not keep.
pub const UNMAP_DIRTY_BITMAP: u32 = 1;

/// A range of addresses, and where in the file that comes with it the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// [`MAP_READ`] and [`MAP_WRITE`].
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// First address.
    pub address: u64,
    /// Bytes, not 0; the range does not go beyond the end of the address space.
    pub size: u64,
}

impl DmaMap {
    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let argsz = fields.u32()?;
        let map =
            Self { flags: fields.u32()?, offset: fields.u64()?, address: fields.u64()?, size: fields.u64()? };
        let known = map.flags & !(MAP_READ | MAP_WRITE) == 0;
        let in_file = map.offset.checked_add(map.size).is_some();
        let valid = argsz >= MAP_SIZE && known && in_file && last(map.address, map.size).is_some();
        valid.then_some(map).ok_or(Errno::INVAL)
    }

    /// Appends the body of the request.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put32(MAP_SIZE);
        out.put32(self.flags);
        out.put64(self.offset);
        out.put64(self.address);
        out.put64(self.size);
    }

    /// The last address of the range.
    pub fn last(&self) -> u64 {
        self.address.saturating_add(self.size.saturating_sub(1))
    }
}

/// A range of addresses that the server may no longer use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaUnmap {
    /// [`UNMAP_ALL`], or nothing.
    pub flags: u32,
    /// First address; 0 for all.
    pub address: u64,
    /// Bytes; 0 for all.
    pub size: u64,
}

impl DmaUnmap {
    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let argsz = fields.u32()?;
        let unmap = Self { flags: fields.u32()?, address: fields.u64()?, size: fields.u64()? };
        let range = match unmap.flags {
            0 => last(unmap.address, unmap.size).is_some(),
            UNMAP_ALL => unmap.address == 0 && unmap.size == 0,
            UNMAP_DIRTY_BITMAP => return Err(Errno::OPNOTSUPP),
            _ => false,
        };
        (argsz >= UNMAP_SIZE && range).then_some(unmap).ok_or(Errno::INVAL)
    }

    /// Appends the body, which request and reply share; in the reply the size is what was unmapped.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put32(UNMAP_SIZE);
        out.put32(self.flags);
        out.put64(self.address);
        out.put64(self.size);
    }

    /// First and last address.
    pub fn range(&self) -> (u64, u64) {
        match self.flags & UNMAP_ALL {
            0 => (self.address, last(self.address, self.size).unwrap_or(self.address)),
            _ => (0, u64::MAX),
        }
    }
}

/// The last address of a range that is not empty and ends inside the address space.
fn last(address: u64, size: u64) -> Option<u64> {
    address.checked_add(size.checked_sub(1)?)
}

//! Accesses to regions.

use super::fields::{Fields, Put};
use super::{Errno, MAX_DATA, MAX_WRITES, Malformed};

/// Bytes of an access without its data.
pub const ACCESS_SIZE: usize = 16;

/// Which bytes of which region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Offset in the region.
    pub offset: u64,
    /// Index of the region.
    pub region: u32,
    /// Bytes.
    pub count: u32,
}

impl Access {
    /// Reads it; a count beyond [`MAX_DATA`] is refused.
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let access = Self { offset: fields.u64()?, region: fields.u32()?, count: fields.u32()? };
        if access.count > MAX_DATA {
            return Err(Errno::TOOBIG);
        }
        access.offset.checked_add(access.count.into()).map(|_| access).ok_or(Errno::INVAL)
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put64(self.offset);
        out.put32(self.region);
        out.put32(self.count);
    }

    /// Reads what a reply repeats of the request.
    ///
    /// # Errors
    /// `EINVAL` or `E2BIG`.
    pub fn parse_reply(body: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut fields = Fields::new(body);
        let access = Self::parse(&mut fields)?;
        Ok((access, fields.rest()))
    }
}

/// A write access with its data, as many bytes as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where.
    pub access: Access,
    /// What.
    pub data: &'a [u8],
}

impl<'a> Write<'a> {
    pub(super) fn parse(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let access = Access::parse(&mut fields)?;
        Ok(Self { access, data: fields.bytes(access.count as usize)? })
    }
}

/// Several writes, each of at most eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteMulti<'a> {
    /// 24 bytes for each.
    entries: &'a [u8],
}

const ENTRY: usize = ACCESS_SIZE + 8;

impl<'a> WriteMulti<'a> {
    /// All of them are checked before one is carried out.
    pub(super) fn parse(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let count = fields.u64()?;
        let count = usize::try_from(count).ok().filter(|_| count <= MAX_WRITES).ok_or(Errno::TOOBIG)?;
        let all = Self { entries: fields.bytes(count * ENTRY)? };
        all.iter().try_for_each(|write| write.map(|_| ()))?;
        Ok(all)
    }

    /// The writes in their order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Write<'a>, Malformed>> + use<'a> {
        self.entries.chunks_exact(ENTRY).map(|entry| {
            let mut fields = Fields::new(entry);
            let access = Access::parse(&mut fields)?;
            let data = fields.bytes(8)?.get(..access.count as usize).ok_or(Errno::INVAL)?;
            Ok(Write { access, data })
        })
    }
}

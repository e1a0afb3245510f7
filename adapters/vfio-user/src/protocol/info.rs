//! What the device, its regions and its interrupts are.

use super::fields::{Fields, Put};
use super::{Errno, Malformed};
use vfio_bindings::bindings::vfio::{
    VFIO_REGION_INFO_CAP_SPARSE_MMAP, VFIO_REGION_INFO_FLAG_CAPS, VFIO_REGION_INFO_FLAG_MMAP,
};

const DEVICE_SIZE: u32 = 16;
const REGION_SIZE: u32 = 32;
const IRQ_SIZE: u32 = 16;
const CAPABILITY_SIZE: usize = 16;
const AREA_SIZE: usize = 16;
/// Areas and capabilities that we look at.
const MOST: usize = 64;

/// A question for information: how many bytes the answer may have, and of which region or index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Room for the answer in bytes.
    pub room: u32,
    /// Which one; 0 in questions about the device.
    pub index: u32,
}

impl Info {
    pub(super) fn of_device(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        Self { room: fields.u32()?, index: 0 }.checked(DEVICE_SIZE)
    }

    pub(super) fn of_region(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let (room, _flags) = (fields.u32()?, fields.u32()?);
        Self { room, index: fields.u32()? }.checked(REGION_SIZE)
    }

    pub(super) fn of_irq(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let (room, _flags) = (fields.u32()?, fields.u32()?);
        Self { room, index: fields.u32()? }.checked(IRQ_SIZE)
    }

    fn checked(self, least: u32) -> Result<Self, Malformed> {
        (self.room >= least).then_some(self).ok_or(Errno::INVAL)
    }
}

/// Flags (`VFIO_DEVICE_FLAGS_*`) and how many regions and interrupt indexes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `VFIO_DEVICE_FLAGS_*`.
    pub flags: u32,
    /// Regions.
    pub regions: u32,
    /// Interrupt indexes.
    pub irqs: u32,
}

impl DeviceInfo {
    /// Appends the body; the request's is the default's.
    pub fn put(&self, out: &mut Vec<u8>) {
        [DEVICE_SIZE, self.flags, self.regions, self.irqs].into_iter().for_each(|word| out.put32(word));
    }

    /// Reads a reply's body.
    ///
    /// # Errors
    /// `EINVAL` if it is too short.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let _argsz = fields.u32()?;
        Ok(Self { flags: fields.u32()?, regions: fields.u32()?, irqs: fields.u32()? })
    }
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset in the region.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A region: a BAR, or configuration space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionInfo {
    /// `VFIO_REGION_INFO_FLAG_READ`, `_WRITE` and `_MMAP`.
    pub flags: u32,
    /// Which one.
    pub index: u32,
    /// Bytes; 0 if it does not exist.
    pub size: u64,
    /// Where byte 0 of the region is in the file that can be mapped.
    pub offset: u64,
    /// What can be mapped, if not all of it.
    pub areas: Vec<Area>,
}

impl RegionInfo {
    /// Bytes of the whole answer.
    pub fn answer_size(&self) -> u32 {
        let capability = if self.areas.is_empty() { 0 } else { CAPABILITY_SIZE };
        // A region has few areas.
        REGION_SIZE + u32::try_from(capability + self.areas.len() * AREA_SIZE).unwrap_or(0)
    }

    /// Appends the body of a request that has `room` for the answer.
    pub fn put_request(index: u32, room: u32, out: &mut Vec<u8>) {
        [room.max(REGION_SIZE), 0, index, 0].into_iter().for_each(|word| out.put32(word));
        [0, 0].into_iter().for_each(|word| out.put64(word));
    }

    /// Appends the body of the answer: with the areas if there is room for them.
    pub fn put(&self, room: u32, out: &mut Vec<u8>) {
        let areas = !self.areas.is_empty();
        let flags = if areas { self.flags | VFIO_REGION_INFO_FLAG_CAPS } else { self.flags };
        let fits = areas && room >= self.answer_size();
        out.put32(self.answer_size());
        out.put32(flags);
        out.put32(self.index);
        // Also if they do not fit: QEMU refuses an answer that has capabilities at no offset.
        out.put32(if areas { REGION_SIZE } else { 0 });
        out.put64(self.size);
        out.put64(self.offset);
        if fits {
            self.put_areas(out);
        }
    }

    fn put_areas(&self, out: &mut Vec<u8>) {
        out.put16(VFIO_REGION_INFO_CAP_SPARSE_MMAP as u16);
        out.put16(1);
        // Offset of the next capability, number of areas, padding.
        [0, self.areas.len() as u32, 0].into_iter().for_each(|word| out.put32(word));
        for area in &self.areas {
            out.put64(area.offset);
            out.put64(area.size);
        }
    }

    /// Reads a reply's body: the region, and how much room the whole answer needs.
    ///
    /// # Errors
    /// `EINVAL` if it is too short or its capabilities make no sense.
    pub fn parse(body: &[u8]) -> Result<(Self, u32), Malformed> {
        let mut fields = Fields::new(body);
        let needs = fields.u32()?;
        let (flags, index, capability) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (size, offset) = (fields.u64()?, fields.u64()?);
        let areas = match flags & VFIO_REGION_INFO_FLAG_CAPS {
            0 => Vec::new(),
            _ => sparse_areas(body, capability)?,
        };
        let inside = |area: &Area| area.offset.checked_add(area.size).is_some_and(|end| end <= size);
        let mappable = flags & VFIO_REGION_INFO_FLAG_MMAP != 0;
        if mappable && (offset.checked_add(size).is_none() || !areas.iter().all(inside)) {
            return Err(Errno::INVAL);
        }
        Ok((Self { flags: flags & !VFIO_REGION_INFO_FLAG_CAPS, index, size, offset, areas }, needs))
    }
}

/// The areas of the first sparse-mmap capability of a list that begins at `at`.
fn sparse_areas(body: &[u8], at: u32) -> Result<Vec<Area>, Malformed> {
    let mut next = at as usize;
    for _ in 0..MOST {
        if next == 0 {
            break;
        }
        let mut fields = Fields::new(body.get(next..).ok_or(Errno::INVAL)?);
        let (id, _version, after) = (fields.u16()?, fields.u16()?, fields.u32()?);
        if u32::from(id) == VFIO_REGION_INFO_CAP_SPARSE_MMAP {
            let (count, _padding) = (fields.u32()? as usize, fields.u32()?);
            let mut area = || Ok(Area { offset: fields.u64()?, size: fields.u64()? });
            return (0..count.min(MOST)).map(|_| area()).collect();
        }
        next = after as usize;
    }
    Ok(Vec::new())
}

/// An interrupt index: INTx, MSI, MSI-X, errors, requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IrqInfo {
    /// `VFIO_IRQ_INFO_*`.
    pub flags: u32,
    /// Which one.
    pub index: u32,
    /// Vectors.
    pub count: u32,
}

impl IrqInfo {
    /// Appends the body, of request and reply.
    pub fn put(&self, out: &mut Vec<u8>) {
        [IRQ_SIZE, self.flags, self.index, self.count].into_iter().for_each(|word| out.put32(word));
    }

    /// Reads a reply's body.
    ///
    /// # Errors
    /// `EINVAL` if it is too short.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let _argsz = fields.u32()?;
        Ok(Self { flags: fields.u32()?, index: fields.u32()?, count: fields.u32()? })
    }
}

//! Connecting, masking and triggering interrupts.

use super::fields::{Fields, Put};
use super::{Errno, Malformed};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_TYPE_MASK,
    VFIO_IRQ_SET_ACTION_UNMASK, VFIO_IRQ_SET_DATA_BOOL, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_IRQ_SET_DATA_TYPE_MASK,
};

const SIZE: u32 = 20;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqAction {
    /// Mask.
    Mask,
    /// Unmask.
    Unmask,
    /// Fire; with file descriptors: say what is to be signalled when it fires.
    Trigger,
}

/// For which of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqData<'a> {
    /// All of them.
    None,
    /// Those whose byte is not 0.
    Bool(&'a [u8]),
    /// Event file descriptors came with the message: one for each vector, or none to disconnect.
    EventFd,
}

/// The action, and for which vectors of which index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIrqs<'a> {
    /// What to do.
    pub action: IrqAction,
    /// With what.
    pub data: IrqData<'a>,
    /// Interrupt index: INTx, MSI, MSI-X and so on.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Vectors. 0 with [`IrqData::None`] and [`IrqAction::Trigger`] disconnects all.
    pub count: u32,
}

impl<'a> SetIrqs<'a> {
    pub(super) fn parse(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let (argsz, flags) = (fields.u32()?, fields.u32()?);
        let (index, start, count) = (fields.u32()?, fields.u32()?, fields.u32()?);
        if argsz < SIZE || start.checked_add(count).is_none() {
            return Err(Errno::INVAL);
        }
        let action = match flags & VFIO_IRQ_SET_ACTION_TYPE_MASK {
            VFIO_IRQ_SET_ACTION_MASK => IrqAction::Mask,
            VFIO_IRQ_SET_ACTION_UNMASK => IrqAction::Unmask,
            VFIO_IRQ_SET_ACTION_TRIGGER => IrqAction::Trigger,
            _ => return Err(Errno::INVAL),
        };
        let data = match flags & VFIO_IRQ_SET_DATA_TYPE_MASK {
            VFIO_IRQ_SET_DATA_NONE => IrqData::None,
            VFIO_IRQ_SET_DATA_BOOL => IrqData::Bool(fields.bytes(count as usize)?),
            VFIO_IRQ_SET_DATA_EVENTFD => IrqData::EventFd,
            _ => return Err(Errno::INVAL),
        };
        if flags & !(VFIO_IRQ_SET_ACTION_TYPE_MASK | VFIO_IRQ_SET_DATA_TYPE_MASK) != 0 {
            return Err(Errno::INVAL);
        }
        Ok(Self { action, data, index, start, count })
    }

    /// Appends the body of the request.
    pub fn put(&self, out: &mut Vec<u8>) {
        let action = match self.action {
            IrqAction::Mask => VFIO_IRQ_SET_ACTION_MASK,
            IrqAction::Unmask => VFIO_IRQ_SET_ACTION_UNMASK,
            IrqAction::Trigger => VFIO_IRQ_SET_ACTION_TRIGGER,
        };
        let (data, bytes): (u32, &[u8]) = match self.data {
            IrqData::None => (VFIO_IRQ_SET_DATA_NONE, &[]),
            IrqData::Bool(bytes) => (VFIO_IRQ_SET_DATA_BOOL, bytes),
            IrqData::EventFd => (VFIO_IRQ_SET_DATA_EVENTFD, &[]),
        };
        let size = SIZE.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        [size, action | data, self.index, self.start, self.count]
            .into_iter()
            .for_each(|word| out.put32(word));
        out.extend_from_slice(bytes);
    }
}

//! Configuration space through VFIO, which shows most of it and virtualises some.

use std::sync::Arc;

use tombolo_hal::pci::{ConfigSpace, regs};

use crate::regions::Core;

/// The configuration space of an open device. Clones keep the device open.
///
/// VFIO virtualises BARs (a write changes nothing), MSI and MSI-X (use
/// [`Device::interrupts`](crate::Device::interrupts)) and filters some writes.
#[derive(Clone, Debug)]
pub struct Config(pub(crate) Arc<Core>);

/// The same for the device's own use.
pub(crate) struct OfCore<'a>(pub &'a Core);

fn read<const N: usize>(core: &Core, offset: u16) -> [u8; N] {
    let mut bytes = [u8::MAX; N];
    if !core.read_config(offset, &mut bytes) {
        bytes.fill(u8::MAX);
    }
    if offset == regs::VENDOR_ID && bytes == [u8::MAX; N] {
        core.gone.set();
    }
    bytes
}

macro_rules! config_space {
    ($name:ty) => {
        impl ConfigSpace for $name {
            fn read8(&self, offset: u16) -> u8 {
                u8::from_le_bytes(read(&self.0, offset))
            }

            fn read16(&self, offset: u16) -> u16 {
                if offset % 2 == 0 { u16::from_le_bytes(read(&self.0, offset)) } else { u16::MAX }
            }

            fn read32(&self, offset: u16) -> u32 {
                if offset % 4 == 0 { u32::from_le_bytes(read(&self.0, offset)) } else { u32::MAX }
            }

            fn write8(&self, offset: u16, value: u8) {
                self.0.write_config(offset, &value.to_le_bytes());
            }

            fn write16(&self, offset: u16, value: u16) {
                if offset % 2 == 0 {
                    self.0.write_config(offset, &value.to_le_bytes());
                }
            }

            fn write32(&self, offset: u16, value: u32) {
                if offset % 4 == 0 {
                    self.0.write_config(offset, &value.to_le_bytes());
                }
            }
        }
    };
}
config_space!(Config);
config_space!(OfCore<'_>);

//! Registers and memory behind a BAR, and configuration space.

use std::fmt;
use std::sync::Arc;

use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::{ConfigSpace, regs};
use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::core::{Core, Region};

/// A BAR of an open device. Clones are the same BAR and keep the connection.
///
/// What the server lets be mapped is accessed by loads and stores, the rest by messages: a write is
/// complete when the call returns. Once the device is [gone](super::Device::is_gone) it reads all ones
/// and is not written.
#[derive(Clone)]
pub struct Bar {
    core: Arc<Core>,
    index: u8,
    size: usize,
}

impl fmt::Debug for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bar").field("index", &self.index).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Bar {
    pub(super) fn new(core: &Arc<Core>, index: u8) -> Option<Self> {
        let size = core.bars.get(usize::from(index))?.as_ref()?.size;
        Some(Self { core: core.clone(), index, size: usize::try_from(size).ok()? })
    }

    fn region(&self) -> Option<&Region> {
        self.core.bars.get(usize::from(self.index))?.as_ref()
    }

    /// Whether an aligned word of `width` bytes lies at `offset` of a device that is there.
    fn holds(&self, offset: usize, width: usize) -> bool {
        let inside = offset < self.size && self.size - offset >= width && offset.is_multiple_of(width);
        inside && !self.core.is_gone()
    }

    fn load<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [u8::MAX; N];
        if !self.holds(offset, N) {
            return bytes;
        }
        let mapped = self.region().and_then(|region| region.load(offset, &mut bytes));
        if mapped.is_none() {
            self.core.read(self.index.into(), offset as u64, &mut bytes);
        }
        bytes
    }

    fn store<const N: usize>(&self, offset: usize, bytes: [u8; N]) {
        if !self.holds(offset, N) {
            return;
        }
        let mapped = self.region().and_then(|region| region.store(offset, &bytes));
        if mapped.is_none() {
            self.core.write(self.index.into(), offset as u64, &bytes);
        }
    }
}

impl Mmio for Bar {
    fn size(&self) -> usize {
        self.size
    }

    fn read32(&self, offset: usize) -> u32 {
        let value = self.read32_relaxed(offset);
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        value
    }

    fn write32(&self, offset: usize, value: u32) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        self.write32_relaxed(offset, value);
    }

    fn read32_relaxed(&self, offset: usize) -> u32 {
        if !self.holds(offset, 4) {
            return u32::MAX;
        }
        let mapped = self.region().and_then(|region| region.load32(offset));
        mapped.unwrap_or_else(|| u32::from_le_bytes(self.load(offset)))
    }

    fn write32_relaxed(&self, offset: usize, value: u32) {
        if self.holds(offset, 4) && self.region().and_then(|region| region.store32(offset, value)).is_none() {
            self.store(offset, value.to_le_bytes());
        }
    }
}

impl MmioNarrow for Bar {
    fn read8(&self, offset: usize) -> u8 {
        u8::from_le_bytes(self.load(offset))
    }

    fn write8(&self, offset: usize, value: u8) {
        self.store(offset, value.to_le_bytes());
    }

    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.load(offset))
    }

    fn write16(&self, offset: usize, value: u16) {
        self.store(offset, value.to_le_bytes());
    }
}

/// The configuration space of an open device. Clones keep the connection.
#[derive(Clone, Debug)]
pub struct Config(pub(super) Arc<Core>);

impl Config {
    fn read<const N: usize>(&self, offset: u16) -> [u8; N] {
        let mut bytes = [u8::MAX; N];
        if usize::from(offset).is_multiple_of(N) {
            self.0.read(VFIO_PCI_CONFIG_REGION_INDEX, offset.into(), &mut bytes);
        }
        if offset == regs::VENDOR_ID && bytes == [u8::MAX; N] {
            self.0.set_absent(true);
        }
        bytes
    }

    fn write<const N: usize>(&self, offset: u16, bytes: [u8; N]) {
        if usize::from(offset).is_multiple_of(N) {
            self.0.write(VFIO_PCI_CONFIG_REGION_INDEX, offset.into(), &bytes);
        }
    }
}

impl ConfigSpace for Config {
    fn read8(&self, offset: u16) -> u8 {
        u8::from_le_bytes(self.read(offset))
    }

    fn read16(&self, offset: u16) -> u16 {
        u16::from_le_bytes(self.read(offset))
    }

    fn read32(&self, offset: u16) -> u32 {
        u32::from_le_bytes(self.read(offset))
    }

    fn write8(&self, offset: u16, value: u8) {
        self.write(offset, value.to_le_bytes());
    }

    fn write16(&self, offset: u16, value: u16) {
        self.write(offset, value.to_le_bytes());
    }

    fn write32(&self, offset: u16, value: u32) {
        self.write(offset, value.to_le_bytes());
    }
}

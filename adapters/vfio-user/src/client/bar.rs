//! Registers and memory behind a BAR, and configuration space.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tombolo_hal::mmio::{Mmio, MmioNarrow};
use tombolo_hal::pci::{ConfigSpace, regs};
use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::core::{Core, Region};

/// Where mapped parts of a BAR may begin and end.
const PAGE: usize = 4096;

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
        self.has(offset, width) && offset.is_multiple_of(width)
    }

    /// Reads memory behind the BAR, any offset and length; all ones outside it and of a device that is
    /// gone. What is not mapped comes a page at a time: a register must not be read this way.
    pub fn read_bytes(&self, offset: usize, data: &mut [u8]) {
        for (at, piece) in pages(offset, data.len()) {
            let Some(data) = data.get_mut(piece) else { return };
            match self.region().filter(|_| self.has(at, data.len())) {
                None => data.fill(u8::MAX),
                Some(region) if region.load(at, data).is_some() => {}
                Some(_) => {
                    self.core.read(self.index.into(), at as u64, data);
                }
            }
        }
    }

    /// Writes memory behind the BAR, as [`read_bytes`](Self::read_bytes) reads it.
    pub fn write_bytes(&self, offset: usize, data: &[u8]) {
        for (at, piece) in pages(offset, data.len()) {
            let Some(data) = data.get(piece) else { return };
            let region = self.region().filter(|_| self.has(at, data.len()));
            if region.is_some_and(|region| region.store(at, data).is_none()) {
                self.core.write(self.index.into(), at as u64, data);
            }
        }
    }

    fn has(&self, offset: usize, len: usize) -> bool {
        offset < self.size && self.size - offset >= len && !self.core.is_gone()
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

/// Cuts `len` bytes at `offset` at the ends of pages: what is mapped begins and ends there. Each piece
/// with its offset, and where it is in the data.
fn pages(offset: usize, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset.checked_add(done).filter(|_| done < len)?;
        let piece = (PAGE - at % PAGE).min(len - done);
        done += piece;
        Some((at, done - piece..done))
    })
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

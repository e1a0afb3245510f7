//! Registers and memory behind a BAR.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tombolo_hal::mmio::{Mmio, MmioNarrow};

use crate::regions::{BarRegion, Core};

/// A BAR of an open device. Clones are the same BAR and keep the device open.
///
/// What VFIO lets be mapped is accessed by loads and stores, the rest by system calls. Once the device
/// is [gone](crate::Device::is_gone) it reads all ones and is not written.
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

/// A word that goes through the device's file.
trait Word: Copy {
    const ONES: Self;
    const SIZE: usize;
    fn read(core: &Core, at: u64) -> std::io::Result<Self>;
    fn write(self, core: &Core, at: u64) -> std::io::Result<()>;
}

macro_rules! word {
    ($($int:ty),*) => {$(
        impl Word for $int {
            const ONES: Self = Self::MAX;
            const SIZE: usize = size_of::<Self>();
            fn read(core: &Core, at: u64) -> std::io::Result<Self> {
                let mut bytes = [0; size_of::<Self>()];
                core.file.read_exact_at(&mut bytes, at)?;
                Ok(Self::from_le_bytes(bytes))
            }
            fn write(self, core: &Core, at: u64) -> std::io::Result<()> {
                core.file.write_all_at(&self.to_le_bytes(), at)
            }
        }
    )*};
}
word!(u8, u16, u32);

impl Bar {
    pub(crate) fn new(core: &Arc<Core>, index: u8) -> Option<Self> {
        let size = core.bars.get(usize::from(index))?.as_ref()?.size;
        Some(Self { core: core.clone(), index, size })
    }

    #[inline(always)]
    fn region(&self) -> Option<&BarRegion> {
        self.core.bars.get(usize::from(self.index))?.as_ref()
    }

    /// One word, from the mapping that holds it or through the file. All ones if the device is gone.
    #[inline(always)]
    fn load<T: Word>(
        &self,
        offset: usize,
        mapped: impl FnOnce(&tombolo_hal::mmio::RawMmio, usize) -> T,
    ) -> T {
        let Some(region) = self.region() else { return T::ONES };
        let before = self.core.gone.state();
        let value = match region.mapped(offset) {
            Some((raw, at)) => mapped(raw, at),
            None => self.load_slowly(region, offset),
        };
        // After the load, which may have been what found out.
        if self.core.gone.was_there(before) {
            return value;
        }
        self.core.silence();
        T::ONES
    }

    #[inline(always)]
    fn store<T: Word>(
        &self,
        offset: usize,
        value: T,
        mapped: impl FnOnce(&tombolo_hal::mmio::RawMmio, usize),
    ) {
        let Some(region) = self.region() else { return };
        if self.core.gone.is_set() {
            return;
        }
        match region.mapped(offset) {
            Some((raw, at)) => mapped(raw, at),
            None => self.store_slowly(region, offset, value),
        }
    }

    #[cold]
    fn load_slowly<T: Word>(&self, region: &BarRegion, offset: usize) -> T {
        if !holds::<T>(region, offset) {
            return T::ONES;
        }
        T::read(&self.core, region.offset + offset as u64).unwrap_or_else(|error| {
            self.lost(&error);
            T::ONES
        })
    }

    #[cold]
    fn store_slowly<T: Word>(&self, region: &BarRegion, offset: usize, value: T) {
        if holds::<T>(region, offset)
            && let Err(error) = value.write(&self.core, region.offset + offset as u64)
        {
            self.lost(&error);
        }
    }

    /// The kernel refuses accesses while the function's memory is off: what SIGBUS is to a mapping.
    fn lost(&self, error: &std::io::Error) {
        log::debug!("{}: BAR{}: {error}", self.core.address, self.index);
        self.core.gone.set();
    }
}

fn holds<T: Word>(region: &BarRegion, offset: usize) -> bool {
    offset.is_multiple_of(T::SIZE) && offset < region.size && region.size - offset >= T::SIZE
}

impl Mmio for Bar {
    #[inline(always)]
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        self.load(offset, |raw, at| raw.read32(at))
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        self.store(offset, value, |raw, at| raw.write32(at, value));
    }

    #[inline(always)]
    fn read32_relaxed(&self, offset: usize) -> u32 {
        self.load(offset, |raw, at| raw.read32_relaxed(at))
    }

    #[inline(always)]
    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.store(offset, value, |raw, at| raw.write32_relaxed(at, value));
    }

    #[inline(always)]
    fn write64_relaxed(&self, offset: usize, value: u64) {
        // Mappings are whole pages, so an aligned 64-bit word lies in one or in none.
        match self.region().and_then(|region| region.mapped(offset)) {
            Some((raw, at)) if offset.is_multiple_of(8) && !self.core.gone.is_set() => {
                raw.write64_relaxed(at, value);
            }
            _ => self.write64_lo_hi(offset, value),
        }
    }
}

impl MmioNarrow for Bar {
    fn read8(&self, offset: usize) -> u8 {
        self.load(offset, |raw, at| raw.read8(at))
    }

    fn write8(&self, offset: usize, value: u8) {
        self.store(offset, value, |raw, at| raw.write8(at, value));
    }

    fn read16(&self, offset: usize) -> u16 {
        self.load(offset, |raw, at| raw.read16(at))
    }

    fn write16(&self, offset: usize, value: u16) {
        self.store(offset, value, |raw, at| raw.write16(at, value));
    }
}

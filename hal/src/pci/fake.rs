//! A configuration space in memory, for tests of drivers.
//!
//! It needs neither the standard library nor a device: each word has a value, a mask of the bits
//! that can be written and a mask of those that are cleared by writing one. That is enough for BAR
//! sizing, capabilities and function-level reset to behave as a function's do, and for content that
//! no sane function has.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::bar::BarKind;
use super::caps::CapabilityId;
use super::config::{CONFIG_SPACE_SIZE, ConfigSpace};
use super::ext_caps::ExtCapabilityId;
use super::regs;
use super::regs_express::{DeviceCapabilities, DeviceControl};

const WORDS: usize = CONFIG_SPACE_SIZE as usize / 4;
const COMMAND_STATUS: u16 = regs::COMMAND;
/// I/O, memory, bus master, parity, SERR and INTx disable; the rest is zero on PCI Express.
const COMMAND_WRITABLE: u32 = 0x0547;
/// Status bits that are write-one-to-clear.
const STATUS_W1C: u32 = 0xf900_0000;

/// A function in memory.
///
/// The `with_` functions build it and **panic** on arguments that make no sense; the accesses
/// through [`ConfigSpace`] never do.
///
/// ```
/// use tombolo_hal::pci::{fake::FakeConfigSpace, BarKind, CapabilityId, ConfigSpace};
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda)
///     .with_bar(0, BarKind::Memory32, false, 0xe000_0000, 0x1000)
///     .with_capability(CapabilityId::MSI, 0x50, &[0; 8]);
/// cfg.write32(0x10, u32::MAX);
/// assert_eq!(cfg.read32(0x10), 0xffff_f000);
///
/// cfg.remove();
/// assert_eq!(cfg.read32(0x10), u32::MAX);
/// ```
#[derive(Debug)]
pub struct FakeConfigSpace {
    value: [AtomicU32; WORDS],
    writable: [u32; WORDS],
    clear: [u32; WORDS],
    /// Pointer byte or header that the next capability is linked to.
    last_capability: u16,
    last_ext_capability: Option<u16>,
    flr: Option<Flr>,
    gone: AtomicBool,
    silent: AtomicU32,
    reads: AtomicU32,
    writes: AtomicU32,
    resets: AtomicU32,
}

#[derive(Debug)]
struct Flr {
    /// Where device control is.
    control: u16,
    /// Identity reads that go unanswered after a reset.
    silent: u32,
}

impl FakeConfigSpace {
    /// An endpoint with a command register and nothing else.
    pub fn new(vendor: u16, device: u16) -> Self {
        Self {
            value: [const { AtomicU32::new(0) }; WORDS],
            writable: [0; WORDS],
            clear: [0; WORDS],
            last_capability: regs::CAPABILITY_LIST,
            last_ext_capability: None,
            flr: None,
            gone: AtomicBool::new(false),
            silent: AtomicU32::new(0),
            reads: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            resets: AtomicU32::new(0),
        }
        .with_register(regs::VENDOR_ID, (u32::from(device) << 16) | u32::from(vendor), 0)
        .with_register(COMMAND_STATUS, 0, COMMAND_WRITABLE)
        .with_clear_bits(COMMAND_STATUS, STATUS_W1C)
        .with_register(regs::INTERRUPT_LINE, 0, 0xff)
    }

    /// Sets the word at `offset` and which of its bits can be written.
    ///
    /// # Panics
    ///
    /// Here and below: if an offset is misaligned or outside the space.
    #[must_use]
    pub fn with_register(mut self, offset: u16, value: u32, writable: u32) -> Self {
        let word = word(offset).expect("offset of a word");
        self.value[word] = AtomicU32::new(value);
        self.writable[word] = writable;
        self
    }

    /// Makes bits of the word at `offset` write-one-to-clear.
    #[must_use]
    pub fn with_clear_bits(mut self, offset: u16, bits: u32) -> Self {
        self.clear[word(offset).expect("offset of a word")] = bits;
        self
    }

    /// Implements a base address register of `size` bytes, programmed with `address`.
    ///
    /// # Panics
    ///
    /// If the size is no power of two, or below 16 bytes (4 for I/O).
    #[must_use]
    pub fn with_bar(self, index: u8, kind: BarKind, prefetchable: bool, address: u64, size: u64) -> Self {
        let flags = match kind {
            BarKind::Io => 1,
            BarKind::Memory32 => u64::from(prefetchable) << 3,
            BarKind::Memory64 => (u64::from(prefetchable) << 3) | 4,
        };
        let smallest = if kind == BarKind::Io { 4 } else { 16 };
        assert!(size.is_power_of_two() && size >= smallest, "no BAR has {size:#x} bytes");
        assert!(index < 6, "no BAR {index}");
        let (mask, value) = (!(size - 1), address | flags);
        let offset = regs::base_address(index);
        let fake = self.with_register(offset, value as u32, mask as u32);
        if kind != BarKind::Memory64 {
            return fake;
        }
        fake.with_register(offset + 4, (value >> 32) as u32, (mask >> 32) as u32)
    }

    /// Appends a capability: `body` holds its bytes from the third on. Every bit of the body can be
    /// written.
    #[must_use]
    pub fn with_capability(mut self, id: CapabilityId, offset: u16, body: &[u8]) -> Self {
        let lane = if self.last_capability == regs::CAPABILITY_LIST { 0 } else { 1 };
        self.set_bytes(self.last_capability + lane, &[offset as u8], 0);
        self.set_bytes(offset, &[id.0, 0], 0);
        self.set_bytes(offset + 2, body, 0xff);
        let status = self.value[1].get_mut();
        *status |= 0x0010_0000;
        self.last_capability = offset;
        self
    }

    /// Appends an extended capability: `body` holds its words from the second on, read-only. The
    /// first one belongs at 0x100; if it is elsewhere, a null capability leads there.
    #[must_use]
    pub fn with_ext_capability(
        mut self,
        id: ExtCapabilityId,
        version: u8,
        offset: u16,
        body: &[u32],
    ) -> Self {
        let last = self.last_ext_capability.unwrap_or(regs::FIRST_EXT_CAPABILITY);
        if last != offset {
            let header = self.value[word(last).expect("offset of a word")].get_mut();
            *header |= u32::from(offset) << 20;
        }
        self.last_ext_capability = Some(offset);
        let header = (u32::from(version & 0xf) << 16) | u32::from(id.0);
        let mut fake = self.with_register(offset, header, 0);
        for (at, value) in (offset + 4..).step_by(4).zip(body) {
            fake = fake.with_register(at, *value, 0);
        }
        fake
    }

    /// Appends a PCI Express capability with function-level reset, after which `silent` reads of
    /// the identity go unanswered.
    #[must_use]
    pub fn with_flr(self, offset: u16, silent: u32) -> Self {
        let capabilities = DeviceCapabilities::new().with_flr(true).into_bits();
        let mut fake = self
            .with_capability(CapabilityId::PCI_EXPRESS, offset, &[0x02, 0])
            .with_register(offset + DeviceCapabilities::OFFSET, capabilities, 0)
            .with_register(offset + DeviceControl::OFFSET, 0x2810, 0x7fff)
            .with_clear_bits(offset + DeviceControl::OFFSET, 0x000f_0000)
            .with_register(offset + 0x28, 0, 0xffff);
        fake.flr = Some(Flr { control: offset + DeviceControl::OFFSET, silent });
        fake
    }

    /// Pulls the device: from now on everything reads all ones.
    pub fn remove(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Accesses that read, since it was made.
    pub fn reads(&self) -> u32 {
        self.reads.load(Relaxed)
    }

    /// Accesses that wrote, since it was made.
    pub fn writes(&self) -> u32 {
        self.writes.load(Relaxed)
    }

    /// Function-level resets, since it was made.
    pub fn resets(&self) -> u32 {
        self.resets.load(Relaxed)
    }

    /// The word at `offset`, past removal and counters. `None` outside the space.
    pub fn peek32(&self, offset: u16) -> Option<u32> {
        word(offset).map(|word| self.value[word].load(Relaxed))
    }

    fn set_bytes(&mut self, offset: u16, bytes: &[u8], writable: u8) {
        for (at, byte) in (offset..).zip(bytes) {
            let shift = 8 * u32::from(at % 4);
            let word = word(at & !3).expect("offset inside the space");
            let value = self.value[word].get_mut();
            *value = (*value & !(0xff << shift)) | (u32::from(*byte) << shift);
            self.writable[word] |= u32::from(writable) << shift;
        }
    }

    fn read(&self, offset: u16, width: u16) -> u32 {
        self.reads.fetch_add(1, Relaxed);
        let Some(word) = aligned(offset, width) else {
            return u32::MAX;
        };
        if self.gone.load(Relaxed) || (word == 0 && self.is_silent()) {
            return u32::MAX;
        }
        self.value[word].load(Relaxed) >> (8 * u32::from(offset % 4))
    }

    fn is_silent(&self) -> bool {
        self.silent.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn write(&self, offset: u16, width: u16, value: u32) {
        self.writes.fetch_add(1, Relaxed);
        let Some(word) = aligned(offset, width) else {
            return;
        };
        if self.gone.load(Relaxed) {
            return;
        }
        let shift = 8 * u32::from(offset % 4);
        let lanes = (u32::MAX >> (32 - 8 * u32::from(width))) << shift;
        let value = value << shift;
        let (writable, clear) = (self.writable[word] & lanes, self.clear[word] & lanes & value);
        let merge = |old: u32| Some(((old & !writable) | (value & writable)) & !clear);
        // Cannot fail: `merge` always gives a value.
        let _ = self.value[word].fetch_update(Relaxed, Relaxed, merge);
        self.start_flr(offset & !3, value & lanes);
    }

    fn start_flr(&self, offset: u16, value: u32) {
        let Some(flr) = &self.flr else { return };
        if offset != flr.control || value & 0x8000 == 0 {
            return;
        }
        self.resets.fetch_add(1, Relaxed);
        self.silent.store(flr.silent, Relaxed);
        for (value, writable) in self.value.iter().zip(&self.writable) {
            value.fetch_and(!writable, Relaxed);
        }
    }
}

impl ConfigSpace for FakeConfigSpace {
    fn read8(&self, offset: u16) -> u8 {
        self.read(offset, 1) as u8
    }

    fn read16(&self, offset: u16) -> u16 {
        self.read(offset, 2) as u16
    }

    fn read32(&self, offset: u16) -> u32 {
        self.read(offset, 4)
    }

    fn write8(&self, offset: u16, value: u8) {
        self.write(offset, 1, value.into());
    }

    fn write16(&self, offset: u16, value: u16) {
        self.write(offset, 2, value.into());
    }

    fn write32(&self, offset: u16, value: u32) {
        self.write(offset, 4, value);
    }
}

/// Index of the word that an access of `width` bytes falls into.
fn aligned(offset: u16, width: u16) -> Option<usize> {
    (offset < CONFIG_SPACE_SIZE && offset % width == 0).then_some(usize::from(offset / 4))
}

fn word(offset: u16) -> Option<usize> {
    aligned(offset, 4)
}

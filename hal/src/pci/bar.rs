//! Base address registers: where a function's memory is, and how much.

use super::config::{self, ConfigSpace};
use super::error::PciError;
use super::identity;
use super::regs::{self, BarLow, Command};

/// Slots for base address registers in a normal header (Linux: `PCI_STD_NUM_BARS`).
pub const BAR_COUNT: usize = 6;

/// Low bits of a memory BAR that are not address (complement of `PCI_BASE_ADDRESS_MEM_MASK`).
const MEMORY_FLAGS: u32 = 0xf;
/// Low bits of an I/O BAR that are not address (complement of `PCI_BASE_ADDRESS_IO_MASK`).
const IO_FLAGS: u32 = 0x3;

/// What a base address register decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Memory below 4 GiB. The obsolete "below 1 MiB" type counts as this, as in Linux.
    Memory32,
    /// Memory anywhere; the register takes two slots.
    Memory64,
    /// I/O ports.
    Io,
}

/// A base address register as it is programmed. Read by [`bars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bar {
    /// Slot, 0 to 5; the lower one of a 64-bit register.
    pub index: u8,
    /// What it decodes.
    pub kind: BarKind,
    /// Reads have no side effects, so writes may be merged. Never set for I/O.
    pub prefetchable: bool,
    /// First address, on the PCI bus; 0 if none was assigned.
    pub address: u64,
}

/// A base address register and its size. Found by [`size_bars`] and [`size_bar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarInfo {
    /// Slot, 0 to 5; the lower one of a 64-bit register.
    pub index: u8,
    /// What it decodes.
    pub kind: BarKind,
    /// Reads have no side effects, so writes may be merged. Never set for I/O.
    pub prefetchable: bool,
    /// First address, on the PCI bus, a multiple of the size; 0 if none was assigned.
    pub address: u64,
    /// Bytes, a power of two.
    pub size: u64,
}

impl BarInfo {
    /// Whether it decodes memory, with 32 or 64 address bits.
    pub fn is_memory(&self) -> bool {
        self.kind != BarKind::Io
    }
}

/// Reads the base address registers without touching them.
///
/// A slot is `None` if it reads zero (not implemented, or 32-bit memory without an address), is the
/// upper half of the register before it, or is beyond the header's registers. Safe while the device
/// works.
///
/// ```
/// use tombolo_hal::pci::{self, fake::FakeConfigSpace, BarKind, PciError};
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda)
///     .with_bar(0, BarKind::Memory64, true, 0x1_0000_0000, 0x4000);
/// let bar = pci::bars(&cfg)?[0].expect("BAR 0");
/// assert_eq!((bar.address, bar.kind), (0x1_0000_0000, BarKind::Memory64));
///
/// let sized = pci::size_bar(&cfg, 0)?.expect("BAR 0");
/// assert_eq!(sized.size, 0x4000);
/// # Ok::<(), PciError>(())
/// ```
///
/// # Errors
///
/// [`PciError::DeviceGone`], [`PciError::HeaderLayout`], [`PciError::BarType`],
/// [`PciError::Bar64AtEnd`].
pub fn bars<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<[Option<Bar>; BAR_COUNT], PciError> {
    let mut bars = [None; BAR_COUNT];
    let mut slots = Slots::new(cfg)?;
    while let Some(slot) = slots.next(cfg)? {
        if let (Some(entry), true) = (bars.get_mut(usize::from(slot.index)), slot.low != 0) {
            *entry = Some(slot.bar(cfg));
        }
    }
    config::check_present(cfg)?;
    Ok(bars)
}

/// Sizes all base address registers. A slot is `None` if it is not implemented or is the upper half
/// of the register before it.
///
/// Writes all ones to each register, with memory and I/O decoding off, and then restores registers
/// and decoding. **Only for a device that no driver uses**: it answers to no access meanwhile.
///
/// # Errors
///
/// Those of [`bars`], [`PciError::BarSizeZero`], [`PciError::BarMask`], [`PciError::BarChanged`],
/// [`PciError::BarMisaligned`]. What was changed is restored then, too. To use a device with one bad
/// register, ask for the good ones with [`size_bar`].
pub fn size_bars<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<[Option<BarInfo>; BAR_COUNT], PciError> {
    let mut bars = [None; BAR_COUNT];
    let mut slots = Slots::new(cfg)?;
    with_decoding_off(cfg, || {
        while let Some(slot) = slots.next(cfg)? {
            if let Some(entry) = bars.get_mut(usize::from(slot.index)) {
                *entry = slot.size(cfg)?;
            }
        }
        Ok(bars)
    })
}

/// Sizes the base address register in slot `index`; `None` if it is not implemented.
///
/// The warning at [`size_bars`] holds.
///
/// # Errors
///
/// Those of [`size_bars`], [`PciError::BarIndex`], and [`PciError::BarUpperHalf`] if a 64-bit
/// register has its upper half there.
pub fn size_bar<C: ConfigSpace + ?Sized>(cfg: &C, index: u8) -> Result<Option<BarInfo>, PciError> {
    let mut slots = Slots::new(cfg)?;
    if index >= slots.count {
        return Err(PciError::BarIndex { index, count: slots.count });
    }
    while let Some(slot) = slots.next(cfg)? {
        if slot.index == index {
            return with_decoding_off(cfg, || slot.size(cfg));
        }
    }
    Err(PciError::BarUpperHalf { index })
}

/// Runs `work` with memory and I/O decoding off, and restores it whatever comes out.
fn with_decoding_off<C: ConfigSpace + ?Sized, T>(
    cfg: &C,
    work: impl FnOnce() -> Result<T, PciError>,
) -> Result<T, PciError> {
    config::check_present(cfg)?;
    let command = cfg.read16(regs::COMMAND);
    let off = Command::from_bits(command).with_memory(false).with_io(false);
    cfg.write16(regs::COMMAND, off.into_bits());
    let result = work();
    cfg.write16(regs::COMMAND, command);
    // A device that left meanwhile shows as one, not as the nonsense its registers read.
    config::check_present(cfg)?;
    result
}

/// Goes over the slots and skips the upper halves.
struct Slots {
    next: u8,
    count: u8,
}

impl Slots {
    fn new<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Self, PciError> {
        config::check_present(cfg)?;
        Ok(Self { next: 0, count: identity::bar_count(cfg)? })
    }

    fn next<C: ConfigSpace + ?Sized>(&mut self, cfg: &C) -> Result<Option<Slot>, PciError> {
        let index = self.next;
        if index >= self.count {
            return Ok(None);
        }
        let low = cfg.read32(regs::base_address(index));
        let kind = kind(index, low).map_err(|error| config::gone_or(cfg, error))?;
        self.next += if kind == BarKind::Memory64 { 2 } else { 1 };
        if self.next > self.count {
            return Err(PciError::Bar64AtEnd { index });
        }
        Ok(Some(Slot { index, low, kind }))
    }
}

fn kind(index: u8, low: u32) -> Result<BarKind, PciError> {
    let bits = BarLow::from_bits(low);
    match (bits.io(), bits.memory_type()) {
        // Bit 1 of an I/O register is reserved and zero; it is the low type bit here.
        (true, kind) if kind & 1 == 0 => Ok(BarKind::Io),
        (false, 0 | 1) => Ok(BarKind::Memory32),
        (false, 2) => Ok(BarKind::Memory64),
        _ => Err(PciError::BarType { index, raw: low }),
    }
}

/// A register whose low word was read once.
#[derive(Clone, Copy)]
struct Slot {
    index: u8,
    low: u32,
    kind: BarKind,
}

impl Slot {
    fn flags(self) -> u32 {
        match self.kind {
            BarKind::Io => IO_FLAGS,
            BarKind::Memory32 | BarKind::Memory64 => MEMORY_FLAGS,
        }
    }

    fn bar<C: ConfigSpace + ?Sized>(self, cfg: &C) -> Bar {
        let high = match self.kind {
            BarKind::Memory64 => cfg.read32(regs::base_address(self.index + 1)),
            BarKind::Memory32 | BarKind::Io => 0,
        };
        Bar {
            index: self.index,
            kind: self.kind,
            prefetchable: self.kind != BarKind::Io && BarLow::from_bits(self.low).prefetchable(),
            address: join(high, self.low & !self.flags()),
        }
    }

    fn size<C: ConfigSpace + ?Sized>(self, cfg: &C) -> Result<Option<BarInfo>, PciError> {
        let bar = self.bar(cfg);
        let index = self.index;
        let low = probe(cfg, regs::base_address(index), self.low);
        if low == 0 && self.low == 0 {
            return Ok(None);
        }
        if (low ^ self.low) & self.flags() != 0 {
            return Err(PciError::BarChanged { index, before: self.low, after: low });
        }
        let high = match self.kind {
            BarKind::Memory64 => {
                let before = (bar.address >> 32) as u32;
                probe(cfg, regs::base_address(index + 1), before)
            }
            BarKind::Memory32 | BarKind::Io => 0,
        };
        let mask = join(high, low & !self.flags());
        if mask == 0 {
            return Err(PciError::BarSizeZero { index, raw: self.low });
        }
        let size = mask & mask.wrapping_neg();
        if !is_size_mask(self.kind, mask, size) {
            return Err(PciError::BarMask { index, mask });
        }
        let Bar { kind, prefetchable, address, .. } = bar;
        if address & (size - 1) != 0 {
            return Err(PciError::BarMisaligned { index, address, size });
        }
        Ok(Some(BarInfo { index, kind, prefetchable, address, size }))
    }
}

/// Writes all ones, reads what stuck, and restores.
fn probe<C: ConfigSpace + ?Sized>(cfg: &C, offset: u16, before: u32) -> u32 {
    cfg.write32(offset, u32::MAX);
    let mask = cfg.read32(offset);
    cfg.write32(offset, before);
    mask
}

/// Whether all address bits from the size upwards can be set. An I/O register may leave the upper
/// 16 zero.
fn is_size_mask(kind: BarKind, mask: u64, size: u64) -> bool {
    let top = match kind {
        BarKind::Memory64 => u64::MAX,
        BarKind::Memory32 => u64::from(u32::MAX),
        BarKind::Io if mask <= u64::from(u16::MAX) => u64::from(u16::MAX),
        BarKind::Io => u64::from(u32::MAX),
    };
    mask == top & !(size - 1)
}

const fn join(high: u32, low: u32) -> u64 {
    ((high as u64) << 32) | low as u64
}

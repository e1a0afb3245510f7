//! Describes a function: what a device model says in [`Device::describe`](crate::device::Device).

use super::caps::{self, RawCapability};
use super::error::ConfigError;
use super::layout::Layout;
use super::regs::*;
use super::{ConfigSpace, Image};

/// A memory BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bar {
    /// Index of the BAR's (lower) register, 0 to 5.
    pub index: u8,
    /// Size in bytes, a power of two.
    pub size: u64,
    /// Whether it decodes 64 address bits, which takes the next register too.
    pub is_64bit: bool,
    /// Whether reads have no side effects and writes may be merged.
    pub is_prefetchable: bool,
    /// Whether it is plain memory behind
    /// [`Device::bar_memory`](crate::device::Device::bar_memory), accessed without the model.
    pub is_memory: bool,
}

impl Bar {
    /// A 32-bit register BAR.
    pub const fn bits32(index: u8, size: u64) -> Self {
        Self { index, size, is_64bit: false, is_prefetchable: false, is_memory: false }
    }

    /// A 64-bit register BAR.
    pub const fn bits64(index: u8, size: u64) -> Self {
        Self { is_64bit: true, ..Self::bits32(index, size) }
    }

    /// The same BAR, prefetchable.
    pub const fn prefetchable(self) -> Self {
        Self { is_prefetchable: true, ..self }
    }

    /// The same BAR as plain memory: the fabric and adapters go straight to
    /// [`Device::bar_memory`](crate::device::Device::bar_memory); the model's `read` and `write`
    /// are not called for it.
    pub const fn memory(self) -> Self {
        Self { is_memory: true, ..self }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.index > 5 || (self.is_64bit && self.index == 5) {
            return Err(ConfigError::BarIndex(self.index));
        }
        let largest = if self.is_64bit { 1 << 62 } else { 1 << 31 };
        if !self.size.is_power_of_two() || !(16..=largest).contains(&self.size) {
            return Err(ConfigError::BarSize { bar: self.index, size: self.size });
        }
        Ok(())
    }
}

/// An MSI capability with a 64-bit address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msi {
    /// Vectors that the function can send: 1, 2, 4, 8, 16 or 32.
    pub vectors: u8,
    /// Whether vectors can be masked one by one.
    pub per_vector_mask: bool,
}

/// An MSI-X capability. The fabric (or the virtual machine) owns table and pending bits: accesses
/// to them never reach the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msix {
    /// Vectors, 1 to 2048.
    pub vectors: u16,
    /// BAR of the table.
    pub table_bar: u8,
    /// Offset of the table in its BAR, a multiple of 8. It has 16 bytes a vector.
    pub table_offset: u32,
    /// BAR of the pending bits.
    pub pba_bar: u8,
    /// Offset of the pending bits in their BAR, a multiple of 8. They have 8 bytes for every 64
    /// vectors begun.
    pub pba_offset: u32,
}

impl Msix {
    /// Length of the table in bytes.
    pub const fn table_len(&self) -> u32 {
        self.vectors as u32 * MSIX_ENTRY_SIZE
    }

    /// Length of the pending bits in bytes.
    pub const fn pba_len(&self) -> u32 {
        (self.vectors as u32).div_ceil(64) * 8
    }
}

/// A vendor-specific extended capability (VSEC). Its vendor is the function's vendor ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vsec {
    /// VSEC ID, the vendor's number for this structure.
    pub id: u16,
    /// VSEC revision, 4 bits.
    pub revision: u8,
    /// Offset in configuration space, or `None` for the next free place.
    pub offset: Option<u16>,
    /// The dwords that follow the two header dwords.
    pub payload: Vec<u32>,
    /// For each payload dword the bits that the host can write; missing ones are read-only.
    pub writable: Vec<u32>,
}

/// Any other capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Capability ID; above `0xff` only for extended ones.
    pub id: u16,
    /// Version of an extended capability, 4 bits; 0 for standard ones.
    pub version: u8,
    /// Offset in configuration space, or `None` for the next free place.
    pub offset: Option<u16>,
    /// Bytes 2 and 3 of a standard capability's first dword; unused for extended ones.
    pub flags: u16,
    /// The dwords after the first one.
    pub payload: Vec<u32>,
    /// For each payload dword the bits that the host can write; missing ones are read-only.
    pub writable: Vec<u32>,
}

/// Collects the description of a function and checks it as a whole.
///
/// # Examples
/// ```
/// use tombolo_sim::config::{Bar, ConfigSpaceBuilder, Msi, Vsec};
/// use tombolo_sim::device::Width;
///
/// let mut builder = ConfigSpaceBuilder::new();
/// builder
///     .identity(0x16c3, 0xedda)
///     .class(0x11_8000)
///     .bar(Bar::bits32(0, 0x1000))
///     .bar(Bar::bits64(2, 1 << 24).prefetchable().memory())
///     .power_management()
///     .pcie(true)
///     .msi(Msi { vectors: 1, per_vector_mask: false })
///     .vsec(Vsec { id: 6, revision: 0, offset: None, payload: vec![1, 2], writable: vec![] });
/// let config = builder.build()?;
/// assert_eq!(config.read(0, Width::W32), 0xedda_16c3);
/// assert_eq!(config.read(0x100, Width::W16), 0x000b);
/// # Ok::<(), tombolo_sim::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConfigSpaceBuilder {
    vendor: u16,
    device: u16,
    subsystem: Option<(u16, u16)>,
    revision: u8,
    class: u32,
    pin: Option<u8>,
    bars: Vec<Bar>,
    pm: bool,
    pcie: Option<bool>,
    msi: Vec<Msi>,
    msix: Vec<Msix>,
    standard: Vec<Capability>,
    extended: Vec<Capability>,
}

impl ConfigSpaceBuilder {
    /// A function with ID 0000:0000 and nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Vendor and device ID. The subsystem IDs follow them unless they are set too.
    pub fn identity(&mut self, vendor: u16, device: u16) -> &mut Self {
        (self.vendor, self.device) = (vendor, device);
        self
    }

    /// Subsystem vendor and subsystem ID.
    pub fn subsystem(&mut self, vendor: u16, device: u16) -> &mut Self {
        self.subsystem = Some((vendor, device));
        self
    }

    /// Revision ID.
    pub fn revision(&mut self, revision: u8) -> &mut Self {
        self.revision = revision;
        self
    }

    /// Class code with its three bytes: class, subclass, programming interface (`0xCCSSPP`).
    pub fn class(&mut self, class: u32) -> &mut Self {
        self.class = class;
        self
    }

    /// INTx pin: 1 (INTA) to 4 (INTD). Without it the function has no INTx.
    pub fn interrupt_pin(&mut self, pin: u8) -> &mut Self {
        self.pin = Some(pin);
        self
    }

    /// Adds a BAR.
    pub fn bar(&mut self, bar: Bar) -> &mut Self {
        self.bars.push(bar);
        self
    }

    /// Adds a power management capability with D0 and D3hot.
    pub fn power_management(&mut self) -> &mut Self {
        self.pm = true;
        self
    }

    /// Adds a PCI Express capability, with function-level reset if `flr`.
    pub fn pcie(&mut self, flr: bool) -> &mut Self {
        self.pcie = Some(flr);
        self
    }

    /// Adds an MSI capability.
    pub fn msi(&mut self, msi: Msi) -> &mut Self {
        self.msi.push(msi);
        self
    }

    /// Adds an MSI-X capability.
    pub fn msix(&mut self, msix: Msix) -> &mut Self {
        self.msix.push(msix);
        self
    }

    /// Adds a vendor-specific extended capability.
    pub fn vsec(&mut self, vsec: Vsec) -> &mut Self {
        let len = u32::try_from(8 + vsec.payload.len() * 4).unwrap_or(u32::MAX);
        let header = u32::from(vsec.id) | u32::from(vsec.revision & 0xf) << 16 | len << 20;
        self.extended.push(Capability {
            id: EXT_CAP_ID_VNDR,
            version: 1,
            offset: vsec.offset,
            flags: 0,
            payload: [vec![header], vsec.payload].concat(),
            writable: [vec![0], vsec.writable].concat(),
        });
        self
    }

    /// Adds a standard capability that this builder does not know.
    pub fn capability(&mut self, capability: Capability) -> &mut Self {
        self.standard.push(capability);
        self
    }

    /// Adds an extended capability that this builder does not know.
    pub fn extended_capability(&mut self, capability: Capability) -> &mut Self {
        self.extended.push(capability);
        self
    }

    /// Checks the description and makes the configuration space in its state after reset.
    ///
    /// # Errors
    /// [`ConfigError`] for a function that cannot exist.
    pub fn build(&self) -> Result<ConfigSpace, ConfigError> {
        let mut image = Image::new();
        self.header(&mut image)?;
        let bars = self.place_bars(&mut image)?;
        self.check_interrupts(&bars)?;
        let (pm, exp, msi, msix) = self.place_standard(&mut image)?;
        let mut layout = Layout::extended();
        let extended = self.extended.iter().map(caps::raw_extended).collect::<Result<Vec<_>, _>>()?;
        layout.place(&mut image, extended)?;
        Ok(ConfigSpace::from_parts(image, bars, pm, exp, msi, msix))
    }

    fn header(&self, image: &mut Image) -> Result<(), ConfigError> {
        if self.class > 0xff_ffff {
            return Err(ConfigError::Class(self.class));
        }
        let (sub_vendor, sub_device) = self.subsystem.unwrap_or((self.vendor, self.device));
        image.set(VENDOR_ID, u32::from(self.device) << 16 | u32::from(self.vendor), 0);
        let command = COMMAND_MASTER | COMMAND_PARITY | COMMAND_SERR | COMMAND_INTX_DISABLE;
        let memory = if self.bars.is_empty() { 0 } else { COMMAND_MEMORY };
        image.set(COMMAND, 0, command | memory);
        image.clear_on_one(COMMAND, STATUS_W1C);
        image.set(CLASS_REVISION, self.class << 8 | u32::from(self.revision), 0);
        image.set(CACHE_LINE_SIZE, 0, 0xff);
        image.set(SUBSYSTEM_VENDOR_ID, u32::from(sub_device) << 16 | u32::from(sub_vendor), 0);
        let pin = self.pin.unwrap_or(0);
        if self.pin.is_some_and(|pin| !(1..=4).contains(&pin)) {
            return Err(ConfigError::InterruptPin(pin));
        }
        image.set(INTERRUPT_LINE, u32::from(pin) << 8, 0xff);
        Ok(())
    }

    fn place_bars(&self, image: &mut Image) -> Result<[Option<Bar>; 6], ConfigError> {
        let mut bars = [None; 6];
        let mut taken = [false; 6];
        for bar in &self.bars {
            bar.check()?;
            let index = usize::from(bar.index);
            let last = index + usize::from(bar.is_64bit);
            if taken[index..=last].contains(&true) {
                return Err(ConfigError::BarTwice(bar.index));
            }
            taken[index..=last].fill(true);
            bars[index] = Some(*bar);
            let mask = !(bar.size - 1) & !BAR_FLAGS;
            let wide = if bar.is_64bit { BAR_MEM_TYPE_64 } else { 0 };
            let prefetch = if bar.is_prefetchable { BAR_MEM_PREFETCH } else { 0 };
            let register = BASE_ADDRESS_0 + u16::from(bar.index) * 4;
            image.set(register, wide | prefetch, mask as u32);
            if bar.is_64bit {
                image.set(register + 4, 0, (mask >> 32) as u32);
            }
        }
        Ok(bars)
    }

    fn check_interrupts(&self, bars: &[Option<Bar>; 6]) -> Result<(), ConfigError> {
        if self.msi.len() > 1 {
            return Err(ConfigError::CapabilityTwice(CAP_ID_MSI));
        }
        if self.msix.len() > 1 {
            return Err(ConfigError::CapabilityTwice(CAP_ID_MSIX));
        }
        for msi in &self.msi {
            if !msi.vectors.is_power_of_two() || msi.vectors > 32 {
                return Err(ConfigError::MsiVectors(msi.vectors));
            }
        }
        self.msix.iter().try_for_each(|msix| caps::check_msix(msix, bars))
    }

    #[allow(clippy::type_complexity)] // four independent offsets, named at the only call
    fn place_standard(
        &self,
        image: &mut Image,
    ) -> Result<(Option<u16>, Option<u16>, Option<(u16, Msi)>, Option<(u16, Msix)>), ConfigError> {
        let known: Vec<RawCapability> = [
            self.pm.then(caps::power_management),
            self.msi.first().map(caps::msi),
            self.pcie.map(caps::pcie),
            self.msix.first().map(caps::msix),
        ]
        .into_iter()
        .flatten()
        .collect();
        let others = self.standard.iter().map(caps::raw_standard).collect::<Result<Vec<_>, _>>()?;
        let mut layout = Layout::standard();
        let placed = layout.place(image, [known, others].concat())?;
        let find = |id| placed.iter().find(|cap| cap.0 == u16::from(id)).map(|cap| cap.1);
        Ok((
            find(CAP_ID_PM).filter(|_| self.pm),
            find(CAP_ID_EXP).filter(|_| self.pcie.is_some()),
            find(CAP_ID_MSI).zip(self.msi.first().copied()),
            find(CAP_ID_MSIX).zip(self.msix.first().copied()),
        ))
    }
}

//! Finding an engine: by the vendor-specific capability of its function, or behind local DBI.
//!
//! Source: Linux 7.3 `dw-edma-pcie.c` (capability layouts) and `pcie-designware.c` (DBI).

use tombolo_hal::EngineAddr;
use tombolo_hal::mmio::Mmio;
use tombolo_hal::pci::{ConfigSpace, Identity, find_vsec};

use crate::{Config, Error, Format, Location};

/// Synopsys' vendor ID.
pub const VENDOR_SYNOPSYS: u16 = 0x16c3;
/// Xilinx' vendor ID.
pub const VENDOR_XILINX: u16 = 0x10ee;

/// Id of the capability that describes an engine, for both vendors.
const VSEC_DMA: u16 = 0x6;
/// Id of Xilinx' capability that says where device memory is.
const VSEC_DEVICE_MEMORY: u16 = 0x20;
const VSEC_DMA_REVISION: u8 = 0;
const VSEC_DMA_LENGTH: u16 = 0x18;

/// An engine as its function's capability describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEngine {
    /// The register map.
    pub format: Format,
    /// Which BAR holds the registers.
    pub bar: u8,
    /// Where in the BAR, as the capability says. Linux 7.3 reads it and uses 0 all the same; so do
    /// the known devices.
    pub register_offset: u64,
    /// Number of write channels.
    pub write_channels: u16,
    /// Number of read channels.
    pub read_channels: u16,
    /// Where the engine sees the memory for lists and data, if the function says so (Xilinx).
    pub device_memory: Option<EngineAddr>,
}

impl RemoteEngine {
    /// Reads the capability of a function of Synopsys or Xilinx.
    ///
    /// # Errors
    /// [`Error::NoEngine`] without a (valid) capability, [`Error::Pci`] if config space is broken
    /// or the function gone.
    pub fn find<C: ConfigSpace>(config: &C) -> Result<Self, Error> {
        let vendor = Identity::read(config)?.vendor;
        if vendor != VENDOR_SYNOPSYS && vendor != VENDOR_XILINX {
            return Err(Error::NoEngine("the function is neither Synopsys' nor Xilinx'"));
        }
        let vsec = find_vsec(config, vendor, VSEC_DMA)?
            .ok_or(Error::NoEngine("there is no vendor-specific capability of id 6"))?;
        if vsec.revision != VSEC_DMA_REVISION || vsec.length != VSEC_DMA_LENGTH {
            return Err(Error::NoEngine("the capability has an unknown revision or length"));
        }
        let map = vsec.read32(config, 0x08)?;
        let channels = vsec.read32(config, 0x0c)?;
        let low = vsec.read32(config, 0x10)?;
        let high = vsec.read32(config, 0x14)?;
        let format =
            Format::from_map((map & 0x7) as u8).ok_or(Error::NoEngine("the register map is unknown"))?;
        if vendor == VENDOR_XILINX && format != Format::HdmaNative {
            return Err(Error::NoEngine("Xilinx' engines are HDMA native, this one says otherwise"));
        }
        let bar = (map >> 8 & 0x7) as u8;
        if bar > 5 {
            return Err(Error::NoEngine("the capability names a BAR that does not exist"));
        }
        Ok(Self {
            format,
            bar,
            register_offset: u64::from(high) << 32 | u64::from(low),
            write_channels: (channels & 0x3ff) as u16,
            read_channels: (channels >> 16 & 0x3ff) as u16,
            device_memory: Self::device_memory(config, vendor)?,
        })
    }

    fn device_memory<C: ConfigSpace>(config: &C, vendor: u16) -> Result<Option<EngineAddr>, Error> {
        if vendor != VENDOR_XILINX {
            return Ok(None);
        }
        let Some(vsec) = find_vsec(config, vendor, VSEC_DEVICE_MEMORY)? else { return Ok(None) };
        let high = vsec.read32(config, 0x0c)?;
        let low = vsec.read32(config, 0x08)?;
        let base = u64::from(high) << 32 | u64::from(low);
        Ok((base != u64::MAX).then_some(EngineAddr::new(base)))
    }

    /// The configuration of this engine, seen from across the link, with as many channels as the
    /// format allows. Set [`Config::function`] if the PCI function is not function 0.
    pub fn config(&self) -> Config {
        let max = self.format.max_channels();
        Config::new(self.format, Location::Remote)
            .channels(self.write_channels.min(max), self.read_channels.min(max))
    }
}

/// Version of the controller core, as DBI register 0x8f8 holds it: four characters, such as `540*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreVersion(pub u32);

impl CoreVersion {
    /// From this version on there is no viewport any more.
    pub const V5_40A: Self = Self(u32::from_be_bytes(*b"540*"));
}

/// An engine behind local DBI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEngine {
    /// Legacy or unrolled.
    pub format: Format,
    /// Where in DBI the registers begin.
    pub register_offset: usize,
    /// Number of write channels.
    pub write_channels: u16,
    /// Number of read channels.
    pub read_channels: u16,
}

const DBI_VIEWPORT: usize = 0x970;
const DBI_UNROLLED: usize = 0x8_0000;
const DMA_CTRL: usize = 0x8;

impl LocalEngine {
    /// The configuration of this engine.
    pub fn config(&self) -> Config {
        Config::new(self.format, Location::Local).channels(self.write_channels, self.read_channels)
    }
}

/// Finds the engine of a controller whose DBI is `dbi` and whose core version is known.
///
/// Only here can legacy and unrolled maps be told apart by looking: over a BAR the format comes from
/// the capability or the caller. HDMA engines cannot be found by looking; name their format.
///
/// # Errors
/// [`Error::NoEngine`] if there is none.
pub fn detect_local<M: Mmio>(dbi: &M, version: CoreVersion) -> Result<LocalEngine, Error> {
    // Up to 5.40a the place of the viewport reads all ones where the map is unrolled; after that it
    // holds something else, and must not be asked.
    let legacy = if version >= CoreVersion::V5_40A { u32::MAX } else { dbi.read32(DBI_VIEWPORT + DMA_CTRL) };
    let (format, register_offset) =
        if legacy == u32::MAX { (Format::Unroll, DBI_UNROLLED) } else { (Format::Legacy, DBI_VIEWPORT) };
    let ctrl = dbi.read32(register_offset + DMA_CTRL);
    if ctrl == u32::MAX {
        return Err(Error::NoEngine("its place in DBI reads all ones"));
    }
    let write_channels = (ctrl & 0xf) as u16;
    let read_channels = (ctrl >> 16 & 0xf) as u16;
    let max = format.max_channels();
    if write_channels == 0 || read_channels == 0 || write_channels > max || read_channels > max {
        return Err(Error::NoEngine("the number of channels makes no sense"));
    }
    Ok(LocalEngine { format, register_offset, write_channels, read_channels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_hal::fake::FakeMmio;

    #[test]
    fn a_viewport_that_answers_is_legacy_before_5_40a_and_not_asked_after() {
        let dbi = FakeMmio::new(0x8_1000);
        dbi.poke32(0x978, 0x0002_0003);
        dbi.poke32(0x8_0008, 0x0004_0004);
        let old = detect_local(&dbi, CoreVersion(u32::from_be_bytes(*b"520*"))).unwrap();
        assert_eq!((old.format, old.register_offset), (Format::Legacy, 0x970));
        assert_eq!((old.write_channels, old.read_channels), (3, 2));
        let new = detect_local(&dbi, CoreVersion::V5_40A).unwrap();
        assert_eq!((new.format, new.register_offset, new.write_channels), (Format::Unroll, 0x8_0000, 4));
    }

    #[test]
    fn all_ones_or_nonsense_is_no_engine() {
        let dbi = FakeMmio::new(0x8_1000);
        dbi.poke32(0x978, u32::MAX);
        for (ctrl, why) in
            [(u32::MAX, "gone"), (0, "no channels"), (0x9_0009, "too many"), (0x1_0000, "no write")]
        {
            dbi.poke32(0x8_0008, ctrl);
            assert!(detect_local(&dbi, CoreVersion(0)).is_err(), "{why}");
        }
        // A DBI window that ends before the unrolled map.
        let short = FakeMmio::new(0x1000);
        short.poke32(0x978, u32::MAX);
        assert!(matches!(detect_local(&short, CoreVersion(0)), Err(Error::NoEngine(_))));
    }
}

//! What the caller knows of the engine.

use core::fmt;

use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::Direction;

use crate::Error;

/// The register map. The numbers are those of the Synopsys vendor-specific capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// eDMA v0, channel registers behind a viewport (core 4.70a and older). Up to 8+8 channels.
    Legacy,
    /// eDMA v0, channel registers side by side. Up to 8+8 channels.
    Unroll,
    /// HDMA in its compatible map: as unrolled, but without an engine enable. Up to 8+8 channels.
    HdmaCompat,
    /// HDMA in its own map: all registers per channel. Up to 64+64 channels.
    HdmaNative,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Legacy, Format::Unroll, Format::HdmaCompat, Format::HdmaNative];

    /// From the map number of the vendor-specific capability: 0, 1, 5 or 7.
    pub const fn from_map(map: u8) -> Option<Self> {
        match map {
            0 => Some(Format::Legacy),
            1 => Some(Format::Unroll),
            5 => Some(Format::HdmaCompat),
            7 => Some(Format::HdmaNative),
            _ => None,
        }
    }

    /// The most channels of each kind.
    pub const fn max_channels(self) -> u16 {
        match self {
            Format::HdmaNative => 64,
            _ => 8,
        }
    }

    /// Whether it is one of the v0 maps, in which channels share registers.
    pub const fn is_v0(self) -> bool {
        !matches!(self, Format::HdmaNative)
    }

    pub(crate) const fn max_function(self) -> u8 {
        // v0: CONTROL1 bits 16:12. Native: FUNC_NUM bits 7:0.
        if self.is_v0() { 31 } else { 255 }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Legacy => "legacy",
            Format::Unroll => "unroll",
            Format::HdmaCompat => "hdma-compat",
            Format::HdmaNative => "hdma-native",
        })
    }
}

/// What a channel does on the PCIe link, as seen from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChannelKind {
    /// Reads memory on the engine's side and writes across the link.
    Write,
    /// Reads across the link and writes memory on the engine's side.
    Read,
}

impl ChannelKind {
    /// Both.
    pub const ALL: [ChannelKind; 2] = [ChannelKind::Write, ChannelKind::Read];

    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        match self {
            ChannelKind::Write => 0,
            ChannelKind::Read => 1,
        }
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChannelKind::Write => "write",
            ChannelKind::Read => "read",
        })
    }
}

/// Names a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId {
    /// Which kind.
    pub kind: ChannelKind,
    /// Which of its kind, from 0.
    pub index: u8,
}

impl ChannelId {
    /// Write channel `index`.
    pub const fn write(index: u8) -> Self {
        Self { kind: ChannelKind::Write, index }
    }

    /// Read channel `index`.
    pub const fn read(index: u8) -> Self {
        Self { kind: ChannelKind::Read, index }
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} channel {}", self.kind, self.index)
    }
}

/// On which side of the link the driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// On the engine's own side: registers through local DBI, lists in RAM (Linux:
    /// `DW_EDMA_CHIP_LOCAL`).
    Local,
    /// Across the link: the engine sits in an endpoint, and registers and lists behind its BARs.
    Remote,
}

/// The direction of a transfer on a channel, as seen by the one who runs the driver.
///
/// For a local engine, "device" is what lies across the link: the write channel moves memory to it.
/// For a remote engine, "device" is the endpoint's side, so it is the other way round. Source:
/// `dw_edma_device_transfer` in Linux.
pub const fn direction_of(location: Location, kind: ChannelKind) -> Direction {
    match (location, kind) {
        (Location::Local, ChannelKind::Write) | (Location::Remote, ChannelKind::Read) => Direction::MemToDev,
        (Location::Local, ChannelKind::Read) | (Location::Remote, ChannelKind::Write) => Direction::DevToMem,
    }
}

/// A range of device addresses, and what the engine must be told for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationWindow {
    /// The first address as clients give it.
    pub from: u64,
    /// How many bytes.
    pub size: u64,
    /// The first address as the engine needs it.
    pub to: u64,
}

/// How device addresses of clients become the engine's: as they are, or through windows, as when an
/// outbound iATU stands between the CPU's addresses and the bus (Linux: `pci_address`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    windows: [Option<TranslationWindow>; 4],
}

impl Translation {
    /// Addresses are used as they are.
    pub const IDENTITY: Self = Self { windows: [None; 4] };

    /// Through up to four windows; an address outside of all is an error.
    pub const fn windows(windows: [Option<TranslationWindow>; 4]) -> Self {
        Self { windows }
    }

    /// What the engine must be told for `len` bytes at `address`.
    ///
    /// # Errors
    /// [`Error::Untranslated`] if no window holds all of them.
    pub fn translate(&self, address: EngineAddr, len: u64) -> Result<EngineAddr, Error> {
        if self.windows.iter().all(Option::is_none) {
            return Ok(address);
        }
        let a = address.value();
        let through = |w: &TranslationWindow| {
            let offset = a.checked_sub(w.from)?;
            let inside = offset < w.size && len <= w.size - offset;
            if inside { w.to.checked_add(offset) } else { None }
        };
        if let Some(to) = self.windows.iter().flatten().find_map(through) {
            return Ok(EngineAddr::new(to));
        }
        Err(Error::Untranslated { address: a, len })
    }
}

/// All that must be known to drive an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The register map.
    pub format: Format,
    /// On which side of the link the driver runs.
    pub location: Location,
    /// How many write channels to use; `None` for all that the engine reports.
    pub write_channels: Option<u16>,
    /// How many read channels to use; `None` for all that the engine reports.
    pub read_channels: Option<u16>,
    /// The physical function whose requester ID the engine's requests carry.
    pub function: u8,
    /// How device addresses of clients become the engine's.
    pub translation: Translation,
    /// Deassert the emulated interrupt (v0): another party writes
    /// [`emulation_offset`](crate::Shared::emulation_offset) to interrupt this side.
    pub emulation: bool,
}

impl Config {
    /// All channels of an engine of function 0, without translation and emulation.
    pub const fn new(format: Format, location: Location) -> Self {
        Self {
            format,
            location,
            write_channels: None,
            read_channels: None,
            function: 0,
            translation: Translation::IDENTITY,
            emulation: false,
        }
    }

    /// With these numbers of channels.
    pub const fn channels(mut self, write: u16, read: u16) -> Self {
        self.write_channels = Some(write);
        self.read_channels = Some(read);
        self
    }

    pub(crate) const fn wanted(&self, kind: ChannelKind) -> Option<u16> {
        match kind {
            ChannelKind::Write => self.write_channels,
            ChannelKind::Read => self.read_channels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_of_local_and_remote_engines_are_opposite() {
        use ChannelKind::{Read, Write};
        use Direction::{DevToMem, MemToDev};
        use Location::{Local, Remote};
        let all = [
            (Local, Write, MemToDev),
            (Local, Read, DevToMem),
            (Remote, Write, DevToMem),
            (Remote, Read, MemToDev),
        ];
        for (location, kind, direction) in all {
            assert_eq!(direction_of(location, kind), direction, "{location:?} {kind:?}");
        }
    }

    #[test]
    fn an_address_is_translated_only_if_all_of_it_lies_in_one_window() {
        let t = Translation::windows([
            Some(TranslationWindow { from: 0x1000, size: 0x100, to: 0x9000 }),
            Some(TranslationWindow { from: 0x1100, size: 0x100, to: 0xa000 }),
            None,
            Some(TranslationWindow { from: 0, size: u64::MAX, to: 2 }),
        ]);
        assert_eq!(t.translate(EngineAddr::new(0x10f0), 0x10), Ok(EngineAddr::new(0x90f0)));
        assert_eq!(t.translate(EngineAddr::new(0x10f0), 0x11), Ok(EngineAddr::new(0x10f2)));
        assert!(t.translate(EngineAddr::new(u64::MAX), 1).is_err());
        assert_eq!(Translation::IDENTITY.translate(EngineAddr::new(7), 1), Ok(EngineAddr::new(7)));
    }

    #[test]
    fn map_numbers() {
        let maps: [Option<Format>; 8] = core::array::from_fn(|m| Format::from_map(m as u8));
        assert_eq!(maps.iter().flatten().count(), 4);
        assert_eq!((maps[5], maps[7]), (Some(Format::HdmaCompat), Some(Format::HdmaNative)));
    }
}

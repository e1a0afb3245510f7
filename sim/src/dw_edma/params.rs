//! What kind of engine a model is: formats, channel counts, addresses, timing, doubtful points.

use super::regs;

/// The four register formats, numbered as in the vendor-specific capability's map field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// eDMA v0 behind a channel viewport (map 0); cores up to 4.70a.
    Legacy,
    /// eDMA v0 with every channel's registers in place (map 1).
    Unrolled,
    /// HDMA with the unrolled register file (map 5): power enable per channel, no engine enable.
    HdmaCompatible,
    /// HDMA with a block per channel (map 7).
    HdmaNative,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] =
        [Format::Legacy, Format::Unrolled, Format::HdmaCompatible, Format::HdmaNative];

    /// The value of the map field in the vendor-specific capability.
    pub const fn map(self) -> u32 {
        match self {
            Format::Legacy => 0,
            Format::Unrolled => 1,
            Format::HdmaCompatible => 5,
            Format::HdmaNative => 7,
        }
    }

    /// Most channels of one direction: 8, native 64.
    pub const fn max_channels(self) -> u16 {
        match self {
            Format::HdmaNative => 64,
            _ => 8,
        }
    }

    /// Bytes of register space for `channels` channels (the larger of both directions).
    pub const fn register_bytes(self, channels: u16) -> u64 {
        match self {
            Format::Legacy => regs::v0::LEGACY_SIZE,
            Format::Unrolled | Format::HdmaCompatible => regs::v0::UNROLLED_SIZE,
            Format::HdmaNative => regs::hdma::CHANNEL_STRIDE * channels as u64,
        }
    }

    /// Whether the format is a v0 register file (all but native).
    pub const fn is_v0(self) -> bool {
        !matches!(self, Format::HdmaNative)
    }
}

/// The two kinds of channels, named by what they do to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dir {
    /// Writes across the link: local memory to the link.
    Write,
    /// Reads across the link: from the link into local memory.
    Read,
}

impl Dir {
    /// 0 for write, 1 for read.
    pub const fn index(self) -> usize {
        match self {
            Dir::Write => 0,
            Dir::Read => 1,
        }
    }
}

/// Who programs the engine, and therefore which of its two sides [`crate::device::Bus`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A host programs the engine through BARs. The link leads to the host: addresses across the link
    /// go through `Bus` as DMA. Lists and device-side data are in the device's own memory, which the
    /// host reaches through the memory BAR.
    Remote {
        /// How the engine addresses its own memory.
        memory_base: MemoryBase,
    },
    /// The CPU of the system that holds the engine programs it. Lists and local data are that
    /// system's RAM: `Bus`. What lies across the link is the model's memory, at `link_base`; the
    /// memory BAR stands for an outbound window to it.
    Local {
        /// Address across the link of the first byte of the memory there.
        link_base: u64,
        /// How the local interrupt lines reach the CPU.
        irq: LocalIrq,
        /// Set if the registers are behind a DBI space with this core version (`0x3437302a` is
        /// `470*`); otherwise they are at [`Params::register_offset`].
        core_version: Option<u32>,
    },
}

/// The address at which a remotely programmed engine knows the first byte of its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBase {
    /// The PCI bus address of the memory BAR, wherever the host puts it (16c3:edda).
    BarAddress,
    /// A fixed address of the device's own address space (10ee:b054 and b00f).
    Fixed(u64),
}

/// How local interrupt lines (`edma_int[]`) are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalIrq {
    /// All lines together on INTx, level triggered.
    Intx,
    /// `Bus::raise` with the line's number (write channels first, then read channels) modulo this
    /// count, when the line rises, and again if a clear leaves it up.
    Vectors(u16),
}

/// Delays and bandwidth. All in nanoseconds unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From doorbell to the first list fetch or data request.
    pub doorbell_ns: u64,
    /// One fetch from list memory. At least 1.
    pub list_ns: u64,
    /// First data of an element.
    pub data_ns: u64,
    /// From an element's last byte to its completion. At least 1.
    pub completion_ns: u64,
    /// Bandwidth of one direction in bytes per microsecond; its channels share it. At least 1.
    pub bytes_per_us: u32,
}

impl Default for Timing {
    /// About a x8 link of generation 3 with 400 ns of round trip.
    fn default() -> Self {
        Self { doorbell_ns: 50, list_ns: 300, data_ns: 400, completion_ns: 50, bytes_per_us: 8000 }
    }
}

/// What a start doorbell does to a channel that is running already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningDoorbell {
    /// Nothing: the doorbell is lost (what drivers of this engine found).
    Ignored,
    /// It is remembered, and the channel looks once more at the element on which it would stop.
    Remembered,
}

/// Identity of the PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Class code: base class, subclass, interface.
    pub class: u32,
}

/// All parameters of a model. Start from a constructor of [`super::presets`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Register format.
    pub format: Format,
    /// Write channels: 0 to [`Format::max_channels`].
    pub write_channels: u16,
    /// Read channels: 0 to [`Format::max_channels`].
    pub read_channels: u16,
    /// Which side programs the engine.
    pub placement: Placement,
    /// Vendor, device, class.
    pub identity: Identity,
    /// BAR of the registers.
    pub register_bar: u8,
    /// Where in it the registers start; ignored behind a DBI space.
    pub register_offset: u64,
    /// BAR of the memory.
    pub memory_bar: u8,
    /// Size of the memory in bytes: a power of two from 4 KiB to 16 GiB.
    pub memory_bytes: u64,
    /// Whether the memory BAR is plain memory that the fabric may map; otherwise every access to it
    /// comes to the model.
    pub map_memory: bool,
    /// Whether there is a vendor-specific capability (id 6) that describes the engine.
    pub vsec: bool,
    /// Content of the device-memory capability (id 0x20), if there is one.
    pub device_memory_vsec: Option<u64>,
    /// MSI vectors offered: 0 (no MSI) or 1, 2, 4, 8, 16, 32.
    pub msi_vectors: u16,
    /// MSI-X vectors offered: 0 (no MSI-X) to 2048.
    pub msix_vectors: u16,
    /// Delays and bandwidth.
    pub timing: Timing,
    /// Largest number of bytes moved in one event; rounded to a power of two from 64 to 65536. No
    /// move crosses a multiple of it on the link side.
    pub burst_bytes: u32,
    /// Elements known to the engine at a time, the one in work included: 1 to 32. With 1 an element
    /// is fetched when the engine gets there; with more, an append may come too late for the engine
    /// although the channel still runs.
    pub prefetch: usize,
    /// Link elements in a row without data before the engine gives up with a list error.
    pub link_limit: u32,
    /// What a doorbell does to a running channel.
    pub running_doorbell: RunningDoorbell,
    /// v0: whether application and list fetch errors are fatal, so that the channel takes no
    /// doorbell until its engine (HDMA-compatible: its power) was disabled.
    pub fatal_errors_need_reset: bool,
    /// Whether a refused posted write is noticed. Real links report nothing back.
    pub posted_write_errors: bool,
    /// HDMA: whether the list pointer register shows progress only at watermarks and at the end.
    pub lazy_llp: bool,
}

impl Params {
    /// Number of channels of a direction.
    pub fn channels(&self, dir: Dir) -> u16 {
        match dir {
            Dir::Write => self.write_channels,
            Dir::Read => self.read_channels,
        }
    }

    /// Whether a host programs the engine through its BARs.
    pub fn is_remote(&self) -> bool {
        matches!(self.placement, Placement::Remote { .. })
    }

    /// Brings every number into its documented range.
    pub(super) fn sanitized(mut self) -> Self {
        let most = self.format.max_channels();
        self.write_channels = self.write_channels.min(most);
        self.read_channels = self.read_channels.min(most);
        self.memory_bytes = self.memory_bytes.clamp(4096, 1 << 34).next_power_of_two();
        self.burst_bytes = self.burst_bytes.clamp(64, 65536).next_power_of_two();
        self.prefetch = self.prefetch.clamp(1, 32);
        self.link_limit = self.link_limit.max(1);
        // Endless lists must take time.
        self.timing.list_ns = self.timing.list_ns.max(1);
        self.timing.completion_ns = self.timing.completion_ns.max(1);
        self.timing.bytes_per_us = self.timing.bytes_per_us.max(1);
        self
    }
}

//! Engines as they are found: constructors of [`Params`].
//!
//! The remote ones are what Linux 7.3's `dw-edma-pcie` binds to and expects: registers at the start of
//! BAR 0 (it reads the capability's register offset and does not apply it), lists and data in BAR 2.

use super::params::{Format, Identity, LocalIrq, MemoryBase, Params, Placement, RunningDoorbell, Timing};

const SYNOPSYS: u16 = 0x16c3;
const XILINX: u16 = 0x10ee;
/// "Other system peripheral".
const CLASS: u32 = 0x08_80_00;
const MIB: u64 = 1 << 20;

/// Where the 10ee devices have their memory in these models: an arbitrary address above 4 GiB.
pub const XILINX_DEVICE_MEMORY: u64 = 0x50_0000_0000;

/// Core version `470*`: the last line of cores with the viewport.
pub const CORE_470A: u32 = 0x3437_302a;
/// Core version `490*`: unrolled, and DBI 0x978 reads all ones.
pub const CORE_490A: u32 = 0x3439_302a;
/// Core version `540*`: unrolled, and DBI 0x978 is no longer all ones.
pub const CORE_540A: u32 = 0x3534_302a;

/// A remotely programmed engine with list memory: `write` + `read` channels, a vector for each.
///
/// Identity and address map are those of 16c3:edda; memory grows with the channels so that each has
/// room for a list (2 MiB) and data (1 MiB) in the layout write lists, read lists, write data, read
/// data. With 2 + 2 channels that is what the stock driver uses for edda.
pub fn remote(format: Format, write: u16, read: u16) -> Params {
    let (write, read) = (write.min(format.max_channels()), read.min(format.max_channels()));
    let channels = u64::from(write) + u64::from(read);
    let vectors = u16::try_from(channels).unwrap_or(u16::MAX).max(1);
    Params {
        format,
        write_channels: write,
        read_channels: read,
        placement: Placement::Remote { memory_base: MemoryBase::BarAddress },
        identity: Identity { vendor: SYNOPSYS, device: 0xedda, class: CLASS },
        register_bar: 0,
        register_offset: 0,
        memory_bar: 2,
        memory_bytes: (channels.max(1) * 3 * MIB).next_power_of_two(),
        map_memory: true,
        vsec: true,
        device_memory_vsec: None,
        msi_vectors: vectors.next_power_of_two().min(32),
        msix_vectors: vectors,
        timing: Timing::default(),
        burst_bytes: 4096,
        prefetch: 2,
        link_limit: 64,
        running_doorbell: RunningDoorbell::Ignored,
        fatal_errors_need_reset: false,
        posted_write_errors: false,
        lazy_llp: false,
    }
}

/// 16c3:edda with 2 + 2 channels in any format, BAR 2 of 16 MiB, one vector.
pub fn edda(format: Format) -> Params {
    Params { memory_bytes: 16 * MIB, msi_vectors: 1, msix_vectors: 1, ..remote(format, 2, 2) }
}

/// 10ee:b054 (MDB): HDMA native, 8 + 8 channels, list pointers in the device's address space.
pub fn mdb_b054() -> Params {
    Params {
        placement: Placement::Remote { memory_base: MemoryBase::Fixed(XILINX_DEVICE_MEMORY) },
        identity: Identity { vendor: XILINX, device: 0xb054, class: CLASS },
        memory_bytes: 64 * MIB,
        device_memory_vsec: Some(XILINX_DEVICE_MEMORY),
        msi_vectors: 1,
        msix_vectors: 1,
        ..remote(Format::HdmaNative, 8, 8)
    }
}

/// 10ee:b00f (CPM6): as [`mdb_b054`] with another identity.
pub fn cpm6_b00f() -> Params {
    Params { identity: Identity { vendor: XILINX, device: 0xb00f, class: CLASS }, ..mdb_b054() }
}

/// 10ee:b054 whose capability names no list memory: the stock driver then uses non-list mode only.
///
/// The device still has memory, at [`XILINX_DEVICE_MEMORY`] and behind BAR 2, for the data.
pub fn b054_without_list_memory() -> Params {
    Params { device_memory_vsec: None, ..mdb_b054() }
}

/// An engine programmed by the CPU beside it: registers in a DBI space (BAR 0), lists and local data
/// in RAM, 16 MiB of memory across the link at bus address `0x8000_0000` (BAR 2), a local interrupt
/// line for each channel. The core version fits the format: viewport on 4.70a, else 4.90a.
///
/// Native engines have no fixed place in DBI; here they are at the unrolled base as well.
pub fn local(format: Format, write: u16, read: u16) -> Params {
    let version = match format {
        Format::Legacy => CORE_470A,
        _ => CORE_490A,
    };
    let remote = remote(format, write, read);
    let lines = (remote.write_channels + remote.read_channels).max(1);
    Params {
        placement: Placement::Local {
            link_base: 0x8000_0000,
            irq: LocalIrq::Vectors(lines),
            core_version: Some(version),
        },
        memory_bytes: 16 * MIB,
        vsec: false,
        ..remote
    }
}

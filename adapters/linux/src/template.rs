//! What a PCI function does not say about its engine: where lists and data are.
//!
//! Source: the tables of Linux 7.3 `dw-edma-pcie.c` (`snps_edda_data`, `xilinx_mdb_data`,
//! `dw_edma_set_chan_region_offset`): the known devices keep one list and one piece of data memory
//! for each channel in BAR 2. A capability names the format and the number of channels, but never
//! more of them than the table has places for.

use dw_edma::{Format, RemoteEngine, VENDOR_SYNOPSYS, VENDOR_XILINX};

use crate::abi;

/// `PCI_DEVICE_ID` of the Synopsys endpoint with an eDMA.
pub const DEVICE_EDDA: u16 = 0xedda;
/// `PCI_DEVICE_ID` of AMD's (Xilinx') MDB.
pub const DEVICE_B054: u16 = 0xb054;
/// `PCI_DEVICE_ID` of AMD's (Xilinx') CPM6.
pub const DEVICE_B00F: u16 = 0xb00f;

/// The BAR of lists and data.
const MEMORY_BAR: u32 = 2;
/// Bytes of each list and of each piece of data memory.
const PLACE_SIZE: u32 = 0x800;
/// Bytes from one list to the next.
const LIST_STRIDE: u32 = 0x20_0000;
/// Bytes from one channel's data to the next one's.
const DATA_STRIDE: u32 = 0x10_0000;

/// The number of channels that a device's table has places for, and its format.
fn table(vendor: u16, device: u16) -> Option<(Format, u16)> {
    match (vendor, device) {
        (VENDOR_SYNOPSYS, DEVICE_EDDA) => Some((Format::Unroll, 2)),
        (VENDOR_XILINX, DEVICE_B054 | DEVICE_B00F) => Some((Format::HdmaNative, 8)),
        // Bound by new_id: as the vendor's known device.
        (VENDOR_SYNOPSYS, _) => Some((Format::Unroll, 2)),
        (VENDOR_XILINX, _) => Some((Format::HdmaNative, 8)),
        _ => None,
    }
}

/// The capability's number of a format.
pub const fn map_number(format: Format) -> u32 {
    match format {
        Format::Legacy => 0,
        Format::Unroll => 1,
        Format::HdmaCompat => 5,
        Format::HdmaNative => 7,
    }
}

/// The engine of a function, from its identity and, if it has one, its capability. `None` for
/// functions that no table describes.
pub fn engine(vendor: u16, device: u16, found: Option<&RemoteEngine>) -> Option<abi::Engine> {
    let (format, channels) = table(vendor, device)?;
    let write = found.map_or(channels, |f| f.write_channels.min(channels));
    let read = found.map_or(channels, |f| f.read_channels.min(channels));
    let mut engine = abi::Engine {
        format: map_number(found.map_or(format, |f| f.format)),
        register_bar: found.map_or(0, |f| u32::from(f.bar)),
        memory_bar: MEMORY_BAR,
        write_channels: write,
        read_channels: read,
        ..abi::Engine::default()
    };
    let device_memory = found.and_then(|f| f.device_memory);
    if vendor == VENDOR_XILINX {
        // Without a base the engine cannot be told where a list is: transfers go from registers.
        if let Some(base) = device_memory {
            engine.memory_base = base.value();
            engine.flags = abi::ENGINE_HAS_LISTS | abi::ENGINE_BASE_KNOWN;
        }
    } else {
        engine.flags = abi::ENGINE_HAS_LISTS;
    }
    let end = |p: abi::Places| (p.list_offset + p.list_size).max(p.data_offset + p.data_size);
    let last = |is_write, count: u16| places(&engine, is_write, count.checked_sub(1)?).map(end);
    engine.memory_size = last(true, write).max(last(false, read)).unwrap_or(0);
    Some(engine)
}

/// Where a channel's list and data are. `None` if there are none.
pub fn places(engine: &abi::Engine, is_write: bool, index: u16) -> Option<abi::Places> {
    let (write, read) = (u32::from(engine.write_channels), u32::from(engine.read_channels));
    let index = u32::from(index);
    let inside = index < if is_write { write } else { read };
    if engine.flags & abi::ENGINE_HAS_LISTS == 0 || !inside {
        return None;
    }
    // The table of the Synopsys device leaves the places of missing channels free; the others' places
    // move together.
    let (first_read, lists) = match engine.flags & abi::ENGINE_BASE_KNOWN {
        0 => (2, 4),
        _ => (write, write + read),
    };
    let number = if is_write { index } else { first_read + index };
    Some(abi::Places {
        list_offset: number * LIST_STRIDE,
        list_size: PLACE_SIZE,
        data_offset: lists * LIST_STRIDE + number * DATA_STRIDE,
        data_size: PLACE_SIZE,
    })
}

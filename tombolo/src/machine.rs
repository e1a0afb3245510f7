//! What the simulated machine and its device are like.

use dw_edma::{ChannelId, ChannelKind, Format, ListMemory, Location, NoList};
use tombolo_hal::irq::IrqMode;
use tombolo_sim::dw_edma::{LocalIrq, Params, Placement, presets};
use tombolo_sim::fabric::MachineConfig;

/// The most memory that the simulated device has.
pub const DEVICE_MEMORY_MAX: u64 = 2 << 30;
/// The most MSI vectors of one function.
const MSI_MAX: u16 = 32;
/// Where the memory across the link is for a local engine: above 4 GiB, so that both halves of an
/// address matter.
pub(crate) const LINK_BASE: u64 = 0x10_0000_0000;
/// Where RAM begins: above 4 GiB as well, and below the 64-bit BARs.
const RAM_BASE: u64 = 0x1_0000_0000;
/// What a rig consists of.
#[derive(Clone, Copy, Debug)]
pub struct RigSpec {
    /// Register map.
    pub format: Format,
    /// On which side of the link the driver runs.
    pub location: Location,
    /// How completions arrive.
    pub irq: IrqMode,
    /// Channels of each kind.
    pub channels: u16,
    /// Data elements of each channel's list.
    pub list_elements: usize,
    /// Bytes of data on the device side.
    pub data_bytes: u64,
    /// Where the engine finds the device's memory, if that is known better than the device tells.
    pub device_memory: Option<u64>,
    /// Seed of all chance.
    pub seed: u64,
}

/// Bytes of device memory that a rig needs, lists included.
pub fn memory_bytes(spec: &RigSpec) -> u64 {
    lists_bytes(spec)
        .saturating_add(spec.data_bytes)
        .max(4096)
        .checked_next_power_of_two()
        .unwrap_or(u64::MAX)
}

/// Where a channel's list begins in the device's memory.
pub(crate) fn list_offset(spec: &RigSpec, id: ChannelId) -> u64 {
    let before = if id.kind == ChannelKind::Read { spec.channels } else { 0 };
    (u64::from(before) + u64::from(id.index)) * list_stride(spec)
}

/// Bytes from one list to the next.
fn list_stride(spec: &RigSpec) -> u64 {
    (list_bytes(spec.list_elements) as u64).next_multiple_of(4096)
}

/// Bytes of a list of `elements` data elements.
pub(crate) fn list_bytes(elements: usize) -> usize {
    ListMemory::<NoList>::size_for(elements)
}

/// Bytes of all lists in the device's memory: none if they are in RAM.
pub(crate) fn lists_bytes(spec: &RigSpec) -> u64 {
    match spec.location {
        Location::Remote => 2 * u64::from(spec.channels) * list_stride(spec),
        Location::Local => 0,
    }
}

/// RAM for the lists, at high addresses.
pub(crate) fn machine_config(spec: &RigSpec) -> MachineConfig {
    let lists = 2 * u64::from(spec.channels) * list_stride(spec);
    let ram = lists.next_multiple_of(4096).max(1 << 20);
    MachineConfig { ram_base: RAM_BASE, ram_size: ram as usize, ..MachineConfig::default() }
}

/// How many vectors to ask for: one a channel if there are so many.
pub(crate) fn vectors(spec: &RigSpec) -> u16 {
    let all = 2 * spec.channels;
    match spec.irq {
        IrqMode::MsiX => all,
        // MSI comes in powers of two.
        IrqMode::Msi => 1 << all.clamp(1, MSI_MAX).ilog2(),
        IrqMode::Intx => 1,
        IrqMode::Polling => 0,
    }
}

/// The model's parameters for a rig.
pub(crate) fn params(spec: &RigSpec) -> Params {
    use tombolo_sim::dw_edma::Format as Map;
    let format = match spec.format {
        Format::Legacy => Map::Legacy,
        Format::Unroll => Map::Unrolled,
        Format::HdmaCompat => Map::HdmaCompatible,
        Format::HdmaNative => Map::HdmaNative,
    };
    let preset = match spec.location {
        Location::Remote => presets::remote(format, spec.channels, spec.channels),
        Location::Local => {
            let irq = match spec.irq {
                IrqMode::Intx => LocalIrq::Intx,
                _ => LocalIrq::Vectors(vectors(spec).max(1)),
            };
            let placement = Placement::Local { link_base: LINK_BASE, irq, core_version: None };
            Params { placement, ..presets::local(format, spec.channels, spec.channels) }
        }
    };
    Params { memory_bytes: memory_bytes(spec), ..preset }
}

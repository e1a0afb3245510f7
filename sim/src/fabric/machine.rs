//! A machine: RAM, address windows, CPUs, and the functions attached to it.

use super::counters::Counters;
use super::fault::Faults;
use super::iommu::Iommu;
use super::machine_state::MachineState;
use super::msix::MsixTable;
use super::state::FunctionState;
use super::{Fabric, Function, State, iova};
use crate::config::{ConfigError, ConfigSpace, ConfigSpaceBuilder};
use crate::device::{Device, Width};
use crate::memory::SharedMemory;
use std::collections::VecDeque;
use std::ops::Range;

/// Size and shape of a machine.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// Physical address of the first byte of RAM, a multiple of 4096.
    pub ram_base: u64,
    /// RAM in bytes. The host gives pages only as they are touched.
    pub ram_size: usize,
    /// Where firmware puts 32-bit BARs.
    pub mmio32: Range<u64>,
    /// Where firmware puts 64-bit BARs.
    pub mmio64: Range<u64>,
    /// CPUs, each with 208 interrupt numbers for devices.
    pub cpus: u8,
    /// Whether firmware places BARs and enables memory decoding when a device is attached. Without
    /// it the BARs are the driver's work.
    pub firmware: bool,
}

impl Default for MachineConfig {
    /// 64 MiB of RAM at 1 GiB, four CPUs, BARs placed by firmware.
    fn default() -> Self {
        Self {
            ram_base: 0x4000_0000,
            ram_size: 64 << 20,
            mmio32: 0xc000_0000..0xfe00_0000,
            mmio64: 0x40_0000_0000..0x80_0000_0000,
            cpus: 4,
            firmware: true,
        }
    }
}

/// A machine that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// RAM is not page aligned, or RAM, BAR windows and the range of interrupt messages overlap, or
    /// go past their address space.
    #[error("RAM, BAR windows and interrupt messages do not fit together")]
    AddressSpace,
}

/// A device that cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The description is impossible.
    #[error("the device's description is impossible")]
    Config(#[from] ConfigError),
    /// No room is left in the machine's window for this BAR.
    #[error("no room for BAR{bar} of {size:#x} bytes")]
    NoRoom {
        /// BAR index.
        bar: u8,
        /// Its size in bytes.
        size: u64,
    },
    /// A BAR was described as plain memory, but the model has no memory of that size.
    #[error("BAR{bar} is described as {size:#x} bytes of memory, which the model does not have")]
    NoMemory {
        /// BAR index.
        bar: u8,
        /// Its size in bytes.
        size: u64,
    },
}

/// A handle of one machine.
#[derive(Clone, Debug)]
pub struct Machine {
    fabric: Fabric,
    index: usize,
}

impl Machine {
    pub(super) fn add(fabric: &Fabric, config: MachineConfig) -> Result<Self, MachineError> {
        let machine = MachineState::new(config)?;
        let mut state = fabric.lock();
        state.machines.push(machine);
        let index = state.machines.len() - 1;
        drop(state);
        Ok(Self { fabric: fabric.clone(), index })
    }

    /// The world that the machine is in.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The machine's RAM.
    pub fn ram(&self) -> SharedMemory {
        self.fabric.lock().machines[self.index].ram.clone()
    }

    /// Physical address of the first byte of RAM.
    pub fn ram_base(&self) -> u64 {
        self.fabric.lock().machines[self.index].config.ram_base
    }

    /// RAM that no driver has allocated, in bytes.
    pub fn free_ram(&self) -> u64 {
        self.fabric.lock().machines[self.index].free_ram()
    }

    /// Plugs a device in. It is reset; bus mastering is off.
    ///
    /// # Errors
    /// [`AttachError`]; the machine is then as before.
    pub fn attach(&self, mut device: Box<dyn Device>) -> Result<Function, AttachError> {
        let mut builder = ConfigSpaceBuilder::new();
        device.describe(&mut builder);
        let config = builder.build()?;
        let memory = bar_memory(device.as_ref(), &config)?;
        device.reset();
        let mut state = self.fabric.lock();
        let places = self.places(&mut state, &config)?;
        let function = state.functions.len();
        state.functions.push(FunctionState {
            machine: self.index,
            device: Some(device),
            msix: MsixTable::new(&config),
            config,
            msi_pending: 0,
            memory,
            iommu: Iommu::default(),
            posted: VecDeque::new(),
            faults: Faults::default(),
            counters: Counters::default(),
            watches: Vec::new(),
            epoch: 0,
            removed: false,
            intx: false,
            vectors_taken: false,
            next_iova: iova::FIRST,
        });
        for (register, value) in places {
            state.apply_config(function, register, Width::W32, value);
        }
        drop(state);
        Ok(Function::new(self.fabric.clone(), function))
    }

    /// What firmware writes to place the BARs and to switch decoding on.
    fn places(&self, state: &mut State, config: &ConfigSpace) -> Result<Vec<(u16, u32)>, AttachError> {
        let machine = &mut state.machines[self.index];
        let mut writes = Vec::new();
        if !machine.config.firmware {
            return Ok(writes);
        }
        for bar in config.bars() {
            let address = machine.place_bar(bar.size, bar.is_64bit);
            let room = AttachError::NoRoom { bar: bar.index, size: bar.size };
            let address = address.ok_or(room)?;
            let register = 0x10 + u16::from(bar.index) * 4;
            writes.push((register, address as u32));
            if bar.is_64bit {
                writes.push((register + 4, (address >> 32) as u32));
            }
        }
        // Command: memory space enable.
        writes.push((0x04, 0x2));
        Ok(writes)
    }
}

/// The memory of each BAR that was described as plain memory.
fn bar_memory(device: &dyn Device, config: &ConfigSpace) -> Result<[Option<SharedMemory>; 6], AttachError> {
    let mut memory = [const { None }; 6];
    for bar in config.bars().filter(|bar| bar.is_memory) {
        let found = device.bar_memory(bar.index).filter(|found| found.len() as u64 >= bar.size);
        let missing = AttachError::NoMemory { bar: bar.index, size: bar.size };
        memory[usize::from(bar.index)] = Some(found.ok_or(missing)?);
    }
    Ok(memory)
}

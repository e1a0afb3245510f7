//! A function that a driver works on.

use tombolo_hal::mmio::RawMmio;
use tombolo_hal::pci::{PciError, command};

use super::Machine;
use crate::irq::{FunctionInterrupts, IrqError, Wanted};
use crate::pci::{AssignError, Bdf, Ecam, EcamFunction, Function, PciTree, ScanError};

/// Functions that [`Machine::enumerate`] has room for.
pub const FUNCTIONS: usize = 64;

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Configuration space cannot be used.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There is no memory to give out.
    #[error(transparent)]
    Assign(#[from] AssignError),
    /// The function's memory did not fit; the tree's faults say what.
    #[error("{0} has a BAR without an address; see the faults of the PCI tree")]
    Unassigned(Bdf),
    /// There is no such memory.
    #[error("{at} has no memory in BAR {index}")]
    NoBar {
        /// Which function.
        at: Bdf,
        /// Which base address register.
        index: u8,
    },
    /// The function does not obey.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The function has no interrupts.
    #[error(transparent)]
    Irq(#[from] IrqError),
}

/// A function with its memory enabled.
#[derive(Clone, Copy)]
pub struct Device {
    machine: &'static Machine,
    /// What was found.
    pub function: Function,
    /// Its configuration space.
    pub config: EcamFunction<RawMmio>,
}

impl Machine {
    /// Finds all functions and gives them addresses. Only while no driver is at work.
    ///
    /// # Errors
    /// [`DeviceError`]. What single functions do wrong is in the tree.
    pub fn enumerate(&self) -> Result<(Ecam<RawMmio>, PciTree<FUNCTIONS>), DeviceError> {
        let ecam = self.ecam()?;
        let mut tree = PciTree::new();
        tree.scan(&ecam);
        tree.assign(&ecam, self.apertures())?;
        Ok((ecam, tree))
    }
}

impl Device {
    /// Takes a function that [`Machine::enumerate`] found, and enables its memory.
    ///
    /// # Errors
    /// [`DeviceError::Unassigned`], [`DeviceError::Pci`].
    pub fn open(
        machine: &'static Machine,
        ecam: &Ecam<RawMmio>,
        function: &Function,
    ) -> Result<Self, DeviceError> {
        if !function.is_assigned() {
            return Err(DeviceError::Unassigned(function.address));
        }
        let config = ecam.function(function.address);
        command::set_memory_enabled(&config, true)?;
        Ok(Self { machine, function: *function, config })
    }

    /// The memory behind a base address register.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`].
    pub fn bar(&self, index: u8) -> Result<RawMmio, DeviceError> {
        let bar = self.function.bars.get(usize::from(index)).and_then(Option::as_ref);
        let missing = DeviceError::NoBar { at: self.function.address, index };
        bar.and_then(|bar| self.machine.map(bar)).ok_or(missing)
    }

    /// Gives it up to `vectors` interrupts. They come once [bus mastering](Self::set_bus_master) is on.
    ///
    /// # Errors
    /// [`DeviceError::Irq`].
    pub fn interrupts(&self, wanted: Wanted, vectors: u16) -> Result<FunctionInterrupts, DeviceError> {
        let (at, bars) = (self.function.address, &self.function.bars);
        let map = |bar: &_| self.machine.map(bar);
        let messages = self.machine.messages();
        Ok(FunctionInterrupts::set_up(&self.config, at, bars, map, messages, (wanted, vectors))?)
    }

    /// Lets it read and write memory and send interrupts, or not.
    ///
    /// # Errors
    /// [`DeviceError::Pci`]: then it may still do so.
    pub fn set_bus_master(&self, on: bool) -> Result<(), DeviceError> {
        Ok(command::set_bus_master(&self.config, on)?)
    }

    /// Switches everything off, in this order: bus mastering, interrupts, memory. The driver has stopped the device.
    ///
    /// # Errors
    /// [`DeviceError`] if it does not obey.
    pub fn close(self, irq: FunctionInterrupts) -> Result<(), DeviceError> {
        self.set_bus_master(false)?;
        irq.tear_down(&self.config, self.machine.interrupts(), self.machine.messages())?;
        Ok(command::set_memory_enabled(&self.config, false)?)
    }
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Device").field("function", &self.function).finish_non_exhaustive()
    }
}

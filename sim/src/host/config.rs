//! Configuration space as a driver sees it.

use crate::device::Width;
use crate::fabric::Function;
use tombolo_hal::pci::ConfigSpace;

/// Configuration space of one function. All ones once the function is gone.
#[derive(Clone, Debug)]
pub struct SimConfig {
    function: Function,
}

impl SimConfig {
    pub(crate) fn new(function: Function) -> Self {
        Self { function }
    }

    fn read(&self, offset: u16, width: Width) -> u32 {
        let id = self.function.id();
        self.function.fabric().access(|state| state.config_read(id, offset, width))
    }

    fn write(&self, offset: u16, width: Width, value: u32) {
        let id = self.function.id();
        self.function.fabric().access(|state| state.config_write(id, offset, width, value));
    }
}

impl ConfigSpace for SimConfig {
    fn read8(&self, offset: u16) -> u8 {
        self.read(offset, Width::W8) as u8
    }

    fn read16(&self, offset: u16) -> u16 {
        self.read(offset, Width::W16) as u16
    }

    fn read32(&self, offset: u16) -> u32 {
        self.read(offset, Width::W32)
    }

    fn write8(&self, offset: u16, value: u8) {
        self.write(offset, Width::W8, u32::from(value));
    }

    fn write16(&self, offset: u16, value: u16) {
        self.write(offset, Width::W16, u32::from(value));
    }

    fn write32(&self, offset: u16, value: u32) {
        self.write(offset, Width::W32, value);
    }
}

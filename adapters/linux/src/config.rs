//! Config space through the kernel's accessors.

use core::ffi::c_void;
use core::ptr::NonNull;

use tombolo_hal::pci::{CONFIG_SPACE_SIZE, ConfigSpace};

use crate::shim::{tombolo_shim_config_read, tombolo_shim_config_write};

/// The config space of a PCI function.
#[derive(Clone, Copy, Debug)]
pub struct KernelConfig(NonNull<c_void>);

// SAFETY: the kernel serialises accesses to config space itself.
unsafe impl Send for KernelConfig {}
// SAFETY: as for `Send`.
unsafe impl Sync for KernelConfig {}

impl KernelConfig {
    /// That of `function`.
    ///
    /// # Safety
    /// It is a `struct pci_dev` for as long as this value exists.
    pub const unsafe fn new(function: NonNull<c_void>) -> Self {
        Self(function)
    }

    fn read(&self, offset: u16, width: u16) -> u32 {
        if !offset.is_multiple_of(width) || offset > CONFIG_SPACE_SIZE - width {
            return u32::MAX;
        }
        // SAFETY: `new` promised the function; width and offset were just checked.
        unsafe { tombolo_shim_config_read(self.0.as_ptr(), offset, u32::from(width)) }
    }

    fn write(&self, offset: u16, width: u16, value: u32) {
        if offset.is_multiple_of(width) && offset <= CONFIG_SPACE_SIZE - width {
            // SAFETY: as for reading.
            unsafe { tombolo_shim_config_write(self.0.as_ptr(), offset, u32::from(width), value) }
        }
    }
}

impl ConfigSpace for KernelConfig {
    fn read8(&self, offset: u16) -> u8 {
        self.read(offset, 1) as u8
    }
    fn read16(&self, offset: u16) -> u16 {
        self.read(offset, 2) as u16
    }
    fn read32(&self, offset: u16) -> u32 {
        self.read(offset, 4)
    }
    fn write8(&self, offset: u16, value: u8) {
        self.write(offset, 1, value.into());
    }
    fn write16(&self, offset: u16, value: u16) {
        self.write(offset, 2, value.into());
    }
    fn write32(&self, offset: u16, value: u32) {
        self.write(offset, 4, value);
    }
}

//! PCI configuration space: who a function is, where its memory is, what it can do.
//!
//! Everything stands on [`ConfigSpace`], which a backend gives, and works on a borrowed one:
//!
//! | to | use |
//! |---|---|
//! | know a function | [`Identity::read`], [`Identity::verify`] |
//! | find its memory | [`bars`] on a device at work, [`size_bars`] and [`size_bar`] at bring-up |
//! | find capabilities | [`find_capability`], [`find_ext_capability`], [`find_vsec`] |
//! | switch DMA, memory, INTx | [`command`] |
//! | have interrupts | [`MsixInfo`], [`MsiInfo`] |
//! | reset it | [`function_level_reset`] with [`SavedConfig`] |
//! | wake it | [`set_power_state`] |
//!
//! # A device is not trusted
//!
//! A configuration space comes from a device that may be broken, removed or hostile. Each word is
//! read once, checked, and the copy used; lists are walked for a bounded number of steps; every
//! wait has a limit. Nothing here panics on what a device says, and what it cannot mean is a
//! [`PciError`] with the numbers in it. A register that reads all ones makes the code look whether
//! the function still answers, and report [`PciError::DeviceGone`] if it does not.
//!
//! # Bring-up
//!
//! ```
//! use tombolo_hal::pci::{self, command, fake::FakeConfigSpace};
//! use tombolo_hal::pci::{BarKind, ConfigSpace, Identity, PciError};
//!
//! /// Finds the register block and lets the device work.
//! fn bring_up(cfg: &impl ConfigSpace) -> Result<pci::BarInfo, PciError> {
//!     let id = Identity::read(cfg)?;
//!     assert_eq!(id.vendor, 0x16c3);
//!     let registers = pci::size_bar(cfg, 0)?.ok_or(PciError::BarIndex { index: 0, count: 0 })?;
//!     command::set_memory_enabled(cfg, true)?;
//!     command::set_bus_master(cfg, true)?;
//!     Ok(registers)
//! }
//!
//! let cfg = FakeConfigSpace::new(0x16c3, 0xedda)
//!     .with_bar(0, BarKind::Memory64, false, 0x8_0000_0000, 0x2000);
//! assert_eq!(bring_up(&cfg)?.size, 0x2000);
//! # Ok::<(), PciError>(())
//! ```
//!
//! # Sources
//!
//! Names and numbers are those of Linux's `include/uapi/linux/pci_regs.h`; behaviour follows the PCI
//! Local Bus specification 3.0 (header, BARs, capability list) and the PCI Express Base
//! specification (extended capabilities, function-level reset).

mod bar;
mod caps;
pub mod command;
mod config;
mod error;
mod ext_caps;
pub mod fake;
mod identity;
mod msi;
mod power;
pub mod regs;
mod regs_express;
mod reset;

#[cfg(test)]
mod tests;

pub use bar::{BAR_COUNT, Bar, BarInfo, BarKind, bars, size_bar, size_bars};
pub use caps::{Capabilities, Capability, CapabilityId, capabilities, find_capability};
#[cfg(feature = "mock")]
pub use config::MockConfigSpace;
pub use config::{CONFIG_SPACE_CONVENTIONAL_SIZE, CONFIG_SPACE_SIZE, ConfigSpace, check_present};
pub use error::PciError;
pub use ext_caps::{
    ExtCapabilities, ExtCapability, ExtCapabilityId, Vsec, ext_capabilities, find_ext_capability, find_vsec,
};
pub use identity::Identity;
pub use msi::{MSIX_ENTRY_SIZE, MsiInfo, MsixInfo};
pub use power::{PowerState, power_state, set_power_state};
pub use reset::{
    FLR_READY_LIMIT_MS, FLR_SETTLE_MS, FlrReport, SavedConfig, TRANSACTIONS_LIMIT_MS, function_level_reset,
};

//! PCI without firmware: finding functions, numbering buses, giving out addresses.
//!
//! [`PciTree::scan`] goes through an [`Ecam`], numbers the buses behind bridges and sizes base address
//! registers; [`PciTree::assign`] gives memory to them and to the windows of bridges. What one function
//! does wrong is a [`Fault`] of that function and costs the others nothing but the room it asks for.
//! I/O ports are not given out: drivers of this project need none.
//!
//! Configuration space is hostile: every list is bounded, every size is added up with checks, and what
//! is written is read back.
//!
//! ```
//! use tombolo_baremetal::pci::{Aperture, Apertures, Ecam, PciTree};
//! use tombolo_hal::mmio::MmioNarrow;
//!
//! fn bring_up<M: MmioNarrow + Clone>(ecam: &Ecam<M>) -> Option<()> {
//!     let low = Aperture { bus: 0x1000_0000, cpu: 0x1000_0000, size: 0x2000_0000 };
//!     let mut tree = PciTree::<64>::new();
//!     tree.scan(ecam);
//!     tree.assign(ecam, &Apertures { low, high: None }).ok()?;
//!     let function = tree.functions().iter().find(|f| f.identity.vendor == 0x16c3)?;
//!     let bar = function.bars[0]?;
//!     println!("{} has {:#x} bytes at {:#x}", function.address, bar.size, bar.address);
//!     Some(())
//! }
//! ```

mod address;
mod assign;
mod bridge;
mod ecam;
mod fault;
mod scan;
#[cfg(test)]
mod tests;

pub use address::Bdf;
pub use assign::{Aperture, Apertures};
pub use ecam::{BUS_SIZE, Ecam, EcamFunction};
pub use fault::{AssignError, Fault, FaultKind, ScanError};
pub use scan::{Function, FunctionKind, PciTree};

/// Addresses from `start` on, `size` of them; never empty and never past the end of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    size: u64,
}

impl Range {
    fn last(self) -> u64 {
        self.start.saturating_add(self.size.saturating_sub(1))
    }
}

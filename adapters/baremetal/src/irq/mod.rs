//! Interrupts as messages: MSI-X and MSI into the local APIC or the GIC's ITS, or none.
//!
//! - An interrupt controller is a [`MessageController`]: it gives a function a [`MessageBlock`], the messages
//!   that it is to send. [`apic`] is that of x86, [`gic`] that of Arm.
//! - [`FunctionInterrupts`] programs them into the function and is hal's `IrqSource` for its driver. Where
//!   there is neither MSI-X nor MSI, or no controller, its mode is polling: say so.
//! - [`IrqTable`] has the handlers.

pub mod apic;
mod blocks;
mod error;
mod function;
#[cfg(test)]
mod function_tests;
pub mod gic;
mod table;

pub use blocks::Blocks;
pub use error::IrqError;
pub use function::{FunctionInterrupts, MessageBlock, MessageController, NoController, Wanted};
pub use table::{IrqHandler, IrqTable};

//! Serves a device model to a virtual machine.
//!
//! A [`Server`] has two threads: the dispatcher answers the client's messages in their order, the worker
//! calls the model's events. Neither holds the device lock longer than one call of the model, and the
//! worker lets the dispatcher go first, so no reply is late (QEMU gives a device up after five seconds).
//!
//! # What a client may do
//! Everything that a machine can do to a device, and nothing to this process. Its messages are checked,
//! its memory is reached in files that cannot shrink (others by system calls), its number of maps, files
//! and messages is bounded, and one that does not read is disconnected. A client can make its own device
//! slow or deaf; other servers of the process have their own threads.
//!
//! # Interrupts
//! [`Bus::raise`](tombolo_sim::device::Bus::raise) signals the eventfd that the client connected to the
//! vector. An engine that writes its own messages knows address and data only. If they are the message
//! of a vector of MSI, that vector is signalled; otherwise the client is asked to write its memory
//! (`DMA_WRITE`), because the MSI-X table and what listens at the address are the client's. QEMU does so
//! with a write that reaches the interrupt controller; it bears requester ID 0, which an x86 machine does
//! not look at and an Arm ITS does.
//!
//! # Removal
//! A function that [was removed](ServerHandle::remove) reads all ones. BAR memory that is mapped into the
//! guest stays there: the protocol has no way to take it back. Serve with
//! [`map_bars`](ServerOptions::map_bars) off where that matters.

mod access;
mod bus;
mod counters;
mod error;
mod function;
mod handle;
mod irqs;
mod layout;
mod link;
mod listen;
mod memory;
mod queue;
mod session;
mod shared;
mod turns;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod offline;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use error::Error;
pub use handle::{Running, ServerHandle};
pub use listen::Server;

use std::time::Duration;

/// How a model is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Whether BARs that are plain memory are mapped into the guest. Otherwise each access to them comes
    /// here, as it does for registers.
    pub map_bars: bool,
    /// Whether the client may send several writes in one message. QEMU then gathers posted writes.
    pub write_multiple: bool,
    /// A client that does not read for so long is disconnected.
    pub send_timeout: Duration,
}

impl Default for ServerOptions {
    /// Mapped, gathered writes, two seconds.
    fn default() -> Self {
        Self { map_bars: true, write_multiple: true, send_timeout: Duration::from_secs(2) }
    }
}

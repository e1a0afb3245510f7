//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::irqs::{INTX, MSI};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a server has done since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same while it is being counted.
        #[derive(Debug, Default)]
        pub(super) struct Counting {
            $(pub $name: AtomicU64,)*
        }

        impl Counting {
            pub fn read(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Counters {
            /// All counters with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Clients that came.
    clients,
    /// Reads of BARs that trapped.
    reads,
    /// Writes to BARs that trapped, each of a multiple write counted.
    writes,
    /// Accesses to configuration space.
    config_accesses,
    /// Bytes that the device read from the client's memory.
    dma_read_bytes,
    /// Bytes that the device wrote to the client's memory.
    dma_written_bytes,
    /// Requests of the device that were refused: no map, read-only, bus mastering off.
    dma_refused,
    /// Interrupts sent by a vector of MSI-X.
    msix_interrupts,
    /// Interrupts sent by a vector of MSI, engine-written messages that name one included.
    msi_interrupts,
    /// Interrupts sent by the pin.
    intx_interrupts,
    /// Engine-written messages that went to the client as a write to its memory.
    message_interrupts,
    /// Interrupts and messages that were lost on purpose.
    lost_interrupts,
    /// Engine-written messages that could not be sent, or that the client refused.
    refused_messages,
    /// Maps that were made.
    maps,
    /// Maps that were removed.
    unmaps,
    /// Resets of the function, by the client or its driver.
    resets,
    /// Calls of the model for events.
    events,
    /// Events that were dropped because too many were waiting.
    dropped_events,
    /// Messages that were answered with an error.
    refused_requests,
}

impl Counting {
    /// The counter of an interrupt index.
    pub fn interrupts(&self, index: u32) -> &AtomicU64 {
        match index {
            INTX => &self.intx_interrupts,
            MSI => &self.msi_interrupts,
            _ => &self.msix_interrupts,
        }
    }
}

/// Counts `more`.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

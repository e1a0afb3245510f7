//! Counters of the MAC (offset 0x1200).

// The macro below makes items that cannot carry docs.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, register_structs};

register_structs! {
    /// The block, from 0x1200 on. Counters are read without a side effect and go round at 2^32.
    pub Statistics {
        (0x000 => pub rx: [ReadOnly<u32>; 24]),
        (0x060 => _r0),
        (0x07c => pub rx_rollover: ReadOnly<u32>),
        (0x080 => pub tx: [ReadOnly<u32>; 25]),
        (0x0e4 => _r1),
        (0x0fc => pub tx_rollover: ReadOnly<u32>),
        (0x100 => @END),
    }
}

/// Offset of [`Statistics`].
pub const STATISTICS: usize = 0x1200;

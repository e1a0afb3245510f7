//! What only PCI11x1x has: RMII, SGMII, FIFO threshold, system lock (offsets 0x710, 0x920, 0x4000).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, register_bitfields, register_structs};

register_bitfields![u32,
    /// RMII.
    pub RMII_CTL [
        /// Enable.
        ENABLE OFFSET(0) NUMBITS(1) []
    ],
    /// An access to the PCS.
    pub SGMII_ACC [
        /// Starts it; clears itself at its end.
        BUSY OFFSET(31) NUMBITS(1) [],
        /// Write instead of read.
        WRITE OFFSET(30) NUMBITS(1) [],
        /// MDIO manageable device.
        MMD OFFSET(16) NUMBITS(5) [],
        /// Register.
        ADDRESS OFFSET(0) NUMBITS(16) []
    ],
    /// PCS control.
    pub SGMII_CTL [
        /// Enable.
        ENABLE OFFSET(31) NUMBITS(1) [],
        /// The link status is the PCS's own, not the external PHY's.
        LINK_STATUS_SOURCE OFFSET(8) NUMBITS(1) [],
        /// Power down.
        POWER_DN OFFSET(1) NUMBITS(1) []
    ],
    /// Miscellaneous.
    pub MISC_CTL_0 [
        /// Threshold of the filter's read FIFO, in double words.
        RFE_READ_FIFO OFFSET(4) NUMBITS(3) []
    ],
    /// What the configuration loader has begun.
    pub CONFIG_LOAD [
        /// Ethernet.
        ETH OFFSET(4) NUMBITS(1) []
    ],
    /// Locks that the functions of the chip share: a one asks for a lock, a zero gives it back.
    pub SYS_LOCK [
        /// Ethernet subsystem.
        ENET_SS OFFSET(1) NUMBITS(1) []
    ]
];

register_structs! {
    /// From 0x710 on.
    pub Serial {
        (0x000 => pub rmii_ctl: ReadWrite<u32, RMII_CTL::Register>),
        (0x004 => _r0),
        (0x010 => pub sgmii_acc: ReadWrite<u32, SGMII_ACC::Register>),
        (0x014 => pub sgmii_data: ReadWrite<u32>),
        (0x018 => pub sgmii_ctl: ReadWrite<u32, SGMII_CTL::Register>),
        (0x01c => _r1),
        (0x210 => pub misc_ctl_0: ReadWrite<u32, MISC_CTL_0::Register>),
        (0x214 => @END),
    }
}

register_structs! {
    /// System block, from 0x4000 on.
    pub Lock {
        (0x000 => _r0),
        (0x078 => pub config_load: ReadOnly<u32, CONFIG_LOAD::Register>),
        (0x07c => _r1),
        (0x0a0 => pub sys_lock: ReadWrite<u32, SYS_LOCK::Register>),
        (0x0a4 => @END),
    }
}

/// Offset of [`Serial`].
pub const SERIAL: usize = 0x710;
/// Offset of [`Lock`].
pub const LOCK: usize = 0x4000;

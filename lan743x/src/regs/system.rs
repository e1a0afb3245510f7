//! Identity, resets, power management, data port and FIFO controller (offset 0).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Chip and revision.
    pub ID_REV [
        /// Which revision.
        REVISION OFFSET(0) NUMBITS(16) [],
        /// Which chip: its PCI device ID.
        ID OFFSET(16) NUMBITS(16) []
    ],
    /// FPGA images only; 0 in silicon.
    pub FPGA_REV [
        /// SGMII is in use.
        SGMII OFFSET(24) NUMBITS(1) []
    ],
    /// Pins at reset. PCI11x1x.
    pub STRAP [
        /// `RMII` counts.
        USE_RMII OFFSET(23) NUMBITS(1) [],
        /// `SGMII` counts.
        USE_SGMII OFFSET(22) NUMBITS(1) [],
        /// RMII is wired.
        RMII OFFSET(7) NUMBITS(1) [],
        /// SGMII is wired.
        SGMII OFFSET(6) NUMBITS(1) []
    ],
    /// Hardware configuration.
    pub HW_CFG [
        /// The configuration is protected against resets.
        RST_PROTECT OFFSET(12) NUMBITS(1) [],
        /// Loads MAC address and configuration from EEPROM or OTP again; clears itself.
        EE_OTP_RELOAD OFFSET(4) NUMBITS(1) [],
        /// Lite reset: all but PCIe and PHY. Clears itself.
        LRST OFFSET(1) NUMBITS(1) []
    ],
    /// Power management.
    pub PMT_CTL [
        /// The PHY keeps its power in D3cold.
        ETH_PHY_D3_COLD_OVR OFFSET(27) NUMBITS(1) [],
        /// The MAC's receive clock keeps running in D3.
        MAC_D3_RX_CLK_OVR OFFSET(25) NUMBITS(1) [],
        /// The PHY keeps its power in D3.
        ETH_PHY_D3_OVR OFFSET(23) NUMBITS(1) [],
        /// The clock of receive FIFO and filter keeps running in D3.
        RX_FCT_RFE_D3_CLK_OVR OFFSET(18) NUMBITS(1) [],
        /// A GPIO may wake.
        GPIO_WAKEUP_EN OFFSET(15) NUMBITS(1) [],
        /// EEE may wake.
        EEE_WAKEUP_EN OFFSET(13) NUMBITS(1) [],
        /// Which resets clear the wake status.
        RES_CLR_WKP OFFSET(8) NUMBITS(2) [],
        /// The controller is ready.
        READY OFFSET(7) NUMBITS(1) [],
        /// Resets the PHY; clears itself.
        ETH_PHY_RST OFFSET(4) NUMBITS(1) [],
        /// Wake-on-LAN.
        WOL_EN OFFSET(3) NUMBITS(1) [],
        /// The PHY may wake.
        ETH_PHY_WAKE_EN OFFSET(2) NUMBITS(1) [],
        /// What woke: each bit is cleared by writing a one.
        WUPS OFFSET(0) NUMBITS(2) []
    ],
    /// Selects a memory for the data port.
    pub DP_SEL [
        /// The port is ready for the next access.
        READY OFFSET(31) NUMBITS(1) [],
        /// Which memory.
        SELECT OFFSET(0) NUMBITS(5) [ Rfe = 1 ]
    ],
    /// Starts an access through the data port.
    pub DP_CMD [
        /// Write instead of read.
        WRITE OFFSET(0) NUMBITS(1) []
    ],
    /// A FIFO controller, one bit a channel in each field.
    pub FCT_CTL [
        /// Enables; reads back what is enabled.
        ENABLE OFFSET(28) NUMBITS(4) [],
        /// Disables, at the end of a frame.
        DISABLE OFFSET(24) NUMBITS(4) [],
        /// Resets; clears itself.
        RESET OFFSET(20) NUMBITS(4) []
    ],
    /// When a receive FIFO sends pause frames; units of 512 bytes.
    pub FCT_FLOW [
        /// Below this fill the pause ends.
        OFF_THRESHOLD OFFSET(8) NUMBITS(7) [],
        /// It may ask for pauses.
        REQ_EN OFFSET(7) NUMBITS(1) [],
        /// From this fill on it asks for a pause.
        ON_THRESHOLD OFFSET(0) NUMBITS(7) []
    ]
];

register_structs! {
    /// The block.
    pub System {
        (0x000 => pub id_rev: ReadOnly<u32, ID_REV::Register>),
        (0x004 => pub fpga_rev: ReadOnly<u32, FPGA_REV::Register>),
        (0x008 => _r0),
        (0x00c => pub strap: ReadOnly<u32, STRAP::Register>),
        (0x010 => pub hw_cfg: ReadWrite<u32, HW_CFG::Register>),
        (0x014 => pub pmt_ctl: ReadWrite<u32, PMT_CTL::Register>),
        (0x018 => _r1),
        (0x024 => pub dp_sel: ReadWrite<u32, DP_SEL::Register>),
        (0x028 => pub dp_cmd: WriteOnly<u32, DP_CMD::Register>),
        (0x02c => pub dp_addr: ReadWrite<u32>),
        (0x030 => pub dp_data: ReadWrite<u32>),
        (0x034 => _r2),
        (0x050 => pub gpio_cfg: [ReadWrite<u32>; 4]),
        (0x060 => _r3),
        (0x0ac => pub fct_rx_ctl: ReadWrite<u32, FCT_CTL::Register>),
        (0x0b0 => _r4),
        (0x0c4 => pub fct_tx_ctl: ReadWrite<u32, FCT_CTL::Register>),
        (0x0c8 => _r5),
        (0x0e0 => pub fct_flow: [ReadWrite<u32, FCT_FLOW::Register>; 4]),
        (0x0f0 => @END),
    }
}

/// Where the data port shows the filter's hash table, in words.
pub const DP_VHF_HASH: u32 = 128;
/// Words of the hash table: 512 bits.
pub const VHF_HASH_WORDS: usize = 16;

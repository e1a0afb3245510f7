//! EEPROM and OTP (offsets 0x40, 0x1000; PCI11x1x: 0x4e00, 0x5000).
//!
//! LAN743x: AN2948 chapter 4; `OTP_TST_CMD`, `OTP_CMD_GO`, `OTP_STATUS` and PCI11x1x: Linux's header.

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// An EEPROM command of LAN743x.
    pub E2P_CMD [
        /// Starts it; clears itself at its end.
        EPC_BUSY OFFSET(31) NUMBITS(1) [],
        /// What is to be done. `Ewen` allows writes and erasures, `Ewds` forbids them.
        EPC_CMD OFFSET(28) NUMBITS(3) [
            Read = 0, Ewds = 1, Ewen = 2, Write = 3, WriteAll = 4, Erase = 5, EraseAll = 6
        ],
        /// The EEPROM did not answer within 30 ms; cleared by writing a one.
        EPC_TIMEOUT OFFSET(10) NUMBITS(1) [],
        /// Byte.
        EPC_ADDR OFFSET(0) NUMBITS(9) []
    ],
    /// An EEPROM command of PCI11x1x.
    pub HS_E2P_CMD [
        /// Starts it; clears itself at its end.
        EPC_BUSY OFFSET(31) NUMBITS(1) [],
        /// What is to be done.
        EPC_CMD OFFSET(28) NUMBITS(2) [ Read = 0, Write = 3 ],
        /// The EEPROM did not answer.
        EPC_TIMEOUT OFFSET(17) NUMBITS(1) [],
        /// Byte.
        EPC_ADDR OFFSET(0) NUMBITS(16) []
    ],
    /// The EEPROM's bus. PCI11x1x.
    pub HS_E2P_CFG [
        /// Pulse width of I2C.
        I2C_PULSE OFFSET(16) NUMBITS(4) [],
        /// Size of the EEPROM.
        EEPROM_SIZE_SEL OFFSET(12) NUMBITS(1) [],
        /// Rate of I2C.
        I2C_BAUD_RATE OFFSET(8) NUMBITS(2) [],
        /// Test: no time-out.
        TEST_EEPR_TO_BYP OFFSET(0) NUMBITS(1) []
    ],
    /// Power of the OTP memory.
    pub OTP_PWR_DN [
        /// It has none; so after a reset.
        PWRDN_N OFFSET(0) NUMBITS(1) []
    ],
    /// How the OTP memory is programmed.
    pub OTP_PRGM_MODE [
        /// Bytes instead of bits.
        BYTE OFFSET(0) NUMBITS(1) []
    ],
    /// What `GO` starts, one of them.
    pub OTP_FUNC_CMD [
        /// Resets.
        RESET OFFSET(2) NUMBITS(1) [],
        /// Programs.
        PROGRAM OFFSET(1) NUMBITS(1) [],
        /// Reads a byte.
        READ OFFSET(0) NUMBITS(1) []
    ],
    /// What `GO` starts, if it is none of `OTP_FUNC_CMD`.
    pub OTP_TST_CMD [
        /// Programs and verifies.
        PRGVRFY OFFSET(3) NUMBITS(1) []
    ],
    /// Starts the command.
    pub OTP_CMD_GO [
        /// Go.
        GO OFFSET(0) NUMBITS(1) []
    ],
    /// State of the OTP memory.
    pub OTP_STATUS [
        /// It works at a command.
        BUSY OFFSET(0) NUMBITS(1) []
    ]
];

register_structs! {
    /// EEPROM controller. Commands are those of [`E2P_CMD`] or [`HS_E2P_CMD`].
    pub Eeprom {
        (0x000 => pub cmd: ReadWrite<u32>),
        (0x004 => pub data: ReadWrite<u32>),
        (0x008 => @END),
    }
}

register_structs! {
    /// What follows it in PCI11x1x, from 0x4e08 on.
    pub HsEepromConfig {
        (0x000 => pub cfg: ReadWrite<u32, HS_E2P_CFG::Register>),
        (0x004 => pub pad_ctl: ReadWrite<u32>),
        (0x008 => @END),
    }
}

register_structs! {
    /// OTP memory.
    pub Otp {
        (0x000 => pub pwr_dn: ReadWrite<u32, OTP_PWR_DN::Register>),
        // Bits 9 and 8 of the byte's number.
        (0x004 => pub addr_high: ReadWrite<u32>),
        // Bits 7 to 0.
        (0x008 => pub addr_low: ReadWrite<u32>),
        // Which bit, when bits are programmed.
        (0x00c => pub addr_bits: ReadWrite<u32>),
        (0x010 => pub prgm_data: ReadWrite<u32>),
        (0x014 => pub prgm_mode: ReadWrite<u32, OTP_PRGM_MODE::Register>),
        (0x018 => pub read_data: ReadOnly<u32>),
        (0x01c => _r0),
        (0x020 => pub func_cmd: ReadWrite<u32, OTP_FUNC_CMD::Register>),
        (0x024 => pub tst_cmd: ReadWrite<u32, OTP_TST_CMD::Register>),
        (0x028 => pub cmd_go: WriteOnly<u32, OTP_CMD_GO::Register>),
        (0x02c => _r1),
        (0x030 => pub status: ReadOnly<u32, OTP_STATUS::Register>),
        (0x034 => @END),
    }
}

/// Offset of [`Eeprom`] in LAN743x.
pub const EEPROM: usize = 0x40;
/// Offset of [`Eeprom`] in PCI11x1x.
pub const HS_EEPROM: usize = 0x4e00;
/// Offset of [`HsEepromConfig`].
pub const HS_EEPROM_CONFIG: usize = 0x4e08;
/// Offset of [`Otp`] in LAN743x.
pub const OTP: usize = 0x1000;
/// Offset of [`Otp`] in PCI11x1x.
pub const HS_OTP: usize = 0x5000;

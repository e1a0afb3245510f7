//! Register offsets and bits that several modules know, or that stand alone. Those of the 1588 unit, the PCS
//! and power management are in their modules.
//!
//! Sources: Microchip AN2948 "Configuration Registers of LAN743x" (sections 3 to 11), Linux 7.3
//! `lan743x_main.h` for what the note leaves out, and for everything of PCI11x1x.

/// System registers.
pub(super) mod sys {
    pub const ID_REV: u64 = 0x000;
    pub const FPGA_REV: u64 = 0x004;
    pub const STRAP_READ: u64 = 0x00c;
    pub const HW_CFG: u64 = 0x010;
    pub const HW_CFG_SRST: u32 = 1;
    pub const HW_CFG_LRST: u32 = 1 << 1;
    pub const HW_CFG_EE_OTP_RELOAD: u32 = 1 << 4;
    pub const HW_CFG_EE_OTP_DL: u32 = 1 << 5;
    pub const PMT_CTL: u64 = 0x014;
    pub const DP_SEL: u64 = 0x024;
    pub const DP_SEL_READY: u32 = 1 << 31;
    pub const DP_SEL_RFE: u32 = 1;
    pub const DP_CMD: u64 = 0x028;
    pub const DP_ADDR: u64 = 0x02c;
    pub const DP_DATA0: u64 = 0x030;
    pub const GPIO_INT_STS: u64 = 0x064;
    pub const GPIO_INT_EN_SET: u64 = 0x068;
    pub const GPIO_INT_EN_CLR: u64 = 0x06c;
    pub const GPT_CFG: u64 = 0x08c;
    pub const GPT_CNT: u64 = 0x090;
    pub const GPT_FAST: u32 = 1 << 31;
    pub const GPT_STOP: u32 = 1 << 30;
    pub const GPT_ENABLE: u32 = 1 << 29;
    pub const VLAN_TYPE: u64 = 0x008;
    /// Bits of `STRAP_READ`.
    pub const STRAP_USE_RMII: u32 = 1 << 23;
    pub const STRAP_USE_SGMII: u32 = 1 << 22;
    pub const STRAP_RMII: u32 = 1 << 7;
    pub const STRAP_SGMII: u32 = 1 << 6;
}

/// FIFO controller.
pub(super) mod fct {
    pub const INT_STS: u64 = 0x0a0;
    pub const INT_EN_SET: u64 = 0x0a4;
    pub const INT_EN_CLR: u64 = 0x0a8;
    pub const RX_CTL: u64 = 0x0ac;
    pub const RX_FIFO_END: u64 = 0x0b0;
    pub const RX_USED: u64 = 0x0b4;
    pub const TX_CTL: u64 = 0x0c4;
    pub const TX_USED: u64 = 0x0cc;
    pub const CFG: u64 = 0x0dc;
    pub const CFG_STORE_BAD: u32 = 1;
    pub const CFG_ROUTING_HEADERS: u32 = 1 << 4;
    pub const FLOW: u64 = 0x0e0;
    pub const FLOW_ENABLE: u32 = 1 << 7;
    pub const INT_RDFPA: u32 = 1 << 28;
    pub const INT_RDFO: u32 = 1 << 24;
    pub const INT_RXDF: u32 = 1 << 20;
    pub const INT_TXE: u32 = 1 << 16;
    pub const INT_RX_DIS: u32 = 1 << 4;
    pub const INT_TX_DIS: u32 = 1;
}

/// MAC.
pub(super) mod mac {
    pub const CR: u64 = 0x100;
    pub const CR_MII_EN: u32 = 1 << 19;
    pub const CR_ADP: u32 = 1 << 13;
    pub const CR_ADD: u32 = 1 << 12;
    pub const CR_ASD: u32 = 1 << 11;
    pub const CR_INT_LOOP: u32 = 1 << 10;
    pub const CR_CNTR_RST: u32 = 1 << 5;
    pub const CR_CNTR_WEN: u32 = 1 << 4;
    pub const CR_DPX: u32 = 1 << 3;
    pub const CR_CFG: u32 = 3 << 1;
    pub const CR_MRST: u32 = 1;
    pub const RX: u64 = 0x104;
    pub const RX_MAX_SIZE: u32 = 0x3fff << 16;
    pub const RX_FIELDS: u32 = RX_MAX_SIZE | 0x7c;
    pub const RX_RESET: u32 = 1518 << 16 | 1 << 6 | 1 << 5 | 1 << 3;
    pub const RX_FCS_STRIP: u32 = 1 << 4;
    pub const RX_FSE: u32 = 1 << 2;
    pub const RX_RXD: u32 = 1 << 1;
    pub const RX_RXEN: u32 = 1;
    pub const TX: u64 = 0x108;
    pub const TX_BFCS: u32 = 1 << 2;
    pub const TX_TXD: u32 = 1 << 1;
    pub const TX_TXEN: u32 = 1;
    pub const FLOW: u64 = 0x10c;
    pub const FLOW_FORCE: u32 = 1 << 31;
    pub const FLOW_TX: u32 = 1 << 30;
    pub const FLOW_RX: u32 = 1 << 29;
    pub const FLOW_PASS: u32 = 1 << 28;
    pub const ERR_STS: u64 = 0x114;
    pub const ERR_FERR: u32 = 1 << 8;
    pub const ERR_LFERR: u32 = 1 << 7;
    pub const ERR_RFERR: u32 = 1 << 6;
    pub const ERR_ALL: u32 = 0x7fc;
    pub const RX_ADDRH: u64 = 0x118;
    pub const RX_ADDRL: u64 = 0x11c;
    pub const MII_ACC: u64 = 0x120;
    pub const MII_DATA: u64 = 0x124;
    pub const INT_STS: u64 = 0x604;
    pub const INT_EN_SET: u64 = 0x608;
    pub const INT_EN_CLR: u64 = 0x60c;
    pub const INT_TX_DIS: u32 = 1 << 19;
    pub const INT_RX_DIS: u32 = 1 << 18;
    pub const INT_ERR: u32 = 1 << 15;
    pub const INT_RX_ROLL: u32 = 1 << 14;
    pub const INT_TX_ROLL: u32 = 1 << 13;
}

/// Receive filter.
pub(super) mod rfe {
    pub const ADDR_FILT: u64 = 0x400;
    pub const ADDR_FILTERS: u64 = 33;
    pub const FILT_VALID: u32 = 1 << 31;
    pub const FILT_SOURCE: u32 = 1 << 30;
    pub const FILT_RSS: u32 = 1 << 19;
    pub const FILT_CHANNEL: u32 = 1 << 18;
    pub const CTL: u64 = 0x508;
    pub const CTL_WRITABLE: u32 = 0x0007_fffe;
    pub const CTL_IGMP: u32 = 1 << 14;
    pub const CTL_ICMP: u32 = 1 << 13;
    pub const CTL_TCP_UDP: u32 = 1 << 12;
    pub const CTL_IP: u32 = 1 << 11;
    pub const CTL_AB: u32 = 1 << 10;
    pub const CTL_AM: u32 = 1 << 9;
    pub const CTL_AU: u32 = 1 << 8;
    pub const CTL_UNTAGGED: u32 = 1 << 6;
    pub const CTL_VLAN_FILTER: u32 = 1 << 5;
    pub const CTL_SPF: u32 = 1 << 4;
    pub const CTL_MHF: u32 = 1 << 3;
    pub const CTL_DHF: u32 = 1 << 2;
    pub const CTL_DPF: u32 = 1 << 1;
    pub const PRI_SEL: u64 = 0x50c;
    pub const DIFFSERV: u64 = 0x510;
    pub const PRI_PRECEDENCE: u32 = 1 << 3;
    pub const PRI_IP: u32 = 1 << 2;
    pub const PRI_TAG: u32 = 1 << 1;
    pub const PRI_TAG_FIRST: u32 = 1;
    pub const RSS_CFG: u64 = 0x554;
    pub const RSS_STORE: u32 = 1 << 1;
    pub const RSS_QUEUE: u32 = 1 << 2;
    pub const RSS_ENABLE: u32 = 1;
    pub const HASH_KEY: u64 = 0x558;
    pub const INDX: u64 = 0x580;
    /// Words of the RAM behind the data port: VLAN filter, then address hash.
    pub const RAM_WORDS: usize = 144;
    pub const RAM_HASH: usize = 128;
}

/// Interrupt controller.
pub(super) mod int {
    pub const STS: u64 = 0x780;
    pub const SET: u64 = 0x784;
    pub const EN_SET: u64 = 0x788;
    pub const EN_CLR: u64 = 0x78c;
    pub const STS_R2C: u64 = 0x790;
    pub const VEC_EN_SET: u64 = 0x794;
    pub const VEC_EN_CLR: u64 = 0x798;
    pub const VEC_EN_AUTO_CLR: u64 = 0x79c;
    pub const VEC_MAP0: u64 = 0x7a0;
    pub const VEC_STS: u64 = 0x7ac;
    pub const MOD_MAP0: u64 = 0x7b0;
    pub const MOD_CFG0: u64 = 0x7c0;
    pub const MOD_INTERVAL: u32 = 0x1fff;
    pub const MOD_WRITABLE: u32 = 0x0003_1fff;
    pub const MOD_STATUS: u32 = 1 << 18;
    pub const RX: u32 = 0xf << 24;
    pub const TX: u32 = 0xf << 16;
    pub const GPIO: u32 = 1 << 11;
    pub const DMA_GEN: u32 = 1 << 10;
    pub const PTP: u32 = 1 << 7;
    pub const PHY: u32 = 1 << 5;
    pub const DP: u32 = 1 << 4;
    pub const MAC: u32 = 1 << 3;
    pub const FCT: u32 = 1 << 2;
    pub const GPT: u32 = 1 << 1;
    pub const MAS: u32 = 1;
}

/// DMA controller. Channel registers are relative to the channel.
pub(super) mod dmac {
    pub const CFG: u64 = 0xc00;
    pub const CFG_RESET: u32 = 0x60;
    pub const CMD: u64 = 0xc0c;
    pub const CMD_SWR: u32 = 1 << 31;
    pub const INT_STS: u64 = 0xc10;
    pub const INT_EN_SET: u64 = 0xc14;
    pub const INT_EN_CLR: u64 = 0xc18;
    pub const INT_STS_R2C: u64 = 0xc2c;
    pub const INT_ERR: u32 = 1 << 21;
    pub const INT_RXFRM: u32 = 0xf << 16;
    pub const INT_RX_STOP: u32 = 0xf << 12;
    pub const INT_TX_STOP: u32 = 0xf << 8;
    pub const RX: u64 = 0xc40;
    pub const TX: u64 = 0xd40;
    pub const STRIDE: u64 = 0x40;
    pub const CFG_A: u64 = 0x00;
    pub const CFG_B: u64 = 0x04;
    pub const BASE_H: u64 = 0x08;
    pub const BASE_L: u64 = 0x0c;
    pub const WB_H: u64 = 0x10;
    pub const WB_L: u64 = 0x14;
    pub const HEAD: u64 = 0x18;
    pub const TAIL: u64 = 0x1c;
    pub const ERR_STS: u64 = 0x20;
    pub const CFG_C: u64 = 0x24;
    pub const FLUSH: u32 = 1 << 31;
    pub const ON_INT_TMR: u32 = 1 << 30;
    pub const HP_WB: u32 = 1 << 5;
    pub const RX_CFG_B_RESET: u32 = 2 << 24 | 4 << 16;
    pub const RX_TS_ALL: u32 = 1 << 29;
    pub const RX_TS_DESCR: u32 = 1 << 28;
    pub const TX_CFG_B_RESET: u32 = 4 << 16;
    pub const TX_STOP_TXE: u32 = 1 << 7;
    pub const ERR_TAIL_HALT: u32 = 1 << 21;
    pub const ERR_SEQUENCE_HALT: u32 = 1 << 16;
    pub const ERR_DATA: u32 = 1 << 7;
    pub const ERR_DESCRIPTOR: u32 = 1 << 6;
    pub const ERR_TAIL: u32 = 1 << 5;
    pub const ERR_TXE: u32 = 1 << 4;
    pub const ERR_DATA_EXPECTED: u32 = 1 << 3;
    pub const ERR_EXT_EXPECTED: u32 = 1 << 2;
    pub const ERR_EXTRA_FS: u32 = 1 << 1;
    pub const ERR_NO_FS: u32 = 1;
    /// The four errors above: descriptors in a wrong order.
    pub const ERR_SEQUENCE: u32 = 0xf;
    pub const C_INT_EN: u32 = 1 << 6;
    pub const C_DMA_EN: u32 = 1 << 5;
    pub const C_EN_R2C: u32 = 1 << 4;
    pub const C_STATUS: u32 = 1 << 3;
}

/// Descriptor words.
pub(super) mod desc {
    pub const TX_EXTENSION: u32 = 1 << 30;
    pub const FS: u32 = 1 << 29;
    pub const LS: u32 = 1 << 28;
    pub const TX_EXT: u32 = 1 << 27;
    pub const IOC: u32 = 1 << 26;
    pub const ICE: u32 = 1 << 22;
    pub const IPE: u32 = 1 << 21;
    pub const TPE: u32 = 1 << 20;
    pub const FCS: u32 = 1 << 17;
    pub const TSE: u32 = 1 << 16;
    pub const LSO: u32 = 1 << 21;
    pub const RX_FS: u32 = 1 << 31;
    pub const RX_LS: u32 = 1 << 30;
    pub const RX_OWN: u32 = 1 << 15;
    pub const RX_EXT: u32 = 1 << 14;
    pub const RX_ICE: u32 = 1 << 17;
    pub const RX_TCE: u32 = 1 << 16;
    pub const RX_IPV6: u32 = 1 << 15;
    pub const RX_PID_TCP: u32 = 1 << 13;
    pub const RX_PID_UDP: u32 = 2 << 13;
    pub const RX_PID_IP: u32 = 3 << 13;
    pub const RX_PERFECT: u32 = 1 << 12;
    pub const RX_BROADCAST: u32 = 1 << 11;
    pub const RX_MULTICAST: u32 = 1 << 10;
    pub const RX_TAGGED: u32 = 1 << 9;
    pub const RX_ERROR: u32 = 1 << 8;
    pub const RX_RUNT: u32 = 1 << 6;
    pub const RX_LONG: u32 = 1 << 5;
    pub const RX_FCS: u32 = 1 << 2;
    pub const RX_ICSM: u32 = 1;
}

/// OTP and EEPROM; `HS_*` are those of the second family.
pub(super) mod nvm {
    pub const E2P_CMD: u64 = 0x040;
    pub const E2P_DATA: u64 = 0x044;
    pub const OTP: u64 = 0x1000;
    pub const HS_LOADED: u64 = 0x4078;
    pub const HS_LOCK: u64 = 0x40a0;
    pub const HS_LOCK_ENET: u32 = 2;
    pub const HS_E2P_CMD: u64 = 0x4e00;
    pub const HS_E2P_DATA: u64 = 0x4e04;
    pub const HS_OTP: u64 = 0x5000;
}

/// Statistics.
pub(super) mod stats {
    pub const RX: u64 = 0x1200;
    pub const RX_ROLL: u64 = 0x127c;
    pub const TX: u64 = 0x1280;
    pub const TX_ROLL: u64 = 0x12fc;
}

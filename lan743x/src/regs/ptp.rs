//! PTP clock and time stamps (offset 0xa00), and their GPIOs (offset 0x50).
//!
//! LAN743x: AN2948 chapter 9. What only PCI11x1x has, and where it differs (`HS_`): Linux's header.

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, W1c, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Commands. A one starts one and clears itself; a zero does nothing.
    pub PTP_CMD_CTL [
        /// Copies both targets into their registers, so that they can be read.
        LTC_TARGET_READ OFFSET(13) NUMBITS(1) [],
        /// Which capture registers `MANUAL_CAPTURE` fills: bit 3 is the edge (1: falling), bits 2 to 0 the
        /// input.
        MANUAL_CAPTURE_SEL OFFSET(9) NUMBITS(4) [],
        /// Captures the clock.
        MANUAL_CAPTURE OFFSET(8) NUMBITS(1) [],
        /// Starts the temporary rate.
        TEMP_RATE OFFSET(7) NUMBITS(1) [],
        /// Adds the step to the nanoseconds, instead of one tick.
        CLK_STP_NSEC OFFSET(6) NUMBITS(1) [],
        /// Adds the step to the seconds, or subtracts it.
        CLOCK_STEP_SEC OFFSET(5) NUMBITS(1) [],
        /// Sets the clock.
        CLOCK_LOAD OFFSET(4) NUMBITS(1) [],
        /// Reads the clock.
        CLOCK_READ OFFSET(3) NUMBITS(1) [],
        /// Enables; reads back as the state.
        ENABLE OFFSET(2) NUMBITS(1) [],
        /// Disables, when no frame is on its way.
        DISABLE OFFSET(1) NUMBITS(1) [],
        /// Resets the unit and its registers. Only while it is disabled.
        RESET OFFSET(0) NUMBITS(1) []
    ],
    /// Event channels and GPIO captures of LAN743x.
    pub PTP_GENERAL_CONFIG [
        /// Time stamps of frames; 1 after a reset. Not to be changed while the unit is enabled.
        TSU_ENABLE OFFSET(31) NUMBITS(1) [],
        /// Falling edges of GPIO 8 to 11 instead of 0 to 3.
        FE_REMAP OFFSET(25) NUMBITS(1) [],
        /// Rising edges of GPIO 8 to 11 instead of 0 to 3.
        RE_REMAP OFFSET(24) NUMBITS(1) [],
        /// A GPIO clears timer interrupt B.
        TIMER_B_CLEAR_EN OFFSET(20) NUMBITS(1) [],
        /// Which GPIO.
        TIMER_B_CLEAR_SEL OFFSET(16) NUMBITS(4) [],
        /// A GPIO clears timer interrupt A.
        TIMER_A_CLEAR_EN OFFSET(12) NUMBITS(1) [],
        /// Which GPIO.
        TIMER_A_CLEAR_SEL OFFSET(8) NUMBITS(4) [],
        /// What channel B does when the clock reaches its target: 0 to 5 pulses of 100 ns, 10 us, 100 us,
        /// 1 ms, 10 ms, 200 ms; 6 toggles; 7 shows the timer interrupt.
        CLOCK_EVENT_B OFFSET(5) NUMBITS(3) [],
        /// Then target B is loaded anew instead of increased.
        RELOAD_ADD_B OFFSET(4) NUMBITS(1) [],
        /// As `CLOCK_EVENT_B`.
        CLOCK_EVENT_A OFFSET(1) NUMBITS(3) [],
        /// As `RELOAD_ADD_B`.
        RELOAD_ADD_A OFFSET(0) NUMBITS(1) []
    ],
    /// The same register of PCI11x1x.
    pub HS_PTP_GENERAL_CONFIG [
        /// What channel B does: 0 to 13 pulses of 100 ns, 500 ns, 1 us, 5 us and so on up to 100 ms, and
        /// 200 ms; 14 toggles; 15 shows the timer interrupt.
        CLOCK_EVENT_B OFFSET(8) NUMBITS(4) [],
        /// As `CLOCK_EVENT_B`.
        CLOCK_EVENT_A OFFSET(4) NUMBITS(4) [],
        /// Polarity of channel B; 1: a pulse is high.
        EVENT_POL_B OFFSET(3) NUMBITS(1) [],
        /// Target B is loaded anew instead of increased.
        RELOAD_ADD_B OFFSET(2) NUMBITS(1) [],
        /// As `EVENT_POL_B`.
        EVENT_POL_A OFFSET(1) NUMBITS(1) [],
        /// As `RELOAD_ADD_B`.
        RELOAD_ADD_A OFFSET(0) NUMBITS(1) []
    ],
    /// Interrupts: status and enables have the same layout. The status does not depend on the enables.
    pub PTP_INT [
        /// The falling edge of an input was captured.
        IO_FE OFFSET(24) NUMBITS(8) [],
        /// The rising edge of an input was captured.
        IO_RE OFFSET(16) NUMBITS(8) [],
        /// A transmit time stamp was lost. PCI11x1x.
        TX_TS_OVRFL OFFSET(14) NUMBITS(1) [],
        /// A transmit time stamp that was asked for found the buffer full.
        TX_SWTS_ERR OFFSET(13) NUMBITS(1) [],
        /// There is a transmit time stamp. Clearing it takes the oldest one out of the buffer.
        TX_TS OFFSET(12) NUMBITS(1) [],
        /// A receive time stamp was lost. PCI11x1x.
        RX_TS_OVRFL OFFSET(9) NUMBITS(1) [],
        /// There is a receive time stamp in the registers.
        RX_TS OFFSET(8) NUMBITS(1) [],
        /// The clock has reached target B.
        TIMER_B OFFSET(1) NUMBITS(1) [],
        /// The clock has reached target A.
        TIMER_A OFFSET(0) NUMBITS(1) []
    ],
    /// Rate of the clock.
    pub PTP_CLOCK_RATE_ADJ [
        /// Faster than the reference.
        DIR OFFSET(31) NUMBITS(1) [],
        /// By so much in each tick of 8 ns; unit: 2^-32 ns.
        VALUE OFFSET(0) NUMBITS(30) []
    ],
    /// Step of the clock.
    pub PTP_CLOCK_STEP_ADJ [
        /// Forwards. Nanoseconds can go no other way.
        DIR OFFSET(31) NUMBITS(1) [],
        /// Nanoseconds, or seconds: 0 to 15.
        VALUE OFFSET(0) NUMBITS(30) []
    ],
    /// A 30-bit count of nanoseconds.
    pub PTP_NS [
        /// Why a transmit time stamp was taken; 0 elsewhere.
        CAUSE OFFSET(30) NUMBITS(2) [ Autonomous = 0, Software = 1 ],
        /// Nanoseconds.
        NS OFFSET(0) NUMBITS(30) []
    ],
    /// Upper bits of 48-bit seconds. PCI11x1x.
    pub PTP_SEC_HI [
        /// Bits 47 to 32.
        SEC_47_32 OFFSET(0) NUMBITS(16) []
    ],
    /// Versions of the protocol that are recognised. PCI11x1x.
    pub PTP_VERSION [
        /// Highest, transmitter.
        TX_UP OFFSET(24) NUMBITS(8) [],
        /// Lowest, transmitter.
        TX_LO OFFSET(16) NUMBITS(8) [],
        /// Highest, receiver.
        RX_UP OFFSET(8) NUMBITS(8) [],
        /// Lowest, receiver.
        RX_LO OFFSET(0) NUMBITS(8) []
    ],
    /// Which input's captures can be read.
    pub PTP_IO_SEL [
        /// Number of the input.
        SEL OFFSET(8) NUMBITS(3) []
    ],
    /// Latencies between time stamp unit and wire, in nanoseconds.
    pub PTP_LATENCY [
        /// Transmitter.
        TX OFFSET(16) NUMBITS(16) [],
        /// Receiver.
        RX OFFSET(0) NUMBITS(16) []
    ],
    /// Buffers.
    pub PTP_CAP_INFO [
        /// Transmit time stamps that can be read: 0 to 4.
        TX_TS_CNT OFFSET(4) NUMBITS(3) []
    ],
    /// How PTP messages are told from others: the same layout for both directions.
    pub PTP_PARSE_CONFIG [
        /// IPv6 routing headers are followed. Receiver.
        ROUTING OFFSET(17) NUMBITS(1) [],
        /// MAC and IP address have to belong together.
        CONSISTENCY OFFSET(16) NUMBITS(1) [],
        /// Peer and other messages may have each other's addresses.
        MIXING OFFSET(15) NUMBITS(1) [],
        /// 01:80:c2:00:00:0e.
        LAYER2_ADD1_EN OFFSET(14) NUMBITS(1) [],
        /// 01:1b:19:00:00:00.
        LAYER2_ADD2_EN OFFSET(13) NUMBITS(1) [],
        /// 224.0.1.129 and its like.
        ADD1_EN OFFSET(12) NUMBITS(1) [],
        /// 224.0.1.130 and its like.
        ADD2_EN OFFSET(11) NUMBITS(1) [],
        /// 224.0.1.131 and its like.
        ADD3_EN OFFSET(10) NUMBITS(1) [],
        /// 224.0.1.132 and its like.
        ADD4_EN OFFSET(9) NUMBITS(1) [],
        /// 224.0.0.107 and its like.
        ADD5_EN OFFSET(8) NUMBITS(1) [],
        /// An own MAC address, in layer 2.
        LAYER2_USER_MAC_EN OFFSET(7) NUMBITS(1) [],
        /// An own MAC address, with IPv6.
        IPV6_USER_MAC_EN OFFSET(6) NUMBITS(1) [],
        /// An own MAC address, with IPv4.
        IPV4_USER_MAC_EN OFFSET(5) NUMBITS(1) [],
        /// IP addresses are looked at.
        IP_ADDR_EN OFFSET(4) NUMBITS(1) [],
        /// MAC addresses are looked at.
        MAC_ADDR_EN OFFSET(3) NUMBITS(1) [],
        /// Messages in Ethernet frames.
        LAYER2_EN OFFSET(2) NUMBITS(1) [],
        /// Messages in UDP over IPv6.
        IPV6_EN OFFSET(1) NUMBITS(1) [],
        /// Messages in UDP over IPv4.
        IPV4_EN OFFSET(0) NUMBITS(1) []
    ],
    /// Which PTP messages get a time stamp: the same layout for both directions.
    pub PTP_TS_CFG [
        /// Domain.
        DOMAIN OFFSET(24) NUMBITS(8) [],
        /// Only this domain.
        DOMAIN_EN OFFSET(23) NUMBITS(1) [],
        /// Only without the alternate master flag.
        ALT_MASTER_EN OFFSET(22) NUMBITS(1) [],
        /// Also with a wrong UDP checksum. Receiver.
        UDP_CHKSUM_DIS OFFSET(21) NUMBITS(1) [],
        /// Also with a wrong frame check sequence. Receiver.
        FCS_DIS OFFSET(20) NUMBITS(1) [],
        /// Version; 0: any.
        VERSION OFFSET(16) NUMBITS(4) [],
        /// Message types, a bit each.
        MESSAGES OFFSET(0) NUMBITS(16) [],
        /// Of these the event messages: Sync, Delay_Req, Pdelay_Req, Pdelay_Resp.
        EVENT_MSGS OFFSET(0) NUMBITS(4) []
    ],
    /// Changes to frames that are sent.
    pub PTP_TX_MOD [
        /// Writes the time into Sync messages.
        SYNC_TS_INSERT OFFSET(28) NUMBITS(1) [],
        /// Where in a frame a time that software asked for is put, in bytes.
        SW_TS_INS_OFFSET OFFSET(0) NUMBITS(13) []
    ],
    /// Further changes to frames that are sent. Not to be changed while the unit is enabled.
    pub PTP_TX_MOD2 [
        /// Clears the UDP checksum over IPv4 of messages into which a time is written.
        CLR_UDPV4_CHKSUM OFFSET(0) NUMBITS(1) []
    ],
    /// Header of a captured message.
    pub PTP_MSG_HEADER [
        /// CRC of the source port identity.
        SRC_PRT_CRC OFFSET(20) NUMBITS(12) [],
        /// Message type.
        MSG_TYPE OFFSET(16) NUMBITS(4) [],
        /// Sequence number.
        SEQ_ID OFFSET(0) NUMBITS(16) []
    ],
    /// Of the oldest transmit time stamp. PCI11x1x.
    pub PTP_TX_CAP_INFO [
        /// Transmit channel.
        TX_CH OFFSET(0) NUMBITS(2) []
    ],
    /// Range of domains or SdoIds of the transmitter. PCI11x1x.
    pub PTP_TX_RANGE [
        /// First.
        FIRST OFFSET(16) NUMBITS(8) [],
        /// It is a range.
        RANGE_EN OFFSET(15) NUMBITS(1) [],
        /// Last.
        LAST OFFSET(0) NUMBITS(8) []
    ],
    /// Captures of edges, a bit an input in each field.
    pub PTP_IO_CAP_CONFIG [
        /// A falling edge is kept until its interrupt is cleared.
        LOCK_FE OFFSET(24) NUMBITS(8) [],
        /// A rising edge is kept until its interrupt is cleared.
        LOCK_RE OFFSET(16) NUMBITS(8) [],
        /// Captures falling edges.
        FE_CAP_EN OFFSET(8) NUMBITS(8) [],
        /// Captures rising edges.
        RE_CAP_EN OFFSET(0) NUMBITS(8) []
    ],
    /// Outputs of the event channels, a bit a pin. PCI11x1x.
    pub PTP_IO_EVENT_OUTPUT_CFG [
        /// Channel B instead of A.
        SEL OFFSET(16) NUMBITS(16) [],
        /// Enable.
        EN OFFSET(0) NUMBITS(16) []
    ],
    /// Pins, a bit each. PCI11x1x.
    pub PTP_IO_PIN_CFG [
        /// Push-pull instead of open drain.
        OBUF_TYPE OFFSET(0) NUMBITS(16) []
    ],
    /// GPIO direction and data of LAN743x, a bit a pin in each field.
    pub GPIO_CFG0 [
        /// Output.
        DIR OFFSET(16) NUMBITS(12) [],
        /// Level.
        DATA OFFSET(0) NUMBITS(12) []
    ],
    /// GPIO function and driver of LAN743x.
    pub GPIO_CFG1 [
        /// The pin is **not** a GPIO.
        GPIOEN OFFSET(16) NUMBITS(12) [],
        /// Push-pull instead of open drain.
        GPIOBUF OFFSET(0) NUMBITS(12) []
    ],
    /// GPIO polarity of LAN743x.
    pub GPIO_CFG2 [
        /// A pulse of an event channel is high.
        POL_1588 OFFSET(0) NUMBITS(12) []
    ],
    /// GPIO as outputs of the event channels of LAN743x.
    pub GPIO_CFG3 [
        /// Channel B instead of A.
        CH_SEL_1588 OFFSET(16) NUMBITS(12) [],
        /// Enable.
        OE_1588 OFFSET(0) NUMBITS(12) []
    ]
];

register_structs! {
    /// The block, from 0xa00 on.
    pub Ptp {
        (0x000 => pub cmd_ctl: ReadWrite<u32, PTP_CMD_CTL::Register>),
        (0x004 => pub general_config: ReadWrite<u32>),
        (0x008 => pub int_sts: W1c<u32, PTP_INT::Register>),
        (0x00c => pub int_en_set: ReadWrite<u32, PTP_INT::Register>),
        (0x010 => pub int_en_clr: WriteOnly<u32, PTP_INT::Register>),
        (0x014 => pub clock_sec: ReadWrite<u32>),
        (0x018 => pub clock_ns: ReadWrite<u32, PTP_NS::Register>),
        (0x01c => pub clock_subns: ReadWrite<u32>),
        (0x020 => pub clock_rate_adj: ReadWrite<u32, PTP_CLOCK_RATE_ADJ::Register>),
        (0x024 => pub clock_temp_rate_adj: ReadWrite<u32, PTP_CLOCK_RATE_ADJ::Register>),
        (0x028 => pub clock_temp_rate_duration: ReadWrite<u32>),
        (0x02c => pub clock_step_adj: ReadWrite<u32, PTP_CLOCK_STEP_ADJ::Register>),
        (0x030 => _targets),
        (0x050 => pub ltc_set_sec_hi: ReadWrite<u32, PTP_SEC_HI::Register>),
        (0x054 => pub version: ReadWrite<u32, PTP_VERSION::Register>),
        (0x058 => pub io_sel: ReadWrite<u32, PTP_IO_SEL::Register>),
        (0x05c => pub latency: ReadWrite<u32, PTP_LATENCY::Register>),
        (0x060 => pub cap_info: ReadOnly<u32, PTP_CAP_INFO::Register>),
        (0x064 => pub rx_parse_config: ReadWrite<u32, PTP_PARSE_CONFIG::Register>),
        (0x068 => pub rx_ts_cfg: ReadWrite<u32, PTP_TS_CFG::Register>),
        (0x06c => _r0),
        (0x078 => pub rx_ingress_sec: ReadOnly<u32>),
        (0x07c => pub rx_ingress_ns: ReadOnly<u32, PTP_NS::Register>),
        (0x080 => pub rx_msg_header: ReadOnly<u32, PTP_MSG_HEADER::Register>),
        (0x084 => _r1),
        (0x09c => pub tx_parse_config: ReadWrite<u32, PTP_PARSE_CONFIG::Register>),
        (0x0a0 => pub tx_ts_cfg: ReadWrite<u32, PTP_TS_CFG::Register>),
        (0x0a4 => pub tx_mod: ReadWrite<u32, PTP_TX_MOD::Register>),
        (0x0a8 => pub tx_mod2: ReadWrite<u32, PTP_TX_MOD2::Register>),
        (0x0ac => pub tx_egress_sec: ReadOnly<u32>),
        (0x0b0 => pub tx_egress_ns: ReadOnly<u32, PTP_NS::Register>),
        (0x0b4 => pub tx_msg_header: ReadOnly<u32, PTP_MSG_HEADER::Register>),
        (0x0b8 => pub tx_cap_info: ReadOnly<u32, PTP_TX_CAP_INFO::Register>),
        (0x0bc => pub tx_domain: ReadWrite<u32, PTP_TX_RANGE::Register>),
        // LAN743x: the upper 16 bits of the seconds that go into Sync messages. PCI11x1x: SdoIds.
        (0x0c0 => pub tx_one_step_sync_sec: ReadWrite<u32>),
        (0x0c4 => pub io_cap_config: ReadWrite<u32, PTP_IO_CAP_CONFIG::Register>),
        (0x0c8 => pub io_re_ltc_sec_cap: ReadOnly<u32>),
        (0x0cc => pub io_re_ltc_ns_cap: ReadOnly<u32, PTP_NS::Register>),
        (0x0d0 => pub io_fe_ltc_sec_cap: ReadOnly<u32>),
        (0x0d4 => pub io_fe_ltc_ns_cap: ReadOnly<u32, PTP_NS::Register>),
        (0x0d8 => pub io_event_output_cfg: ReadWrite<u32, PTP_IO_EVENT_OUTPUT_CFG::Register>),
        (0x0dc => pub io_pin_cfg: ReadWrite<u32, PTP_IO_PIN_CFG::Register>),
        (0x0e0 => _r2),
        (0x0f0 => pub ltc_rd_sec_hi: ReadOnly<u32, PTP_SEC_HI::Register>),
        (0x0f4 => pub ltc_rd_sec_lo: ReadOnly<u32>),
        (0x0f8 => pub ltc_rd_ns: ReadOnly<u32, PTP_NS::Register>),
        (0x0fc => pub ltc_rd_subns: ReadOnly<u32>),
        (0x100 => @END),
    }
}

register_structs! {
    /// When an event channel acts: from 0xa30 on, every 0x10. Both words of a pair have to be written for
    /// either to count.
    pub Target {
        (0x000 => pub sec: ReadWrite<u32>),
        (0x004 => pub ns: ReadWrite<u32, PTP_NS::Register>),
        (0x008 => pub reload_sec: ReadWrite<u32>),
        (0x00c => pub reload_ns: ReadWrite<u32, PTP_NS::Register>),
        (0x010 => @END),
    }
}

register_structs! {
    /// Addresses of one's own by which PTP messages are known: receiver 0xb00, transmitter 0xb40.
    /// PCI11x1x.
    pub User {
        (0x000 => pub mac_hi: ReadWrite<u32>),
        (0x004 => pub mac_lo: ReadWrite<u32>),
        (0x008 => _r0),
        (0x020 => pub ip_addr: [ReadWrite<u32>; 4]),
        (0x030 => pub ip_mask: [ReadWrite<u32>; 4]),
        (0x040 => @END),
    }
}

register_structs! {
    /// GPIOs of LAN743x, from 0x50 on.
    pub Gpio {
        (0x000 => pub cfg0: ReadWrite<u32, GPIO_CFG0::Register>),
        (0x004 => pub cfg1: ReadWrite<u32, GPIO_CFG1::Register>),
        (0x008 => pub cfg2: ReadWrite<u32, GPIO_CFG2::Register>),
        (0x00c => pub cfg3: ReadWrite<u32, GPIO_CFG3::Register>),
        (0x010 => @END),
    }
}

/// Offset of [`Ptp`].
pub const PTP: usize = 0xa00;
/// Offset of the first [`Target`].
pub const TARGETS: usize = 0xa30;
/// Bytes from one target to the next.
pub const TARGET_STRIDE: usize = 0x10;
/// Offset of [`User`] for the receiver.
pub const RX_USER: usize = 0xb00;
/// Offset of [`User`] for the transmitter.
pub const TX_USER: usize = 0xb40;
/// Offset of [`Gpio`].
pub const GPIO: usize = 0x50;
/// The lowest of the four bits of `HW_CFG` that give LAN7430's pins to its LEDs.
pub const LED0_ENABLE: u32 = 20;

//! The registers of the 1588 unit.

use super::{Ptp, TSU_ENABLE, cmd, int};

/// Offsets. Names as in AN2948, or those of Linux where only the second family has them.
pub(super) mod reg {
    pub const CMD: u64 = 0xa00;
    pub const GENERAL: u64 = 0xa04;
    pub const INT_STS: u64 = 0xa08;
    pub const INT_EN_SET: u64 = 0xa0c;
    pub const INT_EN_CLR: u64 = 0xa10;
    pub const CLOCK_SEC: u64 = 0xa14;
    pub const CLOCK_NS: u64 = 0xa18;
    pub const CLOCK_END: u64 = 0xa1f;
    pub const RATE_ADJ: u64 = 0xa20;
    pub const TEMP_RATE: u64 = 0xa24;
    pub const TEMP_DURATION: u64 = 0xa28;
    pub const STEP_ADJ: u64 = 0xa2c;
    pub const TARGET: u64 = 0xa30;
    pub const TARGET_END: u64 = 0xa4f;
    /// Second family: high seconds to load. First family: high bytes of the user's MAC address.
    pub const SET_SEC_HI: u64 = 0xa50;
    pub const USER_MAC_LO: u64 = 0xa54;
    pub const SELECT: u64 = 0xa58;
    pub const LATENCY: u64 = 0xa5c;
    pub const CAP_INFO: u64 = 0xa60;
    pub const RX_PARSE: u64 = 0xa64;
    pub const RX_TS_CFG: u64 = 0xa68;
    pub const RX_INGRESS_SEC: u64 = 0xa78;
    pub const RX_INGRESS_NS: u64 = 0xa7c;
    pub const RX_HEADER: u64 = 0xa80;
    pub const TX_PARSE: u64 = 0xa9c;
    pub const TX_TS_CFG: u64 = 0xaa0;
    pub const TX_MOD: u64 = 0xaa4;
    pub const TX_MOD2: u64 = 0xaa8;
    pub const TX_EGRESS_SEC: u64 = 0xaac;
    pub const TX_EGRESS_NS: u64 = 0xab0;
    pub const TX_HEADER: u64 = 0xab4;
    pub const HS_TX_CAP_INFO: u64 = 0xab8;
    pub const HS_TX_DOMAIN: u64 = 0xabc;
    /// First family; `TX_SDOID` in the second one.
    pub const ONE_STEP_SEC: u64 = 0xac0;
    pub const CAP_CONFIG: u64 = 0xac4;
    pub const RISING_SEC: u64 = 0xac8;
    pub const RISING_NS: u64 = 0xacc;
    pub const FALLING_SEC: u64 = 0xad0;
    pub const FALLING_NS: u64 = 0xad4;
    pub const HS_OUTPUT_CFG: u64 = 0xad8;
    pub const HS_PIN_CFG: u64 = 0xadc;
    pub const HS_LTC_RD: u64 = 0xaf0;
    pub const HS_LTC_RD_END: u64 = 0xaff;
    pub const HS_RX_USER_MAC_HI: u64 = 0xb00;
    pub const HS_TX_USER_MAC_HI: u64 = 0xb40;
}

const FIRST: u64 = 0xa00;
const WORDS: usize = 0x80;
const ALL: u32 = u32::MAX;

/// Registers that only keep what is written.
#[derive(Debug)]
pub(super) struct Store {
    second_family: bool,
    words: [u32; WORDS],
}

/// Their bits that can be written, or `None` where there is no such register.
fn writable(offset: u64, second_family: bool) -> Option<u32> {
    Some(match offset {
        reg::TEMP_RATE | reg::STEP_ADJ => 0xbfff_ffff,
        reg::TEMP_DURATION | reg::LATENCY | reg::RX_TS_CFG | reg::CAP_CONFIG | reg::USER_MAC_LO => ALL,
        reg::SET_SEC_HI => 0xffff,
        reg::SELECT => 0x700,
        reg::RX_PARSE => 0x3_ffff,
        reg::TX_PARSE => 0x1_ffff,
        reg::TX_TS_CFG => 0xffcf_ffff,
        reg::TX_MOD => 0x1000_1fff,
        reg::TX_MOD2 => 1,
        reg::ONE_STEP_SEC if !second_family => 0xffff,
        reg::ONE_STEP_SEC | reg::HS_TX_DOMAIN if second_family => 0x00ff_80ff,
        reg::HS_OUTPUT_CFG if second_family => 0x0fff_0fff,
        reg::HS_PIN_CFG if second_family => 0x0fff,
        reg::HS_RX_USER_MAC_HI | reg::HS_TX_USER_MAC_HI if second_family => 0xffff,
        0xb04 | 0xb20..=0xb3c | 0xb44 | 0xb60..=0xb7c if second_family => ALL,
        _ => return None,
    })
}

impl Store {
    pub fn new(second_family: bool) -> Self {
        let mut store = Self { second_family, words: [0; WORDS] };
        let defaults = [
            (reg::RX_PARSE, 0x711f),
            (reg::TX_PARSE, 0x711f),
            (reg::RX_TS_CFG, 2 << 16),
            (reg::TX_TS_CFG, 2 << 16),
            (reg::CAP_CONFIG, 0xffff_0000),
        ];
        for (offset, value) in defaults {
            store.write(offset, value);
        }
        store
    }

    fn index(&self, offset: u64) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(FIRST)? / 4).ok()?;
        (offset & 3 == 0 && index < WORDS && writable(offset, self.second_family).is_some()).then_some(index)
    }

    pub fn read(&self, offset: u64) -> Option<u32> {
        self.index(offset).map(|index| self.words[index])
    }

    pub fn get(&self, offset: u64) -> u32 {
        self.read(offset).unwrap_or(0)
    }

    pub fn write(&mut self, offset: u64, value: u32) -> bool {
        let Some(index) = self.index(offset) else { return false };
        self.words[index] = value & writable(offset, self.second_family).unwrap_or(0);
        true
    }

    /// The address that software can add: one for both directions in the first family.
    pub fn user_mac(&self, tx: bool) -> [u8; 6] {
        let high = match (self.second_family, tx) {
            (false, _) => reg::SET_SEC_HI,
            (true, false) => reg::HS_RX_USER_MAC_HI,
            (true, true) => reg::HS_TX_USER_MAC_HI,
        };
        let ([_, _, a, b], [c, d, e, f]) = (self.get(high).to_be_bytes(), self.get(high + 4).to_be_bytes());
        [a, b, c, d, e, f]
    }
}

impl Ptp {
    /// `None`: there is no such register.
    pub fn read(&mut self, offset: u64, now: u64) -> Option<u32> {
        self.catch_up(now);
        Some(match offset {
            reg::CMD => self.read_command(now),
            reg::GENERAL => self.general,
            reg::INT_STS => self.int_sts,
            reg::INT_EN_SET | reg::INT_EN_CLR => self.int_en,
            reg::CLOCK_SEC..=reg::CLOCK_END => self.set[word(offset, reg::CLOCK_SEC)],
            reg::RATE_ADJ => self.clock.rate(),
            reg::TARGET..=reg::TARGET_END => {
                let index = word(offset, reg::TARGET);
                self.targets[index >> 2 & 1].read(index & 3)
            }
            reg::CAP_INFO => (self.fifo.len() as u32) << 4,
            reg::HS_LTC_RD..=reg::HS_LTC_RD_END if self.second_family => {
                self.latched[word(offset, reg::HS_LTC_RD)]
            }
            _ => return self.read_capture(offset).or_else(|| self.store.read(offset)),
        })
    }

    fn read_capture(&self, offset: u64) -> Option<u32> {
        let front = self.fifo.front();
        let input = self.store.get(reg::SELECT) >> 8 & 7;
        let (rising, falling) = (self.inputs.get(input, true), self.inputs.get(input, false));
        Some(match offset {
            reg::TX_EGRESS_SEC => front.seconds,
            reg::TX_EGRESS_NS => front.nanoseconds,
            reg::TX_HEADER => front.header,
            reg::HS_TX_CAP_INFO if self.second_family => u32::from(front.channel & 3),
            reg::RX_INGRESS_SEC => self.ingress.seconds,
            reg::RX_INGRESS_NS => self.ingress.nanoseconds,
            reg::RX_HEADER => self.ingress.header,
            reg::RISING_SEC => rising.0,
            reg::RISING_NS => rising.1,
            reg::FALLING_SEC => falling.0,
            reg::FALLING_NS => falling.1,
            _ => return None,
        })
    }

    fn read_command(&self, now: u64) -> u32 {
        let bits = self.busy_until.iter().enumerate();
        let busy = bits.fold(0, |word, (bit, until)| word | u32::from(now < *until) << bit);
        busy & cmd::ALL | self.select | if self.is_enabled(now) { cmd::ENABLE } else { 0 }
    }

    /// False: there is no such register. `done`: when a command that begins now is over.
    pub fn write(&mut self, offset: u64, value: u32, now: u64, done: u64) -> bool {
        self.catch_up(now);
        match offset {
            reg::CMD => self.command(value, now, done),
            reg::GENERAL if self.second_family => self.general = value & 0x0fff,
            reg::GENERAL => self.general = value & (TSU_ENABLE | 0x031f_1fff),
            reg::INT_STS => self.acknowledge(value),
            reg::INT_EN_SET => self.int_en |= value & self.interrupts(),
            reg::INT_EN_CLR => self.int_en &= !value,
            reg::CLOCK_SEC..=reg::CLOCK_END => {
                let field = if offset & !3 == reg::CLOCK_NS { 0x3fff_ffff } else { ALL };
                self.set[word(offset, reg::CLOCK_SEC)] = value & field;
            }
            reg::RATE_ADJ => self.clock.set_rate(value, now),
            reg::TARGET..=reg::TARGET_END => {
                let index = word(offset, reg::TARGET);
                self.targets[index >> 2 & 1].write(index & 3, value);
            }
            reg::CAP_INFO => {}
            reg::HS_LTC_RD..=reg::HS_LTC_RD_END if self.second_family => {}
            _ if self.read_capture(offset).is_some() => {}
            _ => return self.store.write(offset, value),
        }
        self.catch_up(now);
        true
    }

    fn interrupts(&self) -> u32 {
        if self.second_family { int::SECOND } else { int::FIRST }
    }

    /// Ones clear status bits; that of the time stamps also takes the oldest away, and stays while there
    /// are more.
    fn acknowledge(&mut self, value: u32) {
        self.int_sts &= !value;
        if value & int::TX_TS != 0 {
            self.fifo.pop();
        }
        if self.fifo.len() != 0 {
            self.int_sts |= int::TX_TS;
        }
    }

    fn command(&mut self, value: u32, now: u64, done: u64) {
        let free = |until: &u64| *until <= now || *until == u64::MAX;
        let bits = self.busy_until.iter().enumerate().filter(|(_, until)| free(until));
        let begins = value & cmd::ALL & bits.fold(0, |word, (bit, _)| word | 1 << bit);
        if begins >> cmd::RESET & 1 != 0 {
            let (line_delays, pulses, alarm) = (self.line_delays, self.pulses, self.alarm);
            *self = Self { line_delays, pulses, alarm, ..Self::new(self.second_family) };
        }
        self.select = value & cmd::SELECT;
        for bit in (0..14).filter(|bit| begins >> bit & 1 != 0) {
            self.busy_until[bit as usize] = done;
            self.carry_out(bit, now, done);
        }
        if value & cmd::ENABLE != 0 {
            (self.enabled, self.disable_at) = (true, None);
            self.clock.start(now);
        }
    }

    fn carry_out(&mut self, bit: u32, now: u64, done: u64) {
        let step = self.store.get(reg::STEP_ADJ);
        match bit {
            cmd::DISABLE if self.enabled => self.disable_at = Some(done),
            cmd::READ => self.latch(now),
            cmd::LOAD => {
                let high = if self.second_family { self.store.get(reg::SET_SEC_HI) } else { 0 };
                let seconds = u64::from(high) << 32 | u64::from(self.set[0]);
                self.clock.load(seconds, self.set[1], self.set[2], now);
            }
            cmd::STEP_SEC => self.clock.step_seconds(step, now),
            cmd::STEP_NS => self.clock.step_nanoseconds(step, now),
            cmd::TEMPORARY => {
                let ticks = self.store.get(reg::TEMP_DURATION);
                self.clock.set_temporary(self.store.get(reg::TEMP_RATE), ticks, now);
            }
            cmd::CAPTURE => {
                let set = self.select >> 9;
                self.capture_input(set & 7, set & 8 == 0, now);
            }
            cmd::TARGET_READ => self.targets.iter_mut().for_each(|target| target.latch()),
            _ => {}
        }
    }

    /// The result of a clock read: each family has its own registers for it.
    fn latch(&mut self, now: u64) {
        let time = self.time(now);
        let (seconds, nanoseconds) = (time.seconds(), time.nanoseconds());
        if self.second_family {
            self.latched = [(seconds >> 32) as u32, seconds as u32, nanoseconds, time.sub];
        } else {
            self.set = [seconds as u32, nanoseconds, time.sub];
        }
    }
}

/// Index of a 32-bit register in its group.
fn word(offset: u64, first: u64) -> usize {
    (offset.saturating_sub(first) / 4) as usize
}

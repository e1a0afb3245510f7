//! The PCS of the second family: `SGMII_ACC`, `SGMII_DATA`, `SGMII_CTL`, and the registers behind them.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_sgmii_*`, `lan743x_pcs_*`, `lan743x_phylink_*_config`) and
//! `lan743x_main.h`; IEEE 802.3 clauses 22 and 37 for the standard registers. There is no public data sheet.
//!
//! How to use it. All times are the model's nanoseconds; ends are handed in, `u64::MAX` for never.
//! [`Pcs::set_line`] says what the SGMII partner has, [`Pcs::link`] what the MAC gets of it.
//!
//! Decisions. What is read is in the data register when the transaction is over; writes while one is under
//! way have no effect. The power sequence shows states 0 to 3 on its way up and ends in 4; on its way down it
//! shows 4 and ends in 6, the two that Linux waits for. It begins when the power-down bit of register 0
//! changes, and with a reset. After power-on it is up. There is a link when `SGMII_CTL` enables the PCS and
//! does not power it down, the sequence is at 4, and (only if asked to be strict) the MPLL makes the rate of
//! the line: 3.125 GBd for 2500 Mbit/s, else 1.25 GBd. Registers that nobody is known to interpret keep what
//! is written, up to 4096 of them. The mode of `AN_CTRL` is SGMII after reset, as the driver never sets it.
//! Clause 37 takes no time.

mod glue;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

const ACC: u64 = 0x720;
const DATA: u64 = 0x724;
const CTL: u64 = 0x728;

const BUSY: u32 = 1 << 31;
const WRITE: u32 = 1 << 30;
const ACCESS: u32 = WRITE | 0x001f_ffff;

const CTL_ENABLE: u32 = 1 << 31;
const CTL_POWER_DOWN: u32 = 1 << 1;
/// Bit 8 says whose link status counts: it is only kept.
const CTL_KEPT: u32 = CTL_ENABLE | CTL_POWER_DOWN | 1 << 8;

/// Devices and registers.
const VEND1: u8 = 30;
const VEND2: u8 = 31;
const CONTROL: (u8, u16) = (VEND2, 0);
const STATUS: (u8, u16) = (VEND2, 1);
const PARTNER: (u8, u16) = (VEND2, 5);
const DIG_CTRL1: (u8, u16) = (VEND2, 0x8000);
const AN_INTR_STS: (u8, u16) = (VEND2, 0x8002);
const DIG_STS: (u8, u16) = (VEND2, 0x8010);
const MPLL_CTRL1: (u8, u16) = (VEND2, 0x8079);
const MPLL_STS: (u8, u16) = (VEND2, 0x8088);
const MISC_CTRL1: (u8, u16) = (VEND2, 0x809a);

const RESET: u16 = 0x8000;
const LOOPBACK: u16 = 0x4000;
const NEGOTIATE: u16 = 0x1000;
const POWER_DOWN: u16 = 0x0800;
const RESTART: u16 = 0x0200;

const STATE_UP: u16 = 4;
const STATE_DOWN: u16 = 6;
/// Registers that are kept at most.
const MOST: usize = 4096;

/// Registers that are not 0 after reset. Identities are those of the DesignWare PCS; multiplier and dividers
/// those that the driver sets for 1.25 GBd.
const DEFAULTS: [((u8, u16), u16); 12] = [
    ((VEND1, 4), 0x7996),
    ((VEND1, 5), 0xced0),
    (CONTROL, 0x1140),
    ((VEND2, 2), 0x7996),
    ((VEND2, 3), 0xced0),
    ((VEND2, 4), 0x0020),
    ((VEND2, 15), 0xc000),
    (DIG_CTRL1, 0x2200),
    ((VEND2, 0x8001), 0x0004),
    ((VEND2, 0x8078), 0x0010),
    (MPLL_CTRL1, 100),
    (MISC_CTRL1, 0x000a),
];

/// Speed in Mbit/s and duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub speed: u32,
    pub full: bool,
}

/// The power sequence: where it goes, and when it began and will be over.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    down: bool,
    began: u64,
    end: u64,
}

impl Sequence {
    fn state(self, now: u64) -> u16 {
        match (self.down, now >= self.end) {
            (false, true) => STATE_UP,
            (true, true) => STATE_DOWN,
            (true, false) => STATE_UP,
            (false, false) => {
                let quarter = (self.end - self.began) / 4;
                now.saturating_sub(self.began).checked_div(quarter).map_or(0, |state| state.min(3) as u16)
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Pcs {
    strict: bool,
    access: u32,
    data: u16,
    busy_until: u64,
    /// What the transaction under way brings.
    result: Option<u16>,
    control: u32,
    registers: BTreeMap<(u8, u16), u16>,
    sequence: Sequence,
    line: Option<Line>,
}

impl Pcs {
    /// The PCS as after power-on. `strict`: the MPLL must fit the line.
    pub fn new(strict: bool) -> Self {
        Self {
            strict,
            access: 0,
            data: 0,
            busy_until: 0,
            result: None,
            control: 0,
            registers: DEFAULTS.into_iter().collect(),
            sequence: Sequence::default(),
            line: None,
        }
    }

    /// What the partner has: `None` without a link there.
    pub fn set_line(&mut self, line: Option<Line>) {
        self.line = line;
    }

    /// What the MAC has.
    pub fn link(&self, now: u64) -> Option<Line> {
        let line = self.line?;
        let enabled = self.control & (CTL_ENABLE | CTL_POWER_DOWN) == CTL_ENABLE;
        let fits = !self.strict || self.fast() == Some(line.speed > 1000);
        (enabled && self.is_powered(now) && fits).then_some(line)
    }

    /// Whether the power sequence has come to its upper end.
    pub fn is_powered(&self, now: u64) -> bool {
        !self.sequence.down && self.sequence.state(now) == STATE_UP
    }

    /// What is sent comes back.
    pub fn loops_back(&self) -> bool {
        self.stored(CONTROL) & LOOPBACK != 0
    }

    /// Whether the MPLL makes 3.125 GBd, or 1.25; `None` for any other rate.
    fn fast(&self) -> Option<bool> {
        match (self.stored(MPLL_CTRL1) & 0x7f, self.stored(MISC_CTRL1) & 0xf) {
            (125, 0x5) => Some(true),
            (100, 0xa) => Some(false),
            _ => None,
        }
    }

    fn stored(&self, place: (u8, u16)) -> u16 {
        self.registers.get(&place).copied().unwrap_or(0)
    }

    /// `None`: there is no such register.
    pub fn read(&mut self, offset: u64, now: u64) -> Option<u32> {
        self.finish(now);
        match offset {
            ACC => Some(self.access | if now < self.busy_until { BUSY } else { 0 }),
            DATA => Some(self.data.into()),
            CTL => Some(self.control),
            _ => None,
        }
    }

    /// False: there is no such register. `done`: when a transaction that begins now is over; `power`: when
    /// a power sequence that begins now is.
    pub fn write(&mut self, offset: u64, value: u32, now: u64, done: u64, power: u64) -> bool {
        self.finish(now);
        match offset {
            CTL => self.control = value & CTL_KEPT,
            ACC | DATA if now < self.busy_until => {}
            DATA => self.data = value as u16,
            ACC => {
                self.access = value & ACCESS;
                if value & BUSY != 0 {
                    self.busy_until = done;
                    self.start(now, power);
                }
            }
            _ => return false,
        }
        true
    }

    fn finish(&mut self, now: u64) {
        if now >= self.busy_until
            && let Some(result) = self.result.take()
        {
            self.data = result;
        }
    }

    fn start(&mut self, now: u64, power: u64) {
        let place = ((self.access >> 16 & 31) as u8, self.access as u16);
        if self.access & WRITE != 0 {
            self.write_register(place, self.data, now, power);
        } else {
            self.result = Some(self.read_register(place, now));
        }
    }

    fn write_register(&mut self, place: (u8, u16), value: u16, now: u64, power: u64) {
        match place {
            CONTROL | DIG_CTRL1 if value & RESET != 0 => {
                self.registers = DEFAULTS.into_iter().collect();
                self.sequence = Sequence { down: false, began: now, end: power };
            }
            CONTROL => {
                let down = value & POWER_DOWN != 0;
                if down != self.sequence.down {
                    self.sequence = Sequence { down, began: now, end: power };
                }
                self.keep(CONTROL, value & !RESTART);
            }
            (VEND1, 2..=5 | 8) | (VEND2, 1..=3 | 5 | 6 | 15) | AN_INTR_STS | DIG_STS | MPLL_STS => {}
            _ => self.keep(place, value),
        }
    }

    fn keep(&mut self, place: (u8, u16), value: u16) {
        if self.registers.len() < MOST || self.registers.contains_key(&place) {
            self.registers.insert(place, value);
        }
    }

    fn read_register(&self, place: (u8, u16), now: u64) -> u16 {
        let link = self.link(now);
        let negotiated = self.stored(CONTROL) & NEGOTIATE != 0;
        match place {
            STATUS => {
                let done = if negotiated { 0x0020 } else { 0 };
                0x0149 | link.map_or(0, |_| 0x0004 | done)
            }
            // The partner's configuration word: link, acknowledge, duplex, speed.
            PARTNER => link
                .filter(|_| negotiated)
                .map_or(0, |line| 0xc001 | u16::from(line.full) << 12 | speed_field(line.speed) << 10),
            // Link, speed, duplex, negotiation complete.
            AN_INTR_STS => link.map_or(0, |line| {
                0x0010 | speed_field(line.speed) << 2 | u16::from(line.full) << 1 | u16::from(negotiated)
            }),
            DIG_STS => self.sequence.state(now) << 2,
            MPLL_STS => u16::from(self.is_powered(now)),
            _ => self.stored(place),
        }
    }
}

/// 0: 10, 1: 100, 2: 1000 Mbit/s and, for there is no other value, more.
fn speed_field(speed: u32) -> u16 {
    match speed {
        0..=10 => 0,
        11..=100 => 1,
        _ => 2,
    }
}

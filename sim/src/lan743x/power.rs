//! Power management and wake-up: `PMT_CTL`, `WUCSR1`, `WUCSR2`, `WK_SRC`, `MP_SO`, the wake-up filters, and
//! the addresses of ARP, NS and TCP SYN detection.
//!
//! Sources: AN2948 sections 6.1.15 to 6.1.19 and 6.1.23 to 6.1.34; `PMT_CTL`, SecureOn (second family) and
//! the bit order of the filters' CRC: Linux 7.3 `lan743x_main.[ch]` (`lan743x_pm_*`).
//!
//! How to use it. [`Power::set_asleep`] says when the function goes to D3 and comes back. Each good frame is
//! shown to [`Power::frame`], each rise of the PHY's interrupt to [`Power::phy_event`]; these say whether
//! PME is to be signalled. Registers go through `read` and `write`; `done` is when a reset of the PHY that
//! begins now is over, `u64::MAX` for never.
//!
//! Decisions. Detection works while the function is asleep, or in the test mode of `WUCSR1`, and not while
//! wake-ups are ignored. PME needs `WOL_EN` (for the PHY: `ETH_PHY_WAKE_EN`) and the host's permission, and
//! comes once for each sleep; only what causes it is noted in `WK_SRC`. In `WUCSR` all matches of the first
//! frame are noted, and then none until software has cleared them. `WUPS` is 1 for the PHY, 2 for a frame.
//! `RES_CLR_WKP`: bit 8 clears enables, 9 status, as in LAN78xx. A filter whose bytes are not all inside of
//! the frame does not match; broadcast counts as multicast. Offloads of ARP and NS note what they would
//! answer and answer nothing. GPIO and EEE do not wake. The registers of the EEE part are elsewhere.

mod detect;
mod packet;
#[cfg(test)]
mod tests;

pub(super) use super::regs::sys::PMT_CTL;
use detect::Matches;

const WUCSR1: u64 = 0x140;
const WK_SRC: u64 = 0x144;
const MP_SO_HI: u64 = 0x148;
const MP_SO_LO: u64 = 0x14c;
const WUF_CFG: u64 = 0x150;
const WUF_CFG_END: u64 = 0x1cf;
const WUF_MASK: u64 = 0x200;
const WUF_MASK_END: u64 = 0x3ff;
const WUCSR2: u64 = 0x600;
const ADDRESSES: u64 = 0x610;
const ADDRESSES_END: u64 = 0x6c7;
const FILTERS: usize = 32;
const WORDS: usize = 46;

mod pmt {
    pub const KEPT: u32 = 0x0fff_ff0c;
    pub const RES_CLR_STATUS: u32 = 1 << 9;
    pub const RES_CLR_ENABLE: u32 = 1 << 8;
    pub const READY: u32 = 1 << 7;
    pub const PHY_RESET: u32 = 1 << 4;
    pub const WOL_EN: u32 = 1 << 3;
    pub const PHY_WAKE_EN: u32 = 1 << 2;
    pub const WUPS_FRAME: u32 = 1 << 1;
    pub const WUPS_PHY: u32 = 1;
    pub const WUPS: u32 = WUPS_FRAME | WUPS_PHY;
}

/// `WUCSR1`.
mod wu {
    pub const TEST: u32 = 1 << 31;
    pub const SECURE: u32 = 1 << 21;
    pub const IGNORE: u32 = 1 << 20;
    pub const DISCARD_D0A: u32 = 1 << 15;
    pub const RFE_EN: u32 = 1 << 14;
    pub const RFE: u32 = 1 << 9;
    pub const STORE: u32 = 1 << 8;
    pub const PERFECT: u32 = 1 << 7;
    pub const FILTER: u32 = 1 << 6;
    pub const MAGIC: u32 = 1 << 5;
    pub const BROADCAST: u32 = 1 << 4;
    pub const PERFECT_EN: u32 = 1 << 3;
    pub const FILTER_EN: u32 = 1 << 2;
    pub const MAGIC_EN: u32 = 1 << 1;
    pub const BROADCAST_EN: u32 = 1;
    /// Those that a wake-up clears: RFE, EEE in both directions, the four above.
    pub const ENABLES: u32 = 0x540f;
    /// The same without those of EEE, which never happen.
    pub const FRAME_STATUS: u32 = RFE | PERFECT | FILTER | MAGIC | BROADCAST;
    pub const STATUS: u32 = FRAME_STATUS | 1 << 13 | 1 << 11;
    pub const KEPT: u32 = TEST | 0x001f_0000 | DISCARD_D0A | ENABLES | STORE;
}

/// `WUCSR2`.
mod wu2 {
    pub const NO_CHECKSUM: u32 = 1 << 31;
    pub const NS: u32 = 1 << 7;
    pub const ARP: u32 = 1 << 6;
    pub const SYN6: u32 = 1 << 5;
    pub const SYN4: u32 = 1 << 4;
    pub const NS_EN: u32 = 1 << 3;
    pub const ARP_EN: u32 = 1 << 2;
    pub const SYN6_EN: u32 = 1 << 1;
    pub const SYN4_EN: u32 = 1;
    pub const SYN: u32 = SYN6 | SYN4;
    pub const STATUS: u32 = NS | ARP | SYN;
    pub const KEPT: u32 = 0xc000_070f;
}

/// `WK_SRC`.
mod src {
    pub const PHY: u32 = 1 << 17;
    pub const SYN6: u32 = 1 << 16;
    pub const SYN4: u32 = 1 << 15;
    pub const RFE: u32 = 1 << 12;
    pub const PERFECT: u32 = 1 << 11;
    pub const MAGIC: u32 = 1 << 10;
    pub const BROADCAST: u32 = 1 << 9;
    pub const FILTER: u32 = 1 << 8;
    pub const SAVED: u32 = 1 << 7;
    pub const CHANNEL: u32 = 3 << 5;
    pub const NUMBER: u32 = 0x1f;
    pub const CLEARED_BY_ONES: u32 = 0xfff3_ff80;
}

/// What a write asks of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// The PHY is to be reset.
    pub phy_reset: bool,
}

/// What a received frame does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// Signal PME.
    pub pme: bool,
    /// It goes no further: not into a FIFO.
    pub discard: bool,
}

/// What the receive path knows of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    /// The frame without its check sequence, which was right.
    pub bytes: &'a [u8],
    /// The MAC's own address (`RX_ADDRH`, `RX_ADDRL`).
    pub mac: [u8; 6],
    /// The receive filter takes it.
    pub passes_filter: bool,
}

#[derive(Debug)]
pub(super) struct Power {
    second_family: bool,
    pmt: u32,
    phy_reset_until: u64,
    wucsr1: u32,
    wucsr2: u32,
    source: u32,
    /// SecureOn password, high and low word.
    password: [u32; 2],
    filters: [u32; FILTERS],
    masks: [[u32; 4]; FILTERS],
    /// Addresses from 0x610 on.
    addresses: [u32; WORDS],
    asleep: bool,
    woken: bool,
    ignore_until: u64,
}

fn word(offset: u64, first: u64) -> usize {
    (offset.saturating_sub(first) / 4) as usize
}

impl Power {
    pub fn new(second_family: bool) -> Self {
        Self {
            second_family,
            pmt: 0,
            phy_reset_until: 0,
            wucsr1: 0,
            wucsr2: 0,
            source: 0,
            password: [0; 2],
            filters: [0; FILTERS],
            masks: [[0; 4]; FILTERS],
            addresses: [0; WORDS],
            asleep: false,
            woken: false,
            ignore_until: 0,
        }
    }

    /// A reset. `protected` (`HW_CFG.RST_PROTECT`): enables, the first filter and the TCP SYN registers stay.
    pub fn reset(&mut self, protected: bool) {
        let old = std::mem::replace(self, Self::new(self.second_family));
        (self.asleep, self.woken, self.ignore_until) = (old.asleep, old.woken, old.ignore_until);
        if !protected {
            return;
        }
        self.wucsr1 = old.wucsr1 & (wu::TEST | wu::ENABLES);
        self.wucsr2 = old.wucsr2 & (wu2::NO_CHECKSUM | 1 << 30 | wu2::SYN6_EN | wu2::SYN4_EN);
        (self.filters[0], self.masks[0]) = (old.filters[0], old.masks[0]);
        let syn = word(0x690, ADDRESSES)..word(0x6c0, ADDRESSES);
        self.addresses[syn.clone()].copy_from_slice(&old.addresses[syn]);
    }

    /// The function goes to D3, or leaves it.
    pub fn set_asleep(&mut self, asleep: bool, now: u64) {
        if self.asleep == asleep {
            return;
        }
        (self.asleep, self.woken) = (asleep, false);
        if asleep {
            self.wucsr1 &= !wu::DISCARD_D0A;
            let field = self.wucsr1 >> 16 & 0xf;
            let time = if field == 0 { 0 } else { 1_000_000 << (field - 1) };
            self.ignore_until = now.saturating_add(time);
        } else {
            self.wucsr1 &= !wu::IGNORE;
        }
    }

    /// Ignoring ends by itself, some time after the function went to sleep.
    fn catch_up(&mut self, now: u64) {
        if self.asleep && now >= self.ignore_until {
            self.wucsr1 &= !wu::IGNORE;
        }
    }

    /// `None`: there is no such register.
    pub fn read(&mut self, offset: u64, now: u64) -> Option<u32> {
        self.catch_up(now);
        Some(match offset {
            PMT_CTL if now < self.phy_reset_until => self.pmt | pmt::PHY_RESET,
            PMT_CTL => self.pmt | pmt::READY,
            WUCSR1 => self.wucsr1,
            WUCSR2 => self.wucsr2,
            WK_SRC => self.source,
            MP_SO_HI | MP_SO_LO => self.password[word(offset, MP_SO_HI) & 1],
            WUF_CFG..=WUF_CFG_END => self.filters[word(offset, WUF_CFG) & 31],
            WUF_MASK..=WUF_MASK_END => {
                let index = word(offset, WUF_MASK);
                self.masks[index >> 2 & 31][index & 3]
            }
            ADDRESSES..=ADDRESSES_END => *self.addresses.get(word(offset, ADDRESSES))?,
            _ => return None,
        })
    }

    /// `None`: there is no such register. `done`: when a reset of the PHY that begins now is over.
    pub fn write(&mut self, offset: u64, value: u32, now: u64, done: u64) -> Option<Written> {
        self.catch_up(now);
        match offset {
            PMT_CTL => return Some(self.write_pmt(value, done)),
            WUCSR1 => {
                let secure = if self.second_family { wu::SECURE } else { 0 };
                self.wucsr1 = value & (wu::KEPT | secure) | self.wucsr1 & wu::STATUS & !value;
            }
            WUCSR2 => self.wucsr2 = value & wu2::KEPT | self.wucsr2 & wu2::STATUS & !value,
            WK_SRC => self.source &= !(value & src::CLEARED_BY_ONES),
            MP_SO_HI => self.password[0] = value & 0xffff,
            MP_SO_LO => self.password[1] = value,
            WUF_CFG..=WUF_CFG_END => self.filters[word(offset, WUF_CFG) & 31] = value & 0x83ff_ffff,
            WUF_MASK..=WUF_MASK_END => {
                let index = word(offset, WUF_MASK);
                self.masks[index >> 2 & 31][index & 3] = value;
            }
            ADDRESSES..=ADDRESSES_END => *self.addresses.get_mut(word(offset, ADDRESSES))? = value,
            _ => return None,
        }
        Some(Written::default())
    }

    fn write_pmt(&mut self, value: u32, done: u64) -> Written {
        self.pmt = value & pmt::KEPT | self.pmt & pmt::WUPS & !value;
        let phy_reset = value & pmt::PHY_RESET != 0;
        if phy_reset {
            self.phy_reset_until = done;
        }
        Written { phy_reset }
    }

    /// A good frame came. `pme`: the host lets the function signal PME.
    pub fn frame(&mut self, seen: Seen, pme: bool, now: u64) -> Wake {
        self.catch_up(now);
        let ignored = self.wucsr1 & wu::IGNORE != 0;
        let matches = if self.asleep && !ignored || self.wucsr1 & wu::TEST != 0 {
            self.matches(seen)
        } else {
            Matches::default()
        };
        self.note(matches);
        let was_woken = self.woken;
        let wakes = matches.wakes() && self.pmt & pmt::WOL_EN != 0 && self.may_wake(pme);
        if wakes {
            self.source = self.source & !src::NUMBER | matches.source();
            self.wake(pmt::WUPS_FRAME);
        }
        let stores = if self.asleep {
            was_woken || wakes && self.wucsr1 & wu::STORE != 0
        } else {
            self.wucsr1 & wu::DISCARD_D0A == 0
        };
        Wake { pme: wakes, discard: !stores }
    }

    /// Status bits of a frame: those of frames that wake exclude each other.
    fn note(&mut self, matches: Matches) {
        if self.wucsr1 & wu::FRAME_STATUS == 0 && self.wucsr2 & wu2::SYN == 0 {
            self.wucsr1 |= matches.wucsr1;
            self.wucsr2 |= matches.wucsr2 & wu2::SYN;
        }
        self.wucsr2 |= matches.wucsr2 & !wu2::SYN;
    }

    fn may_wake(&self, pme: bool) -> bool {
        pme && self.asleep && !self.woken
    }

    /// PME is signalled.
    fn wake(&mut self, cause: u32) {
        self.woken = true;
        self.pmt |= cause;
        if self.pmt & pmt::RES_CLR_ENABLE != 0 {
            self.wucsr1 &= !wu::ENABLES;
            self.wucsr2 &= !(wu2::SYN6_EN | wu2::SYN4_EN);
        }
        if self.pmt & pmt::RES_CLR_STATUS != 0 {
            self.wucsr1 &= !wu::STATUS;
            self.wucsr2 &= !wu2::SYN;
        }
    }

    /// The PHY's interrupt rose: whether PME is to be signalled.
    pub fn phy_event(&mut self, pme: bool, now: u64) -> bool {
        self.catch_up(now);
        let wakes = self.pmt & pmt::PHY_WAKE_EN != 0 && self.wucsr1 & wu::IGNORE == 0 && self.may_wake(pme);
        if wakes {
            self.source |= src::PHY;
            self.wake(pmt::WUPS_PHY);
        }
        wakes
    }

    /// The frame that woke is in the FIFO of this channel.
    pub fn saved(&mut self, channel: usize) {
        if self.source & src::SAVED == 0 {
            self.source = self.source & !src::CHANNEL | src::SAVED | (channel as u32 & 3) << 5;
        }
    }
}

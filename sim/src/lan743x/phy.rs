//! The PHY: the one inside of LAN7430, or an external gigabit PHY.
//!
//! Sources: IEEE 802.3 clauses 22, 28, 40, 45 and annex 28B; for the one inside Linux 7.3 `microchip.c` and
//! `microchipphy.h` (LAN88xx).
//!
//! How to use it. All times are the model's nanoseconds. [`Phy::set_link`] says whether there is a cable,
//! [`Phy::set_partner`] what is at its end; [`Phy::link`] is what frames go through. A link comes up
//! `negotiation_ns` after whatever made it begin, and goes down at once. [`Phy::next_event`] says when it
//! will come up; that, and each access, may move [`Phy::interrupt`].
//!
//! Decisions. No document names the PHY of LAN7430. It is taken to be a LAN88xx, identity 0007c132h, which
//! is what the driver of that maker's gigabit PHYs takes; the interrupt registers are that one's (25 and
//! 26), not those of the Micrel kind at 27. An external PHY has an identity of nobody's, so that generic
//! code drives it, and no interrupt. Registers 16 to 30 are paged, those below are on each page. A register
//! that carries a DSP value (page 52b5h) is written at once. In loopback the status tells of a link, as
//! Linux waits for one, but no frame reaches the cable. A partner does not choose between master and slave:
//! the PHY is what its register 9 says, else master if it is a multi-port device. Without a common mode, and
//! with power-down or isolation, there is no link.

mod negotiation;
#[cfg(test)]
mod tests;

use negotiation::{FULL_1000, HALF_1000};
pub(super) use negotiation::{Link, Partner};

const RESET: u16 = 0x8000;
const LOOPBACK: u16 = 0x4000;
const NEGOTIATE: u16 = 0x1000;
const POWER_DOWN: u16 = 0x0800;
const ISOLATE: u16 = 0x0400;
const RESTART: u16 = 0x0200;
const CONTROL_KEPT: u16 = 0x7de0;
/// Negotiation, full duplex, 1000 Mbit/s.
const CONTROL_DEFAULT: u16 = 0x1140;
/// 10 and 100 Mbit/s in both duplexes, extended status, no preamble needed, negotiation, extended registers.
const STATUS: u16 = 0x7949;
const STATUS_DONE: u16 = 0x0020;
const STATUS_LINK: u16 = 0x0004;
const INTERNAL_ID: [u16; 2] = [0x0007, 0xc132];
const EXTERNAL_ID: [u16; 2] = [0x0007, 0xfff0];
/// EEE at 1000 and 100 Mbit/s.
const EEE: u16 = 0x0006;

/// Interrupts of registers 25 (mask) and 26 (status).
mod int {
    pub const ACTIVE: u16 = 0x8000;
    pub const SPEED: u16 = 0x4000;
    pub const LINK: u16 = 0x2000;
    pub const DUPLEX: u16 = 0x1000;
    pub const NEGOTIATED: u16 = 0x0400;
    pub const MASK: u8 = 25;
    pub const STATUS: u8 = 26;
}

/// Which PHY it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Inside of LAN7430.
    Internal,
    /// Any other.
    External,
}

#[derive(Debug)]
pub(super) struct Phy {
    kind: Kind,
    negotiation_ns: u64,
    cable: bool,
    partner: Partner,
    control: u16,
    advertise: u16,
    gigabit: u16,
    eee: u16,
    mmd_control: u16,
    mmd_address: u16,
    /// `PHY_CFG` of device 3: it is only kept.
    config: u16,
    page: u16,
    /// Registers 16 to 30 of pages 0, 1, 2 and 52b5h.
    paged: [[u16; 15]; 4],
    /// What negotiation ends in, and when.
    outcome: Option<Link>,
    ready_at: u64,
    /// As it was when last looked at.
    seen: Option<Link>,
    /// The link was down since the status was read.
    lost: bool,
    page_received: bool,
    interrupts: u16,
}

impl Phy {
    /// A PHY as after power-on, without a cable.
    pub fn new(kind: Kind, negotiation_ns: u64) -> Self {
        Self {
            kind,
            negotiation_ns,
            cable: false,
            partner: Partner::speed(1000),
            control: CONTROL_DEFAULT,
            advertise: 0x01e1,
            gigabit: 0x0300,
            eee: 0,
            mmd_control: 0,
            mmd_address: 0,
            config: 0,
            page: 0,
            paged: [[0; 15]; 4],
            outcome: None,
            ready_at: 0,
            seen: None,
            lost: false,
            page_received: false,
            interrupts: 0,
        }
    }

    /// Reset by its pin, `PMT_CTL` or bit 15 of register 0: all but the cable is as after power-on.
    pub fn reset(&mut self, now: u64) {
        let (cable, partner) = (self.cable, self.partner);
        *self = Self { cable, partner, ..Self::new(self.kind, self.negotiation_ns) };
        self.restart(now);
    }

    /// A cable is put in, or taken out.
    pub fn set_link(&mut self, cable: bool, now: u64) {
        if self.cable != cable {
            self.observe(now);
            self.cable = cable;
            self.restart(now);
        }
    }

    /// Another partner is at the end of the cable.
    pub fn set_partner(&mut self, partner: Partner, now: u64) {
        if self.partner != partner {
            self.observe(now);
            self.partner = partner;
            self.restart(now);
        }
    }

    /// What frames go through: `None` without a link.
    pub fn link(&self, now: u64) -> Option<Link> {
        let off = POWER_DOWN | ISOLATE | LOOPBACK;
        if !self.cable || self.control & off != 0 || now < self.ready_at {
            return None;
        }
        self.outcome
    }

    /// Frames that are sent come back.
    pub fn loops_back(&self) -> bool {
        self.control & LOOPBACK != 0 && self.control & (POWER_DOWN | ISOLATE) == 0
    }

    /// The level of its interrupt.
    pub fn interrupt(&mut self, now: u64) -> bool {
        self.observe(now);
        let mask = self.paged[0][usize::from(int::MASK - 16)];
        self.kind == Kind::Internal && mask & int::ACTIVE != 0 && self.interrupts & mask & !int::ACTIVE != 0
    }

    /// When a link comes up by itself.
    pub fn next_event(&self, now: u64) -> Option<u64> {
        let comes = now < self.ready_at && self.link(self.ready_at).is_some();
        (comes && self.ready_at != u64::MAX).then_some(self.ready_at)
    }

    /// Notices what became of the link.
    fn observe(&mut self, now: u64) {
        let link = self.link(now);
        if link == self.seen {
            return;
        }
        self.lost |= link.is_none();
        let mut events = int::LINK;
        if let Some(link) = link {
            events |= int::SPEED | int::DUPLEX | if link.negotiated { int::NEGOTIATED } else { 0 };
            self.page_received |= link.negotiated;
        }
        self.interrupts |= events;
        self.seen = link;
    }

    /// The link goes down, and its making begins anew.
    fn restart(&mut self, now: u64) {
        self.observe(now);
        self.outcome = self.resolve();
        self.ready_at = now.saturating_add(self.negotiation_ns);
        self.observe(now);
    }

    /// A register of clause 22.
    pub fn read(&mut self, register: u8, now: u64) -> u16 {
        self.observe(now);
        match register & 31 {
            0 => self.control,
            1 => self.status(now),
            2 | 3 => self.id()[usize::from(register & 1)],
            4 => self.advertise,
            5 => self.partner_word(),
            6 => self.expansion(),
            7 => 0x2001,
            9 => self.gigabit,
            10 => self.gigabit_status(),
            13 => self.mmd_control,
            14 => self.mmd_data(None, now),
            15 => 0x3000,
            31 => self.page,
            int::STATUS if self.is_special() => self.take_interrupts(),
            register => self.slot(register).map_or(0, |slot| *slot),
        }
    }

    pub fn write(&mut self, register: u8, value: u16, now: u64) {
        self.observe(now);
        match register & 31 {
            0 => self.write_control(value, now),
            4 => self.advertise = value & 0xbfff,
            9 => self.gigabit = value & 0xff00,
            13 => self.mmd_control = value,
            14 => drop(self.mmd_data(Some(value), now)),
            31 => self.page = value,
            int::STATUS if self.is_special() => {}
            register => {
                if let Some(slot) = self.slot(register) {
                    *slot = value;
                }
            }
        }
    }

    fn id(&self) -> [u16; 2] {
        if self.kind == Kind::Internal { INTERNAL_ID } else { EXTERNAL_ID }
    }

    /// On the page with the interrupt registers.
    fn is_special(&self) -> bool {
        self.kind == Kind::Internal && self.page == 0
    }

    /// The paged registers. An external PHY has one page, whatever its register 31 keeps.
    fn slot(&mut self, register: u8) -> Option<&mut u16> {
        let page = match self.page {
            _ if self.kind == Kind::External => 0,
            page @ 0..=2 => usize::from(page),
            0x52b5 => 3,
            _ => return None,
        };
        self.paged[page].get_mut(usize::from(register.checked_sub(16)?))
    }

    fn write_control(&mut self, value: u16, now: u64) {
        if value & RESET != 0 {
            return self.reset(now);
        }
        let changed = (self.control ^ value) & CONTROL_KEPT != 0;
        let restarts = value & RESTART != 0 && value & NEGOTIATE != 0;
        self.control = value & CONTROL_KEPT;
        if changed || restarts {
            self.restart(now);
        }
    }

    fn status(&mut self, now: u64) -> u16 {
        let up = self.seen.is_some() || self.loops_back() && now >= self.ready_at;
        let link = if up && (!self.lost || self.loops_back()) { STATUS_LINK } else { 0 };
        self.lost = false;
        let done = self.seen.is_some_and(|_| self.control & NEGOTIATE != 0);
        STATUS | link | if done { STATUS_DONE } else { 0 }
    }

    /// Reading clears "page received".
    fn expansion(&mut self) -> u16 {
        let received = u16::from(std::mem::take(&mut self.page_received)) << 1;
        let able = self.seen.is_some_and(|link| link.negotiated);
        received | u16::from(able) | 0x0004
    }

    /// Reading clears.
    fn take_interrupts(&mut self) -> u16 {
        let pending = std::mem::take(&mut self.interrupts);
        let mask = self.paged[0][usize::from(int::MASK - 16)];
        pending | if pending & mask != 0 { int::ACTIVE } else { 0 }
    }

    /// Register 5. Of a partner that does not negotiate only the speed is known.
    fn partner_word(&self) -> u16 {
        match self.seen {
            Some(link) if link.negotiated => self.partner.word() | 0x4001,
            Some(link) if self.control & NEGOTIATE != 0 => {
                if link.speed == 100 {
                    0x0080
                } else {
                    0x0020
                }
            }
            _ => 0,
        }
    }

    fn gigabit_status(&self) -> u16 {
        let Some(link) = self.seen.filter(|link| link.negotiated) else { return 0 };
        let modes = self.partner.modes();
        let theirs = (modes & FULL_1000) << 6 | (modes & HALF_1000) << 6;
        let master = if self.gigabit & 0x1000 != 0 { self.gigabit & 0x0800 } else { self.gigabit & 0x0400 };
        let resolved = if link.speed == 1000 && master != 0 { 0x4000 } else { 0 };
        let receivers = if link.speed == 1000 { 0x3000 } else { 0 };
        theirs | resolved | receivers
    }

    /// Register 14: what register 13 chose.
    fn mmd_data(&mut self, write: Option<u16>, now: u64) -> u16 {
        let (function, device) = (self.mmd_control >> 14, (self.mmd_control & 31) as u8);
        if function == 0 {
            self.mmd_address = write.unwrap_or(self.mmd_address);
            return self.mmd_address;
        }
        let address = self.mmd_address;
        let value = match write {
            Some(value) => {
                self.write_mmd(device, address, value, now);
                value
            }
            None => self.read_mmd(device, address, now),
        };
        // 2: next after each access, 3: after writes.
        if function == 2 || function == 3 && write.is_some() {
            self.mmd_address = address.wrapping_add(1);
        }
        value
    }

    /// A register of clause 45: those of EEE and of the maker, and what clause 22 has too.
    pub fn read_mmd(&mut self, device: u8, register: u16, now: u64) -> u16 {
        self.observe(now);
        let up = self.seen.is_some();
        match (device, register) {
            (1 | 3 | 7, 2 | 3) => self.id()[usize::from(register & 1)],
            // Devices 1, 3 and 7, and clause 22.
            (1 | 3 | 7, 5) => 0x008b,
            (1 | 3, 1) if up => 0x0004,
            (3, 20) => EEE,
            (3, 0x806a) => self.config,
            // Chip and revision.
            (3, 0x806d) if self.kind == Kind::Internal => 0x7430,
            (7, 0) => self.control & NEGOTIATE,
            (7, 1) => 0x0008 | if up { STATUS_DONE | 0x0004 } else { 0 },
            (7, 16) => self.advertise,
            (7, 19) => self.partner_word(),
            (7, 60) => self.eee,
            (7, 61) if self.seen.is_some_and(|link| link.negotiated) => self.partner.eee(),
            _ => 0,
        }
    }

    pub fn write_mmd(&mut self, device: u8, register: u16, value: u16, now: u64) {
        match (device, register) {
            (3, 0x806a) => self.config = value,
            (7, 0) => self.write_control(self.control & !NEGOTIATE | value & (NEGOTIATE | RESTART), now),
            (7, 16) => self.advertise = value & 0xbfff,
            (7, 60) => self.eee = value & EEE,
            _ => {}
        }
    }
}

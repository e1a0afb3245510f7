//! What two PHYs make of each other.

use super::{EEE, NEGOTIATE, Phy};

/// Modes by bits, the best one highest. Those of 10 and 100 Mbit/s are bits 5 to 8 of register 4, shifted
/// down by 5.
const HALF_10: u16 = 1;
const FULL_10: u16 = 1 << 1;
const HALF_100: u16 = 1 << 2;
const FULL_100: u16 = 1 << 3;
pub(super) const HALF_1000: u16 = 1 << 4;
pub(super) const FULL_1000: u16 = 1 << 5;
const FULL_MODES: u16 = FULL_10 | FULL_100 | FULL_1000;
const PAUSE: u16 = 1 << 10;
const ASYMMETRIC: u16 = 1 << 11;

/// A link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Link {
    /// Mbit/s: 10, 100 or 1000.
    pub speed: u32,
    /// Full duplex.
    pub full: bool,
    /// Pause frames may be sent.
    pub pause_tx: bool,
    /// Pause frames are to be heeded.
    pub pause_rx: bool,
    /// Both ends know EEE at this speed.
    pub eee: bool,
    /// Both ends negotiated.
    pub negotiated: bool,
}

/// What is at the other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Partner {
    modes: u16,
    negotiates: bool,
    pause: u16,
    eee: u16,
}

fn modes_of(speed: u32) -> u16 {
    match speed {
        10 => HALF_10 | FULL_10,
        100 => HALF_100 | FULL_100,
        // More than the PHY has, too: it takes the best that it knows.
        _ => HALF_1000 | FULL_1000,
    }
}

impl Partner {
    /// One that negotiates all modes up to `speed` in Mbit/s, pause in both directions, and EEE.
    pub fn speed(speed: u32) -> Self {
        let slow = HALF_10 | FULL_10;
        let modes = match speed {
            10 => slow,
            100 => slow | modes_of(100),
            _ => slow | modes_of(100) | FULL_1000,
        };
        Self { modes, negotiates: true, pause: PAUSE, eee: EEE }
    }

    /// One with a fixed mode, that does not negotiate. A wire tells its speed alone, so only tests have one.
    #[cfg(test)]
    pub fn forced(speed: u32, full: bool) -> Self {
        let duplex = if full { FULL_MODES } else { !FULL_MODES };
        Self { modes: modes_of(speed) & duplex, negotiates: false, pause: 0, eee: 0 }
    }

    /// One that negotiates what the words of registers 4, 9 and MMD 7.60 say; for tests, as well.
    #[cfg(test)]
    pub fn advertising(base: u16, gigabit: u16, eee: u16) -> Self {
        let modes = advertised(base, gigabit);
        Self { modes, negotiates: true, pause: base & (PAUSE | ASYMMETRIC), eee: eee & EEE }
    }

    pub(super) fn modes(self) -> u16 {
        self.modes
    }

    pub(super) fn eee(self) -> u16 {
        self.eee
    }

    /// Its abilities as in register 5, without acknowledge and selector.
    pub(super) fn word(self) -> u16 {
        (self.modes & 0xf) << 5 | self.pause
    }
}

/// Modes that registers 4 and 9 offer.
fn advertised(base: u16, gigabit: u16) -> u16 {
    base >> 5 & 0xf | gigabit >> 4 & (HALF_1000 | FULL_1000)
}

fn speed_of(mode: u16) -> u32 {
    match mode {
        HALF_10 | FULL_10 => 10,
        HALF_100 | FULL_100 => 100,
        _ => 1000,
    }
}

impl Phy {
    /// The link that would come up now.
    pub(super) fn resolve(&self) -> Option<Link> {
        match (self.control & NEGOTIATE != 0, self.partner.negotiates) {
            (true, true) => self.negotiate(),
            (true, false) => self.detect(),
            (false, _) => self.force(),
        }
    }

    /// The best common mode.
    fn negotiate(&self) -> Option<Link> {
        let common = advertised(self.advertise, self.gigabit) & self.partner.modes;
        let best = 1_u16.checked_shl(common.checked_ilog2()?)?;
        let (speed, full) = (speed_of(best), best & FULL_MODES != 0);
        let eee_bit = match speed {
            1000 => 4,
            100 => 2,
            _ => 0,
        };
        let eee = full && self.eee & self.partner.eee & eee_bit != 0;
        let (pause_tx, pause_rx) = if full { self.pause() } else { (false, false) };
        Some(Link { speed, full, pause_tx, pause_rx, eee, negotiated: true })
    }

    /// Annex 28B, table 28B-3: whether pause frames are sent, and heeded.
    fn pause(&self) -> (bool, bool) {
        let (own, theirs) = (self.advertise, self.partner.pause);
        let both = own & theirs;
        if both & PAUSE != 0 {
            (true, true)
        } else if both & ASYMMETRIC != 0 {
            (theirs & PAUSE != 0, own & PAUSE != 0)
        } else {
            (false, false)
        }
    }

    /// Parallel detection: the partner's speed, in half duplex, if that is offered.
    fn detect(&self) -> Option<Link> {
        let halves = (self.partner.modes | self.partner.modes >> 1) & (HALF_10 | HALF_100);
        let mode = advertised(self.advertise, 0) & halves;
        (mode != 0).then(|| Link::plain(speed_of(mode), false))
    }

    /// A fixed mode: the speed has to be the partner's, or one that it can detect. Duplex is not looked at.
    fn force(&self) -> Option<Link> {
        let speed = match self.control & 0x2040 {
            0x0000 => 10,
            0x2000 => 100,
            0x0040 => 1000,
            _ => return None,
        };
        let known = self.partner.modes & modes_of(speed) != 0;
        let detectable = !self.partner.negotiates || speed != 1000;
        (known && detectable).then(|| Link::plain(speed, self.control & 0x0100 != 0))
    }
}

impl Link {
    fn plain(speed: u32, full: bool) -> Self {
        Self { speed, full, pause_tx: false, pause_rx: false, eee: false, negotiated: false }
    }
}

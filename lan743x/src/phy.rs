//! The code for PHYs that all of them have: IEEE 802.3 clause 22 with gigabit, and EEE of clause 45.
//!
//! In a kernel, the kernel's own PHY drivers do this over [`Mdio`](crate::Mdio).
//!
//! Source: IEEE 802.3 clause 22, 28, 40 and annex 28B; register names as in Linux's `mii.h`.

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::Mmio;
use tombolo_hal::net::{Duplex, LinkState, Pause};

use crate::Error;
use crate::mdio::{Mdio, MdioAddress};

const BMCR: u8 = 0;
const BMSR: u8 = 1;
const PHYSID1: u8 = 2;
const PHYSID2: u8 = 3;
const ADVERTISE: u8 = 4;
const LPA: u8 = 5;
const CTRL1000: u8 = 9;
const STAT1000: u8 = 10;
const MMD_CTRL: u8 = 13;
const MMD_DATA: u8 = 14;

const BMCR_SPEED1000: u16 = 0x0040;
const BMCR_FULLDPLX: u16 = 0x0100;
const BMCR_ANRESTART: u16 = 0x0200;
const BMCR_PDOWN: u16 = 0x0800;
const BMCR_ANENABLE: u16 = 0x1000;
const BMCR_SPEED100: u16 = 0x2000;
const BMCR_LOOPBACK: u16 = 0x4000;
const BMSR_LSTATUS: u16 = 0x0004;
const BMSR_ANEGCOMPLETE: u16 = 0x0020;

const ADVERTISE_CSMA: u16 = 0x0001;
const ADVERTISE_10HALF: u16 = 0x0020;
const ADVERTISE_10FULL: u16 = 0x0040;
const ADVERTISE_100HALF: u16 = 0x0080;
const ADVERTISE_100FULL: u16 = 0x0100;
const ADVERTISE_PAUSE_CAP: u16 = 0x0400;
const ADVERTISE_PAUSE_ASYM: u16 = 0x0800;
const ADVERTISE_1000FULL: u16 = 0x0200;
const ADVERTISE_1000HALF: u16 = 0x0100;

/// Device 7, register 60 and 61: what EEE is advertised, by us and by the partner.
const MMD_AN: u16 = 7;
const EEE_ADVERTISEMENT: u16 = 60;
const EEE_PARTNER: u16 = 61;
const EEE_100TX: u16 = 0x0002;
const EEE_1000T: u16 = 0x0004;

/// What is offered to the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// 10 Mbit/s, both duplexes.
    pub mbit10: bool,
    /// 100 Mbit/s, both duplexes.
    pub mbit100: bool,
    /// 1000 Mbit/s, full duplex.
    pub mbit1000: bool,
    /// Pause frames.
    pub pause: Pause,
    /// Energy-efficient Ethernet, at 100 and 1000 Mbit/s.
    pub eee: bool,
}

impl Default for Advertise {
    fn default() -> Self {
        let pause = Pause { tx: true, rx: true };
        Self { mbit10: true, mbit100: true, mbit1000: true, pause, eee: false }
    }
}

/// The bits for symmetric and asymmetric pause, by annex 28B.
const fn pause_bits(pause: Pause) -> u16 {
    match (pause.rx, pause.tx) {
        (true, true) => ADVERTISE_PAUSE_CAP,
        (true, false) => ADVERTISE_PAUSE_CAP | ADVERTISE_PAUSE_ASYM,
        (false, true) => ADVERTISE_PAUSE_ASYM,
        (false, false) => 0,
    }
}

/// What both sides agree on, by table 28B-3.
fn resolve_pause(ours: u16, theirs: u16) -> Pause {
    let has = |word: u16, bit: u16| word & bit != 0;
    let (cap, asym) = (ADVERTISE_PAUSE_CAP, ADVERTISE_PAUSE_ASYM);
    if has(ours & theirs, cap) {
        return Pause { tx: true, rx: true };
    }
    if !has(ours & theirs, asym) {
        return Pause::default();
    }
    // One of them is symmetric at most.
    Pause { tx: has(theirs, cap), rx: has(ours, cap) }
}

/// A PHY at an address of the MDIO bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    address: u8,
}

impl Phy {
    /// The PHY at `address`, if one answers there.
    ///
    /// # Errors
    /// [`Error::NoPhy`], or the bus's.
    pub fn at<M: Mmio>(mdio: &mut Mdio<'_, M>, address: u8, delay: &mut impl DelayNs) -> Result<Self, Error> {
        let phy = Self { address };
        let id = (phy.read(mdio, PHYSID1, delay)?, phy.read(mdio, PHYSID2, delay)?);
        // A bus without anybody reads ones; zeros are no maker's.
        if matches!(id, (u16::MAX, u16::MAX) | (0, 0)) { Err(Error::NoPhy(address)) } else { Ok(phy) }
    }

    /// Its address.
    pub fn address(&self) -> u8 {
        self.address
    }

    fn read<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        register: u8,
        delay: &mut impl DelayNs,
    ) -> Result<u16, Error> {
        mdio.read(MdioAddress::Clause22 { phy: self.address, register }, delay)
    }

    fn write<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        register: u8,
        value: u16,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        mdio.write(MdioAddress::Clause22 { phy: self.address, register }, value, delay)
    }

    /// Selects a register of clause 45 through registers 13 and 14, which gigabit PHYs have.
    fn select<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        device: u16,
        register: u16,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        self.write(mdio, MMD_CTRL, device, delay)?;
        self.write(mdio, MMD_DATA, register, delay)?;
        self.write(mdio, MMD_CTRL, 0x4000 | device, delay)
    }

    /// Powers the PHY up, offers `advertise` and starts negotiating.
    ///
    /// # Errors
    /// The bus's.
    pub fn negotiate<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        advertise: &Advertise,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let mut word = ADVERTISE_CSMA | pause_bits(advertise.pause);
        if advertise.mbit10 {
            word |= ADVERTISE_10HALF | ADVERTISE_10FULL;
        }
        if advertise.mbit100 {
            word |= ADVERTISE_100HALF | ADVERTISE_100FULL;
        }
        self.write(mdio, ADVERTISE, word, delay)?;
        let gigabit = self.read(mdio, CTRL1000, delay)? & !(ADVERTISE_1000FULL | ADVERTISE_1000HALF);
        let full = if advertise.mbit1000 { ADVERTISE_1000FULL } else { 0 };
        self.write(mdio, CTRL1000, gigabit | full, delay)?;
        let eee = if advertise.eee { EEE_100TX | EEE_1000T } else { 0 };
        self.select(mdio, MMD_AN, EEE_ADVERTISEMENT, delay)?;
        self.write(mdio, MMD_DATA, eee, delay)?;
        let control = self.read(mdio, BMCR, delay)? & !(BMCR_PDOWN | BMCR_LOOPBACK);
        self.write(mdio, BMCR, control | BMCR_ANENABLE | BMCR_ANRESTART, delay)
    }

    /// The link, as both sides agreed on it or as it was forced.
    ///
    /// # Errors
    /// The bus's.
    pub fn link<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        delay: &mut impl DelayNs,
    ) -> Result<LinkState, Error> {
        // The status bit remembers that the link was lost: the second read tells of now. A loss in between
        // is told by the first, so a link that came back at once is seen to have been away.
        let status = self.read(mdio, BMSR, delay)?;
        if status == u16::MAX {
            return Err(Error::NoPhy(self.address));
        }
        if status & BMSR_LSTATUS == 0 {
            return Ok(LinkState::Down);
        }
        let control = self.read(mdio, BMCR, delay)?;
        if control & BMCR_ANENABLE == 0 {
            return Ok(forced(control));
        }
        if status & BMSR_ANEGCOMPLETE == 0 {
            return Ok(LinkState::Down);
        }
        let ours = (self.read(mdio, ADVERTISE, delay)?, self.read(mdio, CTRL1000, delay)?);
        let theirs = (self.read(mdio, LPA, delay)?, self.read(mdio, STAT1000, delay)?);
        Ok(resolve(ours, theirs))
    }

    /// Whether both sides offer EEE at this speed.
    ///
    /// # Errors
    /// The bus's.
    pub fn agreed_eee<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        speed: u32,
        delay: &mut impl DelayNs,
    ) -> Result<bool, Error> {
        let bit = match speed {
            100 => EEE_100TX,
            1000 => EEE_1000T,
            _ => return Ok(false),
        };
        self.select(mdio, MMD_AN, EEE_ADVERTISEMENT, delay)?;
        let ours = self.read(mdio, MMD_DATA, delay)?;
        self.select(mdio, MMD_AN, EEE_PARTNER, delay)?;
        Ok(ours & self.read(mdio, MMD_DATA, delay)? & bit != 0)
    }

    /// Sends what is transmitted back into the receiver, inside the PHY, at 1000 Mbit/s; or ends that.
    ///
    /// # Errors
    /// The bus's.
    pub fn loopback<M: Mmio>(
        &self,
        mdio: &mut Mdio<'_, M>,
        on: bool,
        delay: &mut impl DelayNs,
    ) -> Result<(), Error> {
        let word =
            if on { BMCR_LOOPBACK | BMCR_SPEED1000 | BMCR_FULLDPLX } else { BMCR_ANENABLE | BMCR_ANRESTART };
        self.write(mdio, BMCR, word, delay)
    }

    /// Powers the PHY down.
    ///
    /// # Errors
    /// The bus's.
    pub fn power_down<M: Mmio>(&self, mdio: &mut Mdio<'_, M>, delay: &mut impl DelayNs) -> Result<(), Error> {
        let control = self.read(mdio, BMCR, delay)?;
        self.write(mdio, BMCR, control | BMCR_PDOWN, delay)
    }
}

fn forced(control: u16) -> LinkState {
    let speed = match control & (BMCR_SPEED1000 | BMCR_SPEED100) {
        BMCR_SPEED1000 => 1000,
        BMCR_SPEED100 => 100,
        _ => 10,
    };
    let duplex = if control & BMCR_FULLDPLX != 0 { Duplex::Full } else { Duplex::Half };
    LinkState::Up { speed, duplex, pause: Pause::default() }
}

/// The best that both sides offer. Words: 10 and 100 Mbit/s, then 1000.
fn resolve(ours: (u16, u16), theirs: (u16, u16)) -> LinkState {
    // The partner's word for gigabit lies two bits higher than ours.
    let gigabit = ours.1 & theirs.1 >> 2;
    let both = ours.0 & theirs.0;
    let pause = resolve_pause(ours.0, theirs.0);
    let up = |speed, duplex| {
        let pause = if duplex == Duplex::Full { pause } else { Pause::default() };
        LinkState::Up { speed, duplex, pause }
    };
    if gigabit & ADVERTISE_1000FULL != 0 {
        up(1000, Duplex::Full)
    } else if gigabit & ADVERTISE_1000HALF != 0 {
        up(1000, Duplex::Half)
    } else if both & ADVERTISE_100FULL != 0 {
        up(100, Duplex::Full)
    } else if both & ADVERTISE_100HALF != 0 {
        up(100, Duplex::Half)
    } else if both & ADVERTISE_10FULL != 0 {
        up(10, Duplex::Full)
    } else if both & ADVERTISE_10HALF != 0 {
        up(10, Duplex::Half)
    } else {
        LinkState::Down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 28B-3 in full: our pause and asymmetric bit, the partner's, then what we send and obey.
    #[test]
    fn pause_is_agreed_by_the_standards_table() {
        let table = [
            ((0, 0), (0, 0), (0, 0)),
            ((0, 0), (1, 1), (0, 0)),
            ((0, 1), (1, 0), (0, 0)),
            ((0, 1), (1, 1), (1, 0)),
            ((0, 1), (0, 1), (0, 0)),
            ((1, 0), (0, 1), (0, 0)),
            ((1, 0), (1, 0), (1, 1)),
            ((1, 0), (1, 1), (1, 1)),
            ((1, 1), (0, 0), (0, 0)),
            ((1, 1), (0, 1), (0, 1)),
            ((1, 1), (1, 0), (1, 1)),
            ((1, 1), (1, 1), (1, 1)),
        ];
        let word = |(cap, asym): (u16, u16)| (cap * ADVERTISE_PAUSE_CAP) | (asym * ADVERTISE_PAUSE_ASYM);
        for (ours, theirs, (tx, rx)) in table {
            let pause = resolve_pause(word(ours), word(theirs));
            assert_eq!(pause, Pause { tx: tx == 1, rx: rx == 1 }, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn the_best_common_mode_wins() {
        let all = (ADVERTISE_100FULL | ADVERTISE_100HALF | ADVERTISE_10FULL | ADVERTISE_10HALF, 0x0300);
        let speed = |theirs| match resolve(all, theirs) {
            LinkState::Up { speed, duplex, .. } => (speed, duplex == Duplex::Full),
            LinkState::Down => (0, false),
        };
        assert_eq!(speed((all.0, ADVERTISE_1000FULL << 2)), (1000, true));
        assert_eq!(speed((all.0, ADVERTISE_1000HALF << 2)), (1000, false));
        assert_eq!(speed((all.0, 0)), (100, true));
        assert_eq!(speed((ADVERTISE_100HALF | ADVERTISE_10FULL, 0)), (100, false));
        assert_eq!(speed((ADVERTISE_10FULL, 0)), (10, true));
        assert_eq!(speed((ADVERTISE_10HALF, 0)), (10, false));
        assert_eq!(speed((0, 0)), (0, false));
    }
}

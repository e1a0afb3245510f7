//! MDIO and the PHY behind it (AN2948 section 6.1 `MII_ACCESS`; IEEE 802.3 clauses 22, 28, 40 and 45).
//!
//! The PHY is one that every driver knows: all registers of clause 22, gigabit, EEE through registers 13
//! and 14. Its partner offers what the wire can. Negotiation takes no time.

use super::handle::Wait;
use super::params::Params;
use super::regs::mac;
use super::{Interface, Lan743x};

const BMCR_RESET: u16 = 0x8000;
const BMCR_LOOPBACK: u16 = 0x4000;
const BMCR_ANENABLE: u16 = 0x1000;
const BMCR_PDOWN: u16 = 0x0800;
const BMCR_ANRESTART: u16 = 0x0200;
/// 10 and 100 Mbit/s in both duplexes, extended status, negotiation.
const BMSR: u16 = 0x7949;
const BMSR_LSTATUS: u16 = 0x0004;
const BMSR_ANEGCOMPLETE: u16 = 0x0020;
/// An identity of no maker's, so that generic code drives it.
const PHY_ID: [u16; 2] = [0x0007, 0xfff0];
const EEE_ABILITY: u16 = 0x0006;

#[derive(Debug)]
pub(super) struct Phy {
    address: u8,
    bmcr: u16,
    advertise: u16,
    ctrl1000: u16,
    mmd_control: u16,
    mmd_address: u16,
    eee: u16,
    /// The link was lost since the status was read.
    lost: bool,
    was_up: bool,
    others: [u16; 32],
}

impl Phy {
    fn new(address: u8) -> Self {
        Self {
            address,
            bmcr: BMCR_ANENABLE | 0x0140,
            advertise: 0x01e1,
            ctrl1000: 0x0200,
            mmd_control: 0,
            mmd_address: 0,
            eee: 0,
            lost: false,
            was_up: false,
            others: [0; 32],
        }
    }

    fn is_up(&self, cable: bool) -> bool {
        cable && self.bmcr & BMCR_PDOWN == 0
    }

    /// What the partner offers: 10 and 100 Mbit/s with pause, and gigabit in the word of its own.
    fn partner(speed: u32) -> (u16, u16) {
        let slow = match speed {
            10 => 0x0061,
            _ => 0x01e1,
        };
        (slow | 0x4400, if speed >= 1000 { 0x0800 } else { 0 })
    }

    fn read(&mut self, register: u8, cable: bool, speed: u32) -> u16 {
        let up = self.is_up(cable);
        self.lost |= self.was_up && !up;
        self.was_up = up;
        let (slow, gigabit) = if up { Self::partner(speed) } else { (0, 0) };
        match register {
            0 => self.bmcr,
            1 => {
                let link = if up && !self.lost { BMSR_LSTATUS } else { 0 };
                self.lost = false;
                let negotiated = up && self.bmcr & BMCR_ANENABLE != 0;
                BMSR | link | if negotiated { BMSR_ANEGCOMPLETE } else { 0 }
            }
            2 | 3 => PHY_ID[usize::from(register - 2)],
            4 => self.advertise,
            5 => slow,
            6 => u16::from(up),
            9 => self.ctrl1000,
            10 => gigabit | if up { 0x3000 } else { 0 },
            13 => self.mmd_control,
            14 => self.mmd_read(up),
            15 => 0x2000,
            _ => self.others[usize::from(register & 31)],
        }
    }

    fn write(&mut self, register: u8, value: u16) {
        match register {
            0 if value & BMCR_RESET != 0 => *self = Self::new(self.address),
            0 => self.bmcr = value & !BMCR_ANRESTART,
            4 => self.advertise = value,
            9 => self.ctrl1000 = value & 0x1f00,
            13 => self.mmd_control = value,
            14 if self.mmd_control & 0xc000 == 0 => self.mmd_address = value,
            14 if (self.mmd_control & 31, self.mmd_address) == (7, 60) => self.eee = value & EEE_ABILITY,
            1..=3 | 5 | 6 | 10 | 14 | 15 => {}
            _ => self.others[usize::from(register & 31)] = value,
        }
    }

    fn mmd_read(&self, up: bool) -> u16 {
        if self.mmd_control & 0xc000 == 0 {
            return self.mmd_address;
        }
        match (self.mmd_control & 31, self.mmd_address) {
            (3, 20) => EEE_ABILITY,
            (7, 60) => self.eee,
            (7, 61) if up => EEE_ABILITY,
            _ => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Mii {
    phy: Option<Phy>,
    data: u32,
    access: u32,
    done_ns: u64,
    /// The register that a clause 45 transaction has loaded.
    cl45: u16,
}

impl Mii {
    pub fn new(params: &Params) -> Self {
        Self { phy: params.phy.map(Phy::new), data: 0, access: 0, done_ns: 0, cl45: 0 }
    }

    /// The PHY is as after power-on.
    pub fn reset(&mut self) {
        self.phy = self.phy.as_ref().map(|phy| Phy::new(phy.address));
        (self.data, self.access, self.done_ns, self.cl45) = (0, 0, 0, 0);
    }

    /// Whether frames go through the PHY; without one, whenever there is a cable.
    pub fn link_is_up(&self, cable: bool) -> bool {
        self.phy.as_ref().map_or(cable, |phy| phy.is_up(cable) && phy.bmcr & BMCR_LOOPBACK == 0)
    }
}

impl Lan743x {
    pub(super) fn mii_read(&self, now: u64, offset: u64) -> u32 {
        match offset {
            mac::MII_DATA => self.mii.data,
            _ => self.mii.access | u32::from(now < self.mii.done_ns),
        }
    }

    pub(super) fn mii_write(&mut self, now: u64, offset: u64, value: u32) {
        if now < self.mii.done_ns {
            return;
        }
        if offset == mac::MII_DATA {
            self.mii.data = value & 0xffff;
            return;
        }
        self.mii.access = value & !mac::MII_BUSY;
        if value & mac::MII_BUSY == 0 {
            return;
        }
        self.counters().mdio += 1;
        self.mii.done_ns = self.end_of(Wait::Mdio, now, self.params.timing.mdio_ns);
        let (phy, index) = ((value >> 11 & 31) as u8, (value >> 6 & 31) as u8);
        if value & mac::MII_CL45 != 0 {
            self.clause45(phy, index, value >> 1 & 3);
        } else if value & mac::MII_WRITE != 0 {
            let data = self.mii.data as u16;
            if let Some(found) = self.mii.phy.as_mut().filter(|found| found.address == phy) {
                found.write(index, data);
            }
        } else {
            let cable = self.port.as_ref().is_some_and(|port| port.is_up());
            let speed = self.port.as_ref().map_or(1000, |port| port.speed());
            let found = self.mii.phy.as_mut().filter(|found| found.address == phy);
            self.mii.data = found.map_or(0xffff, |found| found.read(index, cable, speed)).into();
        }
    }

    /// The registers of clause 45 are those behind 13 and 14.
    fn clause45(&mut self, phy: u8, device: u8, command: u32) {
        let data = self.mii.data as u16;
        let up = self.port.as_ref().is_some_and(|port| port.is_up());
        let loaded = self.mii.cl45;
        let only_serial = self.params.interface == Interface::Sgmii;
        let found = self.mii.phy.as_mut().filter(|found| found.address == phy && only_serial);
        match command {
            0 => self.mii.cl45 = data,
            1 => {
                if let Some(found) = found {
                    (found.mmd_control, found.mmd_address) = (0x4000 | u16::from(device), loaded);
                    found.write(14, data);
                }
            }
            _ => {
                self.mii.data = found
                    .map_or(0xffff, |found| {
                        (found.mmd_control, found.mmd_address) = (0x4000 | u16::from(device), loaded);
                        found.mmd_read(up)
                    })
                    .into();
                if command == 3 {
                    self.mii.cl45 = loaded.wrapping_add(1);
                }
            }
        }
    }
}

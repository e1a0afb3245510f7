//! The PCS of PCI11x1x: SGMII, 1000BASE-X and 2500BASE-X.
//!
//! Source: Linux 7.3 `lan743x_main.c` (`lan743x_sgmii_*`, `lan743x_serdes_clock_and_aneg_update`,
//! `lan743x_pcs_power_reset`, `lan743x_phylink_*_config`).

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::net::{Duplex, LinkState, Pause};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Readable, Writeable};

use crate::Error;
use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::serial::{SGMII_ACC, SGMII_CTL, Serial};

/// The device (vendor specific 2) in which all of this is.
pub(crate) const VEND2: u8 = 31;
const BMCR: u16 = 0;
const BMSR: u16 = 1;
const DIG_CTRL1: u16 = 0x8000;
const AN_CTRL: u16 = 0x8001;
const AN_INTR_STS: u16 = 0x8002;
const LINK_TIMER_CTRL: u16 = 0x800a;
const DIG_STS: u16 = 0x8010;
const MPLL_CTRL0: u16 = 0x8078;
const MPLL_CTRL1: u16 = 0x8079;
const MISC_CTRL1: u16 = 0x809a;

const BMCR_SPEED1000: u16 = 0x0040;
const BMCR_ANRESTART: u16 = 0x0200;
const BMCR_PDOWN: u16 = 0x0800;
const BMCR_ANENABLE: u16 = 0x1000;
const BMCR_SPEED100: u16 = 0x2000;
const BMSR_LSTATUS: u16 = 0x0004;
const DIG_CTRL1_MAC_AUTO_SW: u16 = 1 << 9;
const DIG_CTRL1_CL37_TMR_OVR_RIDE: u16 = 1 << 3;
const AN_CTRL_SGMII_LINK_STS: u16 = 1 << 4;
const AN_INTR_STS_LINK_UP: u16 = 1 << 4;
const AN_INTR_STS_FULL: u16 = 1 << 1;
const MPLL_CTRL0_USE_REFCLK_PAD: u16 = 1 << 4;
/// States of the power sequence in bits 4:2 of `DIG_STS`.
const POWER_DOWN: u16 = 6;
const POWER_UP: u16 = 4;

/// What the serial lane carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SerialMode {
    /// SGMII, to an external PHY.
    Sgmii,
    /// 1000BASE-X.
    Basex1000,
    /// 2500BASE-X.
    Basex2500,
}

/// The PCS's registers.
#[derive(Debug)]
pub(crate) struct Pcs<'a, M> {
    serial: &'a Window<M, Serial>,
}

impl<'a, M: Mmio> Pcs<'a, M> {
    pub fn new(serial: &'a Window<M, Serial>) -> Self {
        Self { serial }
    }

    fn read(&mut self, register: u16, delay: &mut impl DelayNs) -> Result<u16, Error> {
        self.read_mmd(VEND2, register, delay)
    }

    /// Reads a register of another device of the lane.
    pub fn read_mmd(&mut self, device: u8, register: u16, delay: &mut impl DelayNs) -> Result<u16, Error> {
        let place = SGMII_ACC::MMD.val(device.into()) + SGMII_ACC::ADDRESS.val(register.into());
        reg!(self.serial, Serial, sgmii_acc).write(place + SGMII_ACC::BUSY::SET);
        self.idle(delay)?;
        Ok(reg!(self.serial, Serial, sgmii_data).get() as u16)
    }

    fn write(&mut self, register: u16, value: u16, delay: &mut impl DelayNs) -> Result<(), Error> {
        reg!(self.serial, Serial, sgmii_data).set(value.into());
        let place = SGMII_ACC::MMD.val(VEND2.into()) + SGMII_ACC::ADDRESS.val(register.into());
        reg!(self.serial, Serial, sgmii_acc).write(place + SGMII_ACC::BUSY::SET + SGMII_ACC::WRITE::SET);
        self.idle(delay)
    }

    fn idle(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let read = || reg!(self.serial, Serial, sgmii_acc).get();
        let idle = |value: u32| value & SGMII_ACC::BUSY::SET.value == 0;
        wait_for(Wait::Pcs, delay, 10, 1_000_000, read, idle).map(drop)
    }

    fn modify(&mut self, register: u16, clear: u16, set: u16, delay: &mut impl DelayNs) -> Result<(), Error> {
        let value = self.read(register, delay)?;
        self.write(register, value & !clear | set, delay)
    }

    /// Sets up clocks and negotiation for a mode, then cycles the power, after which it counts.
    pub fn configure(&mut self, mode: SerialMode, delay: &mut impl DelayNs) -> Result<(), Error> {
        let own_status = SGMII_CTL::LINK_STATUS_SOURCE.val((mode != SerialMode::Sgmii).into());
        reg!(self.serial, Serial, sgmii_ctl).modify(own_status);
        let fast = mode == SerialMode::Basex2500;
        self.modify(MPLL_CTRL0, MPLL_CTRL0_USE_REFCLK_PAD, 0, delay)?;
        // Multiplier and dividers of 3.125 or 1.25 Gbaud.
        let (multiplier, rates) = if fast { (125, 0x5) } else { (100, 0xa) };
        self.write(MPLL_CTRL1, multiplier, delay)?;
        self.write(MISC_CTRL1, rates, delay)?;
        if fast {
            // The link timer of 1.6 ms, in the faster clock.
            self.write(LINK_TIMER_CTRL, 0x7a1, delay)?;
            let negotiation = BMCR_ANENABLE | BMCR_ANRESTART | BMCR_SPEED100;
            self.modify(BMCR, negotiation, BMCR_SPEED1000, delay)?;
            self.modify(DIG_CTRL1, DIG_CTRL1_MAC_AUTO_SW, DIG_CTRL1_CL37_TMR_OVR_RIDE, delay)?;
        } else {
            self.modify(BMCR, 0, BMCR_ANENABLE | BMCR_ANRESTART, delay)?;
            self.modify(DIG_CTRL1, DIG_CTRL1_CL37_TMR_OVR_RIDE, DIG_CTRL1_MAC_AUTO_SW, delay)?;
            self.modify(AN_CTRL, AN_CTRL_SGMII_LINK_STS, 0, delay)?;
        }
        self.modify(BMCR, 0, BMCR_PDOWN, delay)?;
        self.wait_for_power(POWER_DOWN, delay)?;
        self.modify(BMCR, BMCR_PDOWN, 0, delay)?;
        self.wait_for_power(POWER_UP, delay)
    }

    fn wait_for_power(&mut self, state: u16, delay: &mut impl DelayNs) -> Result<(), Error> {
        // Linux looks ten times, 1 ms apart.
        for _ in 0..20 {
            if self.read(DIG_STS, delay)? >> 2 & 7 == state {
                return Ok(());
            }
            delay.delay_us(1_000);
        }
        Err(Error::Timeout { what: Wait::PcsPower, waited_us: 20_000 })
    }

    /// The link as the PCS sees it.
    pub fn link(&mut self, mode: SerialMode, delay: &mut impl DelayNs) -> Result<LinkState, Error> {
        let pause = Pause::default();
        if mode != SerialMode::Sgmii {
            let up = self.read(BMSR, delay)? & BMSR_LSTATUS != 0;
            let speed = if mode == SerialMode::Basex2500 { 2500 } else { 1000 };
            let state = LinkState::Up { speed, duplex: Duplex::Full, pause };
            return Ok(if up { state } else { LinkState::Down });
        }
        let status = self.read(AN_INTR_STS, delay)?;
        if status & AN_INTR_STS_LINK_UP == 0 {
            return Ok(LinkState::Down);
        }
        let speed = match status >> 2 & 3 {
            2 => 1000,
            1 => 100,
            _ => 10,
        };
        let duplex = if status & AN_INTR_STS_FULL != 0 { Duplex::Full } else { Duplex::Half };
        Ok(LinkState::Up { speed, duplex, pause })
    }
}

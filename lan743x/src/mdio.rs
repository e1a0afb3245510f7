//! MDIO: the registers of PHYs.
//!
//! Source: Linux 7.3 `lan743x_main.c` (`lan743x_mdiobus_*`).

use embedded_hal::delay::DelayNs;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};

use crate::Error;
use crate::channel::wait_for;
use crate::error::Wait;
use crate::regs::mac::{MII_ACC, Mac};

/// A register of a PHY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MdioAddress {
    /// Clause 22: PHY (0 to 31) and register (0 to 31).
    Clause22 {
        /// PHY.
        phy: u8,
        /// Register.
        register: u8,
    },
    /// Clause 45: PHY (0 to 31), device (0 to 31) and register.
    Clause45 {
        /// PHY.
        phy: u8,
        /// Device.
        device: u8,
        /// Register.
        register: u16,
    },
}

/// The MDIO bus of a controller, for as long as this lives. One transaction at a time: `&mut`.
#[derive(Debug)]
pub struct Mdio<'a, M> {
    mac: &'a Window<M, Mac>,
}

impl<'a, M: Mmio> Mdio<'a, M> {
    pub(crate) fn new(mac: &'a Window<M, Mac>) -> Self {
        Self { mac }
    }

    /// Reads a register. Nobody at that address: 0xffff.
    ///
    /// # Errors
    /// [`Error`] if the bus does not finish within a second, or the address has more bits than there are.
    pub fn read(&mut self, address: MdioAddress, delay: &mut impl DelayNs) -> Result<u16, Error> {
        self.idle(delay)?;
        match address {
            MdioAddress::Clause22 { phy, register } => {
                self.go(field(phy)?, field(register)?, MII_ACC::COMMAND::Address.value, delay)?;
            }
            MdioAddress::Clause45 { phy, device, register } => {
                let (phy, device) = (field(phy)?, field(device)?);
                self.load(phy, device, register, delay)?;
                self.go45(phy, device, MII_ACC::COMMAND::Read.value, delay)?;
            }
        }
        Ok(reg!(self.mac, Mac, mii_data).get() as u16)
    }

    /// Writes a register.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&mut self, address: MdioAddress, value: u16, delay: &mut impl DelayNs) -> Result<(), Error> {
        self.idle(delay)?;
        match address {
            MdioAddress::Clause22 { phy, register } => {
                let (phy, register) = (field(phy)?, field(register)?);
                reg!(self.mac, Mac, mii_data).set(value.into());
                self.go(phy, register, MII_ACC::COMMAND::Write.value, delay)
            }
            MdioAddress::Clause45 { phy, device, register } => {
                let (phy, device) = (field(phy)?, field(device)?);
                self.load(phy, device, register, delay)?;
                reg!(self.mac, Mac, mii_data).set(value.into());
                self.go45(phy, device, MII_ACC::COMMAND::Write.value, delay)
            }
        }
    }

    /// Tells a clause 45 device which register is meant.
    fn load(&mut self, phy: u32, device: u32, register: u16, delay: &mut impl DelayNs) -> Result<(), Error> {
        reg!(self.mac, Mac, mii_data).set(register.into());
        self.go45(phy, device, MII_ACC::COMMAND::Address.value, delay)
    }

    fn go45(&mut self, phy: u32, device: u32, command: u32, delay: &mut impl DelayNs) -> Result<(), Error> {
        self.go(phy, device, command | MII_ACC::CL45::SET.value, delay)
    }

    fn go(&mut self, phy: u32, index: u32, command: u32, delay: &mut impl DelayNs) -> Result<(), Error> {
        let place = MII_ACC::PHY.val(phy).value | MII_ACC::INDEX.val(index).value;
        reg!(self.mac, Mac, mii_acc).set(place | command | MII_ACC::BUSY::SET.value);
        self.idle(delay)
    }

    fn idle(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let read = || reg!(self.mac, Mac, mii_acc).get();
        let idle = |value: u32| value & MII_ACC::BUSY::SET.value == 0;
        wait_for(Wait::Mdio, delay, 10, 1_000_000, read, idle).map(drop)
    }
}

/// A number of five bits.
fn field(value: u8) -> Result<u32, Error> {
    if value > 31 {
        return Err(Error::Range { what: "an MDIO number", value: value.into(), least: 0, most: 31 });
    }
    Ok(value.into())
}

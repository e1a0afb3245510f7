//! The link: how the MAC is connected, and the state machine that follows the PHY.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_phylink_*`, `lan743x_mac_*`); the wiring of LAN7430's
//! PHY at MDIO address 1 from `lan743x_mdiobus_init`.

use embedded_hal::delay::DelayNs;
use tombolo_hal::net::{Duplex, LinkState, Pause};
use tombolo_hal::reg;
use tombolo_hal::register::{ReadWriteable, Writeable};

use crate::mdio::Mdio;
use crate::pcs::{Pcs, SerialMode};
use crate::phy::{Advertise, Phy};
use crate::regs::mac::{MAC_CR, MAC_FLOW, Mac};
use crate::shared::SharedRef;
use crate::{Chip, Error, Nic};

/// How the MAC reaches its PHY or partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// To the PHY inside (LAN7430).
    Gmii,
    /// RGMII.
    Rgmii,
    /// MII (LAN7431).
    Mii,
    /// RMII (PCI11x1x).
    Rmii,
    /// The serial lane (PCI11x1x).
    Sgmii,
}

/// What the link is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMode {
    /// A PHY at an MDIO address, which negotiates.
    Phy {
        /// Its address: 0 to 31.
        address: u8,
        /// What is offered to the partner.
        advertise: Advertise,
    },
    /// A partner that is always there, without a PHY that could be asked.
    Fixed {
        /// 10, 100, 1000 or 2500 Mbit/s.
        speed: u32,
        /// Whether both sides may send at once.
        duplex: Duplex,
        /// Which pause frames are used.
        pause: Pause,
    },
    /// 1000BASE-X or 2500BASE-X without a PHY. PCI11x1x with a serial lane.
    Serial(SerialMode),
}

/// The link's state machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    mode: Option<LinkMode>,
    phy: Option<Phy>,
    state: LinkState,
}

impl Link {
    pub(crate) const fn new() -> Self {
        Self { mode: None, phy: None, state: LinkState::Down }
    }
}

impl<S: SharedRef> Nic<S> {
    /// The MDIO bus.
    pub fn mdio(&mut self) -> Mdio<'_, S::Mmio> {
        Mdio::new(&self.shared_ref().shared().mac)
    }

    /// The address of a PHY: that of the one inside, or the lowest at which one answers.
    ///
    /// # Errors
    /// The bus's.
    pub fn find_phy(&mut self, delay: &mut impl DelayNs) -> Result<Option<u8>, Error> {
        let addresses = if self.identity().chip == Chip::Lan7430 { 1..=1 } else { 0..=31 };
        for address in addresses {
            match Phy::at(&mut self.mdio(), address, delay) {
                Ok(phy) => return Ok(Some(phy.address())),
                Err(Error::NoPhy(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What the link is by default: a PHY if there is one, else a fixed link of the most that the chip
    /// can, as Linux has it.
    ///
    /// # Errors
    /// [`Error::NoPhy`] if LAN7430's own does not answer; the bus's.
    pub fn default_link(&mut self, delay: &mut impl DelayNs) -> Result<LinkMode, Error> {
        if let Some(address) = self.find_phy(delay)? {
            return Ok(LinkMode::Phy { address, advertise: Advertise::default() });
        }
        if self.identity().chip == Chip::Lan7430 {
            return Err(Error::NoPhy(1));
        }
        let speed = if self.interface() == Interface::Sgmii { 2500 } else { 1000 };
        Ok(LinkMode::Fixed { speed, duplex: Duplex::Full, pause: Pause::default() })
    }

    /// Begins to bring the link up. [`poll_link`](Self::poll_link) tells when it is.
    ///
    /// # Errors
    /// [`Error`] if the PHY does not answer, or the interface cannot do this.
    pub fn start_link(&mut self, mode: LinkMode, delay: &mut impl DelayNs) -> Result<(), Error> {
        let serial = match mode {
            LinkMode::Fixed { speed: 10 | 100 | 1000, .. } => SerialMode::Sgmii,
            LinkMode::Fixed { speed: 2500, .. } if self.interface() == Interface::Sgmii => {
                SerialMode::Basex2500
            }
            LinkMode::Fixed { .. } => return Err(Error::Unsupported("this speed")),
            LinkMode::Serial(mode) => mode,
            LinkMode::Phy { .. } => SerialMode::Sgmii,
        };
        match (&self.serial, self.interface()) {
            (Some(registers), Interface::Sgmii) => Pcs::new(registers).configure(serial, delay)?,
            _ if matches!(mode, LinkMode::Serial(_)) => return Err(Error::Unsupported("a serial link")),
            _ => {}
        }
        self.link = Link { mode: Some(mode), phy: None, state: LinkState::Down };
        if let LinkMode::Phy { address, advertise } = mode {
            let phy = Phy::at(&mut self.mdio(), address, delay)?;
            phy.negotiate(&mut self.mdio(), &advertise, delay)?;
            self.link.phy = Some(phy);
        }
        Ok(())
    }

    /// Asks for the link, and sets the MAC to it when it has changed. Gives the new state if it is another.
    /// To be called once or twice a second, or when the PHY interrupts.
    ///
    /// # Errors
    /// [`Error`] if the PHY or PCS cannot be asked; the link counts as it was.
    pub fn poll_link(&mut self, delay: &mut impl DelayNs) -> Result<Option<LinkState>, Error> {
        let state = match (self.link.mode, self.link.phy) {
            (None, _) => LinkState::Down,
            (Some(LinkMode::Fixed { speed, duplex, pause }), _) => LinkState::Up { speed, duplex, pause },
            (Some(LinkMode::Serial(mode)), _) => match &self.serial {
                Some(registers) => Pcs::new(registers).link(mode, delay)?,
                None => LinkState::Down,
            },
            (Some(LinkMode::Phy { .. }), Some(phy)) => phy.link(&mut self.mdio(), delay)?,
            (Some(LinkMode::Phy { .. }), None) => LinkState::Down,
        };
        if state == self.link.state {
            return Ok(None);
        }
        self.link.state = state;
        self.set_link(&state);
        Ok(Some(state))
    }

    /// The link as it was last seen.
    pub fn link_state(&self) -> LinkState {
        self.link.state
    }

    /// Sets speed, duplex and flow control of the MAC. For platforms that follow the PHY themselves.
    pub fn set_link(&mut self, state: &LinkState) {
        let LinkState::Up { speed, duplex, pause } = *state else { return };
        let speed = match speed {
            2500 => MAC_CR::CFG::Mbit2500,
            1000 => MAC_CR::CFG::Mbit1000,
            100 => MAC_CR::CFG::Mbit100,
            _ => MAC_CR::CFG::Mbit10,
        };
        let full = u32::from(duplex == Duplex::Full);
        let mac = &self.shared_ref().shared().mac;
        reg!(mac, Mac, cr).modify(speed + MAC_CR::DPX.val(full));
        // The longest pause: one of no length ends it when there is room again.
        reg!(mac, Mac, flow).write(
            MAC_FLOW::FCPT.val(0xffff)
                + MAC_FLOW::TX_FCEN.val(pause.tx.into())
                + MAC_FLOW::RX_FCEN.val(pause.rx.into()),
        );
    }

    /// Energy-efficient Ethernet: after `delay_us` microseconds without a frame the transmitter sleeps;
    /// `None` keeps it awake.
    ///
    /// The timer may be written only while EEE is off, so it is turned off first.
    pub fn set_eee(&mut self, delay_us: Option<u32>) {
        let mac = &self.shared_ref().shared().mac;
        reg!(mac, Mac, cr).modify(MAC_CR::EEE_EN::CLEAR);
        if let Some(delay) = delay_us {
            reg!(mac, Mac, eee_tx_lpi_req_dly_cnt).set(delay);
            reg!(mac, Mac, cr).modify(MAC_CR::EEE_EN::SET);
        }
    }
}

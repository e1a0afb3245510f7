//! What frames go through between MAC and cable: PHY, PCS, or nothing; and the MDIO registers.
//!
//! Decisions. With SGMII the MAC's link is the PCS's, whose partner is the PHY if there is one, else the
//! cable. Without PCS it is the PHY's, else the cable's. The cable's other end negotiates everything up to
//! the wire's speed.

use super::Lan743x;
use super::alarm::{Alarm, Ev};
use super::handle::Wait;
use super::mdio::Mdio;
use super::params::{Chip, Params};
use super::pcs::Line;
use super::phy::{Kind, Partner, Phy};
use crate::device::Bus;

/// A PHY with its address, and how it is reached.
#[derive(Debug)]
pub(super) struct Media {
    mdio: Mdio,
    phy: Option<(u8, Phy)>,
    /// Level of the PHY's interrupt.
    pub interrupt: bool,
    alarm: Alarm,
}

impl Media {
    /// All of it as after power-on.
    pub fn new(params: &Params) -> Self {
        let kind = if params.chip == Chip::Lan7430 { Kind::Internal } else { Kind::External };
        let phy = |address| (address, Phy::new(kind, params.timing.negotiation_ns));
        Self {
            mdio: Mdio::new(params.chip.is_pci11x1x()),
            phy: params.phy.map(phy),
            interrupt: false,
            alarm: Alarm::default(),
        }
    }

    /// Events of the life before are void.
    pub fn lite_reset(&mut self) {
        self.alarm = Alarm::default();
    }
}

impl Lan743x {
    /// What is at the end of the cable.
    fn cable(&self) -> Option<Line> {
        let port = self.port.as_ref().filter(|port| port.is_up())?;
        Some(Line { speed: port.speed(), full: true })
    }

    /// What the PHY, or the cable where there is none, gives.
    pub(super) fn outer_line(&mut self, now: u64) -> Option<Line> {
        let cable = self.cable();
        let Some((_, phy)) = &mut self.media.phy else { return cable };
        if let Some(line) = cable {
            phy.set_partner(Partner::speed(line.speed), now);
        }
        phy.set_link(cable.is_some(), now);
        phy.link(now).map(|link| Line { speed: link.speed, full: link.full })
    }

    /// The MAC's link.
    pub(super) fn line(&mut self, now: u64) -> Option<Line> {
        let outer = self.outer_line(now);
        if self.params.is_sgmii() { self.serial_line(now, outer) } else { outer }
    }

    /// Whether PHY or PCS send back what the MAC sends.
    pub(super) fn loops_back(&self) -> bool {
        let phy = self.media.phy.as_ref().is_some_and(|(_, phy)| phy.loops_back());
        phy || self.params.is_sgmii() && self.pcs.loops_back()
    }

    /// The PHY may have changed: its interrupt, and when it changes next.
    pub(super) fn media_moved(&mut self, bus: &mut dyn Bus) {
        let now = bus.now_ns();
        self.outer_line(now);
        let token = Ev::Phy.token(self.epoch);
        let Some((_, phy)) = &mut self.media.phy else { return };
        let level = phy.interrupt(now);
        if let Some(at) = phy.next_event(now) {
            self.media.alarm.set(bus, token, at);
        }
        if level && !self.media.interrupt {
            self.phy_rose(now);
        }
        self.media.interrupt = level;
        self.update_interrupts(bus);
    }

    /// A link may have come up.
    pub(super) fn phy_event(&mut self, bus: &mut dyn Bus) {
        if self.media.alarm.fires(bus, Ev::Phy.token(self.epoch)) {
            self.media_moved(bus);
        }
    }

    /// The reset pin of the PHY.
    pub(super) fn reset_phy(&mut self, bus: &mut dyn Bus) {
        let now = bus.now_ns();
        if let Some((_, phy)) = &mut self.media.phy {
            phy.reset(now);
        }
        self.media_moved(bus);
    }

    pub(super) fn mii_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        self.media.mdio.read(offset, now)
    }

    pub(super) fn mii_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) {
        let now = bus.now_ns();
        self.outer_line(now);
        let done = self.end_of(Wait::Mdio, now, self.params.timing.mdio_ns);
        let phy = self.media.phy.as_mut().map(|(address, phy)| (*address, phy));
        if self.media.mdio.write(offset, value, now, done, phy) {
            self.counters().mdio += 1;
            self.media_moved(bus);
        }
    }
}

//! Power management and wake-up inside of the controller: its registers, the frames that it sees.
//!
//! Decision: a model does not see its power state, which is kept in config space. Whoever keeps that tells
//! it by [`super::Handle::set_asleep`]; what would be PME is counted ([`super::Counters::wake_ups`]).

use super::Lan743x;
use super::handle::Wait;
use super::power::{PMT_CTL, Seen};
use crate::device::Bus;

/// `HW_CFG`: registers that are marked so outlive resets.
const RST_PROTECT: u32 = 1 << 12;

impl Lan743x {
    pub(super) fn power_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        self.fall_asleep(now);
        self.power.read(offset, now)
    }

    pub(super) fn power_write(&mut self, bus: &mut dyn Bus, offset: u64, value: u32) -> bool {
        let now = bus.now_ns();
        self.fall_asleep(now);
        let done = if offset == PMT_CTL {
            self.end_of(Wait::PhyReset, now, self.params.timing.reset_ns)
        } else {
            now
        };
        let Some(written) = self.power.write(offset, value, now, done) else { return false };
        if written.phy_reset {
            self.reset_phy(bus);
        }
        true
    }

    pub(super) fn reset_power(&mut self) {
        let protected = self.sys.hw_cfg & RST_PROTECT != 0;
        self.power.reset(protected);
    }

    /// Takes over whether the function sleeps.
    fn fall_asleep(&mut self, now: u64) -> bool {
        let asleep = self.shared().asleep;
        self.power.set_asleep(asleep, now);
        asleep
    }

    /// Shows a good frame to the wake-up logic, and the channel that it would go to, if the filter takes
    /// it. Whether it goes further.
    pub(super) fn shown(&mut self, now: u64, bytes: &[u8], channel: Option<usize>) -> bool {
        let asleep = self.fall_asleep(now);
        let [a, b, c, d] = self.mac.address_low.to_le_bytes();
        let [e, f, ..] = self.mac.address_high.to_le_bytes();
        let seen = Seen { bytes, mac: [a, b, c, d, e, f], passes_filter: channel.is_some() };
        let wake = self.power.frame(seen, asleep, now);
        if wake.pme {
            self.counters().wake_ups += 1;
            if let (false, Some(channel)) = (wake.discard, channel) {
                self.power.saved(channel);
            }
        }
        !wake.discard
    }

    /// The PHY's interrupt has risen.
    pub(super) fn phy_rose(&mut self, now: u64) {
        let asleep = self.fall_asleep(now);
        if self.power.phy_event(asleep, now) {
            self.counters().wake_ups += 1;
        }
    }
}

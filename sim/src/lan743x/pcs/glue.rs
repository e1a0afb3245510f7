//! The PCS inside of the controller.

use super::{Line, Pcs};
use crate::lan743x::Lan743x;
use crate::lan743x::handle::Wait;

impl Default for Pcs {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Lan743x {
    /// The PCS with what it sees.
    fn serial(&mut self, now: u64) -> &mut Pcs {
        let line = self.outer_line(now);
        self.pcs.set_line(line);
        &mut self.pcs
    }

    /// What the MAC gets of the line outside.
    pub(in super::super) fn serial_line(&mut self, now: u64, outer: Option<Line>) -> Option<Line> {
        self.pcs.set_line(outer);
        self.pcs.link(now)
    }

    pub(in super::super) fn pcs_read(&mut self, now: u64, offset: u64) -> Option<u32> {
        if !self.params.chip.is_pci11x1x() {
            return None;
        }
        self.serial(now).read(offset, now)
    }

    pub(in super::super) fn pcs_write(&mut self, now: u64, offset: u64, value: u32) -> bool {
        if !self.params.chip.is_pci11x1x() {
            return false;
        }
        let timing = self.params.timing;
        let done = self.end_of(Wait::Pcs, now, timing.mdio_ns);
        let power = self.end_of(Wait::PcsPower, now, timing.pcs_power_ns);
        self.serial(now).write(offset, value, now, done, power)
    }
}

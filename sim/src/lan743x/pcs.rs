//! The PCS of the second family: registers behind `SGMII_ACC` (Linux `lan743x_main.c`, `lan743x_sgmii_*`
//! and `lan743x_pcs_power_reset`).
//!
//! Registers keep what is written; three tell of the link and the power sequence.

use std::collections::BTreeMap;

use super::Lan743x;
use super::handle::Wait;
use super::regs::pcs;

const VEND2: u32 = 31;
const BMCR: u16 = 0;
const BMCR_PDOWN: u16 = 0x0800;
const BMCR_ANRESTART: u16 = 0x0200;
const BMSR: u16 = 1;
const AN_INTR_STS: u16 = 0x8002;
const DIG_STS: u16 = 0x8010;
const POWER_UP: u16 = 4;
const POWER_DOWN: u16 = 6;

#[derive(Debug, Default)]
pub(super) struct Pcs {
    registers: BTreeMap<(u32, u16), u16>,
    access: u32,
    data: u16,
    done_ns: u64,
    powered_at: u64,
}

impl Lan743x {
    pub(super) fn pcs_read(&self, now: u64, offset: u64) -> Option<u32> {
        if !self.params.chip.is_pci11x1x() {
            return None;
        }
        match offset {
            pcs::ACC => Some(self.pcs.access | if now < self.pcs.done_ns { pcs::BUSY } else { 0 }),
            pcs::DATA => Some(self.pcs.data.into()),
            _ => None,
        }
    }

    pub(super) fn pcs_write(&mut self, now: u64, offset: u64, value: u32) -> bool {
        if !self.params.chip.is_pci11x1x() {
            return false;
        }
        match offset {
            _ if now < self.pcs.done_ns => true,
            pcs::ACC => {
                self.pcs_access(now, value);
                true
            }
            pcs::DATA => {
                self.pcs.data = value as u16;
                true
            }
            _ => false,
        }
    }

    fn pcs_access(&mut self, now: u64, value: u32) {
        self.pcs.access = value & !pcs::BUSY;
        if value & pcs::BUSY == 0 {
            return;
        }
        self.pcs.done_ns = self.end_of(Wait::Pcs, now, self.params.timing.mdio_ns);
        let place = (value >> 16 & 31, value as u16);
        if value & pcs::WRITE == 0 {
            self.pcs.data = self.pcs_register(now, place);
            return;
        }
        let old = self.pcs.registers.get(&place).copied().unwrap_or(0);
        let data = self.pcs.data;
        if place == (VEND2, BMCR) && (old ^ data) & BMCR_PDOWN != 0 {
            self.pcs.powered_at = self.end_of(Wait::PcsPower, now, self.params.timing.pcs_power_ns);
        }
        let kept = if place == (VEND2, BMCR) { data & !BMCR_ANRESTART } else { data };
        // A guest that writes them all has written 2 million.
        if self.pcs.registers.len() < 4096 || self.pcs.registers.contains_key(&place) {
            self.pcs.registers.insert(place, kept);
        }
    }

    fn pcs_register(&self, now: u64, place: (u32, u16)) -> u16 {
        let stored = |place| self.pcs.registers.get(&place).copied().unwrap_or(0);
        let cable = self.port.as_ref().is_some_and(|port| port.is_up());
        let down = stored((VEND2, BMCR)) & BMCR_PDOWN != 0;
        let up = cable && !down;
        match place {
            (VEND2, BMSR) => 0x0149 | if up { 0x0024 } else { 0 },
            (VEND2, DIG_STS) => {
                let settled = now >= self.pcs.powered_at;
                (if down == settled { POWER_DOWN } else { POWER_UP }) << 2
            }
            (VEND2, AN_INTR_STS) => {
                let speed = match self.port.as_ref().map_or(0, |port| port.speed()) {
                    10 => 0,
                    100 => 1,
                    _ => 2,
                };
                if up { 0x0013 | speed << 2 } else { 0 }
            }
            _ => stored(place),
        }
    }
}

//! Counters of the MAC, without end: the hardware's have 32 bits and go round.
//!
//! Source: Linux 7.3 `lan743x_ethtool.c` and `lan743x_main.h` (`STAT_*`).

use tombolo_hal::reg;
use tombolo_hal::register::Readable;

use crate::Nic;
use crate::regs::statistics::Statistics as Registers;
use crate::shared::SharedRef;

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name, as ethtool shows it.
    pub name: &'static str,
    /// Whether it is of the receiver.
    rx: bool,
    index: u8,
}

const fn rx(index: u8, name: &'static str) -> Counter {
    Counter { name, rx: true, index }
}

const fn tx(index: u8, name: &'static str) -> Counter {
    Counter { name, rx: false, index }
}

/// All counters, in the order of their registers.
pub const COUNTERS: [Counter; 49] = [
    rx(0, "RX FCS Errors"),
    rx(1, "RX Alignment Errors"),
    rx(2, "RX Fragment Errors"),
    rx(3, "RX Jabber Errors"),
    rx(4, "RX Undersize Frame Errors"),
    rx(5, "RX Oversize Frame Errors"),
    rx(6, "RX Dropped Frames"),
    rx(7, "RX Unicast Byte Count"),
    rx(8, "RX Broadcast Byte Count"),
    rx(9, "RX Multicast Byte Count"),
    rx(10, "RX Unicast Frames"),
    rx(11, "RX Broadcast Frames"),
    rx(12, "RX Multicast Frames"),
    rx(13, "RX Pause Frames"),
    rx(14, "RX 64 Byte Frames"),
    rx(15, "RX 65 - 127 Byte Frames"),
    rx(16, "RX 128 - 255 Byte Frames"),
    rx(17, "RX 256 - 511 Byte Frames"),
    rx(18, "RX 512 - 1023 Byte Frames"),
    rx(19, "RX 1024 - 1518 Byte Frames"),
    rx(20, "RX Greater 1518 Byte Frames"),
    rx(21, "RX Total Frames"),
    rx(22, "EEE RX LPI Transitions"),
    rx(23, "EEE RX LPI Time"),
    tx(0, "TX FCS Errors"),
    tx(1, "TX Excess Deferral Errors"),
    tx(2, "TX Carrier Errors"),
    tx(3, "TX Bad Byte Count"),
    tx(4, "TX Single Collisions"),
    tx(5, "TX Multiple Collisions"),
    tx(6, "TX Excessive Collision"),
    tx(7, "TX Late Collisions"),
    tx(8, "TX Unicast Byte Count"),
    tx(9, "TX Broadcast Byte Count"),
    tx(10, "TX Multicast Byte Count"),
    tx(11, "TX Unicast Frames"),
    tx(12, "TX Broadcast Frames"),
    tx(13, "TX Multicast Frames"),
    tx(14, "TX Pause Frames"),
    tx(15, "TX 64 Byte Frames"),
    tx(16, "TX 65 - 127 Byte Frames"),
    tx(17, "TX 128 - 255 Byte Frames"),
    tx(18, "TX 256 - 511 Byte Frames"),
    tx(19, "TX 512 - 1023 Byte Frames"),
    tx(20, "TX 1024 - 1518 Byte Frames"),
    tx(21, "TX Greater 1518 Byte Frames"),
    tx(22, "TX Total Frames"),
    tx(23, "EEE TX LPI Transitions"),
    tx(24, "EEE TX LPI Time"),
];

/// Counters of 64 bits over those of the hardware. [`update`](Self::update) them before any of them can
/// have gone round: bytes at 2.5 Gbit/s do so in 13 seconds.
#[derive(Clone, Debug)]
pub struct Statistics {
    totals: [u64; COUNTERS.len()],
    seen: [u32; COUNTERS.len()],
}

impl Default for Statistics {
    fn default() -> Self {
        Self { totals: [0; COUNTERS.len()], seen: [0; COUNTERS.len()] }
    }
}

impl Statistics {
    /// Reads all counters. A device that is gone changes nothing.
    pub fn update<S: SharedRef>(&mut self, nic: &Nic<S>) {
        let shared = nic.shared_ref().shared();
        let registers = &shared.statistics;
        let mut now = self.seen;
        for (value, counter) in now.iter_mut().zip(&COUNTERS) {
            let index = usize::from(counter.index);
            *value = if counter.rx {
                reg!(registers, Registers, rx[index]).map_or(0, |register| register.get())
            } else {
                reg!(registers, Registers, tx[index]).map_or(0, |register| register.get())
            };
        }
        // One all ones may be a counter; all of them are no device.
        if now.iter().any(|value| *value != u32::MAX) {
            self.take(now);
        }
    }

    fn take(&mut self, now: [u32; COUNTERS.len()]) {
        for ((total, seen), value) in self.totals.iter_mut().zip(&mut self.seen).zip(now) {
            *total += u64::from(value.wrapping_sub(*seen));
            *seen = value;
        }
    }

    /// The device was reset: its counters begin at 0.
    pub fn after_reset(&mut self) {
        self.seen = [0; COUNTERS.len()];
    }

    /// The counters with their totals.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Counter, u64)> + '_ {
        COUNTERS.iter().zip(self.totals)
    }

    /// The total of the counter of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(counter, _)| counter.name == name).map(|(_, total)| total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_go_round_count_on() {
        let mut stats = Statistics::default();
        let mut now = [0; COUNTERS.len()];
        now[7] = u32::MAX - 9;
        stats.take(now);
        now[7] = 10;
        stats.take(now);
        assert_eq!(stats.get("RX Unicast Byte Count"), Some((1 << 32) + 10));
        stats.after_reset();
        now[7] = 5;
        stats.take(now);
        assert_eq!(stats.get("RX Unicast Byte Count"), Some((1 << 32) + 15));
    }
}

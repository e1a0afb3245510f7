//! Statistics counters and their roll-over words.
//!
//! Source: AN2948 sections 6.1.35 to 6.1.85. The note's table 217 prints one transmit bit twice and leaves
//! another out; the bits are in the order of the registers here, as in Microchip's driver for QNX.

use super::Lan743x;
use super::regs::{mac, stats};

/// Receive counters by index.
pub(super) mod rx {
    pub const FCS: usize = 0;
    pub const FRAGMENT: usize = 2;
    pub const JABBER: usize = 3;
    pub const UNDERSIZE: usize = 4;
    pub const OVERSIZE: usize = 5;
    pub const DROPPED: usize = 6;
    pub const BYTES: usize = 7;
    pub const FRAMES: usize = 10;
    pub const PAUSE: usize = 13;
    pub const SIZES: usize = 14;
    pub const TOTAL: usize = 21;
    pub const COUNT: usize = 24;
}

/// Transmit counters by index.
pub(super) mod tx {
    pub const FCS: usize = 0;
    pub const BAD_BYTES: usize = 3;
    pub const BYTES: usize = 8;
    pub const FRAMES: usize = 11;
    pub const PAUSE: usize = 14;
    pub const SIZES: usize = 15;
    pub const TOTAL: usize = 22;
    pub const COUNT: usize = 25;
}

/// Counters of one direction.
#[derive(Debug, Default)]
pub(super) struct Counts {
    values: [u32; 25],
    rolled: u32,
}

impl Counts {
    pub fn add(&mut self, index: usize, amount: u32) {
        if let Some(value) = self.values.get_mut(index) {
            let (sum, rolled) = value.overflowing_add(amount);
            *value = sum;
            self.rolled |= u32::from(rolled) << index;
        }
    }

    pub fn rolled(&self) -> u32 {
        self.rolled
    }
}

/// 0 for a unicast destination, 1 broadcast, 2 multicast: the order of the counters.
pub(super) fn cast(bytes: &[u8]) -> usize {
    match bytes.get(..6) {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => 1,
        Some(address) if address[0] & 1 != 0 => 2,
        _ => 0,
    }
}

/// Size class of a frame with its check sequence.
pub(super) fn size_class(len: usize) -> usize {
    match len {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        1024..=1518 => 5,
        _ => 6,
    }
}

#[derive(Debug, Default)]
pub(super) struct Stats {
    pub rx: Counts,
    pub tx: Counts,
}

impl Lan743x {
    /// The counter at an offset: direction and index.
    fn counter_at(&mut self, offset: u64) -> Option<(&mut Counts, usize)> {
        let index = |first: u64| (offset.wrapping_sub(first) / 4) as usize;
        match offset {
            stats::RX..stats::RX_ROLL if index(stats::RX) < rx::COUNT => {
                Some((&mut self.stats.rx, index(stats::RX)))
            }
            stats::TX..stats::TX_ROLL if index(stats::TX) < tx::COUNT => {
                Some((&mut self.stats.tx, index(stats::TX)))
            }
            _ => None,
        }
    }

    pub(super) fn stats_read(&mut self, offset: u64) -> Option<u32> {
        match offset {
            stats::RX_ROLL => Some(self.stats.rx.rolled),
            stats::TX_ROLL => Some(self.stats.tx.rolled),
            _ => self.counter_at(offset).map(|(counts, index)| counts.values[index]),
        }
    }

    pub(super) fn stats_write(&mut self, offset: u64, value: u32) -> bool {
        let writable = self.mac.cr & mac::CR_CNTR_WEN != 0;
        match offset {
            stats::RX_ROLL => self.stats.rx.rolled &= !value,
            stats::TX_ROLL => self.stats.tx.rolled &= !value,
            _ => match self.counter_at(offset) {
                Some((counts, index)) if writable => counts.values[index] = value,
                known => return known.is_some(),
            },
        }
        true
    }
}

//! Registers that are mere storage: which of their bits can be written, and what they are after a reset.
//!
//! Sources: as [`super::regs`].

use super::regs::{fct, rfe, sys};

/// A run of registers that only keep what is written.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    count: u64,
    stride: u64,
    writable: u32,
    reset: u32,
    pci11x1x: bool,
}

const fn run(first: u64, count: u64, stride: u64, writable: u32, reset: u32) -> Range {
    Range { first, count, stride, writable, reset, pci11x1x: false }
}

const fn one(first: u64, writable: u32, reset: u32) -> Range {
    run(first, 1, 4, writable, reset)
}

const fn second(range: Range) -> Range {
    Range { pci11x1x: true, ..range }
}

const ALL: u32 = u32::MAX;

const RANGES: &[Range] = &[
    one(0x008, 0xffff, 0x8100),
    one(0x018, 0xffff, 0x8021),
    one(0x01c, ALL, 0),
    one(sys::DP_ADDR, 0x3fff, 0),
    run(sys::DP_DATA0, 4, 4, ALL, 0),
    one(0x050, 0x0fff_0fff, 0),
    one(0x054, 0x0fff_0fff, 0x0fff_0000),
    one(0x058, 0x0fff, 0),
    one(0x05c, 0x0fff_0fff, 0),
    one(0x060, 0x0fff_0fff, 0),
    run(0x070, 3, 4, ALL, 0),
    run(0x080, 3, 4, ALL, 0),
    one(fct::RX_FIFO_END, 0x3f3f_3f3f, 0x3f3f_3f3f),
    one(0x0c8, 0x3f, 0x27),
    one(fct::CFG, fct::CFG_STORE_BAD | fct::CFG_ROUTING_HEADERS, 0),
    run(fct::FLOW, 4, 4, 0x7fff, 0),
    one(0x110, 0xffff, 0x9876),
    one(0x128, 3, 2),
    one(0x130, ALL, 0),
    one(0x134, ALL, 0x0021_001e),
    one(0x138, 0x00ff_ffff, 0),
    run(rfe::ADDR_FILT, rfe::ADDR_FILTERS, 8, 0xc01f_ffff, 0),
    run(rfe::ADDR_FILT + 4, rfe::ADDR_FILTERS, 8, ALL, 0),
    one(0x50c, ALL, 0),
    run(0x510, 8, 4, ALL, 0),
    one(rfe::RSS_CFG, 0x0001_ffe7, 0),
    run(rfe::HASH_KEY, 10, 4, ALL, 0),
    run(rfe::INDX, 32, 4, 0x0303_0303, 0),
    second(one(0x710, 1, 0)),
    second(one(0x920, ALL, 0)),
    second(run(0x4e08, 2, 4, ALL, 0)),
    run(0xc04, 2, 4, ALL, 0),
    run(0xc1c, 4, 4, ALL, 0),
    run(0xff0, 3, 4, 0, 0),
];

/// The registers that only keep what is written.
#[derive(Debug)]
pub(super) struct Plain {
    values: Vec<u32>,
    /// Which bits can be written; `None` where there is no such register.
    writable: Vec<Option<u32>>,
    resets: Vec<u32>,
}

impl Plain {
    pub fn new(pci11x1x: bool, bytes: u64) -> Self {
        let words = (bytes / 4) as usize;
        let (mut writable, mut resets) = (vec![None; words], vec![0; words]);
        for range in RANGES.iter().filter(|range| pci11x1x || !range.pci11x1x) {
            for number in 0..range.count {
                let index = ((range.first + number * range.stride) / 4) as usize;
                writable[index] = Some(range.writable);
                resets[index] = range.reset;
            }
        }
        Self { values: resets.clone(), writable, resets }
    }

    pub fn reset(&mut self) {
        self.values.copy_from_slice(&self.resets);
    }

    pub fn read(&self, offset: u64) -> Option<u32> {
        let index = (offset / 4) as usize;
        self.writable.get(index).copied().flatten().and(self.values.get(index).copied())
    }

    /// The value of a register that exists; 0 if it does not.
    pub fn get(&self, offset: u64) -> u32 {
        self.read(offset).unwrap_or_default()
    }

    /// Writes what can be written. False if there is no such register.
    pub fn write(&mut self, offset: u64, value: u32) -> bool {
        let index = (offset / 4) as usize;
        let Some(Some(writable)) = self.writable.get(index).copied() else { return false };
        self.values[index] = self.values[index] & !writable | value & writable;
        true
    }

    /// Sets a register whatever can be written.
    pub fn set(&mut self, offset: u64, value: u32) {
        if let Some(slot) = self.values.get_mut((offset / 4) as usize) {
            *slot = value;
        }
    }
}

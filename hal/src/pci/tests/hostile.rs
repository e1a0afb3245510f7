//! Any content, even one that changes with every read, ends in bounded time and without a panic.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use std::vec::Vec;

use super::Clock;
use crate::irq::MsiMessage;
use crate::pci::fake::FakeConfigSpace;
use crate::pci::*;

/// Gives another value at each read, with a liking for the values that decide something.
struct Garbage {
    state: AtomicU64,
    reads: AtomicU32,
}

impl Garbage {
    fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed | 1), reads: AtomicU32::new(0) }
    }

    fn next(&self, offset: u16) -> u32 {
        self.reads.fetch_add(1, Relaxed);
        // xorshift64 (Marsaglia 2003).
        let mut state = self.state.load(Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.store(state, Relaxed);
        let value = (state >> 32) as u32;
        match state % 16 {
            0 => u32::MAX,
            1 => 0,
            _ if offset == 0 => 0xedda_16c3,
            _ if offset == regs::HEADER_TYPE => value & 1,
            2..8 => plausible(offset, value),
            _ => value,
        }
    }
}

impl ConfigSpace for Garbage {
    fn read8(&self, offset: u16) -> u8 {
        self.next(offset) as u8
    }
    fn read16(&self, offset: u16) -> u16 {
        self.next(offset) as u16
    }
    fn read32(&self, offset: u16) -> u32 {
        self.next(offset)
    }
    fn write8(&self, _offset: u16, _value: u8) {}
    fn write16(&self, _offset: u16, _value: u16) {}
    fn write32(&self, _offset: u16, _value: u32) {}
}

/// Runs `work` and checks how often it read.
fn within<T>(limit: u32, reads: impl Fn() -> u32, work: impl FnOnce() -> T) -> T {
    let before = reads();
    let result = work();
    let took = reads() - before;
    assert!(took <= limit, "{took} reads, limit {limit}");
    result
}

/// Everything that reads a configuration space, each with its bound.
fn exercise(cfg: &impl ConfigSpace, reads: impl Fn() -> u32 + Copy) {
    let walk = 55;
    let _ = within(6, reads, || Identity::read(cfg));
    let _ = within(20, reads, || bars(cfg));
    let bars = within(30, reads, || size_bars(cfg));
    for index in 0..8 {
        let _ = within(20, reads, || size_bar(cfg, index));
    }
    assert!(within(walk, reads, || capabilities(cfg).count()) <= 49);
    assert!(within(965, reads, || ext_capabilities(cfg).count()) <= 961);
    let vsec = within(2000, reads, || find_vsec(cfg, 0x16c3, 6));
    if let Ok(Some(vsec)) = vsec {
        let words = (0..=u16::MAX).filter(|offset| vsec.read32(cfg, *offset).is_ok()).count();
        assert!(words <= 1024);
    }
    if let Ok(Some(msix)) = within(walk + 4, reads, || MsixInfo::read(cfg)) {
        let _ = bars.map(|bars| msix.check_bars(&bars));
        let _ = msix.set_masked(cfg, true);
        let _ = msix.set_enabled(cfg, true);
    }
    if let Ok(Some(msi)) = within(walk + 4, reads, || MsiInfo::read(cfg)) {
        let _ = msi.program(cfg, MsiMessage { address: 0xfee0_0000, data: 0 }, msi.vectors);
    }
    let mut clock = Clock::default();
    let _ = within(walk + 6, reads, || set_power_state(cfg, &mut clock, PowerState::D0));
    let saved = within(walk + 20, reads, || SavedConfig::save(cfg));
    let _ = within(walk + 250, reads, || function_level_reset(cfg, &mut clock, 5000));
    let _ = saved.map(|saved| within(2, reads, || saved.restore(cfg)));
    assert!(clock.ms() <= 10 + u64::from(TRANSACTIONS_LIMIT_MS) + 5000);
}

fn words(count: usize) -> impl Strategy<Value = Vec<u32>> {
    let word = prop_oneof![4 => any::<u32>(), 1 => Just(0), 1 => Just(u32::MAX)];
    proptest::collection::vec(word, count)
}

/// Turns a word into one that leads on: an ID that somebody looks for, a list that exists.
fn plausible(offset: u16, value: u32) -> u32 {
    const IDS: [u32; 4] = [0x01, 0x05, 0x10, 0x11];
    match (offset, value & 7) {
        (0x04, _) => value & !0x8000_8000 | 0x0010_0000,
        (0x06, _) => value & !0x8000 | 0x10,
        (0x34, _) => value | 0x40,
        (0x40..0x100, 0..6) => value & !0xff | IDS[(value >> 29) as usize % IDS.len()],
        (0x100.., 0 | 1) => value & !0xf_ffff | 0x1_000b,
        (0x100.., 2 | 3) => value & 0x07ff_0000 | 6,
        _ => value,
    }
}

/// Any content; mostly with an identity, a list and a known header, so that it gets past the door.
fn build(values: &[u32], writable: &[u32], decent: bool) -> FakeConfigSpace {
    let mut cfg = FakeConfigSpace::new(0x16c3, 0xedda);
    for (offset, (value, writable)) in (0u16..).step_by(4).zip(values.iter().zip(writable)) {
        let value = match offset {
            0x00 if decent => 0xedda_16c3,
            0x0c if decent => value & 0xff81_ffff,
            _ if decent => plausible(offset, *value),
            _ => *value,
        };
        let writable = if offset == 0 { 0 } else { *writable };
        cfg = cfg.with_register(offset, value, writable);
    }
    cfg
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_content_ends(
        values in words(1024),
        writable in words(1024),
        decent in prop::bool::weighted(0.9),
    ) {
        let cfg = build(&values, &writable, decent);
        exercise(&cfg, || cfg.reads());
    }

    #[test]
    fn content_that_changes_ends(seed: u64) {
        let cfg = Garbage::new(seed);
        exercise(&cfg, || cfg.reads.load(Relaxed));
    }

    #[test]
    fn sizing_restores_any_header(values in words(16), writable in words(16)) {
        let cfg = build(&values, &writable, true);
        let snapshot = || (0u16..0x40).step_by(4).map(|at| cfg.peek32(at)).collect::<Vec<_>>();
        let before = snapshot();
        let _ = size_bars(&cfg);
        prop_assert_eq!(before, snapshot());
    }
}

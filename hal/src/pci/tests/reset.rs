use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::{Clock, Spy, device};
use crate::pci::fake::FakeConfigSpace;
use crate::pci::{
    BarKind, CapabilityId, ConfigSpace, FLR_READY_LIMIT_MS, PciError, SavedConfig, function_level_reset,
};

fn endpoint(silent: u32) -> FakeConfigSpace {
    let cfg = device().with_bar(0, BarKind::Memory64, true, 0x1_2340_0000, 0x1000).with_flr(0x70, silent);
    cfg.write16(0x04, 0x0406);
    cfg
}

#[test]
fn resets_and_waits_until_the_function_answers() {
    let cfg = endpoint(5);
    let mut clock = Clock::default();
    let report = function_level_reset(&cfg, &mut clock, FLR_READY_LIMIT_MS).unwrap();
    assert!(!report.transactions_pending);
    assert_eq!(report.ready_after_ms, 100 + 1 + 2 + 4 + 8 + 16);
    assert_eq!(clock.ms(), u64::from(report.ready_after_ms));
    assert_eq!(cfg.resets(), 1);
    assert_eq!(cfg.peek32(0x10), Some(0xc), "the reset forgot the address");
}

#[test]
fn saved_state_comes_back() {
    let cfg = endpoint(0);
    cfg.write16(0x78, 0x5810);
    cfg.write16(0x98, 0x0009);
    cfg.write8(0x3c, 11);
    let words = [0x04, 0x10, 0x14, 0x30, 0x3c, 0x78, 0x98];
    let before = words.map(|offset| cfg.peek32(offset));
    let saved = SavedConfig::save(&cfg).unwrap();
    function_level_reset(&cfg, &mut Clock::default(), 1000).unwrap();
    assert_ne!(before, words.map(|offset| cfg.peek32(offset)));
    saved.restore(&cfg).unwrap();
    assert_eq!(before, words.map(|offset| cfg.peek32(offset)));
    assert_eq!(cfg.resets(), 1);
}

#[test]
fn a_reset_bit_that_reads_one_is_not_written_back() {
    let cfg = endpoint(0).with_register(0x78, 0xa810, 0x7fff);
    SavedConfig::save(&cfg).unwrap().restore(&cfg).unwrap();
    assert_eq!(cfg.resets(), 0);
}

#[test]
fn a_function_that_stays_away_times_out() {
    let cfg = endpoint(u32::MAX);
    let mut clock = Clock::default();
    let error = function_level_reset(&cfg, &mut clock, 2500).unwrap_err();
    assert_eq!(error, PciError::ResetTimeout { waited_ms: 2500 });
    assert_eq!(clock.ms(), 2500);
    assert!(cfg.reads() < 100);
}

#[test]
fn pending_transactions_are_waited_for_and_reported() {
    let cfg = endpoint(0).with_register(0x78, 0x0020_0010, 0x7fff);
    let mut clock = Clock::default();
    let report = function_level_reset(&cfg, &mut clock, 1000).unwrap();
    assert!(report.transactions_pending);
    assert_eq!(clock.ms(), 700 + 100);
    assert_eq!(cfg.resets(), 1);
}

#[test]
fn bus_mastering_is_off_before_the_reset() {
    let at_reset = AtomicU32::new(0);
    let cfg = Spy::on_write(endpoint(0), |fake, offset, value| {
        if offset == 0x78 && value & 0x8000 != 0 {
            at_reset.store(fake.peek32(0x04).unwrap(), Relaxed);
        }
    });
    function_level_reset(&cfg, &mut Clock::default(), 1000).unwrap();
    assert_eq!(at_reset.load(Relaxed) & 0xffff, 0x0402);
}

#[test]
fn a_function_without_the_reset_is_left_alone() {
    let mut clock = Clock::default();
    let plain = device();
    let id = CapabilityId::PCI_EXPRESS;
    let error = function_level_reset(&plain, &mut clock, 1000).unwrap_err();
    assert_eq!(error, PciError::CapabilityMissing { id });
    let cfg = endpoint(0).with_register(0x74, 0, 0);
    let error = function_level_reset(&cfg, &mut clock, 1000).unwrap_err();
    assert_eq!(error, PciError::FlrUnsupported);
    assert_eq!((cfg.resets(), clock.ns), (0, 0));
    assert_eq!(cfg.read16(0x04), 0x0406);
}

#[test]
fn an_absent_function_has_no_reset_bit() {
    let cfg = endpoint(0);
    let saved = SavedConfig::save(&cfg).unwrap();
    cfg.remove();
    let error = function_level_reset(&cfg, &mut Clock::default(), 1000).unwrap_err();
    assert_eq!(error, PciError::Absent { id: u32::MAX });
    assert_eq!(saved.restore(&cfg), Err(PciError::DeviceGone));
}

#[test]
fn restore_leaves_another_function_alone() {
    let saved = SavedConfig::save(&endpoint(0)).unwrap();
    let other = FakeConfigSpace::new(0x10ee, 0xb054);
    let (expected, found) = (0xedda_16c3, 0xb054_10ee);
    assert_eq!(saved.restore(&other), Err(PciError::IdentityChanged { expected, found }));
    assert_eq!(other.writes(), 0);
    let bridge = device().with_register(0x0c, 0x0001_0000, 0);
    assert_eq!(SavedConfig::save(&bridge), Err(PciError::HeaderLayout { layout: 1 }));
}

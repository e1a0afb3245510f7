//! Identity, resets, and the sequence by which stock Linux brings the controller up.

use super::super::params::{Chip, Revision};
use super::*;
use crate::config::ConfigSpaceBuilder;

#[test]
fn every_chip_says_who_it_is() {
    for (chip, revision, want) in [
        (Chip::Lan7430, Revision::A0, 0x7430_0000),
        (Chip::Lan7431, Revision::B0, 0x7431_0010),
        (Chip::Pci11010, Revision::A0, 0xa011_00a0),
        (Chip::Pci11414, Revision::B0, 0xa041_00b0),
    ] {
        let mut rig = Rig::new(presets::controller(chip, revision));
        assert_eq!(rig.rd(0), want);
        let mut config = ConfigSpaceBuilder::new();
        rig.model.describe(&mut config);
        let space = config.build().unwrap();
        assert_eq!(space.read(0, Width::W32), u32::from(chip.device_id()) << 16 | 0x1055);
        assert_eq!(space.read(8, Width::W32) >> 8, 0x02_0000, "an Ethernet controller");
    }
}

#[test]
fn the_stock_sequence_brings_every_chip_up() {
    for chip in Chip::ALL {
        for revision in [Revision::A0, Revision::B0] {
            let mut rig = Rig::up_with(presets::controller(chip, revision));
            let tx = chip.tx_channels() as u32;
            let started = ((1 << tx) - 1) << 20 | 0xf0;
            assert_eq!(rig.rd(0xc0c), started, "{chip:?}: started, and nothing else");
            assert_eq!(rig.rd(0x0ac), 0xf000_0000);
            let counters = rig.model.handle().counters();
            assert_eq!(counters.bad_accesses, 0);
            assert_eq!(counters.reserved_accesses, 0, "{chip:?}: the driver knows registers that we do not");
            let to = [0x02, 9, 9, 9, 9, 9];
            rig.send(0, &plain(to, 100), 0);
            assert_eq!(rig.arrived().unwrap().bytes, plain(to, 100));
            rig.incoming(&plain(MAC, 100));
            assert_eq!(rig.take(0).unwrap().bytes[..100], plain(MAC, 100));
        }
    }
}

use super::packets::plain;

#[test]
fn stopping_and_starting_again_works() {
    let mut rig = Rig::up();
    for round in 0..3 {
        rig.wr(0xc0c, 1 << 16 | 1);
        assert_eq!(rig.rd(0xc0c) & 0x0011_0011, 0x0011_0011, "stop pending");
        rig.wait(0xc0c, 0x0011_0011, 0x0001_0001);
        rig.settle();
        assert_eq!(rig.rd(0xc10) & 0x1100, 0x1100, "both stop interrupts");
        rig.wr(0xc10, 0x1100);
        rig.wr(0x0c4, 1 << 24);
        rig.wait(0x0c4, 1 << 28, 0);
        rig.wr(0x0ac, 1 << 24);
        rig.wait(0x0ac, 1 << 28, 0);
        rig.open_tx(0, 0x1000_0020);
        rig.open_rx(0, 0x20);
        rig.send(0, &plain(MAC, 60 + round), 0);
        assert_eq!(rig.arrived().unwrap().bytes.len(), 60 + round);
        rig.incoming(&plain(MAC, 200 + round));
        assert_eq!(rig.take(0).unwrap().length, 204 + round);
    }
}

#[test]
fn a_stopped_channel_resumes_where_it_stood() {
    let mut rig = Rig::up();
    rig.send(0, &plain(MAC, 60), 0);
    rig.wr(0xc0c, 1 << 16);
    rig.wait(0xc0c, 1 << 20, 0);
    rig.send(0, &plain(MAC, 61), 0);
    assert_eq!(rig.all_arrived().len(), 1);
    rig.wr(0xc0c, 1 << 20);
    rig.settle();
    assert_eq!(rig.arrived().unwrap().bytes.len(), 61);
}

#[test]
fn parameters_are_refused_while_a_channel_is_not_initial() {
    let mut rig = Rig::up();
    let before = rig.rd(0xd44);
    rig.wr(0xd44, 5);
    assert_eq!(rig.rd(0xd44), before);
    // The time stamp mode of receive channels is the exception: Linux changes it at any time.
    rig.set(0xc44, 1 << 28);
    assert_eq!(rig.rd(0xc44) >> 28 & 3, 1);
    assert_eq!(rig.model.handle().counters().tx[0].refused_writes, 1);
}

#[test]
fn a_soft_reset_leaves_settings_and_takes_the_head() {
    let mut rig = Rig::up();
    rig.send(0, &plain(MAC, 60), 0);
    assert_eq!((rig.rd(0xd58), rig.rd(0xd5c)), (1, 1));
    rig.wr(0xc0c, 1 << 24);
    rig.wait(0xc0c, 1 << 24, 0);
    assert_eq!(rig.rd(0xd44) & 0xffff, RING);
    assert_eq!((rig.rd(0xd58), rig.rd(0xd5c)), (0, 1), "head begins anew, the tail is NASR");
    rig.wr(0xd4c, 0x10_0000);
    assert_eq!((rig.rd(0xd58), rig.rd(0xd5c)), (0, 0), "the base takes both");
}

#[test]
fn a_lite_reset_keeps_the_address_and_nothing_else() {
    let mut params = presets::lan7430_a0();
    params.eeprom = presets::eeprom_with_mac([2, 1, 2, 3, 4, 5]);
    let mut rig = Rig::new(params);
    assert_eq!((rig.rd(0x11c), rig.rd(0x118)), (0x0302_0102, 0x0504));
    rig.bring_up();
    rig.wr(0x010, 2);
    rig.wait(0x010, 2, 0);
    assert_eq!(rig.rd(0x11c), u32::from_le_bytes([MAC[0], MAC[1], MAC[2], MAC[3]]));
    assert_eq!((rig.rd(0xc0c), rig.rd(0x0ac), rig.rd(0x104) & 1), (0, 0, 0));
    rig.model.reset();
    assert_eq!(rig.rd(0x11c), 0x0302_0102, "a function reset loads it again");
    // What waited from the life before does nothing.
    rig.settle();
    rig.bring_up();
    rig.incoming(&plain(MAC, 64));
    assert_eq!(rig.take(0).unwrap().length, 68);
}

#[test]
fn odd_accesses_do_nothing() {
    let mut rig = Rig::up();
    assert_eq!(rig.model.read(&mut rig.bus, 0, 0, Width::W16), 0xffff);
    assert_eq!(rig.model.read(&mut rig.bus, 0, 0, Width::W64), u64::MAX);
    assert_eq!(rig.model.read(&mut rig.bus, 2, 0, Width::W32), 0xffff_ffff);
    rig.model.write(&mut rig.bus, 0, 0x104, Width::W8, 0);
    assert_eq!(rig.rd(0x104) & 1, 1);
    assert_eq!(rig.model.handle().counters().bad_accesses, 4);
    assert_eq!(rig.rd(0x1ffc), 0);
    assert_eq!(rig.model.handle().counters().reserved_accesses, 1);
}

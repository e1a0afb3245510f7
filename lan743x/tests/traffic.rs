//! Frames from one controller to another, in every mode.

mod common;

use common::*;
use lan743x::{Config, Spacing};
use tombolo_hal::irq::IrqMode;
use tombolo_hal::net::{TxOffload, TxQueue};
use tombolo_sim::lan743x::presets;

/// All chips and revisions.
fn chips() -> Vec<tombolo_sim::lan743x::Params> {
    vec![
        presets::lan7430_a0(),
        presets::lan7430_b0(),
        presets::lan7431_b0(),
        presets::pci11010_a0(),
        presets::pci11010_b0(),
        presets::pci11414_b0(),
    ]
}

#[test]
fn frames_of_all_lengths_arrive_in_every_chip_and_interrupt_mode() {
    for params in chips() {
        for irq in [IrqMode::MsiX, IrqMode::Msi, IrqMode::Intx, IrqMode::Polling] {
            if irq == IrqMode::Msi && params.id_rev() & 0xffff == 0 {
                continue;
            }
            println!("{:#x} {irq}", params.id_rev());
            let mut pair = Pair::new(params.clone(), params.clone(), Setup { irq, ..Setup::default() });
            let lengths = [60, 61, 64, 65, 127, 472, 473, 992, 993, 1000, 1513, 1514];
            for (seed, length) in (0..).zip(lengths) {
                let sent = frame(length, seed);
                pair.a.send(&sent);
                let (_, got) = pair.run(200_000);
                assert_eq!(got.len(), 1, "{length}");
                assert_eq!(got[0].bytes, sent, "{length}");
            }
            assert_eq!(pair.a.sent, lengths.len());
            let stats = pair.b.rx[0].queue().stats();
            assert_eq!((stats.violations, pair.a.tx[0].queue().stats().violations), (0, 0));
            let (a, b) = (pair.a.close(), pair.b.close());
            assert_eq!((a.iommu_mapped().0, b.iommu_mapped().0), (0, 0));
        }
    }
}

#[test]
fn frames_arrive_whole_in_small_buffers_and_with_one_buffer_too_many() {
    for extra_buffer_every in [0, 1, 3] {
        for spacing in Spacing::ALL {
            let setup =
                Setup { buffer: 500, config: Config { spacing, ..Config::default() }, ..Setup::default() };
            let params = tombolo_sim::lan743x::Params { extra_buffer_every, ..presets::lan7430_b0() };
            let mut pair = Pair::new(params.clone(), params, setup);
            for (seed, length) in (0..).zip([60, 472, 473, 494, 495, 498, 499, 992, 993, 994, 995, 1514]) {
                let sent = frame(length, seed);
                pair.a.send(&sent);
                let (_, got) = pair.run(200_000);
                assert_eq!(got.len(), 1, "{length} {extra_buffer_every}");
                assert_eq!(got[0].bytes, sent, "{length} {extra_buffer_every}");
            }
        }
    }
}

/// The same frame with a VLAN tag.
fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0x00, 0x00, 0x05], &frame[12..]].concat()
}

#[test]
fn a_full_frame_with_a_vlan_tag_is_not_too_long_and_one_without_is() {
    for params in chips() {
        let mut pair = Pair::new(params.clone(), params, Setup::default());
        let sent = tagged(&frame(1514, 1));
        pair.a.send(&sent);
        let (_, got) = pair.run(200_000);
        assert_eq!(got.iter().map(|frame| &frame.bytes).collect::<Vec<_>>(), [&sent]);
        pair.a.send(&frame(1518, 2));
        assert_eq!(pair.run(200_000).1, []);
        let mut statistics = lan743x::Statistics::default();
        statistics.update(&pair.b.nic);
        assert_eq!(statistics.get("RX Oversize Frame Errors"), Some(1));
        assert_eq!(statistics.get("RX Total Frames"), Some(2));
    }
}

#[test]
fn the_mtu_changes_while_frames_come_and_old_buffers_share_the_larger_frames() {
    for params in chips() {
        let mut pair = Pair::new(params.clone(), params, Setup::default());
        pair.a.nic.set_mtu(9000, &mut pair.a.delay).unwrap();
        pair.b.nic.set_mtu(9000, &mut pair.b.delay).unwrap();
        for seed in 0..100 {
            let sent = frame(9014 - usize::from(seed), seed);
            pair.a.send(&sent);
            let (_, got) = pair.run(200_000);
            assert_eq!(got.len(), 1, "{seed}");
            assert_eq!(got[0].bytes, sent, "{seed}");
        }
        assert!(pair.b.nic.set_mtu(9199, &mut pair.b.delay).is_err());
        assert_eq!(pair.b.nic.mtu(), 9000);
    }
}

#[test]
fn a_lost_register_write_of_the_status_never_stalls_a_queue() {
    // Posted writes arrive late: up to 20 us, which is longer than a frame takes.
    let mut pair = Pair::new(presets::lan7430_a0(), presets::lan7430_a0(), Setup::default());
    pair.a.function.delay_posted_writes(20_000);
    pair.b.function.delay_posted_writes(20_000);
    let mut got = 0;
    for seed in 0..=255 {
        pair.a.send(&frame(60, seed));
        got += pair.run(10_000).1.len();
    }
    got += pair.run(1_000_000).1.len();
    assert_eq!(got, 256);
    assert_eq!(pair.a.sent, 256);
}

#[test]
fn bursts_longer_than_the_ring_arrive_in_order() {
    for params in chips() {
        let mut pair = Pair::new(params.clone(), params, Setup::default());
        let (mut next, mut got) = (0_usize, vec![]);
        while got.len() < 500 {
            while next < 500 && pair.a.send_on(0, &frame(60 + next % 900, next as u8), TxOffload::default()) {
                next += 1;
            }
            pair.a.tx[0].kick();
            got.extend(pair.run(50_000).1);
        }
        for (index, received) in got.iter().enumerate() {
            assert_eq!(received.bytes, frame(60 + index % 900, index as u8), "{index}");
        }
        assert_eq!(pair.a.tx[0].queue().outstanding(), 0);
        assert_eq!(pair.a.tx[0].queue().free(), 63);
    }
}

//! Straight transfers, register progress, order, sharing of the link.

use super::*;
use crate::dw_edma::{MemoryBase, Timing};

const LOCAL: u64 = 0x80_0000;
const LINK: u64 = 0x1_0000;

#[test]
fn one_element_in_every_format_and_direction() {
    for format in Format::ALL {
        for params in [presets::edda(format), presets::local(format, 2, 2)] {
            for dir in DIRS {
                let local = if params.is_remote() { LOCAL } else { 0x10_0000 };
                let mut rig = Rig::new(params.clone());
                let want = fill(&rig, dir, local, LINK, 70_001);
                let (sar, dar) = addresses(&rig, dir, local, LINK);
                rig.enable(dir, 1);
                rig.point(dir, 1, 0x1000);
                rig.data(0x1000, element::CB, 70_001, sar, dar);
                assert_eq!(rig.status(dir, 1), 0);
                rig.doorbell(dir, 1);
                assert_eq!(rig.status(dir, 1), 1);
                rig.run();
                assert_eq!(rig.status(dir, 1), 3);
                assert_eq!(rig.llp(dir, 1), rig.list_addr(0x1018));
                assert!(arrived(&rig, dir, local, LINK, 70_001) == want);
                let counters = rig.handle.channel(dir, 1);
                assert_eq!((counters.bytes, counters.elements, counters.ends), (70_001, 1, 1));
                assert_eq!(rig.handle.counters().bad_accesses, 0);
                assert_eq!(rig.handle.counters().reserved_accesses, 0);
            }
        }
    }
}

fn start_registers(rig: &mut Rig, dir: Dir, size: u32, control: u32) {
    let (sar, dar) = addresses(rig, dir, LOCAL, LINK);
    rig.enable(dir, 0);
    rig.set(dir, 0, Reg::Control1, control);
    rig.set(dir, 0, Reg::Size, size);
    rig.set64(dir, 0, Reg::Sar, sar);
    rig.set64(dir, 0, Reg::Dar, dar);
    rig.doorbell(dir, 0);
}

#[test]
fn without_a_list_the_size_counts_down_and_the_addresses_up() {
    for format in Format::ALL {
        for dir in DIRS {
            let mut rig = Rig::edda(format);
            let want = fill(&rig, dir, LOCAL, LINK, 10_000);
            let (sar, dar) = addresses(&rig, dir, LOCAL, LINK);
            start_registers(&mut rig, dir, 10_000, 0);
            let mut sizes = vec![rig.get(dir, 0, Reg::Size)];
            while rig.step() {
                sizes.push(rig.get(dir, 0, Reg::Size));
            }
            assert_eq!(sizes, [10_000, 5904, 1808, 0, 0]);
            assert_eq!(rig.get(dir, 0, Reg::Sar), sar as u32 + 10_000);
            assert_eq!(rig.get(dir, 0, Reg::Dar), dar as u32 + 10_000);
            assert_eq!(rig.status(dir, 0), 3);
            assert!(arrived(&rig, dir, LOCAL, LINK, 10_000) == want);
        }
    }
}

#[test]
fn data_lands_in_order_and_before_status_and_message() {
    for format in Format::ALL {
        let dir = Dir::Write;
        let mut rig = Rig::edda(format);
        fill(&rig, dir, LOCAL, LINK, 20_000);
        let control = if format.is_v0() { v0::control::LIE | v0::control::RIE } else { 0 };
        start_registers(&mut rig, dir, 20_000, control);
        while rig.status(dir, 0) == 1 {
            assert!(rig.step());
        }
        let mut next = RAM + LINK;
        let (last, data) = rig.bus.writes.split_last().unwrap();
        for (addr, bytes) in data {
            assert_eq!(*addr, next);
            next += bytes.len() as u64;
        }
        assert_eq!(next, RAM + LINK + 20_000);
        assert_eq!(last.0, MSI);
    }
}

#[test]
fn no_move_crosses_a_burst_boundary_on_the_link() {
    let params = presets::edda(Format::Unrolled);
    let mut rig = Rig::new(Params { burst_bytes: 256, ..params });
    let dir = Dir::Write;
    fill(&rig, dir, LOCAL, 0x10_0f7, 3000);
    let (sar, dar) = addresses(&rig, dir, LOCAL, 0x10_0f7);
    rig.enable(dir, 0);
    rig.point(dir, 0, 0);
    rig.data(0, element::CB, 3000, sar, dar);
    rig.doorbell(dir, 0);
    rig.run();
    for (addr, bytes) in &rig.bus.writes {
        assert_eq!(addr / 256, (addr + bytes.len() as u64 - 1) / 256);
    }
    assert_eq!(rig.bus.writes.len(), 13);
}

#[test]
fn channels_share_the_bandwidth_of_a_direction() {
    let timing = Timing { bytes_per_us: 1000, ..Timing::default() };
    let params = Params { timing, ..presets::remote(Format::Unrolled, 4, 1) };
    let elapsed = |channels: u16| {
        let mut rig = Rig::new(params.clone());
        for channel in 0..channels {
            let at = u64::from(channel) * 0x1_0000;
            let (sar, dar) = addresses(&rig, Dir::Write, LOCAL + at, LINK + at);
            rig.enable(Dir::Write, channel);
            rig.point(Dir::Write, channel, u64::from(channel) * 0x1000);
            rig.data(u64::from(channel) * 0x1000, element::CB, 50_000, sar, dar);
        }
        for channel in 0..channels {
            rig.doorbell(Dir::Write, channel);
        }
        let mut seen = vec![];
        while rig.step() {
            let bytes = |channel| rig.handle.channel(Dir::Write, channel).bytes;
            seen.push((0..channels).map(bytes).collect::<Vec<_>>());
        }
        // No channel gets more than two bursts ahead of another one.
        for bytes in seen {
            assert!(bytes.iter().max().unwrap() - bytes.iter().min().unwrap() <= 8192);
        }
        rig.bus.now_ns
    };
    let (one, four) = (elapsed(1), elapsed(4));
    assert!((50_000..55_000).contains(&one), "{one}");
    assert!((200_000..205_000).contains(&four), "{four}");
}

#[test]
fn list_pointers_follow_the_memory_bar() {
    let dir = Dir::Read;
    let mut rig = Rig::edda(Format::Unrolled);
    let want = fill(&rig, dir, LOCAL, LINK, 100);
    rig.enable(dir, 0);
    rig.data(0, element::CB, 100, RAM + LINK, 0x1234_0000_0000 + LOCAL);
    rig.point(dir, 0, 0);
    rig.set64(dir, 0, Reg::Llp, 0x1234_0000_0000);
    rig.bus.bars.insert(2, 0x1234_0000_0000);
    rig.doorbell(dir, 0);
    rig.run();
    assert_eq!(rig.status(dir, 0), 3);
    assert!(arrived(&rig, dir, LOCAL, LINK, 100) == want);

    // While the BAR is not decoded, nobody answers there.
    rig.bus.bars.clear();
    rig.set64(dir, 0, Reg::Llp, 0x1234_0000_0000);
    rig.doorbell(dir, 0);
    rig.run();
    assert_eq!(rig.status(dir, 0), 2);
}

#[test]
fn a_fixed_memory_base_ignores_the_bar() {
    let mut rig = Rig::new(presets::mdb_b054());
    let dir = Dir::Write;
    let base = match rig.dev.params().placement {
        Placement::Remote { memory_base: MemoryBase::Fixed(base) } => base,
        other => panic!("{other:?}"),
    };
    let want = fill(&rig, dir, LOCAL, LINK, 64);
    rig.bus.bars.clear();
    rig.enable(dir, 7);
    rig.point(dir, 7, 0x2000);
    rig.data(0x2000, element::CB, 64, base + LOCAL, RAM + LINK);
    rig.doorbell(dir, 7);
    rig.run();
    assert!(arrived(&rig, dir, LOCAL, LINK, 64) == want);
}

#[test]
fn as_many_channels_as_a_format_has() {
    for format in Format::ALL {
        let most = format.max_channels();
        let mut rig = Rig::new(presets::remote(format, most + 9, most));
        assert_eq!(rig.dev.params().write_channels, most);
        let last = most - 1;
        for dir in DIRS {
            let want = fill(&rig, dir, LOCAL, LINK, 777);
            let (sar, dar) = addresses(&rig, dir, LOCAL, LINK);
            rig.enable(dir, last);
            rig.point(dir, last, 0);
            rig.data(0, element::CB | element::LIE | element::RIE, 777, sar, dar);
            rig.doorbell(dir, last);
            rig.run();
            assert!(arrived(&rig, dir, LOCAL, LINK, 777) == want);
            let data = if dir == Dir::Write { 0x40 } else { 0x60 } + u32::from(last);
            assert!(rig.messages().iter().all(|(_, got)| *got == data));
        }
        if format.is_v0() {
            assert_eq!(rig.read(v0::CTRL), 0x8_0008);
        }
    }
}

#[test]
fn an_element_of_size_zero_moves_nothing_and_counts() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        let dir = Dir::Write;
        rig.enable(dir, 0);
        rig.point(dir, 0, 0);
        rig.data(0, element::CB, 0, 0, 0);
        rig.doorbell(dir, 0);
        rig.run();
        let counters = rig.handle.channel(dir, 0);
        assert_eq!((counters.elements, counters.bytes, counters.aborts), (1, 0, 0));
        assert_eq!(rig.status(dir, 0), 3);
    }
}

//! Lists: ownership, links, appending to a running engine, doorbells, stop.

use super::*;
use crate::dw_edma::RunningDoorbell;

const LOCAL: u64 = 0x80_0000;
const LINK: u64 = 0x1_0000;
const DIR: Dir = Dir::Write;

fn started(format: Format, change: impl FnOnce(&mut Params)) -> Rig {
    let mut params = presets::edda(format);
    change(&mut params);
    let mut rig = Rig::new(params);
    rig.enable(DIR, 0);
    rig.point(DIR, 0, 0);
    rig
}

fn put(rig: &Rig, index: u64, control: u32, size: u32) {
    let (sar, dar) = addresses(rig, DIR, LOCAL, LINK);
    rig.data(index * element::SIZE, control, size, sar, dar);
}

fn elements(rig: &Rig) -> u64 {
    rig.handle.channel(DIR, 0).elements
}

#[test]
fn the_pointer_names_the_next_element_while_the_list_runs() {
    for format in Format::ALL {
        let mut rig = started(format, |params| params.prefetch = 4);
        for index in 0..3 {
            put(&rig, index, element::CB, 64);
        }
        let link_target = rig.list_addr(0x4000);
        rig.link_element(3 * element::SIZE, element::TCB, link_target);
        // Not owned in the toggled state. (A zeroed element would be.)
        rig.data(0x4000, element::CB, 64, 0, 0);
        rig.doorbell(DIR, 0);
        let mut seen = vec![rig.llp(DIR, 0)];
        while rig.step() {
            let llp = rig.llp(DIR, 0);
            if seen.last() != Some(&llp) {
                seen.push(llp);
            }
        }
        let base = rig.list_addr(0);
        // The link is followed before anything can be seen of its own address.
        assert_eq!(seen, [base, base + 24, base + 48, link_target]);
    }
}

#[test]
fn a_ring_goes_on_lap_after_lap_with_one_link() {
    for format in Format::ALL {
        for prefetch in [1, 3, 8] {
            let mut rig = started(format, |params| params.prefetch = prefetch);
            let base = rig.list_addr(0);
            for index in 0..4 {
                put(&rig, index, 0, 64);
            }
            // The link's own cycle bit does not matter.
            rig.link_element(4 * element::SIZE, element::TCB, base);
            let mut count = 0;
            for lap in 0..5 {
                for index in 0..4 {
                    put(&rig, index, if lap % 2 == 0 { element::CB } else { 0 }, 64);
                    rig.doorbell(DIR, 0);
                    rig.run();
                    count += 1;
                    assert_eq!(elements(&rig), count);
                    let next = base + (index + 1) % 4 * element::SIZE;
                    let at = rig.llp(DIR, 0);
                    // The engine looks beyond the link before it stops.
                    assert_eq!(at, next);
                    assert_eq!(rig.status(DIR, 0), 3);
                }
            }
        }
    }
}

#[test]
fn a_link_without_toggle_keeps_the_cycle_state() {
    for format in Format::ALL {
        let mut rig = started(format, |_| {});
        let base = rig.list_addr(0);
        put(&rig, 0, element::CB, 64);
        rig.link_element(element::SIZE, 0, base + 0x100);
        rig.data(0x100, element::CB, 64, rig.list_addr(LOCAL), rig.link_addr(LINK));
        rig.data(0x118, 0, 64, 0, 0);
        rig.doorbell(DIR, 0);
        rig.run();
        assert_eq!(elements(&rig), 2);
        assert_eq!(rig.llp(DIR, 0), base + 0x118);
        let ccs = if format.is_v0() {
            rig.get(DIR, 0, Reg::Control1) & v0::control::CCS != 0
        } else {
            rig.read(hdma::CYCLE) & 2 != 0
        };
        assert!(ccs);
    }
}

#[test]
fn an_element_appended_in_time_is_found_without_a_doorbell() {
    for format in Format::ALL {
        let mut rig = started(format, |params| params.prefetch = 1);
        put(&rig, 0, element::CB, 8192);
        put(&rig, 1, 0, 64);
        rig.doorbell(DIR, 0);
        rig.step();
        rig.step();
        put(&rig, 1, element::CB, 64);
        rig.run();
        assert_eq!(elements(&rig), 2);
    }
}

/// The engine has fetched the unowned element behind the one in work; then the driver appends.
fn append_too_late(format: Format, running_doorbell: RunningDoorbell) -> Rig {
    let mut rig = started(format, |params| {
        params.prefetch = 2;
        params.running_doorbell = running_doorbell;
    });
    put(&rig, 0, element::CB, 8192);
    put(&rig, 1, 0, 64);
    rig.doorbell(DIR, 0);
    rig.step();
    assert_eq!(rig.status(DIR, 0), 1);
    put(&rig, 1, element::CB, 64);
    rig.doorbell(DIR, 0);
    rig.run();
    rig
}

#[test]
fn an_append_behind_a_running_element_may_lose_its_doorbell() {
    for format in Format::ALL {
        let mut rig = append_too_late(format, RunningDoorbell::Ignored);
        assert_eq!(elements(&rig), 1);
        assert_eq!(rig.status(DIR, 0), 3);
        assert_eq!(rig.llp(DIR, 0), rig.list_addr(24));
        assert_eq!(rig.handle.channel(DIR, 0).dropped_doorbells, 1);
        rig.doorbell(DIR, 0);
        rig.run();
        assert_eq!(elements(&rig), 2);
    }
}

#[test]
fn an_engine_may_remember_the_doorbell() {
    for format in Format::ALL {
        let rig = append_too_late(format, RunningDoorbell::Remembered);
        assert_eq!(elements(&rig), 2);
        assert_eq!(rig.handle.channel(DIR, 0).dropped_doorbells, 0);
    }
}

#[test]
fn doorbells_need_the_enable_of_the_format() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        rig.point(DIR, 0, 0);
        put(&rig, 0, element::CB, 64);
        rig.doorbell(DIR, 0);
        rig.run();
        assert_eq!(rig.status(DIR, 0), 0);
        assert_eq!(rig.handle.channel(DIR, 0).dropped_doorbells, 1);
        if format == Format::HdmaCompatible {
            rig.write(0x0c, 1);
            assert_eq!(rig.read(0x0c), 0, "has no engine enable");
            rig.doorbell(DIR, 0);
            assert_eq!(rig.handle.channel(DIR, 0).dropped_doorbells, 2);
        }
        rig.enable(DIR, 0);
        rig.doorbell(DIR, 0);
        rig.run();
        assert_eq!(elements(&rig), 1);
        // The other direction's channel of the same number is another one.
        rig.doorbell(Dir::Read, 0);
        assert_eq!(rig.handle.channel(Dir::Read, 0).dropped_doorbells, 1);
    }
}

#[test]
fn stop_takes_effect_at_a_burst_and_the_element_can_be_redone() {
    for format in Format::ALL {
        let mut rig = started(format, |_| {});
        let want = fill(&rig, DIR, LOCAL, LINK, 60_000);
        put(&rig, 0, element::CB, 60_000);
        rig.doorbell(DIR, 0);
        for _ in 0..4 {
            rig.step();
        }
        rig.stop(DIR, 0);
        assert_eq!(rig.status(DIR, 0), 1);
        rig.run();
        assert_eq!(rig.status(DIR, 0), 3);
        let left = rig.get(DIR, 0, Reg::Size);
        assert!((1..60_000).contains(&left));
        assert_eq!(rig.llp(DIR, 0), rig.list_addr(0));
        let event = rig.messages();
        if format.is_v0() {
            assert_eq!(event, [(8, 0x40)], "software stop is an abort");
            assert_eq!(rig.read(0x4c), 1 << 16);
            assert_eq!(rig.read(0x5c), 0, "without an error");
        } else {
            assert_eq!(event, [(0, 0x40)]);
            assert_eq!(rig.read(hdma::INT_STATUS), hdma::int::STOP);
        }
        rig.doorbell(DIR, 0);
        rig.run();
        assert!(arrived(&rig, DIR, LOCAL, LINK, 60_000) == want);
        assert_eq!(elements(&rig), 1);
        assert_eq!(rig.handle.channel(DIR, 0).stops, 1);
    }
}

#[test]
fn stop_of_an_idle_channel_does_nothing() {
    for format in Format::ALL {
        let mut rig = started(format, |_| {});
        rig.stop(DIR, 0);
        rig.run();
        assert_eq!(rig.status(DIR, 0), 0);
        put(&rig, 0, element::CB, 64);
        rig.doorbell(DIR, 0);
        rig.run();
        assert_eq!(elements(&rig), 1);
        rig.stop(DIR, 0);
        rig.run();
        assert_eq!(rig.handle.channel(DIR, 0).stops, 0);
        assert!(rig.messages().iter().all(|(at, _)| *at != 8));
    }
}

#[test]
fn a_list_pointer_that_shows_progress_at_watermarks_only() {
    let mut rig = started(Format::HdmaNative, |params| params.lazy_llp = true);
    for index in 0..5 {
        let watermark = if index == 2 { element::LIE } else { 0 };
        put(&rig, index, element::CB | watermark, 64);
    }
    rig.doorbell(DIR, 0);
    let base = rig.list_addr(0);
    let mut seen = vec![base];
    while rig.step() {
        let llp = rig.llp(DIR, 0);
        if seen.last() != Some(&llp) {
            seen.push(llp);
        }
    }
    assert_eq!(seen, [base, base + 72, base + 120]);
}

#[test]
fn the_control_register_shows_the_element_in_work() {
    let mut rig = started(Format::Unrolled, |_| {});
    put(&rig, 0, element::CB | element::LIE, 64);
    let mine = v0::control::CCS | v0::control::LLE | 0x3000;
    rig.set(DIR, 0, Reg::Control1, mine);
    rig.doorbell(DIR, 0);
    rig.step();
    let control = rig.get(DIR, 0, Reg::Control1);
    assert_eq!(control, mine | element::CB | element::LIE | 1 << v0::control::STATUS_SHIFT);
    // The status is read-only.
    rig.set(DIR, 0, Reg::Control1, control | v0::control::STATUS);
    assert_eq!(rig.status(DIR, 0), 1);
}

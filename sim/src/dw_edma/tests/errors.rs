//! Errors, what they leave behind, recovery, fault hooks.

use super::*;
use crate::dw_edma::{Cause, RunningDoorbell};

const LOCAL: u64 = 0x80_0000;
const LINK: u64 = 0x1_0000;
/// A bus address where nothing is.
const NOWHERE: u64 = 0x7777_0000;

struct Case {
    dir: Dir,
    sar: u64,
    dar: u64,
    list: u64,
    /// v0: error status low and high. Native: error code.
    v0: (u32, u32),
    code: u32,
}

fn cases(rig: &Rig) -> Vec<Case> {
    let (memory, link) = (rig.list_addr(LOCAL), rig.link_addr(LINK));
    let list = rig.list_addr(0);
    let (write, read) = (Dir::Write, Dir::Read);
    vec![
        Case { dir: write, sar: NOWHERE, dar: link, list, v0: (2, 0), code: 0xa },
        Case { dir: write, sar: memory, dar: link, list: NOWHERE, v0: (2 << 16, 0), code: 1 },
        Case { dir: read, sar: NOWHERE, dar: memory, list, v0: (0, 2), code: 9 },
        Case { dir: read, sar: link, dar: NOWHERE, list, v0: (2, 0), code: 0xc },
        Case { dir: read, sar: link, dar: memory, list: NOWHERE, v0: (2 << 16, 0), code: 1 },
    ]
}

/// Starts channel 1 on the case and checks that it halts with status, error registers and message.
fn provoke(rig: &mut Rig, case: &Case) {
    let Case { dir, .. } = *case;
    rig.enable(dir, 1);
    rig.point(dir, 1, 0);
    rig.set64(dir, 1, Reg::Llp, case.list);
    rig.data(0, element::CB, 100, case.sar, case.dar);
    rig.doorbell(dir, 1);
    rig.run();
    assert_eq!(rig.status(dir, 1), 2);
    assert_eq!(rig.llp(dir, 1), case.list, "the element that failed");
    let data = if dir == Dir::Write { 0x41 } else { 0x61 };
    if !rig.is_local() {
        assert!(matches!(rig.messages()[..], [(8 | 0x10, got)] if got == data));
    }
}

fn check_registers(rig: &mut Rig, case: &Case) {
    if rig.format() == Format::HdmaNative {
        let base = rig.channel(case.dir, 1);
        let status = rig.read(base + hdma::INT_STATUS);
        assert_eq!(status, hdma::int::ABORT | case.code << hdma::int::ERROR_SHIFT);
        rig.write(base + hdma::INT_CLEAR, hdma::int::ABORT);
        assert_eq!(rig.read(base + hdma::INT_STATUS), 0);
        return;
    }
    let shared = rig.shared(case.dir);
    assert_eq!(rig.read(shared.status), 2 << 16);
    let high = if case.dir == Dir::Read { rig.read(shared.error + 4) } else { 0 };
    assert_eq!((rig.read(shared.error), high), case.v0);
    // Another channel's acknowledge leaves it alone.
    rig.write(shared.clear, 1 << 16 | 0xff);
    assert_eq!(rig.read(shared.error), case.v0.0);
    rig.write(shared.clear, 2 << 16);
    assert_eq!(rig.read(shared.status), 0);
    assert_eq!(rig.read(shared.error), 0);
    assert!(case.dir == Dir::Write || rig.read(shared.error + 4) == 0);
}

fn good_transfer(rig: &mut Rig, dir: Dir) -> bool {
    let want = fill(rig, dir, LOCAL, LINK, 512);
    let (sar, dar) = addresses(rig, dir, LOCAL, LINK);
    rig.enable(dir, 1);
    rig.point(dir, 1, 0);
    rig.data(0, element::CB, 512, sar, dar);
    rig.doorbell(dir, 1);
    rig.run();
    arrived(rig, dir, LOCAL, LINK, 512) == want
}

#[test]
fn what_is_wrong_shows_in_the_error_registers_and_the_channel_recovers() {
    for format in Format::ALL {
        for params in [presets::edda(format), presets::local(format, 2, 2)] {
            let count = cases(&Rig::new(params.clone())).len();
            for i in 0..count {
                let mut rig = Rig::new(Params { memory_bytes: 16 << 20, ..params.clone() });
                let mut case = cases(&rig).swap_remove(i);
                if rig.is_local() {
                    // The RAM of these tests ends below LOCAL.
                    let memory = rig.list_addr(0x10_0000);
                    let swap = |addr: &mut u64| {
                        if *addr == rig.list_addr(LOCAL) {
                            *addr = memory;
                        }
                    };
                    swap(&mut case.sar);
                    swap(&mut case.dar);
                }
                provoke(&mut rig, &case);
                check_registers(&mut rig, &case);
                assert!(rig.is_local() || good_transfer(&mut rig, case.dir));
            }
        }
    }
}

#[test]
fn a_fatal_error_may_need_a_reset_of_the_engine() {
    for format in V0_FORMATS {
        let params = Params { fatal_errors_need_reset: true, ..presets::edda(format) };
        for (i, fatal) in [true, true, false, true, true].into_iter().enumerate() {
            let mut rig = Rig::new(params.clone());
            let case = cases(&rig).swap_remove(i);
            provoke(&mut rig, &case);
            let shared = rig.shared(case.dir);
            rig.write(shared.clear, 0xff_00ff);
            assert_eq!(good_transfer(&mut rig, case.dir), !fatal);
            if format == Format::HdmaCompatible {
                let power = if case.dir == Dir::Write { v0::WR_PWR_EN } else { v0::RD_PWR_EN };
                rig.write(power + 4, 0);
            } else {
                rig.write(shared.engine, 0);
                assert_eq!(rig.read(shared.engine), 0);
            }
            assert!(good_transfer(&mut rig, case.dir));
        }
    }
}

#[test]
fn a_refused_posted_write_is_seen_only_if_the_model_is_told_to() {
    for format in Format::ALL {
        for seen in [false, true] {
            let params = Params { posted_write_errors: seen, ..presets::edda(format) };
            let mut rig = Rig::new(params);
            rig.enable(Dir::Write, 0);
            rig.point(Dir::Write, 0, 0);
            rig.data(0, element::CB, 100, rig.list_addr(LOCAL), NOWHERE);
            rig.doorbell(Dir::Write, 0);
            rig.run();
            assert_eq!(rig.status(Dir::Write, 0), if seen { 2 } else { 3 });
            let counters = rig.handle.channel(Dir::Write, 0);
            assert_eq!(counters.lost_writes, u64::from(!seen));
            assert_eq!(counters.aborts, u64::from(seen));
        }
    }
}

#[test]
fn list_aborts_of_v0_have_enables_of_their_own() {
    for (enables, status, messages) in [(0, 0, 0), (1, 1, 1), (1 << 16, 1, 0), (0x1_0001, 1, 1)] {
        let mut rig = Rig::edda(Format::Unrolled);
        rig.enable(Dir::Read, 0);
        rig.write(0xc4, enables);
        rig.point(Dir::Read, 0, 0);
        let control = element::CB | element::LIE | element::RIE;
        rig.data(0, control, 100, NOWHERE, rig.list_addr(LOCAL));
        rig.doorbell(Dir::Read, 0);
        rig.run();
        assert_eq!(rig.read(0xa0) >> 16, status);
        assert_eq!(rig.messages().len(), messages);
        assert_eq!(rig.read(0xb8), 1, "shows whatever is enabled");
    }
}

#[test]
fn abort_after_so_many_bytes() {
    for format in Format::ALL {
        for bytes in [0, 1, 4096, 5000, 9999] {
            let mut rig = Rig::edda(format);
            rig.handle.abort_after(Dir::Read, 0, bytes, Cause::CompletionTimeout);
            rig.enable(Dir::Read, 0);
            rig.point(Dir::Read, 0, 0);
            let (sar, dar) = addresses(&rig, Dir::Read, LOCAL, LINK);
            rig.data(0, element::CB, 10_000, sar, dar);
            rig.doorbell(Dir::Read, 0);
            rig.run();
            assert_eq!(rig.status(Dir::Read, 0), 2);
            assert_eq!(rig.handle.channel(Dir::Read, 0).bytes, bytes);
            assert_eq!(rig.get(Dir::Read, 0, Reg::Size), 10_000 - bytes as u32);
            if format.is_v0() {
                assert_eq!(rig.read(0xb8), 1 << 16);
            } else {
                let base = rig.channel(Dir::Read, 0);
                assert_eq!(rig.read(base + hdma::INT_STATUS) >> 3, 8);
            }
            // Once only.
            rig.doorbell(Dir::Read, 0);
            rig.run();
            assert_eq!(rig.status(Dir::Read, 0), 3);
        }
    }
}

#[test]
fn a_hung_channel_runs_for_ever_until_reset() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        rig.enable(Dir::Write, 1);
        rig.point(Dir::Write, 1, 0);
        let (sar, dar) = addresses(&rig, Dir::Write, LOCAL, LINK);
        rig.data(0, element::CB, 100_000, sar, dar);
        rig.doorbell(Dir::Write, 1);
        rig.step();
        rig.handle.hang(Dir::Write, 1);
        rig.run();
        rig.stop(Dir::Write, 1);
        if matches!(format, Format::Legacy | Format::Unrolled) {
            rig.write(0x0c, 0);
            rig.run();
            assert_eq!(rig.read(0x0c), 1, "never drains");
        }
        rig.run();
        assert_eq!(rig.status(Dir::Write, 1), 1);
        rig.handle.clear_faults();
        rig.run();
        assert_eq!(rig.status(Dir::Write, 1), 1);
        rig.dev.reset();
        assert_eq!(rig.status(Dir::Write, 1), 0);
        assert!(good_transfer(&mut rig, Dir::Write));
    }
}

#[test]
fn garbage_in_the_list_pointer_and_done_without_work() {
    for format in Format::ALL {
        let mut rig = Rig::edda(format);
        rig.handle.garbage_llp(Dir::Write, 0, 0xdead_beef_0bad_f00d);
        rig.handle.done_without_work(Dir::Write, 0);
        rig.enable(Dir::Write, 0);
        rig.point(Dir::Write, 0, 0);
        let (sar, dar) = addresses(&rig, Dir::Write, LOCAL, LINK);
        rig.data(0, element::CB, 64, sar, dar);
        rig.doorbell(Dir::Write, 0);
        assert_eq!(rig.llp(Dir::Write, 0), 0xdead_beef_0bad_f00d);
        assert_eq!(rig.status(Dir::Write, 0), 3);
        assert_eq!(rig.messages(), [(0, 0x40)]);
        assert_eq!(rig.handle.channel(Dir::Write, 0).bytes, 0);
        rig.handle.clear_faults();
        assert_eq!(rig.llp(Dir::Write, 0), rig.list_addr(0));
        rig.doorbell(Dir::Write, 0);
        rig.run();
        assert_eq!(rig.handle.channel(Dir::Write, 0).bytes, 64);
    }
}

#[test]
fn a_reset_makes_pending_events_void() {
    for format in Format::ALL {
        let params = presets::edda(format);
        let remembered = RunningDoorbell::Remembered;
        let mut rig = Rig::new(Params { running_doorbell: remembered, ..params });
        rig.enable(Dir::Write, 0);
        rig.point(Dir::Write, 0, 0);
        let (sar, dar) = addresses(&rig, Dir::Write, LOCAL, LINK);
        rig.data(0, element::CB | element::LIE | element::RIE, 50_000, sar, dar);
        rig.doorbell(Dir::Write, 0);
        rig.doorbell(Dir::Write, 0);
        rig.step();
        rig.dev.reset();
        let before = rig.handle.counters();
        rig.run();
        assert_eq!(rig.handle.counters(), before);
        assert_eq!(rig.status(Dir::Write, 0), 0);
        assert_eq!(rig.messages(), []);
    }
}

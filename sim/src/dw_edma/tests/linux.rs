//! What the unmodified Linux driver does must work.

use super::linux_driver::{Burst, Linux, Outcome};
use super::*;
use crate::dw_edma::Cause;

const LOCAL: u64 = 0x10_0000;
const LINK: u64 = 0x20_0000;

/// Scatters `count` bursts of `size` with gaps on both sides, and fills the source.
fn scatter(rig: &Rig, dir: Dir, local: u64, link: u64, count: u64, size: u32) -> Vec<Burst> {
    let step = u64::from(size) + 0x30;
    let at = |i: u64| (local + i * step, link + (count - 1 - i) * step);
    (0..count)
        .map(|i| {
            let (local, link) = at(i);
            fill(rig, dir, local, link, size as usize);
            let (sar, dar) = addresses(rig, dir, local, link);
            Burst { sar, dar, size }
        })
        .collect()
}

fn check(rig: &Rig, dir: Dir, local: u64, link: u64, count: u64, size: u32) {
    let step = u64::from(size) + 0x30;
    for i in 0..count {
        let (local, link) = (local + i * step, link + (count - 1 - i) * step);
        let want = pattern(local as u32 ^ size, size as usize);
        assert!(arrived(rig, dir, local, link, size as usize) == want, "burst {i} of {count}");
    }
}

fn all_params() -> Vec<Params> {
    let formats = Format::ALL;
    let mut all: Vec<_> = formats.iter().map(|format| presets::edda(*format)).collect();
    all.extend(formats.iter().map(|format| presets::local(*format, 2, 2)));
    all.extend([presets::mdb_b054(), presets::cpm6_b00f()]);
    all
}

/// All prefetch depths: what the engine knows early must not hurt a driver that reacts at once.
fn each(test: impl Fn(Params, usize)) {
    for params in all_params() {
        for prefetch in [1, 2, 4, 32] {
            test(Params { prefetch, ..params.clone() }, prefetch);
        }
    }
}

#[test]
fn a_descriptor_of_any_number_of_chunks_arrives() {
    each(|params, _| {
        for count in [1, 3, 4, 5, 7, 8, 9, 13] {
            for dir in DIRS {
                let mut linux = Linux::probe(Rig::new(params.clone()), 4);
                let index = linux.find(dir, 1);
                let bursts = scatter(&linux.rig, dir, LOCAL, LINK, count, 1000);
                linux.submit(index, bursts);
                linux.run();
                assert_eq!(linux.outcomes, [(index, Outcome::Done)], "{count} bursts");
                check(&linux.rig, dir, LOCAL, LINK, count, 1000);
                let counters = linux.rig.handle.channel(dir, 1);
                assert_eq!(counters.doorbells, count.div_ceil(4));
                assert_eq!(counters.dropped_doorbells, 0);
                assert_eq!(counters.elements, count);
                assert_eq!(counters.bytes, 1000 * count);
                assert_eq!(linux.interrupts as u64, count.div_ceil(4));
                assert_eq!(linux.handled, linux.interrupts);
            }
        }
    });
}

#[test]
fn descriptors_in_a_row_start_with_the_first_cycle_bit_again() {
    each(|params, _| {
        for dir in DIRS {
            let mut linux = Linux::probe(Rig::new(params.clone()), 3);
            let index = linux.find(dir, 0);
            let counts = [5, 1, 2, 7, 3, 4];
            for (i, count) in counts.into_iter().enumerate() {
                let (local, link) = (LOCAL + i as u64 * 0x1_0000, LINK + i as u64 * 0x1_0000);
                let bursts = scatter(&linux.rig, dir, local, link, count, 300);
                linux.submit(index, bursts);
            }
            linux.run();
            assert_eq!(linux.outcomes, [(index, Outcome::Done); 6]);
            for (i, count) in counts.into_iter().enumerate() {
                let (local, link) = (LOCAL + i as u64 * 0x1_0000, LINK + i as u64 * 0x1_0000);
                check(&linux.rig, dir, local, link, count, 300);
            }
        }
    });
}

#[test]
fn all_channels_at_once() {
    each(|params, _| {
        let mut linux = Linux::probe(Rig::new(params), 4);
        let channels: Vec<_> = DIRS.into_iter().flat_map(|dir| [(dir, 0), (dir, 1)]).collect();
        for (i, (dir, id)) in channels.iter().enumerate() {
            let index = linux.find(*dir, *id);
            let at = i as u64 * 0x4_0000;
            let bursts = scatter(&linux.rig, *dir, LOCAL + at, LINK + at, 10, 5000);
            linux.submit(index, bursts);
        }
        linux.run();
        assert_eq!(linux.outcomes.len(), 4);
        for (i, (dir, _)) in channels.iter().enumerate() {
            let at = i as u64 * 0x4_0000;
            check(&linux.rig, *dir, LOCAL + at, LINK + at, 10, 5000);
        }
    });
}

#[test]
fn native_without_lists() {
    for params in [presets::b054_without_list_memory(), presets::local(Format::HdmaNative, 1, 1)] {
        for dir in DIRS {
            let mut linux = Linux::probe(Rig::new(params.clone()), 4);
            let index = linux.find(dir, 0);
            linux.set_non_list(index);
            for i in 0..2 {
                let at = i * 0x1_0000;
                let bursts = scatter(&linux.rig, dir, LOCAL + at, LINK + at, 6, 2048);
                linux.submit(index, bursts);
            }
            linux.run();
            assert_eq!(linux.outcomes, [(index, Outcome::Done); 2]);
            check(&linux.rig, dir, LOCAL, LINK, 6, 2048);
            check(&linux.rig, dir, LOCAL + 0x1_0000, LINK + 0x1_0000, 6, 2048);
            assert_eq!(linux.rig.handle.channel(dir, 0).fetched, 0);
            assert_eq!(linux.rig.get(dir, 0, Reg::Size), 0);
        }
    }
}

#[test]
fn an_abort_fails_one_descriptor_and_the_next_one_runs() {
    each(|params, _| {
        // The driver enables list aborts for the remote side only; a local engine whose local enable
        // is not set has nothing to tell its CPU.
        if !params.is_remote() && params.format.is_v0() {
            return;
        }
        for dir in DIRS {
            let mut linux = Linux::probe(Rig::new(params.clone()), 4);
            let index = linux.find(dir, 0);
            let cause = if dir == Dir::Read { Cause::UnsupportedRequest } else { Cause::AppRead };
            linux.rig.handle.abort_after(dir, 0, 2500, cause);
            let first = scatter(&linux.rig, dir, LOCAL, LINK, 6, 1000);
            let second = scatter(&linux.rig, dir, LOCAL + 0x1_0000, LINK + 0x1_0000, 6, 1000);
            linux.submit(index, first);
            linux.run();
            assert_eq!(linux.outcomes, [(index, Outcome::Aborted)]);
            assert_eq!(linux.rig.status(dir, 0), 2);
            linux.submit(index, second);
            linux.run();
            assert_eq!(linux.outcomes[1..], [(index, Outcome::Done)]);
            check(&linux.rig, dir, LOCAL + 0x1_0000, LINK + 0x1_0000, 6, 1000);
        }
    });
}

#[test]
fn terminate_waits_for_the_interrupt_or_ends_at_once() {
    each(|params, _| {
        let dir = Dir::Write;
        let mut linux = Linux::probe(Rig::new(params), 4);
        let index = linux.find(dir, 0);
        let bursts = scatter(&linux.rig, dir, LOCAL, LINK, 10, 1000);
        linux.submit(index, bursts);
        linux.rig.step();
        linux.terminate(index);
        assert_eq!(linux.outcomes, []);
        linux.run();
        assert_eq!(linux.outcomes, [(index, Outcome::Terminated)]);
        assert_eq!(linux.rig.status(dir, 0), 3);

        // The interrupt is lost: the status says that the channel has ended. (A level-triggered
        // local line is not lost.)
        if linux.rig.is_local() {
            return;
        }
        let bursts = scatter(&linux.rig, dir, LOCAL, LINK, 2, 1000);
        linux.submit(index, bursts);
        linux.rig.run();
        linux.rig.messages();
        linux.terminate(index);
        assert_eq!(linux.outcomes.len(), 2);
        let bursts = scatter(&linux.rig, dir, LOCAL, LINK, 9, 1000);
        linux.submit(index, bursts);
        linux.run();
        check(&linux.rig, dir, LOCAL, LINK, 9, 1000);
    });
}

#[test]
fn quiesce_stops_a_running_engine() {
    each(|params, _| {
        let dir = Dir::Write;
        let mut linux = Linux::probe(Rig::new(params), 4);
        let index = linux.find(dir, 0);
        let bursts = scatter(&linux.rig, dir, LOCAL, LINK, 4, 60_000);
        linux.submit(index, bursts);
        linux.rig.step();
        linux.rig.step();
        assert!(linux.quiesce(), "engine enable stays up");
        linux.rig.run();
        assert_ne!(linux.rig.status(dir, 0), 1);
        let before = linux.rig.handle.counters();
        assert!(before.total.bytes < 4 * 60_000);
        linux.rig.doorbell(dir, 0);
        linux.rig.run();
        let after = linux.rig.handle.counters();
        assert_eq!(after.total.bytes, before.total.bytes);
        assert_eq!(after.total.dropped_doorbells, before.total.dropped_doorbells + 1);
    });
}
